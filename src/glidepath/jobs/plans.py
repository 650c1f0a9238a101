"""What would be: a job or a wish comes in, starts and sentences of the scheduler's next plan go out.

It is asked of the same plan, from what the scheduler last wrote down. Nothing is changed here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from glidepath.config import account_terms, book_of, placed_of
from glidepath.core.cycle import Reason
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Window
from glidepath.core.schedule.job import Book, Job, JobName, Memory, World
from glidepath.jobs.desk import Item
from glidepath.jobs.doors import Doors, Now
from glidepath.jobs.errors import Unanswered
from glidepath.jobs.items import likely_item
from glidepath.jobs.submission import MEMORY_MIB
from glidepath.journal.placing import PlacingJournal
from glidepath.journal.rights import read_accounts
from glidepath.machinecode import spare
from glidepath.store.placed import PlacedJob, Stands
from glidepath.store.sights import Found

# A scheduler that has not written for so long does not run.
SILENT_S_MAX = 60
# More are not read by anybody.
AFFECTED_MAX = 1000
# What stands for a job that the caller may not see.
SOMEBODYS = JobName("a job of others")

Sees = Callable[[JobName], bool]


@dataclass(frozen=True, slots=True)
class Start:
    """When and where something would start; `why` where it never would."""

    at: Instant | None
    nodes: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would be said to a wish for another limit."""

    granted: bool
    reason: str


@dataclass
class Plans:
    """Of one store, for any thread. What was read of each cluster is kept, so that only changes are read."""

    doors: Doors
    _kept: dict[str, PlacingJournal] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def silent(self, cluster: str) -> bool:
        written = self.doors.placing(cluster).written_wall_s()
        return written is None or self.doors.wall() - written > SILENT_S_MAX

    def start_of(self, cluster: str, job: Job) -> Start:
        """If it were submitted now."""
        world, book, memory = self._world(cluster, also=(job,))
        from glidepath.core.schedule.acts import Refuse
        from glidepath.core.schedule.acts import Start as Starting
        from glidepath.core.schedule.decide import decide
        from glidepath.core.schedule.starts import starts_of

        if why := dict(world.shut_out).get(job.project):
            return Start(None, why=why)
        # Room for it, too, where it is a batch job: the question is when it could start.
        book = replace(book, keep=len(world.waiting))
        schedule = decide(world, book, memory)
        for decision in schedule.plan.decisions:
            if decision.about == f"job:{job.name}":
                if isinstance(decision.action, Refuse):
                    return Start(None, why=str(decision.reason))
                facts = dict(decision.reason.facts)
                if isinstance(decision.action, Starting) or "nodes" in facts:
                    nodes = tuple(filter(None, str(facts.get("nodes", "")).split(", ")))
                    return Start(starts_of(schedule).get(job.name), nodes)
        return Start(None)

    def likely(self, found: Iterable[Found], now: Now) -> dict[int, Item]:
        """Of those that wait and are promised nothing: a start with its range, where a plan has one."""
        said: dict[int, Item] = {}
        by_cluster: dict[str, list[PlacedJob]] = {}
        clusters = placed_of(self.doors.settings)
        for one in found:
            if not isinstance(one, PlacedJob) or one.stands is not Stands.QUEUED or one.promise is not None:
                continue
            cluster = clusters.get(one.job.spec.partition)
            if cluster is not None:
                by_cluster.setdefault(cluster, []).append(one)
        for cluster, jobs in by_cluster.items():
            if not self.silent(cluster):
                said |= self._likely(cluster, jobs, now)
        return said

    def _likely(self, cluster: str, jobs: Iterable[PlacedJob], now: Now) -> dict[int, Item]:
        try:
            world, book, memory = self._world(cluster)
        except Unanswered:
            return {}
        from glidepath.core.schedule.estimate import estimates

        waiting = {job.name for job in world.waiting}
        names = [one.record.job.name for one in jobs if one.record.job.name in waiting]
        found = estimates(world, book, memory, names, planned_only=True)
        return {int(name): likely_item(one, now) for name, one in found.items()}

    def affected(
        self, cluster: str, before: tuple[Window, ...], after: tuple[Window, ...], now: Now
    ) -> list[Item]:
        """Whose start or end is another one with other windows of the calendar, beside those of settings."""
        world, book, memory = self._world(cluster)
        from glidepath.core.schedule.cut import cut_by, waits_again
        from glidepath.core.schedule.decide import decide
        from glidepath.core.schedule.starts import moves, starts_of

        own = tuple(window for window in world.cluster.windows if not window.number)
        worlds = [
            replace(world, cluster=replace(world.cluster, windows=(*own, *calendar)))
            for calendar in (before, after)
        ]
        found: list[Item] = []
        for one in world.running:
            cuts = [cut_by(one, each.cluster.windows, world.now) for each in worlds]
            limit_s = one.job.limit_s
            limit_at = None if limit_s is None else Instant(one.started_at + limit_s)
            ends = [limit_at if cut is None else cut.opens_at for cut in cuts]
            if ends[0] != ends[1]:
                then = "" if cuts[1] is None else "waits again" if waits_again(one.job) else "is over"
                found.append(_affected(one.job, "ends", (now.text(ends[0]), now.text(ends[1])), then))
        starts = [starts_of(decide(each, book, memory)) for each in worlds]
        jobs = {job.name: job for job in world.waiting}
        for move in moves(world, *starts):
            after_text = None if move.after is None else now.text(move.after)
            found.append(_affected(jobs[move.job], "starts", (now.text(move.before), after_text)))
        return found[:AFFECTED_MAX]

    def verdict(self, found: PlacedJob, limit_s: int, *, forced: bool) -> Verdict:
        world, book, memory = self._world(self.doors.cluster_of(found.job.spec.partition))
        from glidepath.core.schedule.extend import Extension, extended

        impact = extended(world, book, memory, Extension(found.record.job.name, limit_s, forced))
        return Verdict(impact.granted, str(impact.reason))

    def explained(self, found: PlacedJob, now: Now, sees: Sees) -> tuple[str, ...]:
        """Why it waits or runs; other jobs are named to those who may see them."""
        cluster = self.doors.cluster_of(found.job.spec.partition)
        world, book, memory = self._world(cluster)
        from glidepath.core.schedule.explain import explained, lines

        told = explained(world, book, memory, found.record.job.name)

        def named(job: JobName) -> JobName:
            return job if sees(job) else SOMEBODYS

        told = replace(
            told,
            near="",
            holders=tuple(replace(one, job=named(one.job)) for one in told.holders),
            reasons=tuple(_reason(one, named) for one in told.reasons),
        )
        said = lines(told, lambda at: now.text(at) or "never")
        said += [f"cluster `{cluster}`: {note}" for note in world.cluster.notes]
        if found.record.job.ask.size.memory_mib != MEMORY_MIB:
            said += self.unkept(found)
        if self.silent(cluster):
            said.append("nobody plans at present: `glidepath up` does not run")
        return tuple(said)

    def unkept(self, found: PlacedJob) -> tuple[str, ...]:
        """Which limits of jobs are not kept where it is, for whoever asked for one or ended at one."""
        cluster = self.doors.cluster_of(found.job.spec.partition)
        seen = self.doors.placing(cluster).seen_cluster()
        return tuple(f"cluster `{cluster}`: {note}" for note in seen.unkept) if seen is not None else ()

    def _world(self, cluster: str, *, also: tuple[Job, ...] = ()) -> tuple[World, Book, Memory]:
        """What the next plan would be made of, from what is in the store."""
        doors = self.doors
        spare(sum(doors.placed.counts().values()))  # Before anything of the scheduler is imported.
        from glidepath.core.place.turn import PlaceMemory, Word, with_accounts, world_of

        with self._lock:
            journal = self._journal(cluster)
            nodes = journal.seen_cluster()
            if nodes is None or not nodes.nodes:
                raise Unanswered(
                    f"no node of the cluster `{cluster}` has been seen yet",
                    hint="start it with `glidepath up`",
                )
            memory, _ = journal.memory()
            roll = journal.roll()
        words = tuple(Word(pause.about, pause.drain) for pause in doors.journal.pauses())
        now, accounting = doors.clock().now(), doors.settings.accounting
        accounts = read_accounts(doors.store, now, account_terms(accounting))
        world = world_of(roll, nodes, PlaceMemory(memory), words=words, now=now)
        book = replace(book_of(doors.settings.clusters[cluster], accounting), shares=accounts.shares)
        world = replace(world, waiting=(*world.waiting, *also))
        return with_accounts(world, accounts), book, memory

    def _journal(self, cluster: str) -> PlacingJournal:
        fresh = self.doors.placing(cluster)
        kept = self._kept.get(cluster)
        if kept is None or kept.partitions != fresh.partitions:
            self._kept[cluster] = kept = fresh
        return kept


def _affected(job: Job, what: str, times: tuple[str | None, str | None], then: str = "") -> Item:
    """One job that a window is about; no time where there is none."""
    of = {"job": int(job.name), "owner": str(job.owner), "project": str(job.project)}
    return {**of, "what": what, "before": times[0], "after": times[1], "then": then}


def _reason(reason: Reason, named: Callable[[JobName], JobName]) -> Reason:
    """The reasons name other jobs as those that come before, and those that it is beside."""
    facts = []
    for key, value in reason.facts:
        if key in ("before", "beside", "first"):
            value = ", ".join(named(JobName(job)) for job in str(value).split(", "))
        facts.append((key, value))
    return replace(reason, facts=tuple(facts))
