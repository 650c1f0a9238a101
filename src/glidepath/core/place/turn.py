"""One turn of the scheduler: what was seen comes in, and decisions about every placed job go out.

First each job that has ranks is judged by what its cluster lists; then the plan is made with the rest, and
what it wants is put into acts on attempts. What cannot be seen is not planned with: nothing is started or
settled at a cluster that is not heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from glidepath.core.account.right import Bar, Claim, Mount, VolumeRule, shut_out, volume_bar
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Reason, Seen, Sighting
from glidepath.core.place.accounts import Accounts
from glidepath.core.place.acts import (
    Clear,
    Cut,
    Deny,
    Drop,
    Halt,
    Launch,
    Lessen,
    Noted,
    PlaceAction,
    Settle,
    Stray,
    Stretch,
    Tell,
)
from glidepath.core.place.closing import cuts, not_begun
from glidepath.core.place.judge import judged, notice_of, noticed
from glidepath.core.place.rank import (
    ClusterName,
    NodeListing,
    NodeSeen,
    RankSeen,
    SetKey,
    SetListing,
    SetSeen,
    split_key,
)
from glidepath.core.place.record import Phase, Record, Then
from glidepath.core.place.roll import Roll
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.acts import End, JobAction, Notify, Refuse, Requeue, Shrink, Start
from glidepath.core.schedule.cluster import Cluster, Node, NodeState, Partition, ProjectName, Window
from glidepath.core.schedule.decide import Schedule
from glidepath.core.schedule.extend import Extension, Impact, extended
from glidepath.core.schedule.job import Book, Ended, Job, JobName, Memory, Place, World
from glidepath.core.units import shown_duration

# Each is up to a dozen plans; somebody waits for each, and the others for the cycle.
WISHES_MAX = 4
# A job whose start failed waits so long at first, and twice as long after each further one.
AGAIN_S_MIN, AGAIN_S_MAX = 5, 300

Planner = Callable[[World, Book, Memory], Schedule]
# Jobs that run and what their cluster lists of them, where that leaves nothing to be said or done.
Calm = Mapping[SetKey, tuple[Record, SetSeen]]


@dataclass(frozen=True, slots=True)
class Rules:
    """How one cluster is run: from the configuration."""

    cluster: ClusterName
    partitions: tuple[Partition, ...]  # with no nodes named: all of the cluster
    book: Book = Book()
    windows: tuple[Window, ...] = ()
    overheads: tuple[tuple[str, Resources], ...] = ()
    volumes: Mapping[str, VolumeRule] | None = None  # who may mount what; none where there are none
    stale_s_max: int = 120
    cycle_s_min: int = 1
    cycle_s_max: int = 10


@dataclass(frozen=True, slots=True)
class Word:
    """An operator's word: `queue:NAME`, `partition:NAME`, `node:NAME`; a drained node is cordoned, too."""

    about: str
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a cluster looks like to a plan, and what that was made of: mostly it is as it was before."""

    nodes: tuple[NodeSeen, ...]
    words: tuple[Word, ...]
    windows: tuple[Window, ...]
    rules: Rules
    cluster: Cluster

    def shows(self, snapshot: Snapshot, listing: NodeListing, rules: Rules) -> bool:
        same = rules is self.rules and snapshot.words == self.words and snapshot.windows == self.windows
        same = same and listing.nodes == self.nodes
        return same and self.cluster.told == (*listing.notes, *listing.unkept)


@dataclass(frozen=True, slots=True)
class PlaceMemory:
    """What a turn hands to the next."""

    schedule: Memory = Memory()
    noted: Mapping[SetKey, tuple[RankSeen, ...]] = field(default_factory=dict)  # as they were last kept
    held: Mapping[int, tuple[Instant, int]] = field(default_factory=dict)  # job: not before, the next wait
    ended: tuple[Ended, ...] = ()  # in the last turn, to learn from
    noticed: frozenset[tuple[int, Instant]] = frozenset()
    seen: Surroundings | None = None
    calm: Calm = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    now: Instant
    roll: Roll
    nodes: Sighting[NodeListing]
    sets: Sighting[SetListing]
    words: tuple[Word, ...] = ()
    windows: tuple[Window, ...] = ()  # of the calendar, beside those of the rules
    known: frozenset[int] = frozenset()  # numbers in the store of jobs whose sets were listed and are over
    stopping: bool = False
    accounts: Accounts = field(default_factory=Accounts)


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything about one turn; `world` is none where it cannot be planned."""

    snapshot: Snapshot
    memory: PlaceMemory
    rules: Rules
    judged: tuple[Decision[PlaceAction], ...]
    world: World | None
    unseen: str = ""
    seen: Surroundings | None = None
    calm: Calm = field(default_factory=dict)


def look(snapshot: Snapshot, memory: PlaceMemory, rules: Rules) -> Picture:
    unseen = _unseen(snapshot, rules)
    if unseen:
        return Picture(snapshot, memory, rules, (), None, unseen)
    assert isinstance(snapshot.nodes, Seen)
    assert isinstance(snapshot.sets, Seen)
    calm: dict[SetKey, tuple[Record, SetSeen]] = {}
    found = tuple(_judged_all(snapshot, memory, calm))
    over: dict[int, Record | None] = {one.action.job: None for one in found if isinstance(one.action, Settle)}
    seen = _surroundings(snapshot, memory, rules)
    left = snapshot.roll.after(over)
    world = world_of(left, seen.cluster, memory, words=snapshot.words, now=snapshot.now)
    world = with_accounts(world, snapshot.accounts)
    return Picture(
        snapshot, memory, with_shares(rules, snapshot.accounts), found, world, seen=seen, calm=calm
    )


def with_accounts(world: World, accounts: Accounts) -> World:
    """The same where those who may not spend do not begin."""
    bars = shut_out((job.project for job in world.waiting), accounts.rights, world.now)
    shut = tuple(sorted((ProjectName(name), bar.why) for name, bar in bars.items()))
    return replace(world, used=accounts.used, shut_out=shut)


def with_shares(rules: Rules, accounts: Accounts) -> Rules:
    shares = accounts.shares
    return rules if rules.book.shares == shares else replace(rules, book=replace(rules.book, shares=shares))


def _surroundings(snapshot: Snapshot, memory: PlaceMemory, rules: Rules) -> Surroundings:
    assert isinstance(snapshot.nodes, Seen)
    listing, words, windows = snapshot.nodes.value, snapshot.words, snapshot.windows
    if memory.seen is not None and memory.seen.shows(snapshot, listing, rules):
        return memory.seen
    cluster = cluster_of(listing, rules, words, windows)
    return Surroundings(listing.nodes, words, windows, rules, cluster)


def world_of(
    roll: Roll, cluster: Cluster, memory: PlaceMemory, *, words: tuple[Word, ...], now: Instant
) -> World:
    """What the plan is made of; whoever only asks what would be makes it from the store in the same way."""
    return World(
        now=now,
        cluster=cluster,
        waiting=tuple(_waiting(roll, memory).values()),
        running=tuple(roll.started.values()),
        ended=memory.ended,
        paused=tuple(word.about for word in words if not word.about.startswith("node:")),
    )


def _unseen(snapshot: Snapshot, rules: Rules) -> str:
    for what, sight in (("nodes", snapshot.nodes), ("ranks", snapshot.sets)):
        if not isinstance(sight, Seen):
            return f"its {what}: {sight.why}"
        if snapshot.now - sight.at > rules.stale_s_max:
            return f"its {what} were last seen {snapshot.now - sight.at} s ago"
    return ""


def _waiting(roll: Roll, memory: PlaceMemory) -> Mapping[int, Job]:
    """Those whose start failed do not start before they may be tried again."""
    held: dict[int, Job] = {}
    for number, (until, _) in memory.held.items():
        job = roll.waiting.get(number)
        if job is not None and (job.first_at or 0) < until:
            held[number] = replace(job, first_at=until)
    return {**roll.waiting, **held} if held else roll.waiting


def cluster_of(
    listing: NodeListing, rules: Rules, words: tuple[Word, ...], windows: tuple[Window, ...] = ()
) -> Cluster:
    shut = {word.about.removeprefix("node:") for word in words if word.about.startswith("node:")}
    nodes = tuple(
        _node(seen.node, seen.others, shut) for seen in sorted(listing.nodes, key=lambda s: s.node.name)
    )
    names = tuple(node.name for node in nodes)
    there = frozenset(names)
    partitions = tuple(
        replace(part, nodes=tuple(name for name in part.nodes if name in there) if part.nodes else names)
        for part in rules.partitions
    )
    open_and_to_come = (*rules.windows, *windows)
    return Cluster(nodes, partitions, open_and_to_come, rules.overheads, listing.notes, listing.unkept)


def _node(node: Node, others: Resources, shut: set[str]) -> Node:
    size = node.size - others.smallest(node.size)
    state = NodeState.CORDONED if node.name in shut and node.state is NodeState.UP else node.state
    # A node that others have filled is not a node without a size, which would be a mistake of its source.
    size = size if size.cpu_milli and size.memory_mib else Resources(1, 1)
    return replace(node, size=size, state=state)


def _judged_all(
    snapshot: Snapshot, memory: PlaceMemory, calm: dict[SetKey, tuple[Record, SetSeen]]
) -> Iterator[Decision[PlaceAction]]:
    """Those of whom nothing is to be said are put down as calm."""
    assert isinstance(snapshot.sets, Seen)
    sets = {seen.key: seen for seen in snapshot.sets.value.sets}
    roll = snapshot.roll
    for key, record in roll.keys.items():
        seen = sets.get(key)
        before = memory.calm.get(key)
        if seen is not None and before is not None and before[0] is record and before[1] == seen:
            calm[key] = before
            continue
        told = tuple(_judged(record, seen, snapshot, memory))
        yield from told
        # Only of one that runs is nothing said for as long as nothing changes, and no notice comes due.
        quiet = seen is not None and not told and record.phase is Phase.RUNNING
        if seen is not None and quiet and not _awaits_notice(record, memory):
            calm[key] = (record, seen)
    for key, seen in sets.items():
        if key in roll.keys:
            continue
        job, _ = split_key(key)
        about = f"ranks:{key}"
        if seen.over:
            yield Decision(about, Reason(Because.RANKS_OVER), Clear(key))
        elif job in roll.records or job in snapshot.known:
            yield Decision(about, Reason(Because.STRAY), Stray(key))
        else:
            yield Decision(about, Reason(Because.UNKNOWN_RANKS))


def _awaits_notice(record: Record, memory: PlaceMemory) -> bool:
    due = notice_of(record)
    return due is not None and (record.id, due[1]) not in memory.noticed


def _judged(
    record: Record, seen: SetSeen | None, snapshot: Snapshot, memory: PlaceMemory
) -> Iterator[Decision[PlaceAction]]:
    assert isinstance(snapshot.sets, Seen)
    if seen is not None and memory.noted.get(seen.key) != seen.ranks:
        noted = Noted(record.id, record.attempt, seen.ranks)
        yield Decision(f"ranks:{seen.key}", Reason(Because.GOES_ON), noted)
    yield from judged(record, seen, listed_at=snapshot.sets.at, now=snapshot.now)
    if seen is not None and not seen.over and _awaits_notice(record, memory):
        yield from noticed(record, now=snapshot.now)


@dataclass(frozen=True)
class Turn:
    """What was decided, and the memory of the plan that goes with it."""

    decisions: tuple[Decision[PlaceAction], ...]
    wake_after_s: int
    schedule: Memory
    cluster: Cluster | None  # as it was planned with


def turn(picture: Picture, planner: Planner) -> Turn:
    memory, rules = picture.memory.schedule, picture.rules
    if picture.world is None:
        reason = Reason(Because.CLUSTER_UNSEEN, (("why", picture.unseen),))
        gone: Decision[PlaceAction] = Decision(f"cluster:{rules.cluster}", reason)
        return Turn((gone,), rules.cycle_s_max, memory, None)
    records = picture.snapshot.roll.records
    found = list(picture.judged)
    ended = {d.action.job for d in found if isinstance(d.action, Halt | Settle)}
    for step in (_drained, _without_right, _not_begun):
        found += list(step(picture, ended))
        ended |= {d.action.job for d in found if isinstance(d.action, Halt)}
    schedule = planner(picture.world, rules.book, memory)
    for decision in schedule.plan.decisions:
        if decision.action is None:
            found.append(cast("Decision[PlaceAction]", decision))
            continue
        acts = _act(decision, records, ended, picture)
        found.append(Decision(decision.about, decision.reason, acts))
    ended |= {d.action.job for d in found if isinstance(d.action, Halt)}
    found += _wishes(picture, ended)
    windows = picture.world.cluster.windows
    told = cuts(picture.snapshot.roll, windows, picture.snapshot.now)
    found += [d for d in told if isinstance(d.action, Cut) and d.action.job not in ended]
    wake = min(schedule.plan.wake_after_s, rules.cycle_s_max)
    return Turn(tuple(found), max(wake, rules.cycle_s_min), schedule.memory, picture.world.cluster)


def _act(
    decision: Decision[JobAction], records: Mapping[int, Record], ended: set[int], picture: Picture
) -> PlaceAction | None:
    action = decision.action
    record = records.get(int(action.job)) if action is not None else None
    if action is None or record is None or record.id in ended:
        return None
    if isinstance(action, Start):
        if picture.snapshot.stopping:
            return None
        return Launch(record.id, record.attempt + 1, action.places)
    if isinstance(action, Refuse):
        return Drop(record.id, str(decision.reason)) if record.phase is Phase.WAITS else None
    if record.phase is not Phase.RUNNING:
        return None  # Its time does not count before it has begun, and it is told to end only once.
    return _act_on_running(action, decision.reason, record, picture)


def _act_on_running(
    action: JobAction, reason: Reason, record: Record, picture: Picture
) -> PlaceAction | None:
    match action:
        case End():
            return Halt(record.id, record.attempt, Then.FAILED, str(reason))
        case Requeue():
            counted = reason.because is Because.LOST_NODE
            then = Then.AGAIN if counted else Then.ANEW
            return Halt(record.id, record.attempt, then, str(reason))
        case Shrink(places=left):
            return _lessened(record, left, str(reason))
        case Notify(at=at):
            if (record.id, at) in picture.memory.noticed:
                return None
            return Tell(record.id, record.attempt, at, str(reason))
        case _:
            return None


def _lessened(record: Record, left: tuple[Place, ...], why: str) -> Lessen | None:
    there = {place.node for place in left}
    gone = tuple(rank for rank, place in enumerate(record.places) if place.node not in there)
    return Lessen(record.id, record.attempt, gone, why) if gone != record.gone else None


def _drained(picture: Picture, ended: set[int]) -> Iterator[Decision[PlaceAction]]:
    """Jobs on drained nodes that may be started again are ended there; others run to their end."""
    drained = {
        NodeName(word.about.removeprefix("node:"))
        for word in picture.snapshot.words
        if word.drain and word.about.startswith("node:")
    }
    roll = picture.snapshot.roll
    for record in (roll.records[number] for number in roll.started) if drained else ():
        runs = record.phase is Phase.RUNNING and record.id not in ended
        if runs and record.job.stoppable and drained & {place.node for place in record.places}:
            why = f"{', '.join(sorted(drained & {p.node for p in record.places}))} is drained"
            halt = Halt(record.id, record.attempt, Then.ANEW, why)
            yield Decision(f"job:{record.id}", Reason(Because.NODE_DRAINED, (("why", why),)), halt)


def _not_begun(picture: Picture, ended: set[int]) -> Iterator[Decision[PlaceAction]]:
    assert picture.world is not None
    found = not_begun(picture.snapshot.roll, picture.world.cluster.windows, picture.snapshot.now)
    return (one for one in found if isinstance(one.action, Halt) and one.action.job not in ended)


def _without_right(picture: Picture, ended: set[int]) -> Iterator[Decision[PlaceAction]]:
    """Who runs and may not go on: told when it ends, and ended then."""
    roll, now, rights = picture.snapshot.roll, picture.snapshot.now, picture.snapshot.accounts.rights
    bars = shut_out((one.job.project for one in roll.started.values()), rights, now)
    volumes = picture.rules.volumes
    for record in (roll.records[number] for number in roll.started) if bars or volumes is not None else ():
        bar = bars.get(record.job.project)
        if record.work.volumes and volumes is not None:
            # What leaves no time comes first.
            bar = volume_bar(_claim(record), volumes, now) or bar
        goes_on = record.phase in (Phase.STARTING, Phase.RUNNING) and record.id not in ended
        if bar is not None and goes_on:
            yield from _barred(record, bar, picture)


def _claim(record: Record) -> Claim:
    mounts = tuple(Mount(volume.name, volume.read_only) for volume in record.work.volumes)
    return Claim(record.job.owner, record.job.project, mounts)


def _barred(record: Record, bar: Bar, picture: Picture) -> Iterator[Decision[PlaceAction]]:
    now = picture.snapshot.now
    if bar.ends_at is None:
        return
    if now >= bar.ends_at:
        halt = Halt(record.id, record.attempt, Then.FAILED, bar.why)
        yield Decision(f"job:{record.id}", Reason(Because.RIGHT_LOST, (("why", bar.why),)), halt)
    elif (record.id, bar.ends_at) not in picture.memory.noticed:
        why = f"{bar.why}; it is stopped in {shown_duration(bar.ends_at - now)} unless more is granted"
        tell = Tell(record.id, record.attempt, bar.ends_at, why)
        yield Decision(f"job:{record.id}", Reason(Because.RIGHT_ENDS, (("why", bar.why),)), tell)


def _wishes(picture: Picture, ended: set[int]) -> list[Decision[PlaceAction]]:
    """Other limits that somebody asked for, a few in one turn, each by the plan as it is."""
    world = picture.world
    assert world is not None
    roll = picture.snapshot.roll
    wishing = [r for n in roll.started if (r := roll.records[n]).wish is not None and n not in ended]
    found: list[Decision[PlaceAction]] = []
    for record in [r for r in wishing if r.phase is Phase.RUNNING][:WISHES_MAX]:
        assert record.wish is not None
        wish = Extension(JobName(str(record.id)), record.wish.limit_s, record.wish.forced)
        impact = extended(world, picture.rules.book, picture.memory.schedule, wish)
        found.append(Decision(f"job:{record.id}", impact.reason, _granted(record, impact)))
        if impact.granted:
            # The next one is judged by a plan that has this limit in it: two together may be one too many.
            longer = replace(record.job, limit_s=record.wish.limit_s)
            running = tuple(replace(o, job=longer) if o.job is record.job else o for o in world.running)
            world = replace(world, running=running)
    return found


def _granted(record: Record, impact: Impact) -> PlaceAction:
    assert record.wish is not None
    if not impact.granted:
        return Deny(record.id, str(impact.reason))
    limit_s = record.wish.limit_s
    return Stretch(record.id, record.attempt, limit_s, granted=True, why=str(impact.reason))


def held_after(memory: PlaceMemory, failed: frozenset[int], now: Instant) -> dict[int, tuple[Instant, int]]:
    """Jobs whose start failed wait longer each time; whoever has waited long enough is forgotten later."""
    kept = {job: one for job, one in memory.held.items() if one[0] + AGAIN_S_MAX > now}
    for job in failed:
        wait_s = min(memory.held.get(job, (now, AGAIN_S_MIN))[1], AGAIN_S_MAX)
        kept[job] = (Instant(now + wait_s), wait_s * 2)
    return kept
