"""The scheduler at work: for each cluster of the settings a thread that plans, writes down, acts and waits.

Doors and the store are opened elsewhere and handed in. A cluster that fails holds up no other; what runs
there goes on without us, since clusters keep limits themselves.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from glidepath.calls import ThreadCalls
from glidepath.clock import Moment, SteadyClock
from glidepath.cluster import kind_of
from glidepath.config import ClusterSettings, Settings, book_of, cluster_own, partition_rules
from glidepath.core.cycle import Did, Failed, Outcome, Plan, Refused
from glidepath.core.place.acts import Launch, PlaceAction
from glidepath.core.place.rank import ClusterName
from glidepath.core.place.record import Phase
from glidepath.core.place.turn import PlaceMemory, Rules, Snapshot, Word
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import ProjectName, Window
from glidepath.journal.journal import Journal
from glidepath.journal.placing import PlacingJournal
from glidepath.loop import Cycle, run_cycle
from glidepath.machine import machine
from glidepath.ports import Cluster, Lively, Place
from glidepath.scheduler import PlaceDoors, Scheduler
from glidepath.store.engine import Store, StoreError
from glidepath.store.lease import NOT_OURS, Held
from glidepath.store.placed import PlacedStore

# How often the store is asked for something new while there is nothing to do: people wait for an answer.
LOOK_S = 0.05
CLUSTER_LOOK_S = 0.5
STOP_S_MAX = 30.0
MEMORY_SHARE_PERCENT = 80

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
        book=book_of(cluster),
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
        stale_s_max=cluster.stale_after,
        cycle_s_min=cluster.cycle_min,
        cycle_s_max=cluster.cycle_max,
    )


def overheads_of(own: Mapping[str, object]) -> tuple[tuple[str, Resources], ...]:
    """What each way to run containers takes beside a rank, where the kind of cluster has such ways."""
    ways = own.get("runtimes")
    rows = ways.items() if isinstance(ways, Mapping) else ()
    return tuple((name, Resources(way["cpus"], way["memory"])) for name, way in sorted(rows))


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
    }
    return kind_of(cluster.kind)(ClusterName(name), amounts, place)


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

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"cluster {self.name}", daemon=True)
        self._newest = 0

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more turns; one that is under way ends first, within its own limits."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S_MAX)
        close = getattr(self.scheduler.doors.cluster, "close", None)
        if close is not None:
            close()

    def _run(self) -> None:
        recovered = False
        while not self._stop.is_set():
            began = time.monotonic()
            wait_s = float(self.scheduler.rules.cycle_s_max)
            try:
                if not recovered:
                    self.memory = PlaceMemory(self.journal.memory()[0])
                    recovered = True
                wait_s = self._once()
            except OSError as error:
                self.trouble = f"the cluster `{self.name}`: {error}"
            self._wait(began, wait_s)

    def _once(self) -> float:
        self._newest = self.jobs.newest_event()
        cycle = self.cycle()
        self.trouble = f"the cluster `{self.name}`: {cycle.unrecorded}" if cycle.unrecorded else ""
        moving = any(record.phase in (Phase.STARTING, Phase.ENDING) for record in cycle.snapshot.records)
        if cycle.plan.actions or moving:
            return float(self.scheduler.rules.cycle_s_min)
        return float(cycle.plan.wake_after_s)

    def cycle(self) -> PlaceCycle:
        recorder = PlaceRecorder(self.scheduler, self.journal, self.clock.moment)
        cycle = run_cycle(self.scheduler, recorder, self.memory)
        self.memory = cycle.memory
        self.last = cycle
        return cycle

    def _wait(self, began: float, wait_s: float) -> None:
        """Until the next turn is due, somebody wants something, or the cluster says that it changed."""
        cluster = self.scheduler.doors.cluster
        earliest, deadline = began + self.scheduler.rules.cycle_s_min, began + wait_s
        look_at = 0.0
        while not self._stop.wait(LOOK_S):
            now = time.monotonic()
            if now >= deadline:
                return
            try:
                if self._wanted(now >= earliest):
                    return
                if isinstance(cluster, Lively) and now >= look_at:
                    look_at = now + CLUSTER_LOOK_S
                    if cluster.changed() and now >= earliest:
                        return
            except OSError:
                continue  # Whatever it is, the next turn says so.

    def _wanted(self, due: bool) -> bool:
        return due and self.jobs.newest_event() > self._newest


class Placements:
    """All clusters of the settings in force."""

    def __init__(self, store: Store, lease: Held, clock: SteadyClock) -> None:
        self._store, self._lease, self._clock = store, lease, clock
        self._made: str = ""
        self.running: tuple[Placement, ...] = ()

    def take_up(self, settings: Settings, place: Place) -> None:
        """Serve the clusters of these settings; where nothing of them changed, those that run go on."""
        placed = {name: part for name, part in settings.partitions.items() if part.cluster is not None}
        made = repr((sorted(settings.clusters.items()), sorted(placed.items())))
        if made == self._made:
            return
        self.stop()
        self._made = made
        self.running = tuple(self._placement(name, settings, place) for name in sorted(settings.clusters))
        for placement in self.running:
            placement.start()

    def _placement(self, name: str, settings: Settings, place: Place) -> Placement:
        rules = cluster_rules(name, settings, self._clock)
        partitions = tuple(part.name for part in rules.partitions)
        journal = PlacingJournal(self._store, name, partitions, hold=self._lease.hold)
        doors = PlaceDoors(
            cluster=cluster_door(name, settings.clusters[name], place),
            ledger=journal,
            calls=ThreadCalls(),
            clock=self._clock,
            words=self._words,
            ours=self._lease.check,
        )
        return Placement(
            name, Scheduler(doors, rules), journal, self._clock, PlacedStore(self._store, self._clock)
        )

    def _words(self) -> tuple[Word, ...]:
        return words_of(Journal(self._store))

    @property
    def trouble(self) -> str:
        for placement in self.running:
            if placement.trouble:
                return placement.trouble
            if not placement.alive:
                return f"the scheduler of the cluster `{placement.name}` has died; restart glidepath"
        return ""

    def stop(self) -> None:
        for placement in self.running:
            placement.stop()
        self.running, self._made = (), ""


def words_of(journal: Journal) -> tuple[Word, ...]:
    """What operators said about queues, partitions and nodes."""
    kinds = ("queue:", "partition:", "node:")
    return tuple(
        Word(pause.about, pause.drain) for pause in journal.pauses() if pause.about.startswith(kinds)
    )
