"""The made-up world: jobs come, pilots start, join, work, idle and leave, in virtual time, from one seed.

Arrivals and the effects of acts come in, listings, slots and demand go out. Between two looks of the
controller the world moves by itself, event by event. It refuses to know who asks and why.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from glidepath.core.cycle import Done, Outcome, Refused
from glidepath.core.provision.offer import Rules, kind_for
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Slot, Target
from glidepath.core.provision.supply import copies, fits, less
from glidepath.core.quantity import Instant, NodeName, PilotName, PoolName, Resources, Shape, SiteName
from glidepath.sim.arrival import Arrival
from glidepath.sim.ledger import Ledger
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.queue import Group, JobQueue
from glidepath.sim.thing import SimJob, SimPilot

# The beginning of time: not zero, so that nothing that is missing looks like the start.
START = 1_000_000
# What a job lasts on a node that fails everything it is given.
BAD_JOB_S = 5
# A job that was lost so often has a fault of its own and is not queued again.
TRIES_MAX = 5


class SimSite:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.quota = behaviour.quota
        self.pilots: dict[PilotName, SimPilot] = {}
        self.listed: dict[PilotName, SitePilot] = {}
        self.listing: tuple[SitePilot, ...] | None = ()
        self.running = 0
        self.queued: dict[PilotName, tuple[SimPilot, ...]] = {}  # jobs that could start but for the quota
        self.bad_nodes: set[NodeName] = set()
        self.number = 0


class SimPool:
    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.queues = [JobQueue(matching.pool) for _ in range(max(1, matching.sources))]
        self.open: dict[PilotName, SimPilot] = {}
        self.slots: dict[PilotName, Slot] = {}
        self.shown: tuple[Slot, ...] | None = ()
        self.claimed = 0  # pilots with at least one job

    def queue_of(self, owner: str) -> JobQueue:
        if len(self.queues) == 1:
            return self.queues[0]
        return self.queues[zlib.crc32(owner.encode()) % len(self.queues)]


class World:
    def __init__(
        self,
        seed: int,
        rules: Rules,
        arrivals: Iterable[Arrival],
        *,
        sites: Iterable[Behaviour],
        pools: Iterable[Matching],
    ) -> None:
        self.draw = random.Random(f"world {seed}")
        self.now = START
        self.ledger = Ledger(rules)
        self.sites = {each.site: SimSite(each) for each in sites}
        self.pools = {each.pool: SimPool(each) for each in pools}
        self._arrivals: Iterator[Arrival] = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._events: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._number = 0
        self._each: dict[Shape, int] = {}
        self.deadly_owners: set[str] = set()  # whose jobs kill the pilot they run on
        self.starts: Callable[[SimPilot], None] = lambda pilot: None  # a last word on each start, for faults
        for pool in self.pools.values():
            # Negotiators are not in step with each other, nor with anyone's cycle.
            self.after(self.draw.randrange(pool.matching.every_s), self._negotiate, pool)

    # Time

    def after(self, seconds: int, what: Callable[[Any], None], about: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, what, about))

    def advance(self, until: int) -> None:
        """Everything that happens up to and including that second."""
        events = self._events
        while True:
            coming = self._next
            due = events[0][0] if events else until + 1
            if coming is not None and START + coming.at <= due and START + coming.at <= until:
                self.now = max(self.now, START + coming.at)
                self._arrive(coming)
                self._next = next(self._arrivals, None)
            elif due <= until:
                at, _, what, about = heapq.heappop(events)
                self.now = at
                what(about)
            else:
                break
        self.now = until

    @property
    def more_to_come(self) -> bool:
        return self._next is not None

    def end_of_arrivals(self) -> None:
        self._next = None
        self._arrivals = iter(())

    @property
    def jobs_left(self) -> int:
        return sum(queue.idle + queue.running for pool in self.pools.values() for queue in pool.queues)

    def jobs_each(self, shape: Shape) -> int:
        """How many such jobs the largest pilot that could be asked for holds; one where none fits."""
        if shape not in self._each:
            sizes = [offer.size for offer in self.ledger.offers.values() if kind_for(offer, shape)]
            request = shape.request.as_tuple()
            self._each[shape] = max([1, *(copies(request, size.as_tuple()) for size in sizes)])
        return self._each[shape]

    @property
    def waiting(self) -> int:
        return sum(queue.idle for pool in self.pools.values() for queue in pool.queues)

    # Jobs

    def _arrive(self, arrival: Arrival) -> None:
        pool = self.pools[arrival.pool]
        job = SimJob(
            arrival.pool,
            arrival.shape,
            arrival.owner,
            self.now,
            run_s=arrival.run_s,
            run_s_max=arrival.run_s_max,
        )
        self.ledger.jobs += 1
        pool.queue_of(job.owner).add(job)

    def _negotiate(self, pool: SimPool) -> None:
        self.after(pool.matching.every_s, self._negotiate, pool)
        if not pool.open or not any(queue.idle for queue in pool.queues):
            return
        pilots = list(pool.open.values())
        self.draw.shuffle(pilots)
        groups = [(queue, group) for queue in pool.queues for group in queue.groups.values() if group.waiting]
        groups.sort(key=lambda pair: (pair[1].shape, pair[1].waiting[0].run_s_max or 0))
        self.draw.shuffle(groups)
        for queue, group in groups:
            self._hand_out(queue, group, pilots)

    def _hand_out(self, queue: JobQueue, group: Group, pilots: list[SimPilot]) -> None:
        request = group.shape.request.as_tuple()
        run_s = group.waiting[0].run_s_max or 0
        traits = group.shape.traits
        for pilot in pilots:
            if pilot.ends_at is not None and pilot.ends_at - self.now < run_s:
                continue
            if traits and not set(traits) <= set(pilot.spec.traits):
                continue
            while group.waiting and fits(request, pilot.free):
                if pilot.draining or pilot.joined_at is None or not pilot.live:
                    break
                self._begin(pilot, queue.take(group))
                if not any(request):
                    break
            if not group.waiting:
                return

    def _begin(self, pilot: SimPilot, job: SimJob) -> None:
        pilot.count(self.now)
        if not job.started:
            job.started = True
            self.ledger.waits[self.now - job.first_at] += 1
        run_s = min(job.run_s, BAD_JOB_S) if pilot.bad else job.run_s
        pilot.free = less(pilot.free, job.shape.request.as_tuple(), 1)
        pilot.jobs[job] = self.now + run_s
        self.after(run_s, self._job_end, (pilot, job))
        self._show_slot(pilot)

    def _job_end(self, about: tuple[SimPilot, SimJob]) -> None:
        pilot, job = about
        if pilot.jobs.get(job) != self.now:
            return
        self._let_go(pilot, job)
        queue = self.pools[job.pool].queue_of(job.owner)
        pilot.jobs_run += 1
        if pilot.bad:
            pilot.jobs_failed += 1
            self._again(job)
        elif job.owner in self.deadly_owners:
            # It takes the pilot with it; after that it is gone, as a job that was held would be.
            self.end(pilot, SiteState.FAILED, "killed by a job")
            return
        elif self.pools[job.pool].matching.reuse and not pilot.draining:
            self._reuse(pilot, job, queue)
        if not pilot.jobs:
            self._idle(pilot)
        self._show_slot(pilot)

    def _let_go(self, pilot: SimPilot, job: SimJob) -> None:
        pilot.count(self.now)
        del pilot.jobs[job]
        request = job.shape.request.as_tuple()
        pilot.free = less(pilot.free, request, -1)
        self.pools[job.pool].queue_of(job.owner).ended(job)

    def _reuse(self, pilot: SimPilot, job: SimJob, queue: JobQueue) -> None:
        group = queue.groups.get((job.shape, job.run_s_max))
        if group is not None and group.waiting and group.waiting[0].owner == job.owner:
            self._begin(pilot, queue.take(group))

    def _again(self, job: SimJob) -> None:
        job.tries += 1
        if job.tries <= TRIES_MAX:
            job.queued_at = self.now
            self.pools[job.pool].queue_of(job.owner).add(job, first=True)

    def _idle(self, pilot: SimPilot) -> None:
        if not pilot.live:
            return
        pilot.idle_since = self.now
        if pilot.draining:
            self.end(pilot, SiteState.ENDED, "drained")
        else:
            self.after(pilot.spec.idle_s, self._idle_out, (pilot, self.now))

    def _idle_out(self, about: tuple[SimPilot, int]) -> None:
        pilot, since = about
        if pilot.live and not pilot.jobs and pilot.idle_since == since:
            self.end(pilot, SiteState.ENDED, "idle for too long")

    # Pilots

    def submit(self, spec: PilotSpec) -> Outcome:
        site = self.sites[spec.site]
        here = site.pilots.get(spec.name)
        if here is not None:
            same = (here.spec.offer, here.spec.pool, here.spec.size) == (spec.offer, spec.pool, spec.size)
            return Done("it was there") if same else Refused("another pilot has this name")
        site.number += 1
        low, high = site.behaviour.start_s
        fails = self.draw.randrange(1000) < site.behaviour.failing
        # All of one request are one job of the site, which starts on as many nodes at once.
        alone = replace(spec, mates=()) if spec.mates else spec
        specs = [alone, *(replace(alone, name=name) for name in spec.mates)]
        job = tuple(SimPilot(each, self.now, f"{spec.site}-{site.number}") for each in specs)
        for pilot in job:
            pilot.job, pilot.fails = job, fails
            site.pilots[pilot.spec.name] = pilot
            self.ledger.came(pilot)
            self._show_pilot(pilot)
        self.after(self.draw.randint(low, high), self._start_job, job)
        return Done()

    def _start_job(self, job: tuple[SimPilot, ...]) -> None:
        if any(pilot.state is not SiteState.PENDING for pilot in job):
            return
        site, key = self.sites[job[0].spec.site], job[0].spec.name
        if site.quota is not None and site.running + len(job) > site.quota:
            site.queued[key] = job
            return
        site.queued.pop(key, None)
        for pilot in job:
            self._start(pilot, site)

    def _start(self, pilot: SimPilot, site: SimSite) -> None:
        site.running += 1
        pilot.state, pilot.since, pilot.started_at = SiteState.RUNNING, self.now, self.now
        nodes = [NodeName(f"{pilot.spec.site}-n{n}") for n in range(site.behaviour.nodes)]
        wanted = [node for node in nodes if node not in pilot.spec.avoid]
        pilot.node = self.draw.choice(wanted or nodes) if nodes else NodeName("")
        pilot.bad = pilot.node in site.bad_nodes
        pilot.ends_at = self.now + pilot.spec.lifetime_s
        pilot.boot_s = self.draw.randint(*site.behaviour.boot_s)
        self.starts(pilot)
        self.after(pilot.boot_s, self._join, pilot)
        if pilot.boot_s:
            self._show_pilot(pilot)

    def _join(self, pilot: SimPilot) -> None:
        if pilot.state is not SiteState.RUNNING:
            return
        if pilot.fails:
            self.end(pilot, SiteState.FAILED, "it never came up")
            return
        pilot.joined_at = pilot.counted_at = self.now
        self.ledger.joined(pilot)
        self.after(max(0, (pilot.ends_at or 0) - self.now), self._expire, pilot)
        self._idle(pilot)
        self._show_slot(pilot)
        self._show_pilot(pilot)

    def _expire(self, pilot: SimPilot) -> None:
        if pilot.live:
            self.end(pilot, SiteState.ENDED, "its lifetime was over")

    def end(self, pilot: SimPilot, state: SiteState, note: str, *, cause: str = "failed") -> None:
        """The pilot is over; what it still ran goes back to the queue."""
        if not pilot.live:
            return
        was_running = pilot.state in (SiteState.RUNNING, SiteState.LEAVING)
        for job, ends_at in list(pilot.jobs.items()):
            begun = ends_at - (min(job.run_s, BAD_JOB_S) if pilot.bad else job.run_s)
            self.ledger.lost(pilot, self.now - begun, job.shape.request.cpu_milli)
            self._let_go(pilot, job)
            self._again(job)
        pilot.state, pilot.since, pilot.note = state, self.now, note
        self.ledger.left(pilot, self.now, cause)
        site = self.sites[pilot.spec.site]
        site.queued.pop(pilot.job[0].spec.name, None)
        self._show_slot(pilot)
        self._show_pilot(pilot)
        if was_running:
            site.running -= 1
            self._fill_quota(site)

    def _fill_quota(self, site: SimSite) -> None:
        for job in list(site.queued.values()):
            if site.quota is not None and site.running + len(job) > site.quota:
                return  # In the order of the site's queue: a small job does not go past a large one.
            self._start_job(job)

    def set_quota(self, site: SimSite, quota: int | None) -> None:
        site.quota = quota
        self._fill_quota(site)

    def withdraw(self, site: SiteName, target: Target) -> Outcome:
        pilot = self._found(site, target)
        if pilot is None:
            return Done("it is not there")
        if pilot.state is not SiteState.PENDING:
            return Refused("it has started") if pilot.live else Done("it had ended")
        for each in pilot.job:
            self.end(each, SiteState.ENDED, "withdrawn", cause="withdrawn")
            self.forget(each)
        return Done()

    def drain(self, site: SiteName, target: Target) -> Outcome:
        pilot = self._found(site, target)
        if pilot is None or not pilot.live:
            return Done("it is gone")
        pilot.draining = True
        if pilot.state is SiteState.PENDING:
            self.end(pilot, SiteState.ENDED, "withdrawn", cause="withdrawn")
        elif not pilot.jobs:
            # A worker needs a moment to leave.
            self.after(2, self._drained, pilot)
        self._show_slot(pilot)
        return Done()

    def _drained(self, pilot: SimPilot) -> None:
        if pilot.live and not pilot.jobs:
            self.end(pilot, SiteState.ENDED, "drained")

    def remove(self, site: SiteName, target: Target) -> Outcome:
        pilot = self._found(site, target)
        if pilot is None:
            return Done("it is not there")
        if pilot.live:
            self.ledger.breaks(f"unknown is not gone: {target.name} was removed while it was alive")
            if pilot.jobs:
                self.ledger.breaks(f"never kill: {target.name} was removed with {len(pilot.jobs)} jobs")
            self.end(pilot, SiteState.ENDED, "removed")
        self.forget(pilot)
        return Done()

    def _found(self, site: SiteName, target: Target) -> SimPilot | None:
        pilot = self.sites[site].pilots.get(target.name)
        if pilot is not None and target.native_id and target.native_id != pilot.native_id:
            return None
        return pilot

    def forget(self, pilot: SimPilot) -> None:
        site = self.sites[pilot.spec.site]
        site.pilots.pop(pilot.spec.name, None)
        self._publish((site, pilot.spec.name, None))

    # What can be seen

    def _show_pilot(self, pilot: SimPilot) -> None:
        spec = pilot.spec
        site = self.sites[spec.site]
        shown = SitePilot(
            name=spec.name,
            offer=spec.offer,
            pool=spec.pool,
            size=spec.size,
            state=pilot.state,
            since=Instant(pilot.since),
            asked_at=Instant(pilot.asked_at),
            traits=spec.traits,
            owner=spec.owner,
            native_id=pilot.native_id,
            node=pilot.node,
            note=pilot.note,
        )
        self._publish((site, spec.name, shown))

    def _publish(self, about: tuple[SimSite, PilotName, SitePilot | None]) -> None:
        if about[0].behaviour.lag_s:
            self.after(about[0].behaviour.lag_s, self._published, about)
        else:
            self._published(about)

    @staticmethod
    def _published(about: tuple[SimSite, PilotName, SitePilot | None]) -> None:
        site, name, shown = about
        site.listing = None
        if shown is None:
            site.listed.pop(name, None)
        else:
            site.listed[name] = shown

    def _show_slot(self, pilot: SimPilot) -> None:
        spec = pilot.spec
        pool = self.pools[spec.pool]
        pool.shown = None
        was = pool.slots.get(spec.name)
        pool.claimed += bool(pilot.jobs and pilot.live) - bool(was is not None and was.claims)
        if not pilot.live or pilot.joined_at is None:
            pool.open.pop(spec.name, None)
            pool.slots.pop(spec.name, None)
            return
        if pilot.draining or not any(pilot.free):
            pool.open.pop(spec.name, None)
        else:
            pool.open[spec.name] = pilot
        pool.slots[spec.name] = Slot(
            spec.name,
            Resources(*pilot.free),
            len(pilot.jobs),
            pilot.draining,
            None if pilot.ends_at is None else Instant(pilot.ends_at),
            pilot.jobs_run,
            pilot.jobs_failed,
        )

    def listing(self, name: SiteName) -> tuple[SitePilot, ...]:
        site = self.sites[name]
        if site.listing is None:
            site.listing = tuple(site.listed.values())
        return site.listing

    def slots(self, name: PoolName) -> tuple[Slot, ...]:
        pool = self.pools[name]
        if pool.shown is None:
            pool.shown = tuple(pool.slots.values())
        return pool.shown
