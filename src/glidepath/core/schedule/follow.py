"""One table from plan to plan: worlds come in one after the other, and each plan is the one of `decide`.

Jobs that came, started, ended or went since the last world change their rows and nothing else. Whatever is
different beyond that (nodes, windows, the book, jobs that belong together, a memory that is not the one that
was handed out last) makes the table anew, which is always right and only slower.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import NodeState
from glidepath.core.schedule.cut import cut_by
from glidepath.core.schedule.decide import Schedule, scheduled, table_of, teach
from glidepath.core.schedule.fairshare import sound_usage
from glidepath.core.schedule.job import Book, Job, JobName, Memory, Running, World
from glidepath.core.schedule.order import Kind, learn
from glidepath.core.schedule.placing import RUNS
from glidepath.core.schedule.plan import view_of
from glidepath.core.schedule.refuse import Refusal, Refuser
from glidepath.core.schedule.sift import Sifted, sift
from glidepath.core.schedule.table import Table

# A table with more rows of jobs that are over than of others, and so many more, is made anew.
OVER_ROWS_MAX = 4096
# How many jobs are compared at once: few enough that one change costs little.
STRETCH = 256

T = TypeVar("T")


class Follower:
    """Plans of a world that goes on. `made` counts how often a table was made."""

    def __init__(self, kind: int = Kind.STEADY, *, over_rows_max: int = OVER_ROWS_MAX) -> None:
        self.kind, self.made, self.over_rows_max = kind, 0, over_rows_max
        self._known: Known | None = None
        self._last: Memory | None = None

    def schedule(self, world: World, book: Book, memory: Memory) -> Schedule:
        """The same as `decide`, sooner where little has changed since the last time."""
        # Taken out while it is worked on: if that breaks off, the next plan begins with a new table.
        known, self._known = self._known, None
        sifted = None
        if known is not None and memory is self._last and book == known.book:
            live = len(world.waiting) + len(world.running)
            if len(known.table.rows) <= 2 * live + self.over_rows_max:
                sifted = known.followed(world, memory)
        if known is None or sifted is None:
            sifted = sift(world, book, memory.at)
            table = table_of(sifted, book, memory)
            teach(table, world.ended)
            known, self.made = Known(world, sifted, table), self.made + 1
        view = view_of(world, sifted, self.kind)
        found = scheduled(known.table, sifted, memory, view)
        self._known, self._last = known, found.memory
        return found


class Known:
    """A table, and the world that it shows."""

    def __init__(self, world: World, sifted: Sifted, table: Table) -> None:
        self.table, self.book, self.sifted = table, table.book, sifted
        self.cluster = world.cluster
        self.refuser = Refuser(sifted.cluster, table.book, sifted.now)
        self.state = {node.name: node.state for node in sifted.cluster.nodes}
        self.waiting, self.ran = world.waiting, world.running
        self.running = {one.job.name: one for one in world.running}
        self.refused: dict[JobName, Refusal] = {no.job: no for no in sifted.refusals}
        self.timed = {job.name: job for job in world.waiting if _timed(job)}
        # Jobs that are beside others, and the others.
        self.tied = {job.name for job in world.waiting if job.beside is not None}
        tied_refused = any(name in self.tied for name in self.refused)
        self.tied |= {job.beside for job in world.waiting if job.beside is not None}
        # Running jobs that are looked at in every plan: without a row or a limit, or ended for a window.
        self.watched = {name for name, one in self.running.items() if self._is_watched(one)}
        self.unsure = set(sifted.unsure)
        whole = len(sifted.running) == len(world.running) == len(self.running)
        as_seen = whole and all(self.running[one.job.name] is one for one in sifted.running)
        twice = len({job.name for job in world.waiting} | self.running.keys()) < len(world.waiting) + len(
            self.running
        )
        # Worlds that are odd in a way that is seldom and mended soon are not followed.
        self.odd = not as_seen or twice or tied_refused or bool(sifted.losses) or self.refuser.for_ever

    def followed(self, world: World, memory: Memory) -> Sifted | None:
        """The table shows this world from now on; nothing where it cannot."""
        now = max(world.now, memory.at)
        same = world.cluster is self.cluster or world.cluster == self.cluster
        if self.odd or not same:
            return None
        self.refuser.turn_to(now)
        gone, come = difference(self.waiting, world.waiting)
        went = {job.name for job in gone}
        if self.tied & went or any(self._is_tied(job) or job.name in went for job in come):
            return None
        over: dict[JobName, int] = {}
        if not self._follow_running(world, now, went, over) or not self._follow_waiting(gone, come):
            return None
        if any(self.refuser.refusal(job) != self.refused.get(name) for name, job in self.timed.items()):
            return None
        self.waiting = world.waiting
        self.table.recall_promises(memory.promises)
        self._teach(world, over)
        return self._sifted(world, now, {promise.job for promise in memory.promises})

    def _is_tied(self, job: Job) -> bool:
        return job.beside is not None or job.name in self.tied

    def _is_watched(self, one: Running) -> bool:
        if one.job.limit_s is None or one.job.partition not in self.table.line_of:
            return True
        return cut_by(one, self.sifted.cluster.windows, self.sifted.now) is not None

    def _follow_running(
        self, world: World, now: Instant, went: set[JobName], over: dict[JobName, int]
    ) -> bool:
        """Rows of jobs that run; `over` has those that ended."""
        gone, come = difference(self.ran, world.running)
        self.ran = world.running
        # Who only stands elsewhere in the list goes on.
        moved = {one.job.name: one for one in come} if gone else {}
        ended = {one.job.name for one in gone if moved.get(one.job.name) != one}
        fresh = [one for one in come if self.running.get(one.job.name) != one]
        if self.tied and (self.tied & ended or any(one.job.name in self.tied for one in fresh)):
            return False
        for name in ended:
            self._drop(name, over)
            del self.running[name]
        self.watched -= ended
        self.unsure -= ended
        return all(self._starts(one, now, went) for one in fresh) and len(self.running) == len(world.running)

    def _starts(self, one: Running, now: Instant, went: set[JobName]) -> bool:
        """A job that is seen to run for the first time."""
        name, table = one.job.name, self.table
        self.running[name] = one
        states = [self.state.get(place.node, NodeState.LOST) for place in one.places]
        sound = len(one.places) == one.job.ask.nodes and NodeState.LOST not in states
        waits = (name in table.row_of or name in self.refused) and name not in went
        if not sound or waits or one.started_at > now:
            return False
        if NodeState.UNSURE in states:
            self.unsure.add(name)
        if self._is_watched(one):
            self.watched.add(name)
        at = table.row_of.get(name)
        if at is not None and table.rows[at] != (one.job,):
            self._drop(name, {})
        if one.job.partition in table.line_of:
            if name not in table.row_of:
                table.add((one.job,))
            table.start(one)
        return True

    def _follow_waiting(self, gone: list[Job], come: tuple[Job, ...]) -> bool:
        for job in gone:
            self.timed.pop(job.name, None)
            if self.refused.pop(job.name, None) is None and job.name not in self.running:
                self._drop(job.name, {})
        for job in come:
            if job.name in self.table.row_of or job.name in self.refused or job.name in self.running:
                return False
            no = self.refuser.refusal(job)
            if no is None:
                self.table.add((job,))
            else:
                self.refused[job.name] = no
            if _timed(job):
                self.timed[job.name] = job
        return True

    def _drop(self, name: JobName, over: dict[JobName, int]) -> None:
        if name in self.table.row_of:
            over[name] = self.table.row_of[name]
            self.table.end(name)

    def _teach(self, world: World, over: dict[JobName, int]) -> None:
        """A job that just ended has a row still, so that none is made to learn from it."""
        for one in world.ended:
            at = None if one.job.name in self.table.row_of else over.get(one.job.name)
            sound = one.job.limit_s is not None and one.run_s >= 0
            if at is not None and sound and self.table.rows[at] == (one.job,):
                learn(self.table.lore, at, one.run_s)
            else:
                self.table.learn_from(one.job, one.run_s)

    def _sifted(self, world: World, now: Instant, promised: set[JobName]) -> Sifted:
        """What `sift` would have found, of the running only those that something may be done about."""
        table = self.table
        count = len(table.rows)
        work = table.work
        late = (work.state[:count] == RUNS) & (work.at[:count] + work.span[:count] <= now)
        looked_at = self.watched | {table.rows[at][0].name for at in np.nonzero(late)[0].tolist()}
        # Who was promised a start and runs now is scored.
        looked_at |= promised & self.running.keys()
        running = tuple(self.running[name] for name in sorted(looked_at))
        unsure: tuple[JobName, ...] = ()
        if self.unsure:
            unsure = tuple(one.job.name for one in world.running if one.job.name in self.unsure)
        used, bad_usage = sound_usage(world.used, now)
        return replace(
            self.sifted,
            now=now,
            running=running,
            quiet=len(world.running) - len(running),
            unsure=unsure,
            units=(),
            refusals=tuple(self.refused.values()),
            flaws=(*self.sifted.flaws_of_cluster, *bad_usage, *self.sifted.flaws_of_shares),
            used=tuple(used),
            back_s=now - world.now,
        )


def _timed(job: Job) -> bool:
    """Whether a job may be refused later though it was not at first."""
    return job.latest_at is not None or job.deadline_at is not None


def difference(had: tuple[T, ...], have: tuple[T, ...]) -> tuple[list[T], tuple[T, ...]]:
    """Who is no longer there, and who came at the end; one that moved has gone and come."""
    gone: list[T] = []
    at, count = 0, len(have)
    for first in range(0, len(had), STRETCH):
        stretch = had[first : first + STRETCH]
        # Nearly always nothing has changed, and tuples of the same things are compared at once.
        if stretch == have[at : at + len(stretch)]:
            at += len(stretch)
            continue
        for one in stretch:
            if at < count and (have[at] is one or have[at] == one):
                at += 1
            else:
                gone.append(one)
    return gone, have[at:]
