"""A table that follows gives the plan of a new one, whatever happens to the world."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.acts import Start
from glidepath.core.schedule.cluster import Cluster, NodeState, Partition, PartitionName, ProjectName, Queue
from glidepath.core.schedule.decide import Schedule, decide
from glidepath.core.schedule.follow import Follower
from glidepath.core.schedule.job import (
    Ask,
    Book,
    Ended,
    Job,
    JobName,
    Memory,
    Place,
    Promise,
    Running,
    Share,
    Used,
    World,
)
from glidepath.core.schedule.later import Later
from schedule.worlds import cluster, job, node, window

BOOKS = (
    Book(),
    Book(keep=3, user_jobs_max=1),
    Book(keep=10, fair=True, user_cap=Resources(3000, 0, 0, 0)),
    Book(
        shares=(
            Share(ProjectName("p"), guarantee=Resources(4000, 0, 0, 0)),
            Share(ProjectName("q"), borrow=Resources(2000, 0, 0, 0)),
        )
    ),
)


def nodes() -> Cluster:
    made = cluster(
        node("a", 4),
        node("b", 4, jobs_max=3),
        node("c", 8, 2, gpu_kind="A10"),
        node("d", 8, 4, gpu_kind="T4"),
        windows=(window(40, 50, "a"), window(70, 80, "d", projects=("p",))),
        endless=True,
    )
    small = Partition(PartitionName("small"), (NodeName("a"), NodeName("b")), queues=(Queue.BATCH,))
    return replace(made, partitions=(*made.partitions, small))


WHERE: tuple[tuple[str, ...], ...] = ((), ("a",), ("b", "c"))


@dataclass
class Story:
    """A world to which things happen, seen by both."""

    book: Book
    cluster: Cluster = field(default_factory=nodes)
    now: int = 0
    count: int = 0
    waiting: list[Job] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    paused: tuple[str, ...] = ()
    used: tuple[Used, ...] = ()
    memory: Memory = field(default_factory=Memory)
    other: Memory = field(default_factory=Memory)
    follower: Follower = field(default_factory=Follower)
    last: Schedule | None = None

    def world(self) -> World:
        return World(
            now=Instant(self.now),
            cluster=self.cluster,
            waiting=tuple(self.waiting),
            running=tuple(self.running),
            ended=tuple(self.ended),
            used=self.used,
            paused=self.paused,
        )

    def plan(self) -> None:
        world = self.world()
        whole = decide(world, self.book, self.memory)
        followed = self.follower.schedule(world, self.book, self.other)
        assert followed.plan == whole.plan
        assert followed.memory == whole.memory
        self.memory, self.other, self.last = whole.memory, followed.memory, whole
        self.ended = []

    def submit(self, draw: st.DataObject) -> None:
        self.count += 1
        made = draw.draw(jobs())
        names = [one.name for one in self.waiting] + [one.job.name for one in self.running]
        if names and draw.draw(st.integers(0, 11)) == 0:
            made = replace(made, beside=draw.draw(st.sampled_from(names)), same_node=draw.draw(st.booleans()))
        self.waiting.append(replace(made, name=JobName(f"j{self.count}"), came_at=Instant(self.now)))

    def cancel(self, draw: st.DataObject) -> None:
        if self.waiting:
            del self.waiting[draw.draw(st.integers(0, len(self.waiting) - 1))]

    def start(self, draw: st.DataObject) -> None:
        """Some of what was planned is done, some is not."""
        known = {one.name: one for one in self.waiting}
        actions = self.last.plan.actions if self.last else ()
        for action in actions:
            if isinstance(action, Start) and action.job in known and draw.draw(st.integers(0, 4)):
                self.waiting.remove(known[action.job])
                self.running.append(Running(known[action.job], Instant(self.now), action.places))
        self.last = None

    def end(self, draw: st.DataObject) -> None:
        if self.running:
            one = self.running.pop(draw.draw(st.integers(0, len(self.running) - 1)))
            self.ended.append(Ended(one.job, self.now - one.started_at))

    def requeue(self, draw: st.DataObject) -> None:
        if self.running:
            one = self.running.pop(draw.draw(st.integers(0, len(self.running) - 1)))
            self.waiting.insert(draw.draw(st.integers(0, len(self.waiting))), one.job)

    def pause(self, draw: st.DataObject) -> None:
        words = ("queue:interactive", "queue:batch", "partition:small", "partition:main")
        self.paused = tuple(draw.draw(st.sets(st.sampled_from(words), max_size=2)))

    def node(self, draw: st.DataObject) -> None:
        at = draw.draw(st.integers(0, len(self.cluster.nodes) - 1))
        changed = list(self.cluster.nodes)
        changed[at] = replace(changed[at], state=draw.draw(st.sampled_from(NodeState)))
        self.cluster = replace(self.cluster, nodes=tuple(changed))

    def window(self, draw: st.DataObject) -> None:
        """One is made or moved, or all are cancelled."""
        first = self.now // 60 + draw.draw(st.integers(-2, 40))
        whose = draw.draw(st.sampled_from(({}, {"projects": ("p",)}, {"people": ("ann",)})))
        made = window(
            first, first + draw.draw(st.integers(1, 30)), *draw.draw(st.sampled_from(WHERE)), **whose
        )
        kept = draw.draw(st.sampled_from((self.cluster.windows[:1], ())))
        self.cluster = replace(self.cluster, windows=draw.draw(st.sampled_from(((*kept, made), ()))))

    def use(self, draw: st.DataObject) -> None:
        self.used = (
            Used(ProjectName("p"), Owner("ann"), draw.draw(st.integers(-1, 9)) * 1e6, Instant(self.now)),
        )

    def forget(self, draw: st.DataObject) -> None:
        """As after a restart: an equal memory that is another one."""
        self.other = replace(self.other)

    def wait(self, draw: st.DataObject) -> None:
        self.now += draw.draw(st.sampled_from((-30, 1, 30, 300, 1500)))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    gpus, share = draw(st.sampled_from(((0, 0), (0, 0), (0, 0), (1, 0), (2, 0), (0, 300), (0, 600))))
    size = Resources(draw(st.integers(1, 4)) * 1000, draw(st.sampled_from((1, 512, 9000))), 0, gpus)
    main = draw(st.integers(0, 3)) > 0
    at = st.one_of(st.none(), st.none(), st.integers(0, 9000))
    return Job(
        name=JobName(""),
        owner=Owner(draw(st.sampled_from(("ann", "bob")))),
        partition=PartitionName(draw(st.sampled_from(("main", "main", "nil"))) if main else "small"),
        queue=draw(st.sampled_from(Queue)) if main else Queue.BATCH,
        ask=Ask(size, draw(st.sampled_from((1, 1, 1, 2))), share, draw(st.sampled_from(((), ("T4",))))),
        came_at=Instant(0),
        limit_s=draw(st.sampled_from((60, 600, 1800, 1800, None))),
        project=ProjectName(draw(st.sampled_from(("", "p", "q")))),
        application=draw(st.sampled_from(("", "sort"))),
        priority=draw(st.sampled_from((0, 0, 1))),
        first_at=draw(at),
        deadline_at=draw(at),
        stoppable=draw(st.booleans()),
    )


STEPS = ("submit",) * 6 + ("start",) * 5 + ("end",) * 4 + ("wait",) * 4
STEPS += ("cancel", "requeue", "pause", "node", "use", "forget", "window")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_table_that_follows_gives_the_plan_of_a_new_one(data: st.DataObject) -> None:
    story = Story(data.draw(st.sampled_from(BOOKS)))
    for _ in range(data.draw(st.integers(1, 25))):
        for name in data.draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3)):
            getattr(story, name)(data)
        story.plan()


def played(story: Story, minutes: int) -> list[int]:
    """Everything planned is done, jobs run to their limits; how many tables were made by each minute."""
    made = []
    for _ in range(minutes):
        due = [one for one in story.running if one.started_at + (one.job.limit_s or 10**9) <= story.now]
        story.running = [one for one in story.running if one not in due]
        story.ended = [Ended(one.job, story.now - one.started_at) for one in due]
        story.plan()
        made.append(story.follower.made)
        assert story.last
        known = {one.name: one for one in story.waiting}
        for action in story.last.plan.actions:
            if isinstance(action, Start):
                story.waiting.remove(known[action.job])
                story.running.append(Running(known[action.job], Instant(story.now), action.places))
        story.now += 60
    return made


def test_jobs_that_come_start_and_end_are_followed_with_one_table() -> None:
    story = Story(Book(keep=2), cluster(node("a", 4), node("b", 4, 2)))
    story.waiting = [job(f"j{at} {1 + at % 3}c {1 + at % 4} batch") for at in range(30)]
    story.waiting += [job(f"i{at} 2c {1 + at % 4} interactive") for at in range(5)]
    assert set(played(story, 40)) == {1}
    assert not story.waiting


def test_rows_of_jobs_that_are_over_do_not_pile_up() -> None:
    story = Story(Book(), cluster(node("a", 4)), follower=Follower(over_rows_max=10))
    for at in range(40):
        story.waiting = [job(f"j{at} 1c 1 batch")]
        story.plan()
    assert 2 <= story.follower.made <= 5


Change = Any


@pytest.mark.parametrize(
    "change",
    [
        lambda story: setattr(story, "cluster", cluster(node("a", 4), node("b", 3))),
        lambda story: setattr(story, "book", Book(keep=5)),
        lambda story: story.waiting.append(job("z 1c 1 batch", beside=JobName("j0"))),
        lambda story: story.waiting.insert(0, story.waiting.pop()),
        lambda story: story.running.append(
            Running(job("r 1c 1 batch"), Instant(0), (Place(NodeName("gone")),))
        ),
        lambda story: story.forget(None),
    ],
    ids=["nodes", "book", "beside", "order", "lost", "restart"],
)
def test_what_cannot_be_followed_makes_a_new_table(change: Change) -> None:
    story = Story(Book(), cluster(node("a", 4), node("b", 4)))
    story.waiting = [job(f"j{at} 3c 3 batch") for at in range(6)]
    story.plan()
    change(story)
    story.plan()
    assert story.follower.made == 2


def test_a_promise_that_is_not_told_again_is_forgotten() -> None:
    """A queue that rests has no promises; when it goes on, nobody insists on the old ones."""
    story = Story(Book(), cluster(node("a", 4), node("b", 4)))
    story.waiting = [job(f"i{at} 4c {2 + at} interactive") for at in range(5)]
    for paused in ((), ("queue:interactive",), ()):
        story.paused = paused
        story.plan()
        story.now += 60
    assert story.follower.made == 1


def test_what_is_made_later_is_equal_to_the_tuple_that_it_will_be() -> None:
    made: list[int] = []

    def make() -> tuple[Promise | int, ...]:
        made.append(1)
        return (1, 2)

    later = Later(make)
    assert not made
    assert later == (1, 2)
    assert later == (1, 2)
    assert later == Later(lambda: (1, 2))
    assert (len(later), later[1], list(later), hash(later)) == (2, 2, [1, 2], hash((1, 2)))
    assert made == [1]
