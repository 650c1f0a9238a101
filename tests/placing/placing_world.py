"""A cluster in memory with time of its own, a real store, and a scheduler that can be killed at any step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glidepath.calls import InlineCalls
from glidepath.clock import Moment
from glidepath.core.account.run import Rates
from glidepath.core.cycle import Did, Done, Failed, Outcome, Plan, Refused, Unsure
from glidepath.core.place.accounts import Accounts, Terms
from glidepath.core.place.acts import PlaceAction
from glidepath.core.place.rank import (
    Cause,
    ClusterName,
    NodeListing,
    NodeSeen,
    RankSeen,
    RankSet,
    RankState,
    SetKey,
    SetListing,
    SetSeen,
    split_key,
)
from glidepath.core.place.turn import PlaceMemory, Rules, Snapshot, Word
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Node, NodeState, Partition, PartitionName, Queue
from glidepath.core.schedule.job import OnLoss
from glidepath.journal.placing import PlacingJournal
from glidepath.journal.rights import read_accounts
from glidepath.loop import Cycle, run_cycle
from glidepath.placement import PlaceRecorder
from glidepath.scheduler import PlaceDoors, Scheduler
from glidepath.store.engine import open_store
from glidepath.store.job import JobSpec
from glidepath.store.migrations import migrate
from glidepath.store.placed import PlacedJob, PlacedStore
from glidepath.store.placed_spec import PlacedSpec
from glidepath.store.windows import Calendar

T0 = 1_800_000_000
HERE = PartitionName("here")
TURNS_MAX = 400


class Killed(BaseException):
    """kill -9, as far as a test can have it: nothing catches it."""


@dataclass
class Time:
    at: int = T0

    def now(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> float:
        return float(self.at)

    def moment(self) -> Moment:
        return Moment(float(self.at), Instant(self.at), "boot", float(self.at))


@dataclass
class Task:
    ranks: RankSet
    asked_at: int
    runs_s: int
    began_at: int | None = None
    limit_s: int | None = None
    ends: dict[int, tuple[int, Cause, int | None]] = field(default_factory=dict)  # rank: when, why, code
    noticed: int = 0


class MemoryCluster:
    """Ranks begin at once and run for `runs_s` unless a test says otherwise."""

    name = ClusterName("lab")
    limit_s = 5.0

    def __init__(self, time: Time, nodes: tuple[Node, ...]) -> None:
        self.time = time
        self.node = {node.name: node for node in nodes}
        self.tasks: dict[SetKey, Task] = {}
        self.begun: list[SetKey] = []
        self.runs_s: dict[int, int] = {}
        self.answers: list[Outcome] = []  # of the next starts
        self.half_made = False  # a start makes only a part, of which nobody is sure
        self.away = ""
        self.notes: tuple[str, ...] = ()  # what it has to say to people
        self.unkept: tuple[str, ...] = ()
        self.begin_after_s = 0
        self.late: set[str] = set()  # keys of which nobody has heard yet that they are over

    def nodes(self, *, now: Instant) -> NodeListing:
        self._seen()
        return NodeListing(
            tuple(NodeSeen(node) for node in self.node.values()), notes=self.notes, unkept=self.unkept
        )

    def _seen(self) -> None:
        if self.away:
            raise OSError(self.away)

    def list(self, *, now: Instant) -> SetListing:
        self._seen()
        return SetListing(tuple(self._set(key, task) for key, task in self.tasks.items()))

    def _set(self, key: SetKey, task: Task) -> SetSeen:
        due = self.time.at >= task.asked_at + self.begin_after_s and not self.half_made
        if task.began_at is None and due and not task.ends:
            task.began_at = self.time.at
            self.begun.append(key)
        ranks = tuple(self._rank(at, task) for at in range(len(task.ranks.seats)))
        return SetSeen(key, ranks, task.limit_s, made=not self.half_made)

    def _rank(self, at: int, task: Task) -> RankSeen:
        node = task.ranks.seats[at].node
        began = None if task.began_at is None else Instant(task.began_at)
        end = task.ends.get(at)
        if end is None and task.began_at is not None:
            natural = task.began_at + task.runs_s
            limit = None if task.limit_s is None else task.began_at + task.limit_s
            if limit is not None and limit <= min(natural, self.time.at):
                end = (limit, Cause.LIMIT, None)
            elif natural <= self.time.at:
                end = (natural, Cause.EXITED, 0)
        if end is None or task.ranks.key in self.late:
            task.ends |= {at: end} if end is not None else {}
            state = RankState.ASKED if began is None else RankState.RUNNING
            return RankSeen(at, node, state, began_at=began)
        when, cause, code = end
        task.ends[at] = end
        return RankSeen(at, node, RankState.OVER, cause, code, began_at=began, ended_at=Instant(when))

    def start(self, ranks: RankSet) -> Outcome:
        had = self.tasks.get(ranks.key)
        if had is not None:
            if self.answers:
                return self.answers.pop(0)
            self.half_made = False
            return Done() if had.ranks == ranks else Refused("something else")
        if self.answers:
            answer = self.answers.pop(0)
            if not isinstance(answer, Done):
                return answer
        runs_s = self.runs_s.get(split_key(ranks.key)[0], 100)
        self.tasks[ranks.key] = Task(ranks, self.time.at, runs_s, limit_s=ranks.limit_s)
        return Unsure("half of it") if self.half_made else Done()

    def extend(self, key: SetKey, limit_s: int | None) -> Outcome:
        if key not in self.tasks:
            return Refused("gone")
        self.tasks[key].limit_s = limit_s
        return Done()

    def give_notice(self, key: SetKey) -> Outcome:
        if key in self.tasks:
            self.tasks[key].noticed += 1
        return Done()

    def stop(self, key: SetKey) -> Outcome:
        self.end(key, Cause.STOPPED)
        return Done()

    def end(self, key: str, cause: Cause, *, code: int | None = None, rank: int | None = None) -> None:
        task = self.tasks.get(SetKey(key))
        for at in range(len(task.ranks.seats)) if task else ():
            if rank in (None, at):
                assert task is not None
                task.ends.setdefault(at, (self.time.at, cause, code))

    def clear(self, key: SetKey) -> Outcome:
        task = self.tasks.get(key)
        if task is not None and not self._set(key, task).over:
            return Refused("not over")
        self.tasks.pop(key, None)
        return Done()

    def lose(self, node: str) -> None:
        self.node[NodeName(node)] = replace(self.node[NodeName(node)], state=NodeState.LOST)
        for key, task in self.tasks.items():
            for at, seat in enumerate(task.ranks.seats):
                if seat.node == node:
                    self.end(key, Cause.NODE_LOST, rank=at)


class Mortal:
    """Passes everything on and dies at the n-th step, before or after it."""

    STEPS = ("planned", "acted", "start", "stop", "clear", "extend", "roll", "list")

    def __init__(self, dies_at: int | None = None) -> None:
        self.left, self.count = dies_at, 0

    def wrap(self, thing: Any) -> Any:
        mortal = self

        class Wrapped:
            def __getattr__(self, name: str) -> Any:
                found = getattr(thing, name)
                return mortal.step(found) if name in Mortal.STEPS else found

        return Wrapped()

    def step(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            self._die()
            found = call(*args, **more)
            self._die()
            return found

        return stepped

    def _die(self) -> None:
        if self.left is not None and self.count == self.left:
            raise Killed
        self.count += 1


def a_node(name: str, *, cpus: int = 4) -> Node:
    return Node(NodeName(name), Resources(cpus * 1000, 8192, 10240))


def a_spec(**own: Any) -> PlacedSpec:
    job = {"partition": "here", "owner": "ada", "command": ("true",), "run_s_max": 3600}
    mine = {
        key: own.pop(key)
        for key in list(own)
        if key in ("owner", "name", "run_s_max", "retries_max", "request", "partition")
    }
    request = Resources(own.pop("cpus", 1) * 1000, own.pop("memory", 512))
    spec = JobSpec(**{**job, "request": request, **mine})
    return PlacedSpec(spec, own.pop("queue", Queue.INTERACTIVE), **own)


class PlacingWorld:
    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 2,
        url: str = "",
        rules: Rules | None = None,
        rates: Rates | None = None,
        terms: Terms | None = None,
    ) -> None:
        self.time = Time()
        self.rates, self.terms = rates or Rates(), terms
        self.cluster = MemoryCluster(self.time, tuple(a_node(f"n{at + 1}") for at in range(nodes)))
        self.store = open_store(url or f"sqlite:///{folder / 'place.db'}")
        migrate(self.store)
        self.jobs = PlacedStore(self.store, self.time)
        partitions = (Partition(HERE, ()), Partition(PartitionName("endless"), (), endless=True))
        self.rules = rules or Rules(ClusterName("lab"), partitions)
        self.words: tuple[Word, ...] = ()
        self.live()

    def live(self, mortal: Mortal | None = None) -> None:
        """A new life of the scheduler on the same store and cluster."""
        mortal = mortal or Mortal()
        names = tuple(part.name for part in self.rules.partitions)
        journal = PlacingJournal(self.store, "lab", names, rates=self.rates)
        self.memory = PlaceMemory(journal.memory()[0])
        wrapped = mortal.wrap(journal)
        doors = PlaceDoors(
            mortal.wrap(self.cluster),
            wrapped,
            InlineCalls(),
            self.time,
            words=lambda: self.words,
            windows=Calendar(self.store, "lab", self.time.wall, lambda wall: Instant(int(wall))),
            accounts=self.accounts,
        )
        self.scheduler = Scheduler(doors, self.rules)
        self.recorder = PlaceRecorder(self.scheduler, wrapped, self.time.moment)

    def accounts(self) -> Accounts:
        """None but where a test has terms: as the store has them now."""
        return read_accounts(self.store, self.time.now(), self.terms) if self.terms else Accounts()

    def turn(self, *, after_s: int = 1) -> Cycle[Snapshot, PlaceMemory, PlaceAction]:
        self.time.at += after_s
        cycle = run_cycle(self.scheduler, self.recorder, self.memory)
        self.memory = cycle.memory
        return cycle

    def turns(self, count: int, *, after_s: int = 1) -> None:
        for _ in range(count):
            self.turn(after_s=after_s)

    def until_over(self, *jobs: int, after_s: int = 5) -> None:
        for _ in range(TURNS_MAX):
            if all(self.stands(job) in ("done", "failed", "cancelled") for job in jobs):
                self.turns(2)
                return
            self.turn(after_s=after_s)
        raise AssertionError([(job, self.stands(job)) for job in jobs])

    def submit(self, **own: Any) -> int:
        return self.jobs.submit(a_spec(**own)).job

    def job(self, number: int) -> PlacedJob:
        return self.jobs.get(number)

    def stands(self, number: int) -> str:
        return self.job(number).stands

    def said(self, number: int) -> list[str]:
        return [event.kind for event in self.jobs.events(job=number)]

    def close(self) -> None:
        self.store.close()


__all__ = ["Cause", "Did", "Failed", "Killed", "Mortal", "OnLoss", "PlacingWorld", "Plan", "a_node", "a_spec"]
