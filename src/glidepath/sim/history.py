"""What really happened, made into a scenario: kept cycles of a live system come in, jobs and sites go out.

A journal knows how many jobs waited and ran at each look, not when each came. The least that explains the
counts is taken: jobs start and end first in, first out, and those that came and went between two looks are
found by what pilots say they have run. What it cannot know is said in `notes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from glidepath.core.cycle import Seen
from glidepath.core.provision.demand import Demand
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import Clear, Ended, PilotPhase, Submit, WriteOff
from glidepath.core.quantity import Owner, PoolName, Shape, SiteName
from glidepath.journal.entry import Entry
from glidepath.sim.arrival import Arrival
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario
from glidepath.sim.score import CAUSES, Result, Score, Series, percentile

# A journal of a year is cut: nobody waits for a simulation of more jobs than this.
JOBS_MAX = 2_000_000
MATCH_S = 60

Group = tuple[PoolName, str, Shape, int | None, str]


class HistoryError(ValueError):
    """The journal does not hold what a replay needs."""


@dataclass(slots=True)
class Flock:
    """The jobs of one group: when each came, started and ended, as far as counts tell."""

    idle: int = 0
    running: int = 0
    came: list[tuple[int, Owner]] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Recorded:
    """What is summed up while the journal is read."""

    first_at: int
    rules: Rules
    last_at: int = 0
    cycles: int = 0
    flocks: dict[Group, Flock] = field(default_factory=dict)
    ran: dict[str, int] = field(default_factory=dict)  # jobs that each pilot has run
    queue_s: dict[SiteName, list[int]] = field(default_factory=lambda: defaultdict(list))
    boot_s: dict[SiteName, list[int]] = field(default_factory=lambda: defaultdict(list))
    ends: Counter[tuple[SiteName, bool]] = field(default_factory=Counter)
    closed: dict[str, Ended] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)
    asked: int = 0
    waited_s: int = 0  # job seconds spent waiting
    blind_s: int = 0
    series: Series = field(default_factory=Series)


@dataclass(frozen=True, slots=True)
class Past:
    """The jobs that came, in order; the same for every seed."""

    jobs: tuple[Arrival, ...]

    def arrivals(self, seed: int) -> Iterable[Arrival]:
        return self.jobs


@dataclass(frozen=True, slots=True)
class History:
    scenario: Scenario
    recorded: Result
    notes: tuple[str, ...]


def history_of(entries: Iterable[Entry], *, match_s: int = MATCH_S) -> History:
    """Read a journal in order. Raises HistoryError where it holds too little."""
    found: Recorded | None = None
    for entry in entries:
        if found is None:
            found = Recorded(entry.snapshot.now, entry.rules, entry.snapshot.now)
        _read(found, entry)
        if sum(len(flock.came) for flock in found.flocks.values()) > JOBS_MAX:
            raise HistoryError(f"the journal has more than {JOBS_MAX:,} jobs; name fewer cycles")
    if found is None or found.cycles < 2:
        raise HistoryError("the journal has too few cycles to replay: at least two are needed")
    jobs = _arrivals(found)
    if not jobs:
        raise HistoryError("no job ever waited in these cycles, so there is nothing to replay")
    scenario = Scenario(
        name="history",
        rules=found.rules,
        sites=tuple(_behaviour(found, site.name) for site in found.rules.sites),
        pools=tuple(Matching(pool.name, match_s, sources=1, reuse=True) for pool in found.rules.pools),
        workload=Past(jobs),
        end_s=max(1, found.last_at - found.first_at),
    )
    return History(scenario, _recorded(found, len(jobs)), tuple(_notes(found)))


def _read(found: Recorded, entry: Entry) -> None:
    now = entry.snapshot.now
    gap_s = max(0, now - found.last_at)
    found.waited_s += gap_s * sum(flock.idle for flock in found.flocks.values())
    ends = _ends(found, entry)
    _read_demand(found, entry, ends, gap_s)
    _read_pilots(found, entry)
    found.rules, found.last_at = entry.rules, now
    found.cycles += 1


def _ends(found: Recorded, entry: Entry) -> Counter[PoolName]:
    """Jobs that pilots have finished since the last look, by pool."""
    ends: Counter[PoolName] = Counter()
    for pool, sight in entry.snapshot.slots:
        if isinstance(sight, Seen) and sight.value.complete:
            for slot in sight.value.slots:
                before = found.ran.get(slot.pilot)
                if before is not None or slot.jobs_run:
                    ends[pool] += max(0, slot.jobs_run - (before or 0))
                found.ran[slot.pilot] = max(slot.jobs_run, before or 0)
    return ends


def _read_demand(found: Recorded, entry: Entry, ends: Counter[PoolName], gap_s: int) -> None:
    at = entry.snapshot.now - found.first_at
    waiting = running = 0
    for pool, source, sight in entry.snapshot.demand:
        if not isinstance(sight, Seen) or not sight.value.complete:
            found.blind_s += gap_s
            continue
        seen: dict[Group, Demand] = {
            (pool, source, *demand.group[1:]): demand for demand in sight.value.demands
        }
        mine = [group for group in found.flocks if group[:2] == (pool, source)]
        changes: dict[Group, int] = {}
        for group in dict.fromkeys([*mine, *seen]):
            flock = found.flocks.setdefault(group, Flock())
            demand = seen.get(group)
            now_idle, now_running = (demand.idle, demand.running) if demand else (0, 0)
            changes[group] = now_idle + now_running - flock.idle - flock.running
            waiting += now_idle
            running += now_running
        extra = max(0, ends[pool] - sum(max(0, -change) for change in changes.values()))
        for group in changes:
            flock, demand = found.flocks[group], seen.get(group)
            hidden = extra if flock.running or (demand and demand.running) else 0
            extra -= hidden
            _move(flock, demand, changes[group], at, hidden=hidden)
    found.series.at_s.append(at)
    found.series.waiting.append(waiting)
    found.series.running.append(running)


def _move(flock: Flock, demand: Demand | None, change: int, at: int, *, hidden: int) -> None:
    ended = max(0, -change) + hidden
    came = change + ended
    idle = demand.idle if demand else 0
    starts = max(0, came - (idle - flock.idle))
    owners = demand.owners if demand and demand.owners else ((Owner("unknown"), 1),)
    flock.came += [(at, owners[place % len(owners)][0]) for place in range(came)]
    flock.started += [at] * min(starts, len(flock.came) - len(flock.started))
    flock.ended += [at] * min(ended, len(flock.started) - len(flock.ended))
    flock.idle, flock.running = idle, demand.running if demand else 0


def _read_pilots(found: Recorded, entry: Entry) -> None:
    coming = unclaimed = claimed = 0
    for track in entry.memory.tracks:
        if track.joined_at is not None and track.name not in found.joined:
            found.joined.add(track.name)
            begun = track.started_at if track.started_at is not None else track.joined_at
            found.queue_s[track.site].append(max(0, begun - track.asked_at))
            found.boot_s[track.site].append(max(0, track.joined_at - begun))
        if track.live:
            claimed += track.phase is PilotPhase.BUSY
            unclaimed += track.phase is PilotPhase.IDLE
            coming += track.joined_at is None
    series = found.series
    series.coming.append(coming)
    series.unclaimed.append(unclaimed)
    series.claimed.append(claimed)
    series.wanted.append(series.waiting[-1] + series.running[-1])
    for action in entry.plan.actions:
        if isinstance(action, Submit):
            found.asked += len(action.names)
        elif isinstance(action, Clear | WriteOff):
            for ended in action.ended:
                found.closed[ended.name] = ended


def _arrivals(found: Recorded) -> tuple[Arrival, ...]:
    jobs: list[Arrival] = []
    for (pool, _, shape, run_s_max, _variant), flock in found.flocks.items():
        known = [end - start for start, end in zip(flock.started, flock.ended, strict=False)]
        usual_s = max(1, int(percentile(sorted(known), 0.5))) if known else 600
        over_at = found.last_at - found.first_at
        starts = deque(flock.started)
        ends = deque(flock.ended)
        for at, owner in flock.came:
            start = starts.popleft() if starts else None
            end = ends.popleft() if ends else None
            run_s = usual_s
            if start is not None:
                run_s = end - start if end is not None else max(usual_s, over_at - start)
            jobs.append(Arrival(at, pool, shape, owner, max(1, run_s), run_s_max))
    return tuple(sorted(jobs, key=lambda job: (job.at, job.pool, job.shape, job.owner, job.run_s)))


def _behaviour(found: Recorded, site: SiteName) -> Behaviour:
    failed = sum(ended.site == site and ended.in_vain for ended in found.closed.values())
    over = sum(ended.site == site for ended in found.closed.values())
    default = Behaviour(site)
    lag_s = next((rules.listing_lag_s for rules in found.rules.sites if rules.name == site), 0)
    return replace(
        default,
        start_s=_range(found.queue_s[site]) or default.start_s,
        boot_s=_range(found.boot_s[site]) or default.boot_s,
        failing=1000 * failed // over if over else 0,
        nodes=0,
        lag_s=lag_s,
    )


def _range(seconds: list[int]) -> tuple[int, int] | None:
    """Where eight of ten were: one pilot that took a day must not make a tenth of them do so."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return int(percentile(ordered, 0.1)), int(percentile(ordered, 0.9))


def _recorded(found: Recorded, jobs: int) -> Result:
    """The same scores, from what the journal says; single waits are not known, only their sum."""
    started = sum(len(flock.started) for flock in found.flocks.values())
    waits = sorted(
        start - came
        for flock in found.flocks.values()
        for (came, _), start in zip(flock.came, flock.started, strict=False)
    )
    waste: Counter[str] = Counter()
    busy_s = unused = cost_micro = 0
    offers = found.rules.offers()
    for ended in found.closed.values():
        waste.update(dict(ended.waste_s))
        busy_s += ended.busy_s
        unused += not ended.jobs_run
        if ended.offer in offers:
            cost_micro += ended.cost_micro(offers[ended.offer].price_milli)
    free = [
        coming + unclaimed - waiting
        for coming, unclaimed, waiting in zip(
            found.series.coming, found.series.unclaimed, found.series.waiting, strict=True
        )
    ]
    score = Score(
        scenario="history",
        policy="as recorded",
        seed=0,
        cycles=found.cycles,
        span_s=found.last_at - found.first_at,
        jobs=jobs,
        started=started,
        wait_median_s=percentile(waits, 0.5),
        wait_mean_s=found.waited_s / started if started else 0.0,
        wait_p95_s=percentile(waits, 0.95),
        busy_h=busy_s / 3600,
        waste_h=tuple((cause, waste[cause] / 3600) for cause in CAUSES),
        asked=found.asked,
        unused=unused,
        overshoot=max([0, *free]),
        limits_broken=0,
        cost_milli=cost_micro // 1000,
    )
    return Result(score, found.series, tuple(waits))


def _notes(found: Recorded) -> Iterable[str]:
    yield (
        "jobs are told by how many waited and ran at each look: one that came and went in between is only "
        "seen by what its pilot has run"
    )
    if found.blind_s:
        yield f"demand was unseen for {found.blind_s} s in all; what happened meanwhile is taken as one step"
    if any(variant for *_, variant in found.flocks):
        yield "some jobs fitted only some offers by terms of their own; here size and traits alone decide"
    unseen = [site.name for site in found.rules.sites if not found.queue_s[site.name]]
    if unseen:
        yield (
            f"no pilot joined at {', '.join(unseen)} in these cycles; its start delay is made up "
            "(30 s to 5 min)"
        )
    open_ones = found.asked - len(found.closed)
    if open_ones > 0:
        yield f"{open_ones} pilots were not closed when the journal ends; their hours are not in its row"
