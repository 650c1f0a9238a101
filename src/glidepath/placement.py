"""The scheduler at work: for each cluster of the settings a thread that plans, writes down, acts and waits.

Doors and the store are opened elsewhere and handed in. A cluster that fails holds up no other; what runs
there goes on without us, since clusters keep limits themselves.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from glidepath.calls import ThreadCalls
from glidepath.clock import Moment, SteadyClock
from glidepath.cluster import kind_of
from glidepath.config import (
    AccountingSettings,
    ClusterSettings,
    Settings,
    book_of,
    cluster_own,
    partition_rules,
    rates_of,
)
from glidepath.core.account.right import VolumeRule
from glidepath.core.cycle import Did, Failed, Outcome, Plan, Refused
from glidepath.core.place.acts import Launch, PlaceAction
from glidepath.core.place.rank import ClusterName
from glidepath.core.place.record import Phase
from glidepath.core.place.turn import PlaceMemory, Rules, Snapshot, Word
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import ProjectName, Window
from glidepath.journal.journal import Journal
from glidepath.journal.meter import Meter
from glidepath.journal.placing import PlacingJournal
from glidepath.loop import Cycle, run_cycle
from glidepath.machine import machine
from glidepath.metering import Metering
from glidepath.nudge import Nudges
from glidepath.ports import Cluster, Lively, Place
from glidepath.scheduler import PlaceDoors, Scheduler
from glidepath.store.engine import Store, StoreError
from glidepath.store.lease import NOT_OURS, Held
from glidepath.store.placed import PlacedStore
from glidepath.store.windows import Calendar

# How often the store is asked for something new while there is nothing to do: people wait for an answer. Who
# writes into it from this home says so; others are found in this time.
LOOK_S = 0.05
LOOK_NUDGED_S = 0.25
CLUSTER_LOOK_S = 0.1
# So much time may be spent on plans at once, and this share of it in the long run, for those who wait.
BURST_S, SHARE_OF_TIME = 0.25, 0.5
STOP_S_MAX = 30.0
MEMORY_SHARE_PERCENT = 80
MIB = 1 << 20

PlaceCycle = Cycle[Snapshot, PlaceMemory, PlaceAction]


class PlaceRecorder:
    """The loop's recorder: plan and changes in one transaction, then what came of it."""

    def __init__(self, scheduler: Scheduler, journal: PlacingJournal, moment: Callable[[], Moment]) -> None:
        self.scheduler, self.journal, self.moment = scheduler, journal, moment

    def planned(self, snapshot: Snapshot, memory: PlaceMemory, plan: Plan[PlaceAction]) -> None:
        self.scheduler.held = frozenset()
        if not self.scheduler.doors.ours():
            raise StoreError(NOT_OURS)
        turn = self.scheduler.turn
        assert turn is not None
        self.scheduler.held = self.journal.planned(self.moment(), plan, turn.schedule, cluster=turn.cluster)

    def acted(self, plan: Plan[PlaceAction], outcomes: tuple[Did, ...]) -> None:
        launches: dict[str, Launch] = {
            launch.key: launch for launch in plan.actions if isinstance(launch, Launch)
        }
        failed: dict[Launch, Outcome] = {
            launches[did.about]: did.outcome
            for did in outcomes
            if did.verb == "start" and isinstance(did.outcome, Failed | Refused)
        }
        # Whoever is asked once more, and fails, may have done it when it was asked first.
        failed = {one: why for one, why in failed.items() if isinstance(why, Refused) or not one.again}
        self.journal.acted(self.moment(), outcomes, failed)


def cluster_rules(name: str, settings: Settings, clock: SteadyClock) -> Rules:
    cluster = settings.clusters[name]
    return Rules(
        cluster=ClusterName(name),
        partitions=tuple(
            partition_rules(each, part)
            for each, part in sorted(settings.partitions.items())
            if part.cluster == name
        ),
        book=book_of(cluster, settings.accounting),
        windows=tuple(
            Window(
                f"{window.why} {number + 1}",
                clock.at_wall(math.floor(window.start.timestamp())),
                clock.at_wall(math.ceil(window.end.timestamp())),
                tuple(NodeName(node) for node in window.nodes),
                tuple(ProjectName(project) for project in window.projects),
            )
            for number, window in enumerate(cluster.windows)
        ),
        overheads=overheads_of(cluster_own(cluster)),
        volumes=volumes_of(cluster_own(cluster)),
        stale_s_max=cluster.stale_after,
        cycle_s_min=cluster.cycle_min,
        cycle_s_max=cluster.cycle_max,
    )


def overheads_of(own: Mapping[str, object]) -> tuple[tuple[str, Resources], ...]:
    """What each way to run containers takes beside a rank, where the kind of cluster has such ways."""
    ways = own.get("runtimes")
    rows = ways.items() if isinstance(ways, Mapping) else ()
    return tuple((name, Resources(way["cpus"], way["memory"])) for name, way in sorted(rows))


def volumes_of(own: Mapping[str, object]) -> dict[str, VolumeRule] | None:
    """Who may mount what, where the kind of cluster has volumes; that one is only read it sees to itself."""
    named = own.get("volumes")
    if not isinstance(named, Mapping):
        return None
    return {name: VolumeRule(projects=frozenset(each["projects"])) for name, each in sorted(named.items())}


def cluster_door(name: str, cluster: ClusterSettings, place: Place) -> Cluster:
    if cluster.kind != "local":
        return kind_of(cluster.kind)(ClusterName(name), cluster_own(cluster), place)
    here = machine(place.home)
    amounts = {
        "cpu_milli": cluster.cpus or here["cpus"] * 1000,
        "memory_mib": cluster.memory or here["memory_mib"] * MEMORY_SHARE_PERCENT // 100,
        "disk_mib": cluster.disk,
        "gpus": cluster.gpus,
        "gpu_kind": cluster.gpu_kind or "",
        "nodes": cluster.nodes,
        "cgroup": cluster.cgroup,
        "processes_max": cluster.processes,
    }
    return kind_of(cluster.kind)(ClusterName(name), amounts, place)


@dataclass
class Pace:
    """When a turn may begin that somebody or something calls for, so that plans leave time for all else.

    What turns took is counted, and forgotten as time goes by: a single call is answered at once, a stream of
    them in turns that take half of a processor at most.
    """

    burst_s: float = BURST_S
    share: float = SHARE_OF_TIME
    _spent_s: float = 0.0
    _at: float = 0.0

    def took(self, began: float, ended: float) -> None:
        self._forget(began)
        self._spent_s += ended - began
        self._forget(ended)

    def soonest(self, now: float) -> float:
        """The moment from which on a turn may begin."""
        self._forget(now)
        return now + max(0.0, self._spent_s - self.burst_s) / self.share

    def _forget(self, now: float) -> None:
        self._spent_s = max(0.0, self._spent_s - (now - self._at) * self.share)
        self._at = now


@dataclass
class Placement:
    """One cluster and the thread that runs it."""

    name: str
    scheduler: Scheduler
    journal: PlacingJournal
    clock: SteadyClock
    jobs: PlacedStore
    memory: PlaceMemory = field(default_factory=PlaceMemory)
    trouble: str = ""
    last: PlaceCycle | None = None
    look_s: float = LOOK_S

    def __post_init__(self) -> None:
        self.woken = threading.Event()  # Look at the store now, or stop.
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"cluster {self.name}", daemon=True)
        self._newest = 0  # of what people asked for
        self._heard: tuple[object, ...] = ()  # of operators, before the last turn
        self._pace, self._took_s = Pace(), 0.0

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more turns; one that is under way ends first, within its own limits."""
        self._stopping = True
        self.woken.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S_MAX)
        close = getattr(self.scheduler.doors.cluster, "close", None)
        if close is not None:
            close()

    def _run(self) -> None:
        recovered = False
        while not self._stopping:
            began = time.monotonic()
            wait_s = float(self.scheduler.rules.cycle_s_max)
            try:
                if not recovered:
                    self.memory = PlaceMemory(self.journal.memory()[0])
                    recovered = True
                wait_s = self._once()
            except OSError as error:
                self.trouble = f"the cluster `{self.name}`: {error}"
            ended = time.monotonic()
            self._took_s = ended - began
            self._pace.took(began, ended)
            # However long a turn takes, there is a rest before the next.
            self._wait(max(began + wait_s, ended + min(self._took_s, self.scheduler.rules.cycle_s_min)))

    def _once(self) -> float:
        self._newest, self._heard = self.jobs.newest_event(), self._said()
        cycle = self.cycle()
        self.trouble = f"the cluster `{self.name}`: {cycle.unrecorded}" if cycle.unrecorded else ""
        roll = cycle.snapshot.roll
        moving = any(roll.records[n].phase in (Phase.STARTING, Phase.ENDING) for n in roll.started)
        if cycle.plan.actions or moving:
            return float(self.scheduler.rules.cycle_s_min)
        return float(cycle.plan.wake_after_s)

    def cycle(self) -> PlaceCycle:
        recorder = PlaceRecorder(self.scheduler, self.journal, self.clock.moment)
        cycle = run_cycle(self.scheduler, recorder, self.memory)
        self.memory = cycle.memory
        self.last = cycle
        return cycle

    def _wait(self, deadline: float) -> None:
        """Until the next turn is due, somebody wants something, or the cluster says that it changed."""
        cluster = self.scheduler.doors.cluster
        lively = cluster if isinstance(cluster, Lively) else None
        asked = changed = False
        now = ended = time.monotonic()
        look_at = cluster_look_at = now
        # What people wait for comes first; clusters say all the time that something of theirs is different,
        # and get half of the time at most.
        rest_s = min(float(self.scheduler.rules.cycle_s_min), self._took_s)
        while not self._stopping:
            if self.woken.is_set() or now >= look_at:
                self.woken.clear()
                look_at, asked = now + self.look_s, asked or self._asked()
            if lively is not None and now >= cluster_look_at:
                cluster_look_at, changed = now + CLUSTER_LOOK_S, changed or self._changed(lively)
            due = min(deadline, ended + rest_s) if changed else deadline
            due = min(due, self._pace.soonest(now)) if asked else due
            if now >= due:
                return
            self.woken.wait(min(look_at, cluster_look_at if lively else due, due) - now)
            now = time.monotonic()

    def _said(self) -> tuple[object, ...]:
        """What operators say by now: words, and windows of the calendar."""
        return self.scheduler.doors.words(), self.scheduler.doors.windows()

    def _asked(self) -> bool:
        try:
            if self._said() != self._heard:
                return True
            asked, newest = self.jobs.asked_since(self._newest)
        except OSError:
            return False  # Whatever it is, the next turn says so.
        if not asked:
            self._newest = newest
        return asked

    @staticmethod
    def _changed(cluster: Lively) -> bool:
        try:
            return cluster.changed()
        except OSError:
            return False


class Placements:
    """All clusters of the settings in force."""

    def __init__(self, store: Store, lease: Held, clock: SteadyClock) -> None:
        self._store, self._lease, self._clock = store, lease, clock
        self._made: str = ""
        self._nudges: Nudges | None = None
        self._accounting = AccountingSettings()
        self.metering: Metering | None = None
        self.running: tuple[Placement, ...] = ()

    def take_up(self, settings: Settings, place: Place) -> None:
        """Serve the clusters of these settings; where nothing of them changed, those that run go on."""
        placed = {name: part for name, part in settings.partitions.items() if part.cluster is not None}
        self._accounting = settings.accounting
        ways = (settings.keep.log_size, settings.accounting)
        made = repr((sorted(settings.clusters.items()), sorted(placed.items()), ways))
        if made == self._made:
            return
        self.stop()
        self._made = made
        place = replace(place, log_bytes_max=settings.keep.log_size * MIB)
        # Also where no cluster is left: what ran on one was written down, and is still to be counted.
        meter = Meter(self._store, hold=self._lease.hold)
        self.metering = Metering(meter, lambda: self._accounting, self._clock.now, self._clock.wall)
        self.metering.start()
        self.running = tuple(self._placement(name, settings, place) for name in sorted(settings.clusters))
        self._nudges = Nudges(place.home, self._wake)
        self._nudges.start()
        # Into a store on a server others may write who do not know this home.
        here = self._nudges.listening and self._store.path is not None
        for placement in self.running:
            placement.look_s = LOOK_NUDGED_S if here else LOOK_S
            placement.start()

    def _wake(self) -> None:
        for placement in self.running:
            placement.woken.set()

    def _placement(self, name: str, settings: Settings, place: Place) -> Placement:
        rules = cluster_rules(name, settings, self._clock)
        partitions = tuple(part.name for part in rules.partitions)
        rates = rates_of(settings.accounting)
        journal = PlacingJournal(self._store, name, partitions, hold=self._lease.hold, rates=rates)
        assert self.metering is not None
        doors = PlaceDoors(
            cluster=cluster_door(name, settings.clusters[name], place),
            ledger=journal,
            calls=ThreadCalls(),
            clock=self._clock,
            words=self._words,
            windows=Calendar(self._store, name, self._clock.wall, self._clock.at_wall),
            accounts=self.metering.accounts,
            ours=self._lease.check,
        )
        return Placement(
            name, Scheduler(doors, rules), journal, self._clock, PlacedStore(self._store, self._clock)
        )

    def _words(self) -> tuple[Word, ...]:
        return words_of(Journal(self._store))

    @property
    def jobs(self) -> int:
        """How many were not over at the last looks."""
        seen = [placement.last for placement in self.running]
        return sum(len(cycle.snapshot.roll.records) for cycle in seen if cycle is not None)

    @property
    def trouble(self) -> str:
        for placement in self.running:
            if placement.trouble:
                return placement.trouble
            if not placement.alive:
                return f"the scheduler of the cluster `{placement.name}` has died; restart glidepath"
        if self.metering is not None and not self.metering.alive:
            return "the meter of usage has died; restart glidepath"
        return self.metering.trouble if self.metering is not None else ""

    def stop(self) -> None:
        if self._nudges is not None:
            self._nudges.stop()
            self._nudges = None
        for placement in self.running:
            placement.stop()
        if self.metering is not None:
            self.metering.stop()
            self.metering = None
        self.running, self._made = (), ""


def words_of(journal: Journal) -> tuple[Word, ...]:
    """What operators said about queues, partitions and nodes."""
    kinds = ("queue:", "partition:", "node:")
    return tuple(
        Word(pause.about, pause.drain) for pause in journal.pauses() if pause.about.startswith(kinds)
    )
