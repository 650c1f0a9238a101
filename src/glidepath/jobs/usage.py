"""What was used, for people and programs: who asks and what comes in, plain items with their total go out.

Amounts are in credits, work is in hours of what was held. What may not be seen is in no sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from glidepath.clock import iso
from glidepath.core.account.run import HOUR_S, MILLIONTHS
from glidepath.core.quantity import Instant
from glidepath.core.text import known_word, one_line
from glidepath.core.units import duration_s
from glidepath.jobs.desk import USAGE_KEYS, Item, UsageAsked
from glidepath.jobs.doors import Doors
from glidepath.jobs.errors import Unusable
from glidepath.jobs.submission import unusable
from glidepath.jobs.values import DAY, day_or_wall_of
from glidepath.store.sights import Eyes
from glidepath.store.usage import Line, Span, Step, TooMany, UsageStore, Wanted, together

NOBODYS: dict[str, str | None] = dict.fromkeys(USAGE_KEYS)
PAST_FORMS = "`30d` ago, a day such as `2030-01-31`, or `2030-01-31T08:00:00Z`"
# Longer ago nothing can have been used.
EPOCH, WALL_MAX = 0.0, 253402300799.0


def past_of(text: str, *, wall: float) -> float:
    """A moment that has been: so long ago, a day in UTC, or a date and time with its offset."""
    try:
        told = DAY.fullmatch(text) or "T" in text
        found = day_or_wall_of(text, wall=wall) if told else wall - duration_s(text)
    except (ValueError, OverflowError):
        raise ValueError(f"`{one_line(text)}` is no time; write {PAST_FORMS}") from None
    return min(max(found, EPOCH), WALL_MAX)


def usage_answer(doors: Doors, eyes: Eyes, asked: UsageAsked) -> Item:
    wanted = _wanted(asked, doors.wall())
    store = UsageStore(doors.store)
    try:
        lines = store.lines(eyes, wanted)
    except TooMany as error:
        raise Unusable(f"{error}; ask for a longer step or a shorter time") from None
    total = together(line.sums for line in lines)
    metered = store.metered_at()
    keys = tuple(name for name in USAGE_KEYS if name in asked.by)
    # Many lines are of one step: a calendar is asked once for each.
    begins = {start: iso(float(start)) for start in {line.start for line in lines} if start is not None}
    return {
        "usage": [_item(line, keys, begins) for line in lines],
        "total": _item(Line(None, (), total), (), {}),
        "since": iso(wanted.span.since * HOUR_S),
        "until": iso(wanted.span.until * HOUR_S),
        "metered": None if metered is None else iso(metered[1]),
    }


def _wanted(asked: UsageAsked, wall: float) -> Wanted:
    """All that cannot be understood is told at once."""
    wrong: list[tuple[str, str]] = []
    times = {"since": wall, "until": wall}
    for name, text in (("since", asked.since), ("until", asked.until)):
        try:
            times[name] = past_of(text, wall=wall) if text else wall
        except ValueError as error:
            wrong.append((name, str(error)))
    for name in asked.by:
        try:
            known_word(name, USAGE_KEYS)
        except ValueError as error:
            wrong.append(("by", str(error)))
    step = Step.ALL
    try:
        step = Step(known_word(asked.step, list(Step)))
    except ValueError as error:
        wrong.append(("step", str(error)))
    if not wrong and times["until"] <= times["since"]:
        wrong.append(("until", "must be later than `since`"))
    if wrong:
        raise unusable(tuple(wrong))
    # Hours are those of the timeline, which is the clock on the wall but for its jumps.
    span = Span.of(Instant(int(times["since"])), Instant(int(times["until"])))
    return Wanted(span, step, asked.by, asked.owner, asked.project, asked.partition)


def _item(line: Line, keys: tuple[str, ...], begins: Mapping[Instant, str | None]) -> Item:
    sums, whose = line.sums, {**NOBODYS, **dict(zip(keys, line.whose, strict=True))}
    return {
        "start": None if line.start is None else begins[line.start],
        **whose,
        "runs": sums.runs,
        "seconds": sums.seconds,
        "cpu_hours": _hours(sums.cpu_milli_s, 1000),
        "memory_gib_hours": _hours(sums.memory_mib_s, 1024),
        "disk_gib_hours": _hours(sums.disk_mib_s, 1024),
        "gpu_hours": _hours(sums.gpu_milli_s, 1000),
        "charged": sums.charge / MILLIONTHS,
        "refunded": sums.refund / MILLIONTHS,
        "credits": (sums.charge - sums.refund) / MILLIONTHS,
    }


def _hours(amount: int, unit: int) -> float:
    return round(amount / (unit * HOUR_S), 6)
