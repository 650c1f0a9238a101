"""What a cycle saw, sorted into what can be planned and what cannot be so.

A world comes in. Bad nodes, windows, records and jobs are taken out, each with what is wrong with it; jobs
that belong together are put together. One bad job never stops the plan of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from glidepath.core.because import Because
from glidepath.core.quantity import Instant
from glidepath.core.schedule.cluster import Cluster, Flaw, NodeState, sound
from glidepath.core.schedule.fairshare import sound_shares, sound_usage
from glidepath.core.schedule.job import Book, Job, JobName, Place, Running, Used, World
from glidepath.core.schedule.refuse import Refusal, Refuser, circles
from glidepath.core.schedule.together import Emptied

Row = tuple[Job, ...]


@dataclass(frozen=True)
class Unit:
    """What starts at the same time: rows of jobs that share nodes, the last to come first."""

    rows: tuple[Row, ...]
    pinned: tuple[tuple[str, ...], ...]  # [row] the only nodes it may have, none for any


@dataclass(frozen=True)
class Loss:
    """A running job that lost nodes, and what it has left."""

    running: Running
    left: tuple[Place, ...]


@dataclass(frozen=True)
class Sifted:
    now: Instant
    cluster: Cluster
    running: tuple[Running, ...]  # what takes room, with the nodes it still has
    losses: tuple[Loss, ...]
    unsure: tuple[JobName, ...]
    units: tuple[Unit, ...]
    refusals: tuple[Refusal, ...]
    flaws_of_cluster: tuple[Flaw, ...]
    flaws_of_shares: tuple[Flaw, ...]
    flaws: tuple[Flaw, ...]  # these and all others
    used: tuple[Used, ...]
    back_s: int  # how far the clock went back
    quiet: int = 0  # how many more run that nothing is to be done about


def sift(world: World, book: Book, last_at: Instant) -> Sifted:
    now = max(world.now, last_at)
    cluster, found = sound(world.cluster)
    flaws = list(found)
    used, bad_usage = sound_usage(world.used, now)
    bad_shares = sound_shares(book.shares)[1]
    flaws += bad_usage + bad_shares
    running, losses, unsure = _running(world.running, cluster)
    flaws += [
        Flaw(
            f"job:{one.job.name}",
            f"it started {one.started_at - now} s from now",
            "an instant that has passed",
        )
        for one in running
        if one.started_at > now
    ]
    running = [one if one.started_at <= now else replace(one, started_at=now) for one in running]
    units, refusals = sift_jobs(world.waiting, world.running, Refuser(cluster, book, now))
    return Sifted(
        now=now,
        cluster=cluster,
        running=tuple(sorted(running, key=lambda one: one.job.name)),
        losses=tuple(losses),
        unsure=tuple(unsure),
        units=units,
        refusals=refusals,
        flaws_of_cluster=found,
        flaws_of_shares=tuple(bad_shares),
        flaws=tuple(flaws),
        used=tuple(used),
        back_s=now - world.now,
    )


def _running(
    all_running: Iterable[Running], cluster: Cluster
) -> tuple[list[Running], list[Loss], list[JobName]]:
    state = {node.name: node.state for node in cluster.nodes}
    running, losses, unsure = [], [], []
    for one in all_running:
        left = tuple(p for p in one.places if state.get(p.node, NodeState.LOST) is not NodeState.LOST)
        if len(left) < len(one.places):
            losses.append(Loss(one, left))
        elif any(state[place.node] is NodeState.UNSURE for place in left):
            unsure.append(one.job.name)
        if len(left) == one.job.ask.nodes:
            running.append(one)
        elif left:
            # Also of a job that is ended for it: until it is gone its room is not free.
            ask = replace(one.job.ask, nodes=len(left))
            running.append(replace(one, job=replace(one.job, ask=ask), places=left))
    return running, losses, unsure


def sift_jobs(
    waiting: Iterable[Job], running: Iterable[Running], refuser: Refuser
) -> tuple[tuple[Unit, ...], tuple[Refusal, ...]]:
    """Jobs that can be planned, put together where they belong together, and those that can never run."""
    runs = {one.job.name: one for one in running}
    jobs: dict[JobName, Job] = {}
    refusals: list[Refusal] = []
    for job in waiting:
        if job.name in jobs or job.name in runs:
            refusals.append(Refusal(job.name, Because.NAMED_TWICE, "another name"))
            continue
        no = refuser.refusal(job)
        if no is None:
            jobs[job.name] = job
        else:
            refusals.append(no)
    joined = {name: job for name, job in jobs.items() if job.beside is not None}
    if joined:
        found = _bad_pairs(jobs, joined, runs, {})
        large = _too_large(_units(_without(jobs, found), runs), refuser)
        if large:
            found = _bad_pairs(jobs, joined, runs, {**found, **large})
        refusals += found.values()
        jobs = _without(jobs, found)
    return _units(jobs, runs), tuple(refusals)


def _without(jobs: Mapping[JobName, Job], bad: Mapping[JobName, Refusal]) -> dict[JobName, Job]:
    return {name: job for name, job in jobs.items() if name not in bad}


def _too_large(units: Iterable[Unit], refuser: Refuser) -> dict[JobName, Refusal]:
    """Jobs for which there could never be room together with whom they are beside; alone, those may run."""
    emptied = Emptied(refuser.cluster, refuser.book, refuser.now)
    refusals = {}
    for unit in units:
        jobs = [job for row in unit.rows for job in row]
        if len(jobs) > 1 and not emptied.holds(unit.rows, unit.pinned):
            names = {job.name for job in jobs}
            for job in jobs:
                if job.beside in names:
                    others = ", ".join(sorted(names - {job.name}))
                    accepted = "smaller jobs, or jobs that need not start together"
                    refusals[job.name] = Refusal(
                        job.name, Because.BESIDE_TOO_LARGE, accepted, (("beside", others),)
                    )
    return refusals


def _bad_pairs(
    jobs: Mapping[JobName, Job],
    joined: Mapping[JobName, Job],
    runs: Mapping[JobName, Running],
    known: Mapping[JobName, Refusal],
) -> dict[JobName, Refusal]:
    """Jobs that cannot be beside whom they name; whoever hangs on such a one goes with it."""
    refusals: dict[JobName, Refusal] = dict(known)
    for name in sorted(circles(jobs)):
        refusals[name] = Refusal(name, Because.BESIDE_CIRCLE, "a job that is beside none of them")
    for _ in range(len(joined) + 1):
        found = len(refusals)
        for job in joined.values():
            if job.name not in refusals and (no := _bad_pair(job, jobs, runs, refusals)):
                refusals[job.name] = no
        if len(refusals) == found:
            break
    return refusals


def _bad_pair(
    job: Job,
    jobs: Mapping[JobName, Job],
    runs: Mapping[JobName, Running],
    refusals: Mapping[JobName, Refusal],
) -> Refusal | None:
    assert job.beside is not None
    if job.beside in runs:
        if job.same_node and job.ask.nodes > len(runs[job.beside].places):
            return Refusal(job.name, Because.BESIDE_UNLIKE, f"at most {len(runs[job.beside].places)} nodes")
        return None
    if job.beside in refusals:
        return Refusal(job.name, Because.BESIDE_REFUSED, "a job that can run", (("beside", job.beside),))
    if job.beside not in jobs:
        return Refusal(job.name, Because.BESIDE_GONE, "a job that waits or runs", (("beside", job.beside),))
    other = jobs[job.beside]
    if job.queue is not other.queue:
        return Refusal(job.name, Because.BESIDE_UNLIKE, f"the queue {other.queue.value}")
    if not job.same_node:
        return None
    if (job.ask.nodes, job.partition, job.project) != (other.ask.nodes, other.partition, other.project):
        accepted = f"{other.ask.nodes} nodes of {other.partition} for the same project"
        return Refusal(job.name, Because.BESIDE_UNLIKE, accepted)
    both_gpus = all(one.ask.gpu_milli or one.ask.size.gpus for one in (job, other))
    if both_gpus and (job.ask.gpu_milli or other.ask.gpu_milli):
        return Refusal(job.name, Because.BESIDE_UNLIKE, "whole GPUs for both, or GPUs for one of them")
    return None


def _units(jobs: Mapping[JobName, Job], runs: Mapping[JobName, Running]) -> tuple[Unit, ...]:
    """In order of arrival; who belongs together stands where the last of them came."""
    root: dict[JobName, JobName] = {}
    for job in jobs.values():
        at = job
        while at.beside is not None and at.beside in jobs:
            at = jobs[at.beside]
        root[job.name] = at.name
    together: dict[JobName, list[Job]] = {}
    for job in jobs.values():
        # Taken out and put in again: the unit moves to where its last member stands.
        members = together.pop(root[job.name], [])
        together[root[job.name]] = [*members, job]
    return tuple(_unit(members, runs) for members in together.values())


def _unit(members: list[Job], runs: Mapping[JobName, Running]) -> Unit:
    if len(members) == 1:
        return Unit(((members[0],),), (_pinned(members[0], runs),))
    names = {job.name: job for job in members}
    lead: dict[JobName, JobName] = {}
    for job in members:
        at = job
        while at.same_node and at.beside in names:
            at = names[at.beside]
        lead[job.name] = at.name
    rows: dict[JobName, list[Job]] = {}
    for job in sorted(members, key=lambda job: lead[job.name] != job.name):
        rows.setdefault(lead[job.name], []).append(job)
    made = tuple(tuple(row) for row in reversed(list(rows.values())))
    return Unit(made, tuple(_pinned(row[0], runs) for row in made))


def _pinned(job: Job, runs: Mapping[JobName, Running]) -> tuple[str, ...]:
    if job.same_node and job.beside is not None and job.beside in runs:
        return tuple(sorted(place.node for place in runs[job.beside].places))
    return ()
