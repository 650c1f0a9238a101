"""What becomes of placed jobs, on a cluster in memory and a real store: whole stories, turn by turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from placing_world import T0, Killed, Mortal, PlacingWorld, a_spec

from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.place import record
from glidepath.core.place.rank import Cause, ClusterName, SetKey
from glidepath.core.place.record import NEXT, Phase
from glidepath.core.place.turn import Rules, Word
from glidepath.core.quantity import Instant
from glidepath.core.schedule import compiled
from glidepath.core.schedule.cluster import Partition, PartitionName, Queue, Window
from glidepath.core.schedule.job import OnLoss
from glidepath.store.keys import KeyTaken


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PlacingWorld]:
    made = PlacingWorld(tmp_path)
    yield made
    made.close()


def test_phases_are_closed_reachable_and_end() -> None:
    assert set(NEXT) == set(Phase)
    seen, new = set(), {Phase.WAITS}
    while new:
        seen |= new
        new = {after for phase in new for after in NEXT[phase]} - seen
    assert seen == set(Phase)
    assert NEXT[Phase.OVER] == frozenset()


def test_never_is_what_plans_call_never() -> None:
    assert record.NEVER == compiled.NEVER


def test_a_job_is_promised_started_and_done(world: PlacingWorld) -> None:
    job = world.submit()
    world.turn()
    assert world.stands(job) == "starting"
    world.turn()
    assert world.stands(job) == "running"
    world.until_over(job)
    found = world.job(job)
    assert (found.stands, found.job.exit_code, found.job.attempt) == ("done", 0, 1)
    assert world.said(job) == ["submitted", "starting", "promise", "began", "done"]
    assert world.cluster.tasks == {}, "what is over is cleared"
    assert [(attempt, rank.cause) for attempt, rank in world.jobs.ranks(job)] == [(1, Cause.EXITED)]


def test_a_job_that_must_wait_is_told_when_it_starts_and_starts_then(world: PlacingWorld) -> None:
    first = [world.submit(cpus=4, run_s_max=1000) for _ in range(2)]
    world.cluster.runs_s = dict.fromkeys(first, 1000)
    world.turn()
    waiting = world.submit(cpus=4)
    world.turn()
    promise = world.job(waiting).promise
    assert promise is not None
    asked = world.job(first[0]).record.asked_at
    assert asked is not None
    assert promise.at == asked + 1000
    world.until_over(*first)
    world.turns(3)
    began = world.job(waiting).record.began_at
    assert began is not None
    assert abs(began - promise.at) <= 10
    assert world.memory.schedule.tally.kept >= 1
    assert world.memory.schedule.tally.broken == 0


def test_a_promise_outlives_the_scheduler(world: PlacingWorld) -> None:
    first = [world.submit(cpus=4) for _ in range(2)]
    waiting = world.submit(cpus=4)
    world.turns(2)
    before = world.job(waiting).promise
    world.live()
    world.turns(2)
    after = world.job(waiting).promise
    assert before is not None
    assert after is not None
    assert (after.first, after.told_at) == (before.first, before.told_at)
    assert world.said(waiting).count("promise") == 1
    assert world.stands(first[0]) == "running"


def test_a_client_key_twice_is_one_job(world: PlacingWorld) -> None:
    spec = a_spec()
    first = world.jobs.submit(spec, key="k")
    again = world.jobs.submit(spec, key="k")
    assert (first.new, again.new) == (True, False)
    assert first.job == again.job
    with pytest.raises(KeyTaken):
        world.jobs.submit(a_spec(cpus=2), key="k")
    assert world.jobs.submit(a_spec(owner="bob"), key="k").new


def test_ranks_are_in_place_within_the_stated_time_or_none_begins(world: PlacingWorld) -> None:
    world.cluster.begin_after_s = 10_000
    job, other = world.submit(nodes=2, gather_s=120), world.submit(nodes=2)
    world.turns(2)
    asked = world.cluster.tasks[SetKey(f"{job}.1")].ranks
    assert asked.gather_s_max == 120
    world.turns(8, after_s=20)
    assert world.stands(job) == "starting"
    world.turns(3, after_s=20)
    (why,) = {event.text for event in world.jobs.events(job=job) if event.kind == "waits again"}
    assert why.startswith("2 of 2 ranks were not in place within 2m: ")
    assert world.cluster.begun == []
    assert world.job(other).record.terms.gather_s_max == 300


def test_a_gang_is_whole_or_waits(world: PlacingWorld) -> None:
    world.submit(cpus=4)
    gang = world.submit(cpus=4, nodes=2)
    world.turns(3)
    assert world.stands(gang) == "queued"
    world.cluster.end("1.1", Cause.EXITED, code=0)
    world.turns(3)
    assert world.stands(gang) == "running"
    assert {place.node for place in world.job(gang).record.places} == {"n1", "n2"}


def test_a_rank_that_fails_ends_the_others_and_the_job(world: PlacingWorld) -> None:
    gang = world.submit(nodes=2)
    world.turns(2)
    world.cluster.end(f"{gang}.1", Cause.EXITED, code=7, rank=1)
    world.until_over(gang)
    found = world.job(gang)
    assert (found.stands, found.job.exit_code) == ("failed", 7)
    assert "rank 1" in found.job.reason


@pytest.mark.parametrize(
    ("on_loss", "stands", "attempt"),
    [(OnLoss.END, "failed", 1), (OnLoss.REQUEUE, "running", 2), (OnLoss.GO_ON, "running", 1)],
)
def test_a_node_is_lost_under_a_gang(tmp_path: Path, on_loss: OnLoss, stands: str, attempt: int) -> None:
    world = PlacingWorld(tmp_path, nodes=3)
    gang = world.submit(nodes=2, cpus=4, on_loss=on_loss)
    world.cluster.runs_s[gang] = 1000
    world.turns(2)
    world.cluster.lose(world.job(gang).record.places[1].node)
    world.turns(6)
    found = world.job(gang)
    assert (found.stands, found.job.attempt) == (stands, attempt)
    if on_loss is OnLoss.GO_ON:
        assert found.record.gone == (1,)
    if on_loss is not OnLoss.END:
        world.until_over(gang)
        assert world.stands(gang) == "done"
    world.close()


def test_losses_are_bounded(world: PlacingWorld) -> None:
    job = world.submit(retries_max=1)
    for attempt in (1, 2):
        world.turns(3)
        world.cluster.end(f"{job}.{attempt}", Cause.EVICTED)
    world.until_over(job)
    found = world.job(job)
    assert (found.stands, found.job.losses, found.job.attempt) == ("failed", 2, 2)
    assert "lost 2 times" in found.job.reason


@pytest.mark.parametrize("cause", [Cause.LIMIT, Cause.MEMORY, Cause.IMAGE, Cause.SETUP])
def test_what_is_the_jobs_own_fault_is_not_tried_again(world: PlacingWorld, cause: Cause) -> None:
    job = world.submit()
    world.turns(2)
    world.cluster.end(f"{job}.1", cause)
    world.until_over(job)
    found = world.job(job)
    assert (found.stands, found.job.attempt) == ("failed", 1)
    assert found.job.reason


def test_a_node_that_had_no_room_after_all_is_planned_anew_and_not_at_once(world: PlacingWorld) -> None:
    job = world.submit(retries_max=0)
    world.turn()
    world.cluster.end(f"{job}.1", Cause.REFUSED)
    world.turns(2)
    assert (world.stands(job), world.job(job).job.losses) == ("queued", 0)
    world.turns(2, after_s=5)
    world.turns(3)
    assert (world.stands(job), world.job(job).job.attempt) == ("running", 2)


def test_a_start_that_fails_is_tried_again_and_one_that_is_refused_is_not(world: PlacingWorld) -> None:
    world.cluster.answers = [Failed("busy"), Refused("no such thing here")]
    job, other = world.submit(), world.submit()
    world.turn()
    assert [world.stands(job), world.stands(other)] == ["queued", "failed"]
    world.turns(8)
    assert world.stands(job) == "running"


def test_a_start_that_is_unsure_is_looked_for_and_asked_again_under_its_key(world: PlacingWorld) -> None:
    world.cluster.answers = [Unsure("no answer")]
    job = world.submit()
    world.turn()
    assert world.stands(job) == "starting"
    world.turns(3)
    assert (world.stands(job), world.job(job).job.attempt) == ("running", 1)


def test_a_start_that_broke_off_half_way_is_asked_for_again_and_never_as_another_attempt(
    world: PlacingWorld,
) -> None:
    """Whoever is asked once more and fails may have begun it when it was asked first."""
    world.cluster.half_made = True
    job = world.submit()
    world.turn()
    world.cluster.answers = [Failed("busy"), Failed("busy")]
    world.turns(2)
    assert (world.stands(job), world.cluster.answers) == ("starting", [])
    world.turns(2)
    assert (world.stands(job), world.job(job).job.attempt) == ("running", 1)
    assert world.cluster.begun == [f"{job}.1"]


def test_the_limit_ends_a_job_while_we_are_away(world: PlacingWorld) -> None:
    job = world.submit(run_s_max=50)
    world.turns(2)
    world.time.at += 10_000
    world.live()
    world.until_over(job)
    found = world.job(job)
    assert "time limit" in found.job.reason
    assert found.job.ended_wall is not None
    assert found.job.started_wall is not None
    assert found.job.ended_wall - found.job.started_wall == 50


@pytest.mark.parametrize(
    ("code", "stands", "why"),
    [(0, "done", ""), (3, "failed", "it ran on n1 and ended with exit code 3")],
)
def test_what_ended_by_itself_within_its_limit_while_we_were_away_is_told_so(
    world: PlacingWorld, code: int, stands: str, why: str
) -> None:
    """Its end is heard of late, long after the limit: what it wrote is fetched before that."""
    job = world.submit(run_s_max=50)
    world.turns(2)
    world.cluster.late.add(f"{job}.1")
    world.cluster.end(f"{job}.1", Cause.EXITED, code=code)
    world.time.at += 10_000
    world.live()
    world.turns(2)
    assert world.stands(job) == "ending"
    world.cluster.late.clear()
    world.until_over(job)
    found = world.job(job)
    assert (found.stands, found.job.exit_code, found.job.reason) == (stands, code, why)


def test_what_was_done_just_before_its_node_was_drained_is_not_run_again(world: PlacingWorld) -> None:
    job = world.submit(queue=Queue.BATCH, stoppable=True)
    world.turns(2)
    world.cluster.late.add(f"{job}.1")
    world.cluster.end(f"{job}.1", Cause.EXITED, code=0)
    world.words = (Word(f"node:{world.job(job).record.places[0].node}", drain=True),)
    world.turns(2)
    assert world.stands(job) == "ending"
    world.cluster.late.clear()
    world.until_over(job)
    assert (world.stands(job), world.job(job).job.attempt) == ("done", 1)


def test_a_limit_is_extended_where_nobody_was_promised_the_room(world: PlacingWorld) -> None:
    job = world.submit(run_s_max=600)
    world.cluster.runs_s[job] = 5000
    world.turns(2)
    world.jobs.ask_limit(job, 7200)
    world.turn()
    found = world.job(job)
    assert (found.record.job.limit_s, found.record.wish) == (7200, None)
    assert world.cluster.tasks[SetKey(f"{job}.1")].limit_s == 7200
    assert "extended" in world.said(job)
    world.until_over(job, after_s=60)
    assert world.stands(job) == "done"


@pytest.mark.parametrize(
    ("notice_s", "given", "on_loss", "then"),
    [(0, 0, OnLoss.END, "failed"), (60, 1, OnLoss.REQUEUE, "queued")],
)
def test_a_job_without_a_limit_runs_until_a_window_and_is_given_notice(
    tmp_path: Path, notice_s: int, given: int, on_loss: OnLoss, then: str
) -> None:
    opens = Instant(T0 + 10_000)
    window = Window("a new disk", opens, Instant(opens + 600))
    part = Partition(PartitionName("endless"), (), endless=True)
    world = PlacingWorld(tmp_path, rules=Rules(ClusterName("lab"), (part,), windows=(window,)))
    job = world.submit(partition="endless", run_s_max=None, notice_s=notice_s, on_loss=on_loss)
    world.cluster.runs_s[job] = 100_000
    world.turns(3)
    assert world.stands(job) == "running"
    task = world.cluster.tasks[SetKey(f"{job}.1")]
    assert task.limit_s is None
    world.turns(60, after_s=100)
    assert "notice" not in world.said(job), "not before its time"
    world.turns(6, after_s=100)
    assert world.said(job).count("notice") == 1
    assert task.noticed == given, "no signal comes that it did not ask for"
    world.turns(33, after_s=100)
    assert world.time.at < opens
    assert world.stands(job) == "running"
    world.turns(3, after_s=100)
    assert world.stands(job) == then
    assert "a new disk" in world.job(job).job.reason
    world.close()


def test_notice_before_a_limit_is_an_event_once_for_each_end(world: PlacingWorld) -> None:
    """The signal is the cluster's own; who reads events learns of it, whoever plans then."""

    def told() -> list[str]:
        return [event.text for event in world.jobs.events(job=job) if event.kind == "notice"]

    job = world.submit(run_s_max=3600, notice_s=600, notice_signal="SIGUSR2")
    other = world.submit(run_s_max=3600)
    world.cluster.runs_s |= {job: 100_000, other: 100_000}
    world.turns(3)
    world.turns(29, after_s=100)
    assert told() == [], "not before its time"
    world.turns(2, after_s=100)
    first = "its time limit of 1h ends in 10m, and it is sent SIGUSR2"
    assert told() == [first]
    world.live()
    world.turns(2)
    assert told() == [first], "also where a scheduler began anew"
    world.jobs.ask_limit(job, 7200)
    world.turns(33, after_s=100)
    assert world.job(job).record.job.limit_s == 7200
    assert told() == [first]
    world.turns(5, after_s=100)
    assert told() == [first, "its time limit of 2h ends in 10m, and it is sent SIGUSR2"]
    assert world.cluster.tasks[SetKey(f"{job}.1")].noticed == 0
    assert "notice" not in world.said(other), "it asked for none"


def test_a_job_without_a_limit_is_refused_where_there_must_be_one(world: PlacingWorld) -> None:
    job = world.submit(run_s_max=None)
    world.turn()
    assert world.stands(job) == "failed"
    assert "limit" in world.job(job).job.reason


def test_a_limit_is_not_extended_over_a_promise_and_an_operator_may(world: PlacingWorld) -> None:
    jobs = [world.submit(cpus=4, run_s_max=600) for _ in range(2)]
    waiting = world.submit(cpus=4)
    world.cluster.runs_s |= dict.fromkeys(jobs, 10_000)
    world.turns(3)
    for job in jobs:
        world.jobs.ask_limit(job, 7200)
    world.turn()
    assert [world.job(job).record.job.limit_s for job in jobs].count(600) >= 1
    refused = next(job for job in jobs if world.job(job).record.job.limit_s == 600)
    assert "not extended" in world.said(refused)
    world.jobs.ask_limit(refused, 7200, forced=True)
    world.turns(2)
    assert world.job(refused).record.job.limit_s == 7200
    assert world.stands(waiting) == "queued"


def test_cancelling_a_job_in_each_phase(world: PlacingWorld) -> None:
    waiting, running = world.submit(cpus=99), world.submit()
    world.jobs.cancel(waiting)
    assert world.stands(waiting) == "cancelled"
    world.turns(2)
    world.jobs.cancel(running)
    assert world.stands(running) == "cancelling"
    world.until_over(running)
    assert world.stands(running) == "cancelled"
    assert world.jobs.cancel(running).stands == "cancelled"


def test_what_can_never_run_is_refused_with_a_sentence(world: PlacingWorld) -> None:
    job = world.submit(cpus=99)
    world.turn()
    found = world.job(job)
    assert found.stands == "failed"
    assert "no node of the partition is as large" in found.job.reason
    assert world.said(job)[-1] == "refused"


def test_a_cluster_that_is_not_seen_is_not_acted_on(world: PlacingWorld) -> None:
    running, waiting = world.submit(), world.submit(cpus=4, nodes=2)
    world.turns(2)
    world.cluster.away = "connection refused"
    late = world.submit()
    cycle = world.turn()
    assert cycle.plan.actions == ()
    assert "connection refused" in str(cycle.plan.decisions[0].reason)
    assert world.stands(late) == "queued"
    world.cluster.away = ""
    world.until_over(running, waiting, late)


def test_paused_queues_cordoned_and_drained_nodes(world: PlacingWorld) -> None:
    world.words = (Word("queue:interactive"),)
    job = world.submit()
    batch = world.submit(queue=Queue.BATCH, stoppable=True, cpus=2)
    world.turns(2)
    assert [world.stands(job), world.stands(batch)] == ["queued", "running"]
    here = world.job(batch).record.places[0].node
    world.words = (Word(f"node:{here}", drain=True),)
    world.turns(10)
    assert (world.stands(batch), world.job(batch).job.losses) == ("running", 0)
    assert world.job(batch).record.places[0].node != here
    assert world.job(job).record.places[0].node != here


def test_ranks_of_an_attempt_that_was_given_up_are_ended(world: PlacingWorld) -> None:
    job = world.submit()
    world.turns(2)
    lost = world.cluster.tasks.pop(SetKey(f"{job}.1"))
    world.turns(3)
    assert world.job(job).job.attempt == 2
    world.cluster.tasks[SetKey(f"{job}.1")] = lost
    world.turns(2)
    assert SetKey(f"{job}.1") not in world.cluster.tasks
    assert world.stands(job) == "running"


def test_ranks_of_nobody_known_are_left_alone_until_they_are_over(world: PlacingWorld) -> None:
    job = world.submit()
    world.turns(2)
    strange = world.cluster.tasks[SetKey(f"{job}.1")]
    world.cluster.tasks[SetKey("777.1")] = strange
    world.turn()
    assert SetKey("777.1") in world.cluster.tasks
    world.until_over(job)
    assert world.cluster.tasks == {}


def story(folder: Path, mortal: Mortal | None) -> tuple[PlacingWorld, list[int]]:
    """Every kind of thing that happens to jobs, in one go; the scheduler may die in it and is born again."""
    world = PlacingWorld(folder)
    jobs = [world.submit(nodes=2), world.submit(cpus=4), world.submit(queue=Queue.BATCH, run_s_max=30)]
    jobs.append(world.submit())
    if mortal is not None:
        world.live(mortal)

    def turns(count: int) -> None:
        for _ in range(count):
            try:
                world.turn()
            except Killed:
                world.live()

    turns(3)
    world.cluster.end(f"{jobs[0]}.1", Cause.EVICTED, rank=1)
    if world.stands(jobs[3]) == "running":
        world.jobs.ask_limit(jobs[3], 5000)
    turns(4)
    world.jobs.cancel(jobs[1])
    turns(4)
    for _ in range(30):
        world.time.at += 10
        turns(1)
    return world, jobs


def steps_of_the_story(folder: Path) -> int:
    mortal = Mortal()
    world, _ = story(folder, mortal)
    world.close()
    return mortal.count


def test_killed_before_and_after_every_step_nothing_is_lost_or_run_twice(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    count = steps_of_the_story(tmp_path / "whole")
    assert count > 100
    for dies_at in range(0, min(count, 170), 3):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        world, jobs = story(folder, Mortal(dies_at))
        ends = [world.stands(job) for job in jobs]
        assert ends == ["done", "cancelled", "failed", "done"], (dies_at, ends)
        assert "time limit" in world.job(jobs[2]).job.reason
        begun = world.cluster.begun
        assert len(begun) == len(set(begun)), (dies_at, begun)
        attempts = {job: sum(key.startswith(f"{job}.") for key in begun) for job in jobs}
        # Only whoever was evicted ran twice, and nobody ran without being asked for.
        assert attempts[jobs[0]] <= 2, (dies_at, attempts)
        assert [attempts[job] for job in jobs[2:]] == [1, 1], (dies_at, attempts)
        assert world.cluster.tasks == {}, dies_at
        world.close()
