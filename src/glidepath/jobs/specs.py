"""A wish as a job of the store: where it goes and who pays come out of the settings and of who asks.

It refuses to know stores and schedulers. What the wish says was checked when it was read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from glidepath.config import Settings, partitions_of, placed_of
from glidepath.config.cluster import PartitionSettings
from glidepath.core.place.rank import File, Volume
from glidepath.core.quantity import Instant, Resources
from glidepath.core.schedule.cluster import Queue
from glidepath.core.schedule.job import OnLoss
from glidepath.core.text import nearest, one_line
from glidepath.jobs.caller import Caller
from glidepath.jobs.errors import Forbidden, Unknown, Unusable
from glidepath.jobs.submission import Submission, unusable
from glidepath.jobs.values import ENDLESS, wall_of
from glidepath.store.job import JobSpec
from glidepath.store.placed_spec import PlacedSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Goal:
    """The partition that a wish is for, and whether jobs are placed there."""

    partition: str
    placed: bool


def no_such(what: str, name: str, known: list[str]) -> Unknown:
    near = nearest(name, known)
    hint = f"; did you mean `{near}`?" if near else ""
    return Unknown(f"no {what} is named `{one_line(name)}`{hint}")


def goal_of(wish: Submission, settings: Settings) -> Goal:
    pulled = [name for name, _ in partitions_of(settings)]
    placed = list(placed_of(settings))
    if wish.partition is not None:
        if wish.partition in placed:
            return Goal(wish.partition, True)
        if wish.partition not in pulled:
            raise no_such("partition", wish.partition, [*pulled, *placed])
        why = f"is for jobs that are placed, and pilots take those of `{wish.partition}`"
        if wish.placed_only:
            raise unusable(tuple((key, f"`{key}` {why}") for key in wish.placed_only))
        return Goal(wish.partition, False)
    if pulled and not wish.placed_only:
        return Goal(pulled[0], False)
    if not placed:
        raise Unusable("no partition of a cluster is configured, so no job can be placed")
    return Goal(placed[0], True)


def job_spec(wish: Submission, caller: Caller, partition: str, run_s_max: int | None) -> JobSpec:
    return JobSpec(
        partition=partition,
        owner=caller.name,
        command=wish.command,
        name=wish.name,
        env=wish.env,
        request=Resources(wish.cpus, wish.mem, wish.disk, wish.gpus),
        traits=wish.trait,
        run_s_max=run_s_max,
        retries_max=wish.retries,
    )


def pulled_spec(wish: Submission, caller: Caller, goal: Goal) -> JobSpec:
    limit_s = None if wish.time == ENDLESS else wish.time
    return _checked(lambda: job_spec(wish, caller, goal.partition, limit_s))


def placed_spec(
    wish: Submission, caller: Caller, rules: PartitionSettings, *, partition: str, when: When
) -> PlacedSpec:
    if not caller.pays(wish.project):
        raise Forbidden(f"`{one_line(wish.project)}` is none of your projects, so it cannot pay")
    limit_s = rules.limit_default if wish.time is None else wish.time
    queue, queue_why = queue_of(wish, rules)
    return _checked(
        lambda: PlacedSpec(
            job=job_spec(wish, caller, partition, None if limit_s == ENDLESS else limit_s),
            queue=queue,
            queue_why=queue_why,
            project=wish.project,
            nodes=wish.ranks,
            gpu_milli=wish.gpu_share,
            gpu_kinds=wish.gpu_kind,
            runtime=wish.runtime,
            exclusive=wish.exclusive,
            image=wish.image,
            workdir=wish.workdir,
            files=tuple(File(each.path, each.content, each.mode) for each in wish.files),
            volumes=tuple(Volume(each.name, each.path, each.read_only) for each in wish.volumes),
            shm_mib=wish.shm,
            ports=wish.port,
            terminal=wish.terminal,
            first_at=when.instant(wish.start_after),
            latest_at=when.instant(wish.start_before),
            deadline_at=when.instant(wish.deadline),
            beside=wish.beside,
            same_node=wish.same_node,
            on_loss=OnLoss(wish.on_loss.replace("-", " ")),
            stoppable=wish.stoppable,
            notice_s=wish.notice,
            gather_s=wish.gather,
        )
    )


@dataclass(frozen=True, slots=True)
class When:
    """What turns a time as people write it into an instant."""

    wall: float
    at_wall: Callable[[float], Instant]

    def instant(self, text: str | None) -> Instant | None:
        return None if text is None else self.at_wall(wall_of(text, wall=self.wall))


def queue_of(wish: Submission, rules: PartitionSettings) -> tuple[Queue, str]:
    """As it is said; else interactive for what people look at, and batch for the rest; and then why."""
    if wish.queue:
        return Queue(wish.queue), ""
    if len(rules.queues) == 1:
        return Queue(rules.queues[0]), "because its partition has no other"
    if wish.terminal or wish.port:
        what = "asks for a terminal" if wish.terminal else "serves at a port"
        return Queue.INTERACTIVE, f"because it {what}"
    return Queue.BATCH, "because it serves at no port and asks for no terminal"


def _checked(make: Callable[[], T]) -> T:
    """What only shows when everything comes together, such as the name of the caller."""
    try:
        return make()
    except ValueError as error:
        raise Unusable(str(error)) from None
