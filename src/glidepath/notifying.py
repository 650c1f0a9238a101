"""Notices at work: a thread that reads what happened, and a few more that carry letters out.

Ways and the settings in force come in. Each way has one letter under way at a time, in the order of events;
whoever is slow or dead waits alone. What cannot be sent now is sent later, also in a later life.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from glidepath.clock import iso
from glidepath.config import NoticesSettings
from glidepath.core.quantity import Instant
from glidepath.core.units import shown_duration
from glidepath.notices.due import Due, taken_in
from glidepath.notices.sending import Fault, Sent, Undone
from glidepath.notices.words import KIND_OF, Letter
from glidepath.store.engine import StoreError
from glidepath.store.notices import ROWS_MAX, Happened, NoticeStore, Way

LOOK_S = 1.0
# Looking takes a twentieth of the time at most.
LOOK_SHARE = 20
# What happens within this comes as one letter: jobs start in crowds.
COLLECT_S = 2.0
TIME_EVERY_S = 15.0
# So seldom it is written down of the others how far they were told, which is nothing new to anybody.
NOTHING_EVERY_S = 300.0
CARRIERS_MAX = 8
# Of these at most so many wait for those who failed the last time, and so many for one person.
FAILING_MAX = 4
PERSON_MAX = 2
# The first wait after a failure and the longest; each is twice the one before.
WAIT_S, WAIT_S_MAX, OURS_S_MAX = 10.0, 3600.0, 300.0
DOUBLINGS_MAX = 20
# Before these, a long outage of our own network is no reason to switch somebody off.
TRIES_MIN = 5
STOP_S_MAX = 10.0


@dataclass
class _State:
    """One way: the letter under way, and what has collected for the next."""

    way: Way
    letter: Due = field(default_factory=Due)
    due: Due = field(default_factory=Due)
    ready_at: float = 0.0
    busy: bool = False

    @property
    def failing(self) -> bool:
        return self.way.tries > 0


@dataclass
class Notifying:
    """Begins with `start`; `look` is all that its thread does, again and again."""

    store: NoticeStore
    settings: Callable[[], NoticesSettings]
    send: Callable[[Way, Letter], Sent]
    open: Callable[[Way], bool]
    now: Callable[[], Instant]
    wall: Callable[[], float]
    ours: Callable[[], bool] = lambda: True
    steady: Callable[[], float] = time.monotonic
    collect_s: float = COLLECT_S
    look_s: float = LOOK_S
    trouble: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lock: threading.Condition = field(default_factory=threading.Condition)
    _states: dict[str, _State] = field(default_factory=dict)
    _resting: dict[str, float] = field(default_factory=dict)  # people, and until when by the wall clock
    _read: int | None = None
    _time_at: float = float("-inf")
    _nothing_at: float = float("-inf")
    _mail: str = ""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Nothing more is begun; what is on its way may end first."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)
        with self._lock:
            self._lock.wait_for(lambda: not any(one.busy for one in self._states.values()), STOP_S_MAX)

    def _run(self) -> None:
        wait_s = self.look_s
        while not self._stop.wait(wait_s):
            began = self.steady()
            try:
                self.look()
                self.trouble = self._mail
            except OSError as error:
                self.trouble = f"notices are not sent: {error}"
            wait_s = max(self.look_s, LOOK_SHARE * (self.steady() - began))

    def look(self) -> None:
        """Read what is new, and let carriers take what is due."""
        ways = self.store.in_force()
        if not ways and not self._states:
            self._read = None
            return
        self._tell_time()
        self._take_up(ways)
        self._news()
        self._write_nothing()
        for state in self._next():
            threading.Thread(target=self._carry, args=(state,), name="letter", daemon=True).start()

    # What happened.

    def _take_up(self, ways: list[Way]) -> None:
        """Ways as they are by now; one that is new is read from where it stands."""
        there = {way.id: way for way in ways}
        with self._lock:
            for id in [id for id, state in self._states.items() if id not in there and not state.busy]:
                del self._states[id]
            for id, state in self._states.items():
                if id in there and not state.busy:
                    state.way = there[id]
        if self._read is None:
            self._read = self.store.newest()
        for way in ways:
            if way.id not in self._states:
                state = _State(way)
                # What came while nothing could be sent there is not told later.
                if way.off_wall_s is None and self.open(way):
                    self._backlog(state, self._read)
                with self._lock:
                    self._states[way.id] = state

    def _backlog(self, state: _State, upto: int) -> None:
        way, after = state.way, state.way.event
        more = True
        while more:
            found = self.store.happened(after, upto, kinds=KIND_OF, person=way.person)
            sending = way.sending or 0
            taken_in(way, state.letter, (one for one in found if one.event <= sending))
            taken_in(way, state.due, (one for one in found if one.event > sending))
            more = len(found) == ROWS_MAX
            after = found[-1].event if found else upto

    def _news(self) -> None:
        newest = self.store.newest()
        assert self._read is not None
        while self._read < newest:
            found = self.store.happened(self._read, newest, kinds=KIND_OF)
            self._spread(found)
            self._read = newest if len(found) < ROWS_MAX else found[-1].event

    def _spread(self, found: list[Happened]) -> None:
        of: dict[str, list[Happened]] = {}
        for one in found:
            of.setdefault(one.owner, []).append(one)
        ready_at = self.steady() + self.collect_s
        with self._lock:
            for state in self._states.values():
                new = [one for one in of.get(state.way.person, ()) if one.event > state.way.event]
                had = bool(state.due)
                if state.way.off_wall_s is None and self.open(state.way):
                    taken_in(state.way, state.due, new)
                if state.due and not had:
                    state.ready_at = ready_at

    def _tell_time(self) -> None:
        if self.steady() - self._time_at < TIME_EVERY_S:
            return
        self._time_at = self.steady()
        ahead_s, wall = self.settings().ahead, self.wall()
        self.store.tell_time(self.now(), ahead_s=ahead_s, wall_s=wall, text=_time_text)

    def _write_nothing(self) -> None:
        if self.steady() - self._nothing_at < NOTHING_EVERY_S:
            return
        self._nothing_at = self.steady()
        assert self._read is not None
        with self._lock:
            idle = [
                id
                for id, one in self._states.items()
                if not (one.due or one.letter or one.busy) and one.way.event < self._read
            ]
        if idle:
            self.store.nothing(idle, self._read)

    # Letters.

    def _next(self) -> list[_State]:
        """Those whose letters go out now, who waited longest first."""
        wall, at = self.wall(), self.steady()
        with self._lock:
            busy = [state for state in self._states.values() if state.busy]
            free, failing = CARRIERS_MAX - len(busy), FAILING_MAX - sum(one.failing for one in busy)
            people = Counter(state.way.person for state in busy)
            chosen: list[_State] = []
            waiting = [one for one in self._states.values() if not one.busy and self._is_due(one, wall, at)]
            for state in sorted(waiting, key=lambda one: (one.failing, one.ready_at)):
                person = state.way.person
                if len(chosen) >= free or people[person] >= PERSON_MAX or (state.failing and failing <= 0):
                    continue
                people[person] += 1
                failing -= state.failing
                state.busy = True
                chosen.append(state)
            return chosen

    def _is_due(self, state: _State, wall: float, at: float) -> bool:
        way = state.way
        if not self.open(way):
            return way.test
        if way.test:
            return True
        # A clock that was set back must not hold anybody for longer than could have been meant.
        if way.off_wall_s is not None or 0 < way.next_wall_s - wall <= WAIT_S_MAX:
            return False
        if state.letter:
            return True
        resting = 0 < self._resting.get(way.person, 0.0) - wall <= WAIT_S_MAX
        return bool(state.due) and at >= state.ready_at and not resting

    def _carry(self, state: _State) -> None:
        try:
            if self._stop.is_set() or not self.ours():
                return
            if state.way.test:
                self._test(state)
            else:
                self._letter(state)
            fresh = self.store.by_id(state.way.id)
            with self._lock:
                if fresh is None or (state.way.off_wall_s is None) != (fresh.off_wall_s is None):
                    # Switched on or off: what it is told from now on is read anew.
                    self._states.pop(state.way.id, None)
                else:
                    state.way = fresh
        except StoreError as error:
            self.trouble = f"notices are not sent: {error}"
        finally:
            with self._lock:
                state.busy = False
                self._lock.notify_all()

    def _letter(self, state: _State) -> None:
        way, wall = state.way, self.wall()
        if not state.letter:
            may, rest_until_s = self._counted(way)
            if not may:
                return
            with self._lock:
                state.letter, state.due = state.due, Due()
            state.letter.rest_until_s = rest_until_s
        if not self.store.begin(way, state.letter.upto):
            return  # It was removed, or is another one by now.
        undone = self.send(way, state.letter.letter(way))
        if undone is None:
            self.store.taken(way, state.letter.upto, wall_s=self.wall())
            state.letter = Due()
        else:
            self._not_taken(state, undone, wall)
        if not way.webhook:
            self._mail = undone.why if undone is not None and undone.fault is Fault.OURS else ""

    def _counted(self, way: Way) -> tuple[bool, float | None]:
        """Whether a letter may go, and where it is the last, until when there is none."""
        per_hour = self.settings().per_hour
        counted = self.store.count(way.person, wall_s=self.wall(), per_hour=per_hour)
        if counted.letters >= per_hour:
            self._resting[way.person] = counted.next_wall_s
            return counted.may, counted.next_wall_s
        return True, None

    def _not_taken(self, state: _State, undone: Undone, wall: float) -> None:
        way, settings = state.way, self.settings()
        failing = way.failing_wall_s
        if undone.fault is not Fault.OURS:
            failing = wall if failing is None or failing > wall else failing
        given_up = failing is not None and wall - failing >= settings.give_up and way.tries + 1 >= TRIES_MIN
        if undone.fault is Fault.GONE or (given_up and undone.fault is Fault.THEIRS):
            span = shown_duration(settings.give_up)
            since = "" if undone.fault is Fault.GONE else f"nothing was taken for {span}: "
            why = f"{since}{undone.why}; `glidepath notice test {way.name}` switches it on again"
            self.store.off(way, why, wall_s=wall, job=state.letter.notices[0].job)
            state.letter, state.due = Due(), Due()
            return
        longest = OURS_S_MAX if undone.fault is Fault.OURS else WAIT_S_MAX
        wait_s = min(WAIT_S * 2 ** min(way.tries, DOUBLINGS_MAX), longest)
        self.store.failed(way, undone.why, next_wall_s=wall + wait_s, failing_wall_s=failing)

    def _test(self, state: _State) -> None:
        way = state.way
        wall = self.wall()
        counted = self.store.count(way.person, wall_s=wall, per_hour=self.settings().per_hour)
        if not counted.may:
            after = iso(counted.next_wall_s)
            said = f"not sent: this hour had as many messages as may be; try again after {after}"
            self.store.tested(way, said, wall_s=wall, taken=False)
            return
        undone = self.send(way, Letter(f"{way.id}-test-{int(wall)}", way.name, test=True))
        said = f"taken at {iso(self.wall())}" if undone is None else f"not taken: {undone.why}"
        self.store.tested(way, said, wall_s=self.wall(), taken=undone is None)


def _time_text(ends: int) -> str:
    # Instants are close to wall time, and these words are the same however often they are made.
    return f"its time is almost out: it ends at {iso(float(ends))}"
