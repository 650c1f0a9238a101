"""The running controllers: cycle after cycle, waiting in between, taking up changed settings, and the end.

Everything is handed in open by `glidepath.up`. It refuses to know where things come from and how they look.
"""

from __future__ import annotations

import getpass
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from glidepath.assembly import close_doors, doors_of, memory_after
from glidepath.beside import Beside
from glidepath.clock import SteadyClock
from glidepath.config import ConfigError, Loaded, Settings, Watcher, partitions_of
from glidepath.core.cycle import Did, Plan, Seen
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import PilotAction
from glidepath.core.provision.sight import Pause, Snapshot
from glidepath.core.quantity import SiteName
from glidepath.embedded.server import PoolServer
from glidepath.ending import kill_pilots, stop_pilots
from glidepath.journal.entry import Entry
from glidepath.journal.journal import Journal
from glidepath.loop import Cycle, run_cycle
from glidepath.machinecode import JOBS_FEW, Making, keep_in, spare
from glidepath.notices.ways import Ways
from glidepath.notifying import Notifying
from glidepath.plugins import PluginError
from glidepath.ports import Place
from glidepath.provisioner import Provisioner
from glidepath.shadow import Difference
from glidepath.status import StatusServer
from glidepath.store.engine import Store, StoreError
from glidepath.store.job import OVER, Job, JobState
from glidepath.store.jobs import JobStore
from glidepath.store.lease import Held
from glidepath.store.notices import NoticeStore
from glidepath.store.sweep import Sweep
from glidepath.sweeping import Sweeper
from glidepath.view import Frame, View
from glidepath.watching import Watch

if TYPE_CHECKING:
    from glidepath.placement import Placements

# How often, while waiting for the next cycle, files, lease and signals are looked at.
LOOK_S = 0.25
CONFIG_LOOK_S = 1.0
PRUNE_EVERY_CYCLES = 100
STOP_S_MAX = 10.0
BURY_S_MAX = 3.0
JOBS_SHOWN = 40
# What a turn of the loop may take besides its reads and acts: deciding, a slow store, a slow terminal.
TURN_S_MAX = 120.0


class Beating(Protocol):
    def __call__(self, doing: str, within_s: float) -> None: ...


@dataclass(frozen=True)
class UpOptions:
    """All that a start of the controllers can be told from the command line."""

    config: Path | None
    home: Path
    sample: bool = False
    until_idle: bool = False
    shadow: bool = False


@dataclass(slots=True)
class Signals:
    """How often we were told to stop: once means end in order, twice means at once."""

    count: int = 0

    def told(self, *_: object) -> None:
        self.count += 1

    @contextmanager
    def watched(self) -> Iterator[Signals]:
        old = {number: signal.signal(number, self.told) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, before in old.items():
                signal.signal(number, before)


def sleep_until(seconds: float, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not until() and time.monotonic() < deadline:
        time.sleep(min(LOOK_S, max(0.0, deadline - time.monotonic())))


class JournalRecorder:
    """The loop's recorder over the journal, and the last cycle kept in memory for status."""

    def __init__(self, up: Controllers) -> None:
        self.up = up

    def planned(self, snapshot: Snapshot, memory: Memory, plan: Plan[PilotAction]) -> None:
        moment = self.up.clock.moment()
        rules = self.up.provisioner.rules
        entry = Entry(plan.cycle, moment, self.up.journal.version, snapshot, memory, rules, plan, None)
        self.up.status.publish(entry)
        if not self.up.lease.check():
            raise StoreError("this glidepath no longer owns the store")
        self.up.journal.planned(moment, snapshot, memory, rules=rules, plan=plan)

    def acted(self, plan: Plan[PilotAction], outcomes: tuple[Did, ...]) -> None:
        if not self.up.lease.check():
            # Whoever leads now has asked again for what was not answered, and counts on its own answers.
            raise StoreError("this glidepath no longer owns the store")
        self.up.journal.acted(plan.cycle, outcomes)


def _shown_first(store: JobStore) -> list[Job]:
    """What runs, then what waits, then what ended last: the order in which a person would ask."""
    going = store.list(states=[JobState.RUNNING, JobState.CANCELLING], limit=JOBS_SHOWN)
    waiting = store.list(states=[JobState.QUEUED], limit=JOBS_SHOWN)
    over = store.list(states=list(OVER), limit=JOBS_SHOWN)
    latest = sorted(over, key=lambda job: (-(job.ended_wall or 0), -job.id))
    return [*going, *waiting, *latest][:JOBS_SHOWN]


@dataclass
class Controllers:
    options: UpOptions
    view: View
    signals: Signals
    settings: Settings
    watcher: Watcher | None
    place: Place
    store: Store
    lease: Held
    journal: Journal
    clock: SteadyClock
    memory: Memory
    last: Entry | None = None  # the newest cycle of an earlier life
    beat: Beating = lambda doing, within_s: None  # says that the loop turns

    def __post_init__(self) -> None:
        self.woken = threading.Event()
        self.status = StatusServer(self.options.home, shadow=self.options.shadow)
        self.provisioner = self._assembled(self.settings)
        self.server: PoolServer | None = None
        self.served: dict[str, tuple[str, ...]] = {}
        self.cycles = 0
        self.watch = Watch(self.provisioner.doors.pools.values(), self.woken)
        self.difference = Difference() if self.options.shadow else None
        self.beside = Beside(self.options.home, self.options.config, self.view.say)
        self.placements: Placements | None = None
        self.making: Making | None = None
        self.sweeper = Sweeper(
            home=self.options.home,
            sweep=Sweep(self.store, hold=self.lease.hold),
            keep=lambda: self.settings.keep,
            journal_s=lambda: self.settings.store.retention,
            now=self.clock.now,
            wall=self.clock.wall,
        )
        ways = Ways(lambda: self.settings.notices, self.clock.wall)
        self.notifying = Notifying(
            store=NoticeStore(self.store, hold=self.lease.hold),
            settings=lambda: self.settings.notices,
            send=ways.send,
            open=ways.open,
            now=self.clock.now,
            wall=self.clock.wall,
            ours=self.lease.check,
        )

    def _assembled(self, settings: Settings) -> Provisioner:
        doors, rules, policy = doors_of(settings, self.place, self.clock, self._pauses, store=self.store)
        doors.ours = self.lease.check
        return Provisioner(doors, rules, policy, shadow=self.options.shadow)

    def _pauses(self) -> tuple[Pause, ...]:
        try:
            return self.journal.pauses()
        except StoreError as error:
            # What cannot be read may have been "stop": nothing is asked for until it can.
            why = f"pauses cannot be read: {error}"
            return tuple(Pause(f"pool:{pool}", by="glidepath", why=why) for pool in self.settings.pools)

    def run(self) -> int:
        self.status.start()
        try:
            self.beat("taking up what the last one left", self._cycle_s_max())
            self._serve_pools()
            self._recover()
            self._place_jobs()
            if not self.options.shadow:
                self.sweeper.start()
                self.notifying.start()
            self.watch.start()
            if self.options.sample:
                self._submit_samples()
            self._loop()
            if self.lease.lost:
                # The pilots are another's now; ending them would end its work.
                self.view.say(
                    "another glidepath owns the store now; this one ends and leaves the pilots alone"
                )
                return 1
            self._end()
        finally:
            self.beside.stop()
            self.sweeper.stop()
            self.notifying.stop()
            if self.making is not None:
                self.making.stop()
            if self.placements is not None:
                self.placements.stop()
            if self.server is not None:
                self.server.stop()
            self.status.stop()
            self._close_doors()
        return 0

    def _recover(self) -> None:
        """An earlier life died over its last plan: what it asked for is asked for again.

        The owner of a server's lease may only sleep. When it wakes it asks for nothing more; what was on its
        way already finds its names at the site, where they are kept for `repeat_within`.
        """
        if self.last is not None and self.last.outcomes is None:
            self.provisioner.again(self.last.plan, self.last.rules)
            self.memory = memory_after(self.last, self.clock.now())

    def _serve_pools(self) -> None:
        """The embedded pools of the settings in force, each with its partitions."""
        served: dict[str, tuple[str, ...]] = {
            name: tuple(each for each, pool in partitions_of(self.settings) if pool == name)
            for name, pool in self.settings.pools.items()
            if pool.kind == "embedded"
        }
        if served == self.served or self.options.shadow:
            return
        if self.server is not None:
            self.server.stop()
            self.server = None
        self.served = served
        if served:
            self.server = PoolServer(
                self.store, self.options.home, served, clock=self.clock, on_change=self.woken.set
            )
            self.server.start()

    def _place_jobs(self) -> None:
        """The clusters of the settings in force, each planned by a thread of its own."""
        clusters = self.settings.clusters
        if self.options.shadow or (not clusters and self.placements is None):
            return
        if self.placements is None:
            keep_in(self.options.home)
            # Somebody waits for the first answer, and machine code would take a minute to be made.
            if spare(0):
                self.making = Making(self.view.say)
            # Imported here: planning brings its own world, which nobody without a cluster needs.
            from glidepath.placement import Placements

            self.placements = Placements(self.store, self.lease, self.clock)
        self.placements.take_up(self.settings, self.place)

    def _look_at_machine_code(self) -> None:
        """One machine has few jobs at a time, and does without; a cluster will have many."""
        if self.making is not None and self.placements is not None:
            many = any(cluster.kind != "local" for cluster in self.settings.clusters.values())
            self.making.look(wanted=many or self.placements.jobs > JOBS_FEW)

    def _submit_samples(self) -> None:
        from glidepath.sample import sample_jobs

        partition = partitions_of(self.settings)[0][0]
        specs = sample_jobs(partition, getpass.getuser())
        JobStore(self.store, self.clock).submit_many(specs)
        if self.server is not None:
            self.server.wake()
        self.view.say(f"submitted {len(specs)} sample jobs of two shapes")

    def _loop(self) -> None:
        while not self.signals.count and not self.lease.lost:
            started = time.monotonic()
            if not self.options.shadow:
                self.beside.keep(self.settings.serve.listen)
            self.beat(f"cycle {self.memory.cycle + 1}", self._cycle_s_max())
            cycle = self._cycle()
            if self.options.until_idle and self._idle(cycle):
                return
            self._wait(started, cycle.plan.wake_after_s)

    def _cycle_s_max(self) -> float:
        """Sources are named, read, and acted on, each within its own limit."""
        doors = self.provisioner.doors
        call_s = max((backend.limit_s for backend in doors.backends.values()), default=0.0)
        return 2 * doors.read_s_max + doors.act_s_max + call_s + TURN_S_MAX

    def _cycle(self) -> Cycle[Snapshot, Memory, PilotAction]:
        self.woken.clear()
        cycle = run_cycle(self.provisioner, JournalRecorder(self), self.memory)
        self.memory = cycle.memory
        self.cycles += 1
        trouble = (
            f"the journal cannot be written, so nothing is done: {cycle.unrecorded}"
            if cycle.unrecorded
            else ""
        )
        self.status.trouble = trouble
        self.view.show(self._frame(cycle, trouble))
        if self.difference is not None:
            for line in self.difference.lines(cycle.snapshot, cycle.plan):
                self.view.say(line)
        if self.cycles % PRUNE_EVERY_CYCLES == 0 and not trouble:
            self._prune()
        return cycle

    def _frame(self, cycle: Cycle[Snapshot, Memory, PilotAction], trouble: str) -> Frame:
        jobs, counts = [], {}
        try:
            store = JobStore(self.store, self.clock)
            if not self.options.shadow:
                jobs = _shown_first(store)
                counts = {state.value: count for state, count in store.counts().items()}
        except StoreError as error:
            trouble = trouble or f"the job store cannot be read: {error}"
        if self.server is not None and not self.server.alive:
            trouble = trouble or "the pool server has died; restart glidepath, pilots and jobs carry on"
        elif self.server is not None and self.server.trouble:
            trouble = trouble or f"the pool: {self.server.trouble}"
        if self.placements is not None:
            trouble = trouble or self.placements.trouble
        trouble = trouble or self.sweeper.trouble or self.notifying.trouble
        return Frame(time.time(), cycle.plan, self.memory, cycle.outcomes, jobs, counts, trouble)

    def _prune(self) -> None:
        try:
            self.journal.prune(
                time.time(),
                keep_s=self.settings.store.retention,
                keep_cycles_max=self.settings.store.cycles_max,
            )
        except StoreError as error:
            self.view.say(f"old cycles could not be removed: {error}")

    def _idle(self, cycle: Cycle[Snapshot, Memory, PilotAction]) -> bool:
        if self.memory.tracks or cycle.unrecorded or self._wanted(cycle.snapshot):
            return False
        counts = JobStore(self.store, self.clock).counts()
        return not any(
            count for state, count in counts.items() if state.value in ("queued", "running", "cancelling")
        )

    @staticmethod
    def _wanted(snapshot: Snapshot) -> bool:
        """Whether jobs wait or run in any pool, or may: what is unseen is not empty."""
        return any(
            not isinstance(sight, Seen) or any(group.idle or group.running for group in sight.value.demands)
            for *_, sight in snapshot.demand
        )

    def _wait(self, started: float, wake_after_s: int) -> None:
        """Until the next cycle is due or something changed, but never sooner than the shortest cadence."""
        earliest = started + self.provisioner.rules.cycle_s_min
        deadline = started + wake_after_s
        look_at = 0.0
        while not self.signals.count and not self.lease.lost:
            now = time.monotonic()
            self.beat("waiting for the next cycle", TURN_S_MAX)
            if now >= deadline or (self.woken.is_set() and now >= earliest):
                return
            if now >= look_at:
                look_at = now + CONFIG_LOOK_S
                self._look_at_machine_code()
                if self._reload():
                    return
            self.lease.check()
            if self.woken.is_set():
                time.sleep(min(LOOK_S, max(0.0, earliest - now)))
            else:
                self.woken.wait(min(LOOK_S, max(0.0, deadline - now)))

    def _reload(self) -> bool:
        found = self.watcher.poll() if self.watcher is not None else None
        if found is None:
            return False
        if isinstance(found, ConfigError):
            problems = "; ".join(map(str, found.problems))
            self._note("configuration refused", f"the old one stays in force; {problems}")
            return False
        if found.settings.store.url != self.settings.store.url:
            why = "`store.url` cannot change while glidepath runs; restart it for that"
            self._note("configuration refused", f"the old one stays in force; {why}")
            return False
        return self._take_up(found)

    def _take_up(self, found: Loaded) -> bool:
        place, before = self.place, self.provisioner
        self.place = replace(place, partitions=partitions_of(found.settings))
        try:
            provisioner = self._assembled(found.settings)
        except (PluginError, ValueError, OSError) as error:
            self.place = place
            self._note("configuration refused", f"the old one stays in force: {error}")
            return False
        provisioner.take_over(before)
        self._close_doors()
        self.settings, self.provisioner = found.settings, provisioner
        self.watch = Watch(provisioner.doors.pools.values(), self.woken)
        self.watch.start()
        self._serve_pools()
        self._place_jobs()
        self._note("configuration taken up", ", ".join(str(file) for file in found.files))
        return True

    def _close_doors(self) -> None:
        self.watch.stop()
        close_doors(self.provisioner.doors)

    def _note(self, kind: str, text: str) -> None:
        self.view.say(f"{kind}: {text}")
        try:
            self.journal.note(kind, text, by="glidepath")
        except StoreError as error:
            self.view.say(f"this could not be written down: {error}")

    def _end(self) -> None:
        """No more asking; pilots of sites that are told so end now, and their jobs go back to the queue."""
        self.provisioner.doors.stopping = True
        self.beat("ending", 3 * STOP_S_MAX + self._cycle_s_max())
        if self.difference is not None:
            for line in self.difference.summary():
                self.view.say(line)
            return
        backends = [
            self.provisioner.doors.backends[SiteName(name)]
            for name, site in self.settings.sites.items()
            if site.on_exit == "stop"
        ]
        now = self.clock.now()
        if self.signals.count:
            self.view.say("stopping: pilots end and give their jobs back; Ctrl-C again kills them")
        ending = threading.Thread(
            target=stop_pilots, args=(backends, now), kwargs={"limit_s": STOP_S_MAX}, daemon=True
        )
        ending.start()
        deadline = time.monotonic() + STOP_S_MAX
        while ending.is_alive() and time.monotonic() < deadline and self.signals.count < 2:
            ending.join(LOOK_S)
        if ending.is_alive():
            kill_pilots(backends, now)
            ending.join(STOP_S_MAX)
            # The pool sees that they are dead and gives their jobs back; then it may be closed.
            sleep_until(BURY_S_MAX, lambda: not self._jobs_held())
        self._cycle()

    def _jobs_held(self) -> int:
        counts = JobStore(self.store, self.clock).counts()
        return counts.get(JobState.RUNNING, 0) + counts.get(JobState.CANCELLING, 0)
