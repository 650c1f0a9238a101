"""A placed job for people: what the store knows of it comes in, items, cards and starts go out.

What would be is asked of the same plan that the scheduler makes, from what it last wrote down. Nothing is
changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glidepath.cli.jobview import item_of
from glidepath.cli.output import span
from glidepath.cli.session import iso
from glidepath.cli.verb import Exit, Stop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glidepath.cli.session import Session
    from glidepath.core.place.rank import RankSeen
    from glidepath.core.quantity import Instant
    from glidepath.core.schedule.job import Book, Job, Memory, World
    from glidepath.journal.placing import PlacingJournal
    from glidepath.store.placed import PlacedJob

# A scheduler that has not written for so long does not run.
SILENT_S_MAX = 60
ANSWER_S_MAX = 10.0
ANSWER_LOOK_S = 0.05
EVENTS_SHOWN = 20


def placed_item(found: PlacedJob, session: Session) -> dict[str, Any]:
    """The item that every job has, and what only a placed one has."""
    spec, record = found.spec, found.record
    item = item_of(found.job, session.wall())
    promise = found.promise
    return {
        **item,
        "state": found.stands,
        "queue": spec.queue.value,
        "project": spec.project,
        "image": spec.image,
        "ranks": spec.nodes,
        "run_s_max": record.job.limit_s,
        "nodes": [place.node for place in record.places],
        "start": start_of(found, session),
        "promised": None if promise is None else at_text(promise.at, session),
        "promised_first": None if promise is None else at_text(promise.first, session),
        "moved": 0 if promise is None else promise.moved,
        "ends": ends_of(found, session),
        "beside": spec.beside,
        "on_loss": spec.on_loss.value,
        "files": [file.path for file in spec.files],
        "ports": list(spec.ports),
    }


def start_of(found: PlacedJob, session: Session) -> str | None:
    """When it began, or is to begin."""
    if found.record.began_at is not None:
        return at_text(found.record.began_at, session)
    if found.job.started_wall is not None:
        return iso(found.job.started_wall)
    return None if found.promise is None else at_text(found.promise.at, session)


def ends_of(found: PlacedJob, session: Session) -> str | None:
    record = found.record
    if record.began_at is None or record.job.limit_s is None or found.job.ended_wall is not None:
        return None
    from glidepath.core.quantity import Instant

    return at_text(Instant(record.began_at + record.job.limit_s), session)


def at_text(at: Instant, session: Session) -> str | None:
    """An instant on the clock of people; nothing for never."""
    from glidepath.core.place.record import NEVER

    return None if at >= NEVER else iso(session.wall() + (at - session.clock.now()))


def placed_pairs(
    item: dict[str, Any], ranks: Sequence[tuple[int, RankSeen]], events: Sequence[Any]
) -> list[tuple[str, object]]:
    """The lines of a card below those that every job has."""
    pairs: list[tuple[str, object]] = [("queue", item["queue"]), ("project", item["project"])]
    pairs += [("image", item["image"]), ("ranks", item["ranks"] if item["ranks"] > 1 else "")]
    pairs += [("nodes", ", ".join(item["nodes"])), ("start", item["start"]), ("ends", item["ends"])]
    if item["promised_first"] and item["promised_first"] != item["promised"]:
        pairs.append(("first promised", item["promised_first"]))
    pairs += [("beside", item["beside"]), ("files", ", ".join(item["files"]))]
    for attempt, rank in ranks:
        end = f"{rank.state.value} {rank.cause.value}".strip()
        code = f" exit {rank.exit_code}" if rank.exit_code is not None else ""
        why = f": {rank.why}" if rank.why else ""
        pairs.append((f"rank {rank.rank} of {attempt}", f"{end}{code} on {rank.node}{why}"))
    for event in events[-EVENTS_SHOWN:]:
        text = event.text if event.text == event.kind else f"{event.kind}: {event.text}"
        pairs.append((f"{iso(event.wall_s)}", text))
    return pairs


def rank_item(attempt: int, rank: RankSeen, session: Session) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "rank": rank.rank,
        "node": str(rank.node),
        "state": rank.state.value,
        "cause": rank.cause.value,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "why": rank.why,
        "began": None if rank.began_at is None else at_text(rank.began_at, session),
        "ended": None if rank.ended_at is None else at_text(rank.ended_at, session),
    }


def placing_journal(session: Session, cluster: str) -> PlacingJournal:
    from glidepath.config import placed_of
    from glidepath.journal.placing import PlacingJournal

    partitions = tuple(name for name, of in placed_of(session.located.settings).items() if of == cluster)
    return PlacingJournal(session.store, cluster, partitions)


def cluster_of_partition(session: Session, partition: str) -> str:
    from glidepath.config import placed_of

    found = placed_of(session.located.settings).get(partition)
    if found is None:
        raise Stop(f"the partition `{partition}` is not one of a cluster any more", code=Exit.NOT_FOUND)
    return found


def scheduler_is_silent(session: Session, cluster: str) -> bool:
    written = placing_journal(session, cluster).written_wall_s()
    return written is None or session.wall() - written > SILENT_S_MAX


def planned_world(session: Session, cluster: str) -> tuple[World, Book, Memory]:
    """What the next plan would be made of, from what is in the store."""
    from glidepath.machinecode import spare

    spare(sum(session.placed.counts().values()))  # Before anything of the scheduler is imported.
    from glidepath.config import book_of
    from glidepath.core.place.turn import PlaceMemory, Word, world_of

    journal = placing_journal(session, cluster)
    nodes = journal.seen_cluster()
    if nodes is None or not nodes.nodes:
        raise Stop(
            f"no node of the cluster `{cluster}` has been seen yet", hint="start it with `glidepath up`"
        )
    memory, _ = journal.memory()
    words = tuple(Word(pause.about, pause.drain) for pause in session.journal.pauses())
    now = session.clock.now()
    world = world_of(journal.roll(), nodes, PlaceMemory(memory), words=words, now=now)
    return world, book_of(session.located.settings.clusters[cluster]), memory


def would_start(session: Session, cluster: str, job: Job) -> tuple[Instant | None, str]:
    """When a job would start if it were submitted now, and on which nodes; or why it never would."""
    from dataclasses import replace

    world, book, memory = planned_world(session, cluster)
    from glidepath.core.schedule.acts import Refuse, Start
    from glidepath.core.schedule.decide import decide
    from glidepath.core.schedule.starts import starts_of

    # Room for it, too, where it is a batch job: the question is when it could start.
    book = replace(book, keep=len(world.waiting) + 1)
    schedule = decide(replace(world, waiting=(*world.waiting, job)), book, memory)
    for decision in schedule.plan.decisions:
        if decision.about == f"job:{job.name}":
            if isinstance(decision.action, Refuse):
                return None, str(decision.reason)
            facts = dict(decision.reason.facts)
            if isinstance(decision.action, Start) or "nodes" in facts:
                return starts_of(schedule).get(job.name), str(facts.get("nodes", ""))
    return None, ""


def answer_to(session: Session, number: int, sleep: Any) -> PlacedJob:
    """The job once the scheduler has said something of it, or as it is after the longest wait for that."""
    from glidepath.core.place.record import Phase
    from glidepath.core.schedule.cluster import Queue

    found = session.placed.get(number)
    journal = placing_journal(session, cluster_of_partition(session, found.job.spec.partition))
    before = journal.cycle()
    for _ in range(int(ANSWER_S_MAX / ANSWER_LOOK_S)):
        found = session.placed.get(number)
        looked_at = journal.cycle() > before + 1 and found.spec.queue is Queue.BATCH
        if found.record.phase is not Phase.WAITS or found.promise is not None or looked_at:
            break
        sleep(ANSWER_LOOK_S)
    return found


def told_start(found: PlacedJob, session: Session) -> str:
    """The sentence that answers a submission."""
    from glidepath.core.place.record import Phase
    from glidepath.core.schedule.cluster import Queue

    who = f"job {found.id}"
    if found.record.phase is Phase.OVER:
        return f"{who} is {found.stands}: {found.job.reason}"
    if found.record.phase is not Phase.WAITS:
        nodes = ", ".join(place.node for place in found.record.places)
        return f"{who} starts now on {nodes}"
    promised = None if found.promise is None else at_text(found.promise.at, session)
    if found.promise is not None and promised is not None:
        wait_s = max(found.promise.at - session.clock.now(), 0)
        nodes = ", ".join(place.node for place in found.promise.places)
        return f"{who} starts at {promised} (in {span(wait_s)}) on {nodes}: this is promised"
    if found.spec.queue is Queue.BATCH:
        ahead = session.placed.ahead(found.id)
        return (
            f"{who} waits in the batch queue, {ahead} before it; `glidepath job explain {found.id}` says more"
        )
    return f"{who} waits, and no start can be promised yet; `glidepath job explain {found.id}` says why"


def explained(session: Session, found: PlacedJob) -> tuple[str, ...]:
    """Why it waits, runs or is over, from the plan as the next turn would make it."""
    from glidepath.core.place.record import Phase

    if found.record.phase is Phase.OVER:
        why = f": {found.job.reason}" if found.job.reason else ""
        return (f"job `{found.id}` is over, {found.stands}{why}",)
    cluster = cluster_of_partition(session, found.job.spec.partition)
    world, book, memory = planned_world(session, cluster)
    from glidepath.core.schedule.explain import explained as explanation_of
    from glidepath.core.schedule.explain import lines

    told = explanation_of(world, book, memory, found.record.job.name)
    said = lines(told, lambda at: at_text(at, session) or "never")
    if scheduler_is_silent(session, cluster):
        said.append("nobody plans at present: `glidepath up` does not run")
    return tuple(said)
