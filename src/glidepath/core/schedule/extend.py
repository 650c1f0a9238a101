"""A new time limit for a job that runs: the world and the wish come in, a yes or no with its price goes out.

The plan is made once as it is and once with the new limit, and every start that differs is told. A start
that a user was promised is not broken for somebody else's wish; an operator may insist. A window is never
run into. Whatever is refused comes with the longest limit that would have been granted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from glidepath.core.because import Because
from glidepath.core.cycle import Fact, Reason
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Window
from glidepath.core.schedule.cut import cut_by, shutting
from glidepath.core.schedule.decide import decide
from glidepath.core.schedule.job import Book, JobName, Memory, OnLoss, Running, World
from glidepath.core.schedule.sift import Sifted, sift
from glidepath.core.schedule.starts import Move, moves, starts_of
from glidepath.core.schedule.table import ENDLESS_S
from glidepath.core.text import nearest
from glidepath.core.units import shown_duration

# So many plans are made for one answer at most: a plan of a large cluster takes a good part of a second, and
# somebody waits for this.
PLANS_MAX = 12


@dataclass(frozen=True, slots=True)
class Extension:
    """A wish: this job shall have this limit, counted from its start. An operator may force it."""

    job: JobName
    limit_s: int
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Impact:
    """What comes of a wish. Where it was refused before a plan was made, no moves are told."""

    job: JobName
    granted: bool
    reason: Reason
    until: Instant | None = None  # the new end, where it is granted
    moves: tuple[Move, ...] = ()  # by the limit that was asked for, also where it is refused
    longest_s: int | None = None  # the longest limit that was found to be granted unforced, where refused


def extended(world: World, book: Book, memory: Memory, wish: Extension) -> Impact:
    """Whether the job gets the limit, and whose start moves by it."""
    sifted = sift(world, book, memory.at)
    one = _found(sifted, wish.job)
    if one is None:
        return _not_running(world, wish)
    trials = Trials(world, book, memory, one)
    until = one.started_at + wish.limit_s
    if wish.limit_s <= 0 or until <= sifted.now or wish.limit_s == one.job.limit_s:
        return _in_vain(trials, sifted, wish)
    bounds = _bounds(one, sifted)
    window = _run_into(one, sifted, until)
    if window is not None:
        facts: tuple[Fact, ...] = (("window", window.name), ("opens_at", window.opens_at))
        return _refused(trials, wish, bounds, Reason(Because.EXTENSION_INTO_WINDOW, facts))
    most = _partition_max(one, sifted)
    longer = wish.limit_s > _planned_s(one, sifted)
    if longer and most is not None and wish.limit_s > most and not wish.forced:
        facts = (("limit", shown_duration(wish.limit_s)), ("partition_max", shown_duration(most)))
        return _refused(trials, wish, bounds, Reason(Because.EXTENSION_TOO_LONG, facts))
    moved = trials.moves(wish.limit_s)
    broken = [move for move in moved if move.breaks_promise]
    if broken and not wish.forced:
        facts = (("promises", len(broken)), ("first", broken[0].job), ("later_by", _by(broken[0])))
        return _refused(trials, wish, bounds, Reason(Because.EXTENSION_BREAKS_PROMISE, facts))
    facts = (("limit", shown_duration(wish.limit_s)), ("moves", len(moved)))
    if wish.forced:
        facts = (*facts, ("forced", "yes"), ("promises_broken", len(broken)))
    return Impact(wish.job, True, Reason(Because.EXTENDED, facts), Instant(until), moved)


def _by(move: Move) -> str:
    return "no start" if move.by_s is None else shown_duration(move.by_s)


class Trials:
    """Plans of one world in which the job has other limits; each limit is planned once."""

    def __init__(self, world: World, book: Book, memory: Memory, one: Running) -> None:
        self.world, self.book, self.memory, self.one = world, book, memory, one
        self.made: dict[int, tuple[Move, ...]] = {}
        self.starts = starts_of(decide(world, book, memory))

    @property
    def left(self) -> int:
        return PLANS_MAX - 1 - len(self.made)

    def moves(self, limit_s: int) -> tuple[Move, ...]:
        if limit_s not in self.made:
            job = replace(self.one.job, limit_s=limit_s)
            running = tuple(
                replace(other, job=replace(job, ask=other.job.ask)) if other.job.name == job.name else other
                for other in self.world.running
            )
            world = replace(self.world, running=running)
            after = starts_of(decide(world, self.book, self.memory))
            self.made[limit_s] = moves(self.world, self.starts, after)
        return self.made[limit_s]

    def keeps(self, limit_s: int) -> bool:
        return not any(move.breaks_promise for move in self.moves(limit_s))

    def longest(self, bounds: tuple[int, int]) -> int | None:
        """The longest limit within the bounds that was seen to break no promise; the lower one is no change.

        Only instants at which something starts or ends by the plan are tried, by halves: in between nothing
        changes. Plans are not always smooth, so that a longer one may exist; this one was planned and holds.
        """
        low, high = bounds
        if high <= low:
            return None
        if self.left and self.keeps(high):
            return high
        tried = [limit for limit in self._turns() if low < limit < high]
        best, first, last = None, 0, len(tried) - 1
        while first <= last and self.left:
            middle = (first + last) // 2
            if self.keeps(tried[middle]):
                best, first = tried[middle], middle + 1
            else:
                last = middle - 1
        return best

    def _turns(self) -> list[int]:
        """Limits by which the job would end when something else starts or ends."""
        limits = {job.name: job.limit_s or ENDLESS_S for job in self.world.waiting}
        ends = {at + limits[name] for name, at in self.starts.items()}
        ends |= {one.started_at + (one.job.limit_s or ENDLESS_S) for one in self.world.running}
        ends |= set(self.starts.values())
        for window in self.world.cluster.windows:
            ends |= {window.opens_at, window.closes_at}
        return sorted(end - self.one.started_at for end in ends)


def _found(sifted: Sifted, name: JobName) -> Running | None:
    """The job with the nodes that it has left, unless it is about to be ended for one that it lost."""
    ending = {loss.running.job.name for loss in sifted.losses if loss.running.job.on_loss is not OnLoss.GO_ON}
    return next((one for one in sifted.running if one.job.name == name and name not in ending), None)


def _planned_s(one: Running, sifted: Sifted) -> int:
    """How long the plan thinks that it runs: to its limit, or to the window that it is ended for."""
    window = cut_by(one, sifted.cluster.windows, sifted.now)
    if window is not None:
        return window.opens_at - one.started_at
    return ENDLESS_S if one.job.limit_s is None else one.job.limit_s


def _closing(one: Running, sifted: Sifted) -> list[Window]:
    """Windows that are not over and close a node of the job, the first to open first."""
    return shutting(one, (w for w in sifted.cluster.windows if w.closes_at > sifted.now))


def _run_into(one: Running, sifted: Sifted, until: int) -> Window | None:
    """The first window that the job would newly be in; a shorter limit runs into none."""
    had = one.started_at + _planned_s(one, sifted)
    shorter = one.job.limit_s is not None and until <= one.started_at + one.job.limit_s
    if until <= had or shorter:
        return None
    return next((w for w in _closing(one, sifted) if w.opens_at < until and w.closes_at > had), None)


def _partition_max(one: Running, sifted: Sifted) -> int | None:
    return next((p.limit_s_max for p in sifted.cluster.partitions if p.name == one.job.partition), None)


def _bounds(one: Running, sifted: Sifted) -> tuple[int, int]:
    """What it has, and the longest that windows and the partition leave."""
    had = _planned_s(one, sifted)
    most = [ENDLESS_S] if (longest := _partition_max(one, sifted)) is None else [longest]
    ahead = [w.opens_at for w in _closing(one, sifted) if w.closes_at > one.started_at + had]
    return had, min(*most, *(at - one.started_at for at in ahead[:1]), ENDLESS_S)


def _refused(trials: Trials, wish: Extension, bounds: tuple[int, int], reason: Reason) -> Impact:
    low, high = bounds
    longest = trials.longest((low, min(high, wish.limit_s)))
    facts = (*reason.facts, ("accepted", _accepted(trials, longest)))
    moved = trials.made.get(wish.limit_s, ())
    return Impact(wish.job, False, Reason(reason.because, facts), moves=moved, longest_s=longest)


def _accepted(trials: Trials, longest: int | None) -> str:
    if longest is not None:
        return f"at most {shown_duration(longest)}"
    limit_s = trials.one.job.limit_s
    return f"no more than the {shown_duration(limit_s)} that it has" if limit_s else "no limit, as it has now"


def _in_vain(trials: Trials, sifted: Sifted, wish: Extension) -> Impact:
    one = trials.one
    ran_s = sifted.now - one.started_at
    low, high = _bounds(one, sifted)
    longest = trials.longest((low, high)) if low < high < ENDLESS_S else None
    accepted = f"more than {shown_duration(ran_s)}"
    if longest is not None:
        accepted += f" and at most {shown_duration(longest)}"
    had = "none" if one.job.limit_s is None else shown_duration(one.job.limit_s)
    facts = (("limit", shown_duration(wish.limit_s)), ("had", had), ("accepted", accepted))
    return Impact(wish.job, False, Reason(Because.EXTENSION_IN_VAIN, facts), longest_s=longest)


def _not_running(world: World, wish: Extension) -> Impact:
    """Whoever waits may ask for another limit by being submitted with it; a name may be misspelt."""
    facts: tuple[Fact, ...] = ()
    if any(job.name == wish.job for job in world.waiting):
        facts = (("state", "waits"), ("accepted", "the limit that it is submitted with"))
    elif any(one.job.name == wish.job for one in world.running):
        facts = (("state", "lost a node and is ended"), ("accepted", "a job that goes on"))
    else:
        near = nearest(wish.job, [one.job.name for one in world.running])
        facts = (("accepted", f"`{near}`" if near else "a job that runs"),)
    return Impact(wish.job, False, Reason(Because.NOT_RUNNING, facts))
