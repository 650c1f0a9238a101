"""The scheduler's shell: the store and a cluster in, acts on the cluster out. It does what a plan says.

Reads become `Seen` or `Unseen`; acts become outcomes. What a plan changes in the store is written with it,
before the cluster is asked; a start whose job was cancelled in between is not asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from glidepath.calls import Answer, Calls
from glidepath.core.because import Because
from glidepath.core.cycle import (
    Decision,
    Did,
    Failed,
    NotTried,
    Outcome,
    Plan,
    Reason,
    Refused,
    Seen,
    Unseen,
    Unsure,
)
from glidepath.core.place.accounts import Accounts
from glidepath.core.place.acts import Clear, Halt, Launch, Noted, PlaceAction, Settle, Stray, Stretch, Tell
from glidepath.core.place.asked import rank_set
from glidepath.core.place.check import breaches
from glidepath.core.place.rank import RankSeen, SetKey, split_key
from glidepath.core.place.record import Phase, Then
from glidepath.core.place.roll import Roll
from glidepath.core.place.turn import (
    Picture,
    PlaceMemory,
    Planner,
    Rules,
    Snapshot,
    Turn,
    Word,
    held_after,
    look,
    turn,
)
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Window
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import Ended
from glidepath.ports import WORLD_ERRORS, Clock, Cluster, Several

NOT_OURS = "another glidepath owns the store now"
UNREAD = "the cycle's time was up"
BREACHES_TOLD_MAX = 10
# What is freed comes before what takes room.
ORDER: tuple[type, ...] = (Halt, Stray, Stretch, Tell, Launch, Clear)


class Ledger(Protocol):
    """The store, as the scheduler reads it."""

    def roll(self) -> Roll: ...

    def known(self, numbers: Iterable[int]) -> frozenset[int]: ...


@dataclass(slots=True)
class PlaceDoors:
    cluster: Cluster
    ledger: Ledger
    calls: Calls
    clock: Clock
    words: Callable[[], tuple[Word, ...]] = lambda: ()
    windows: Callable[[], tuple[Window, ...]] = lambda: ()
    accounts: Callable[[], Accounts] = Accounts
    ours: Callable[[], bool] = lambda: True
    stopping: bool = False
    read_s_max: float = 30.0
    act_s_max: float = 60.0


@dataclass(slots=True)
class Scheduler:
    doors: PlaceDoors
    rules: Rules
    planner: Planner = field(default_factory=lambda: Follower().schedule)
    # What the recorder found to hold when it wrote the plan down; nothing else is started.
    held: frozenset[Launch] = frozenset()
    turn: Turn | None = None
    _seen_at: dict[str, Instant] = field(default_factory=dict)

    def observe(self, memory: PlaceMemory) -> Snapshot:
        """A store that cannot be read raises: without it there is nothing to decide about."""
        doors, now = self.doors, self.doors.clock.now()
        reads: dict[str, Callable[[], object]] = {
            "nodes": partial(doors.cluster.nodes, now=now),
            "sets": partial(doors.cluster.list, now=now),
        }
        # The store first: a set that it does not name yet cannot be listed.
        roll = doors.ledger.roll()
        answers = doors.calls.gather(
            {f"{doors.cluster.name} {what}": read for what, read in reads.items()}, limit_s=doors.read_s_max
        )
        nodes, sets = (self._sighting(f"{doors.cluster.name} {what}", answers, now) for what in reads)
        known: frozenset[int] = frozenset()
        if isinstance(sets, Seen):
            others = {split_key(one.key)[0] for one in sets.value.sets if one.key not in roll.keys}
            others -= roll.records.keys()
            known = doors.ledger.known(others) if others else known
        words, windows, accounts = doors.words(), doors.windows(), doors.accounts()
        return Snapshot(now, roll, nodes, sets, words, windows, known, doors.stopping, accounts)

    def _sighting(self, key: str, answers: dict[str, Answer], now: Instant) -> Seen[Any] | Unseen:
        found = answers[key]
        if found.error:
            return Unseen(self._seen_at.get(key, now), found.error)
        self._seen_at[key] = Instant(now - found.value.age_s)
        return Seen(self._seen_at[key], found.value)

    def look(self, snapshot: Snapshot, memory: PlaceMemory) -> Picture:
        return look(snapshot, memory, self.rules)

    def decide(self, picture: Picture) -> Plan[PlaceAction]:
        self.turn = turn(picture, self.planner)
        return Plan(
            self.turn.schedule.cycle, picture.snapshot.now, self.turn.decisions, self.turn.wake_after_s
        )

    def check(self, picture: Picture, plan: Plan[PlaceAction]) -> Plan[PlaceAction]:
        found = tuple(breaches(picture, plan.actions))[:BREACHES_TOLD_MAX]
        if not found:
            return plan
        told: Decision[PlaceAction] = Decision("plan", Reason(Because.BREACH, found))
        left = tuple(replace(decision, action=None) for decision in plan.decisions)
        return replace(plan, decisions=(told, *left))

    def act(self, plan: Plan[PlaceAction]) -> tuple[Did, ...]:
        steps = list(self._steps(plan.actions))
        done: dict[int, Outcome] = {}
        deadline = time.monotonic() + self.doors.act_s_max

        def step(at: int) -> None:
            if time.monotonic() > deadline:
                done[at] = NotTried(UNREAD)
            elif not self.doors.ours():
                done[at] = NotTried(NOT_OURS)
            else:
                done[at] = _answer(steps[at][2])

        cluster = self.doors.cluster
        at_once = cluster.at_once if isinstance(cluster, Several) else 1
        calls = [partial(step, at) for at in range(len(steps))]
        task = partial(self.doors.calls.side_by_side, calls, at_once=at_once)
        if steps:
            limit_s = self.doors.act_s_max + cluster.limit_s
            self.doors.calls.gather({f"{cluster.name} acts": task}, limit_s=limit_s)
        silent = Unsure("no answer within the cycle's time")
        return tuple(Did(verb, about, done.get(at, silent)) for at, (verb, about, _) in enumerate(steps))

    def _steps(self, actions: tuple[PlaceAction, ...]) -> Iterator[tuple[str, str, Callable[[], Outcome]]]:
        cluster = self.doors.cluster
        records = self._roll_of(actions).records
        for action in sorted(
            (a for a in actions if isinstance(a, ORDER)), key=lambda a: ORDER.index(type(a))
        ):
            match action:
                case Halt():
                    yield "stop", action.key, partial(cluster.stop, action.key)
                case Stray(key=key):
                    yield "stop", key, partial(cluster.stop, key)
                case Stretch(limit_s=limit_s):
                    yield "extend", action.key, partial(cluster.extend, action.key, limit_s)
                case Tell(by_cluster=False) if action.job in records and records[action.job].terms.notice_s:
                    # A signal that a command did not ask for would end it.
                    yield "notice", action.key, partial(cluster.give_notice, action.key)
                case Launch() if action in self.held and action.job in records:
                    ranks = rank_set(records[action.job], action)
                    yield "start", action.key, partial(cluster.start, ranks)
                case Clear(key=key):
                    yield "clear", key, partial(cluster.clear, key)
                case _:
                    pass  # A start that does not hold any more, a word to somebody who wants no signal.

    def _roll_of(self, actions: tuple[PlaceAction, ...]) -> Roll:
        """As the store has them now: what is asked for is what was written down."""
        if not any(isinstance(action, Launch | Tell) for action in actions):
            return Roll()
        try:
            return self.doors.ledger.roll()
        except OSError:
            # Nothing is started now; the next turn asks for the attempts that were written down.
            return Roll()

    def remember(self, picture: Picture, plan: Plan[PlaceAction], outcomes: Iterable[Did]) -> PlaceMemory:
        memory, now = picture.memory, picture.snapshot.now
        assert self.turn is not None
        if picture.world is None:
            return memory
        actions = plan.actions
        refused = {
            split_key(did.about)[0]
            for did in outcomes
            if did.verb == "start" and isinstance(did.outcome, Failed | Refused)
        }
        refused |= {a.job for a in actions if isinstance(a, Settle) and a.then is Then.ANEW}
        return PlaceMemory(
            schedule=self.turn.schedule,
            noted=_noted(picture, actions),
            held=held_after(memory, frozenset(refused), now),
            ended=tuple(_ended(picture, actions)),
            noticed=_noticed(picture, actions),
            seen=picture.seen,
            calm=picture.calm,
        )


def _answer(call: Callable[[], Outcome]) -> Outcome:
    try:
        return call()
    except WORLD_ERRORS as error:
        return Unsure(f"{error}" or type(error).__name__)


def _noticed(picture: Picture, actions: tuple[PlaceAction, ...]) -> frozenset[tuple[int, Instant]]:
    kept = {one for one in picture.memory.noticed if one[0] in picture.snapshot.roll.records}
    return frozenset(kept | {(action.job, action.at) for action in actions if isinstance(action, Tell)})


def _noted(picture: Picture, actions: tuple[PlaceAction, ...]) -> dict[SetKey, tuple[RankSeen, ...]]:
    assert isinstance(picture.snapshot.sets, Seen)
    listed = {one.key for one in picture.snapshot.sets.value.sets}
    noted = {key: ranks for key, ranks in picture.memory.noted.items() if key in listed}
    return noted | {action.key: action.ranks for action in actions if isinstance(action, Noted)}


def _ended(picture: Picture, actions: tuple[PlaceAction, ...]) -> Iterator[Ended]:
    """Jobs that ran to an end of their own, for the scheduler to learn from."""
    records = picture.snapshot.roll.records
    for action in actions:
        if isinstance(action, Settle) and action.then in (Then.DONE, Then.FAILED):
            record = records[action.job]
            if record.began_at is not None and record.phase is not Phase.STARTING:
                end = action.ended_at if action.ended_at is not None else picture.snapshot.now
                yield Ended(record.job, max(end - record.began_at, 0))
