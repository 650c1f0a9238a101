"""Where the hours of pilots went: a span, a step and keys come in, sums by cause of waste go out.

They are apart from what jobs used: a pilot costs its site also while it does nothing. Only pilots that are
over are counted, each in the step in which it ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, case, func, select

from glidepath.core.account.run import HOUR_S
from glidepath.core.provision.pilot import Ended, PilotPhase
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, SiteName
from glidepath.store.engine import Store
from glidepath.store.schema import pilots_ended
from glidepath.store.usage import DAY_S, ROWS_MAX, Span, Step, TooMany, start_of, step_of

PILOT_KEYS = ("site", "offer", "pool", "owner")
PILOT_STEPS = (Step.ALL, Step.MONTH, Step.DAY)


@dataclass(slots=True)
class PilotSums:
    pilots: int = 0
    unused: int = 0  # that ran no job
    jobs_run: int = 0
    busy_s: int = 0
    cpu_milli_s: int = 0  # while jobs had them
    waste_s: Counter[str] = field(default_factory=Counter)
    cost_micro: int = 0

    def add(self, other: PilotSums) -> None:
        self.pilots += other.pilots
        self.unused += other.unused
        self.jobs_run += other.jobs_run
        self.busy_s += other.busy_s
        self.cpu_milli_s += other.cpu_milli_s
        self.waste_s.update(other.waste_s)
        self.cost_micro += other.cost_micro


@dataclass(frozen=True, slots=True)
class PilotLine:
    start: Instant | None
    whose: tuple[str, ...]  # those of `PILOT_KEYS` that were asked by, in their order
    sums: PilotSums


def pilot_lines(
    store: Store, span: Span, step: Step, *, by: tuple[str, ...], price_milli: Mapping[str, int]
) -> list[PilotLine]:
    """Oldest first; a `TooMany` where there are more than people read. Prices are those of offers today."""
    found: dict[tuple[int, tuple[str, ...]], PilotSums] = {}
    with store.read() as conn:
        for at, whose, sums in _read(conn, span, step, price_milli):
            key = at, tuple(whose[name] for name in PILOT_KEYS if name in by)
            found.setdefault(key, PilotSums()).add(sums)
            if len(found) > ROWS_MAX:
                raise TooMany(f"there would be more than {ROWS_MAX} lines")
    return [PilotLine(start_of(step, at), whose, sums) for (at, whose), sums in sorted(found.items())]


def _read(
    conn: Connection, span: Span, step: Step, price_milli: Mapping[str, int]
) -> Iterator[tuple[int, dict[str, str], PilotSums]]:
    had = pilots_ended.c
    keys = [had[name] for name in PILOT_KEYS]
    # As `Ended.in_vain` has it: what such pilots waited for is wasted in another way.
    in_vain = case(
        (and_(had.phase != PilotPhase.DONE.name, had.busy_s == 0, had.idle_s == 0), 1), else_=0
    ).label("in_vain")
    number = step_of(step, had.ended_at // DAY_S, span).label("step")
    spent = [func.sum(had[name]) for name in ("pending_s", "starting_s", "busy_s", "idle_s", "failed_s")]
    more = (
        func.sum(had.jobs_run),
        func.sum(had.cpu_milli * had.busy_s),
        func.count(),
        func.sum(case((had.jobs_run == 0, 1), else_=0)),
    )
    query = (
        select(number, *keys, in_vain, *spent, *more)
        .where(had.ended_at >= span.since * HOUR_S, had.ended_at < span.until * HOUR_S)
        .group_by(number, *keys, in_vain)
    )
    for at, site, offer, pool, owner, vain, *rest in conn.execute(query):
        *seconds, jobs_run, cpu_milli_s, pilots, unused = (int(each) for each in rest)
        whose = {"site": site, "offer": offer, "pool": pool, "owner": owner}
        together = _together(whose, vain=bool(vain), seconds=seconds)
        cost_micro = together.cost_micro(price_milli.get(offer, 0))
        waste_s = Counter(dict(together.waste_s))
        yield (
            int(at),
            whose,
            PilotSums(pilots, unused, jobs_run, together.busy_s, cpu_milli_s, waste_s, cost_micro),
        )


def _together(whose: Mapping[str, str], *, vain: bool, seconds: list[int]) -> Ended:
    """Pilots that are alike, as if they were one: what is waste of one is waste of all."""
    pending_s, starting_s, busy_s, idle_s, failed_s = seconds
    return Ended(
        name=PilotName(""),
        site=SiteName(whose["site"]),
        offer=OfferKey(whose["offer"]),
        pool=PoolName(whose["pool"]),
        owner=Owner(whose["owner"]),
        phase=PilotPhase.FAILED if vain else PilotPhase.DONE,
        why="",
        asked_at=Instant(0),
        ended_at=Instant(0),
        pending_s=pending_s,
        starting_s=starting_s,
        busy_s=busy_s,
        idle_s=idle_s,
        failed_s=failed_s,
        jobs_run=0,
    )
