"""Jobs of people on a real kubelet, from the command to the last word, with one glidepath for all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime

import pytest
from bed.parts.kube_config import NODE
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left_in_the_end

from glidepath.core.schedule.promise import GRACE_S
from jobs_real.house import ON_THE_REAL_NODE, House, cluster_text, house

__all__ = ["nothing_is_left_in_the_end"]
pytestmark = pytest.mark.real

INTERACTIVE = ("--queue", "interactive")
LOST = "lost"
# A node that a job of this size has for itself, and three on which the kube-scheduler has the last word.
FULL = ("--cpus", "0.2")
# The plan and the program in the container know the same limit; either may be there first.
REACHED = "run to its time limit .limit={0}s|time limit of {0}s was reached"
DESK = f'[[clusters.desk.kubernetes.stated]]\nname = "{NODE}"\npinned = true\ncpus = 0.2\nmemory = "1GiB"'
GANG = f"""{ON_THE_REAL_NODE}
refused_after = "2s"
[[clusters.gang.kubernetes.stated]]
name = "seat"
count = 3
cpus = 64
memory = "4GiB"
"""
PAIR = f"""{ON_THE_REAL_NODE}
[[clusters.pair.kubernetes.stated]]
name = "pair"
count = 2
cpus = 0.2
memory = "1GiB"
"""


@pytest.fixture(scope="module")
def there(
    request: pytest.FixtureRequest,
    nothing_is_left_in_the_end: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    cluster = kube_cluster(request.config)
    with house(cluster, "people", tmp_path_factory.mktemp("people")) as made:
        config = made.account
        label = f'nodes_of = [{{ key = "tests/house", any_of = ["{made.namespace}"] }}]'
        made.configure(
            cluster_text("desk", config, more=DESK)
            + cluster_text("gang", config, more=GANG)
            + cluster_text("pair", config, more=PAIR)
            + cluster_text("whole", config, more=ON_THE_REAL_NODE)
            + cluster_text("mixed", config, more=label)
        )
        made.up()
        yield made


@pytest.fixture(scope="module", autouse=True)
def deserted(there: House) -> Iterator[int]:
    """A job whose node is deleted under it. The cluster takes a minute to end its pod: others run then."""
    label = {"tests/house": there.namespace}
    there.cluster.fake_nodes(1, prefix=LOST, run_s=900, labels=label)
    try:
        there.until("the node is seen", lambda: f"{LOST}-0" in there.told("node", "list")[1])
        job = there.submit("mixed", *INTERACTIVE, script="echo ran on $GLIDEPATH_NODE")
        there.comes_to(job, "running")
        there.cluster.kubectl("label", "node", NODE, f"tests/house={there.namespace}").must("the other")
        there.cluster.kubectl("delete", "node", f"{LOST}-0").must("the node")
        yield job
    finally:
        there.cluster.kubectl("delete", "node", f"{LOST}-0", "--ignore-not-found")
        there.cluster.kubectl("label", "node", NODE, "tests/house-")


def seconds_between(one: str, other: str) -> float:
    return (datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds()


def test_a_promised_job_starts_on_time_and_no_limit_grows_into_its_room(there: House) -> None:
    first = there.submit("desk", *INTERACTIVE, *FULL, "--time", "10s", script="sleep 600")
    there.comes_to(first, "running")
    there.says("job", "extend", str(first), "--time", "20s")
    second = there.submit("desk", *INTERACTIVE, *FULL, "--time", "10m", script="echo in; sleep 600")
    waiting = there.job(second)
    assert (waiting["state"], waiting["nodes"]) == ("queued", [])
    assert [text.split(" at ")[0] for text in there.events(second, "promise")] == ["promised: start"]
    said = there.refuses("job", "extend", str(first), "--time", "1h")
    assert "a promised start would have to move" in said
    assert said.split("keeps its limit: ")[1].strip() in there.events(first, "not extended")

    over = there.comes_to(first, "failed")
    assert re.search(REACHED.format(20), over["why"])
    assert over["attempt"] == 1
    assert over["ran_s"] >= 19  # Longer than it was given at first; each second is cut.
    began = there.comes_to(second, "running")
    assert began["nodes"] == [NODE]
    assert abs(seconds_between(waiting["promised"], began["start"])) <= GRACE_S
    assert (began["promised_first"] == waiting["promised"], began["moved"]) == (True, 0)

    there.says("job", "extend", str(second), "--time", "2h")
    assert there.job(second)["run_s_max"] == 7200
    limit = there.pod(f"gp-{second}-1-0")["metadata"]["annotations"]["glidepath/limit"]
    assert limit == "7200"
    there.cancelled(second)
    assert there.ranks(second) == [("over", "stopped")]


def test_a_gang_of_three_is_whole_and_each_log_outlives_its_pod(there: House) -> None:
    script = 'echo "rank $GLIDEPATH_RANK of $GLIDEPATH_RANKS in $(hostname)"; wc -l <"$GLIDEPATH_RANK_FILE"'
    gang = there.submit("gang", *INTERACTIVE, "--ranks", "3", script=script)
    over = there.comes_to(gang, "done")
    assert (over["attempt"], over["exit_code"]) == (1, 0)
    assert there.ranks(gang) == [("over", "exited")] * 3
    there.until("all of it is gone", lambda: not any(f"gp-{gang}-" in name for name in there.objects()))
    for rank in range(3):
        words = there.logged(gang, "--rank", str(rank)).split()
        assert words == ["rank", str(rank), "of", "3", "in", f"gp-{gang}-1-{rank}", "3"]


def test_a_gang_for_which_there_is_no_room_begins_nowhere_and_is_planned_anew(there: House) -> None:
    """The stated nodes say that there is room, and the kube-scheduler finds it for two of the three only."""
    shown = json.loads(there.cluster.kubectl("get", "node", NODE, "-o", "json").must("the node").out)
    amount = shown["status"]["allocatable"]["cpu"]
    cores = int(amount.removesuffix("m")) / 1000 if amount.endswith("m") else int(amount)
    size = ("--cpus", f"{cores * 0.45:.2f}")
    gang = there.submit("gang", *INTERACTIVE, *size, "--ranks", "3", script="echo begun")
    there.until("it waits again", lambda: bool(there.events(gang, "waits again")))
    (why, *_) = there.events(gang, "waits again")
    assert "had no room for it after all" in why
    assert "Insufficient cpu" in why
    there.cancelled(gang)
    assert [there.logged(gang, "--rank", str(rank), "--attempt", "1") for rank in range(3)] == [""] * 3


def test_an_exclusive_job_has_its_node_alone_and_whoever_waits_is_told_for_whom(there: House) -> None:
    alone = there.submit("whole", *INTERACTIVE, "--exclusive", "--time", "5m", script="sleep 600")
    there.comes_to(alone, "running")
    other = there.submit("whole", *INTERACTIVE, script="echo after")
    assert there.job(other)["state"] == "queued"
    assert f"`{alone}`" in there.says("job", "explain", str(other))
    there.says("job", "cancel", str(alone))
    there.comes_to(other, "done")
    assert seconds_between(there.job(alone)["ended"], there.job(other)["start"]) >= 0


def test_what_ends_while_glidepath_is_stopped_is_told_as_it_was(there: House) -> None:
    """A limit is kept by the first program of the container, as its last words say; logs come later."""
    limit = ("--time", "30s")
    overdue = there.submit("gang", *INTERACTIVE, *limit, script="echo begun; sleep 600")
    in_time = there.submit("gang", *INTERACTIVE, *limit, script="sleep 15; echo ended")
    gang = there.submit("gang", *INTERACTIVE, "--ranks", "2", script="sleep 18; echo from $GLIDEPATH_RANK")
    for job in (overdue, in_time, gang):
        there.comes_to(job, "running")
    there.down()
    pods = [f"gp-{overdue}-1-0", f"gp-{in_time}-1-0", f"gp-{gang}-1-0", f"gp-{gang}-1-1"]
    ended = ("Failed", "Succeeded")
    there.until("all have ended", lambda: all(there.pod(name)["status"]["phase"] in ended for name in pods))
    (status,) = there.pod(pods[0])["status"]["containerStatuses"]
    assert json.loads(status["state"]["terminated"]["message"])["left"] == "limit"
    there.up()
    over = [there.comes_to(job, "done", "failed") for job in (overdue, in_time, gang)]
    assert [each["state"] for each in over] == ["failed", "done", "done"]
    assert [each["attempt"] for each in over] == [1, 1, 1]
    assert re.search(REACHED.format(30), over[0]["why"])
    assert there.logged(overdue) == "begun\n"
    assert there.logged(in_time) == "ended\n"
    assert [there.logged(gang, "--rank", str(rank)) for rank in (0, 1)] == ["from 0\n", "from 1\n"]


def test_what_cannot_be_started_fails_with_the_words_of_the_cluster(there: House) -> None:
    note = there.folder / "note"
    note.write_text("a note")
    missing = ("--image", "bed.invalid/missing:1")
    image = there.submit("gang", *missing, script="echo begun")
    gang = there.submit("gang", *missing, "--ranks", "2", script="echo begun")
    put = there.submit("gang", "--put", f"{note}:/proc/note", script="echo begun")
    folder = there.submit("gang", "--ranks", "2", "--workdir", "/nowhere", script="echo begun")
    for job in (image, gang):
        over = there.comes_to(job, "failed")
        assert "the image `bed.invalid/missing:1` cannot be had: ErrImageNeverPull" in over["why"]
        assert (over["attempt"], over["losses"]) == (1, 0)
    assert there.ranks(image) == [("over", "image")]
    over = there.comes_to(put, "failed")
    assert "nothing was started" in over["why"]
    assert "the file `/proc/note` could not be put in its place as it was sent" in over["why"]
    over = there.comes_to(folder, "failed")
    assert "the working directory is not there or cannot be entered" in over["why"]
    assert [there.logged(job) for job in (image, gang, put, folder)] == [""] * 4


def test_each_policy_is_kept_where_a_rank_is_evicted_or_fails(there: House) -> None:
    script = "echo begun; [ $GLIDEPATH_ATTEMPT = 2 ] || sleep 600; echo again"
    going = "echo begun; [ $GLIDEPATH_RANK = 1 ] || sleep 8; echo alone; [ $GLIDEPATH_RANK = 0 ] || sleep 600"
    words = ("--ranks", "2", "--time", "5m")
    ends = there.submit("gang", *words, "--on-loss", "end", script=script)
    again = there.submit("gang", *words, "--retries", "1", script=script)
    never = there.submit("gang", *words, "--retries", "0", script=script)
    on = there.submit("gang", *words, "--on-loss", "go-on", script=going)
    bad = there.submit("gang", *words, script="[ $GLIDEPATH_RANK = 0 ] || exit 7; sleep 600")
    for job in (ends, again, never, on):
        there.comes_to(job, "running")
        there.evict(f"gp-{job}-1-1")
    for job in (ends, never, bad):
        there.comes_to(job, "failed")
    lost = f"rank 1 on {NODE} was evicted by the cluster"
    assert lost in there.job(ends)["why"]
    assert there.job(never)["why"].startswith("lost 1 times, the last: rank 1 on")
    assert "rank 1 on" in there.job(bad)["why"]
    assert there.job(bad)["exit_code"] == 7
    assert there.ranks(bad) == [("over", "stopped"), ("over", "exited")]
    over = there.comes_to(again, "done")
    assert (over["attempt"], over["losses"]) == (2, 1)
    assert lost in there.events(again, "waits again")[0]
    over = there.comes_to(on, "done")
    assert (over["attempt"], over["why"]) == (1, "it went on without 1 of its ranks")
    assert lost in there.events(on, "lost a rank")[0]
    assert [there.job(job)["attempt"] for job in (ends, never, bad)] == [1, 1, 1]


def test_operators_pause_and_those_who_wait_are_told(there: House) -> None:
    there.says("queue", "pause", "interactive", "--why", "a new disk")
    there.says("partition", "pause", "gang", "--why", "a new switch")
    by_queue = there.submit("desk", *INTERACTIVE, script="true")
    by_partition = there.submit("gang", "--queue", "batch", script="true")
    for job in (by_queue, by_partition):
        assert there.job(job)["state"] == "queued"
        assert "paused" in there.says("job", "explain", str(job))
    assert "a new disk" in there.says("queue", "list")
    assert "a new switch" in there.says("partition", "list")
    there.says("queue", "resume", "interactive")
    there.says("partition", "resume", "gang")
    for job in (by_queue, by_partition):
        there.comes_to(job, "done")


def test_cordoned_and_drained_nodes_move_promises_and_jobs_and_it_is_said(there: House) -> None:
    stays = there.submit(
        "pair", "--queue", "batch", "--stoppable", *FULL, "--time", "30m", script="sleep 600"
    )
    (first,) = there.comes_to(stays, "running")["nodes"]
    short = there.submit("pair", *INTERACTIVE, *FULL, "--time", "10m", script="sleep 600")
    there.comes_to(short, "running")
    waits = there.submit("pair", *INTERACTIVE, *FULL, "--time", "10m", script="echo in; sleep 600")
    second = "pair-1" if first == "pair-0" else "pair-0"
    assert there.events(waits, "promise")[0].endswith(f" on {second}")
    there.says("node", "cordon", second)
    there.until("it is told", lambda: len(there.events(waits, "promise")) == 2)
    moved = there.events(waits, "promise")[1]
    assert re.fullmatch(rf"the promise moved: start at \S+ on {first}, .* later", moved)
    assert there.job(short)["state"] == "running"

    there.says("node", "drain", first)
    there.until("it waits again", lambda: there.job(stays)["state"] == "queued")
    assert there.events(stays, "waits again") == [f"{first} is drained"]
    there.says("node", "resume", first)
    assert there.comes_to(waits, "running")["nodes"] == [first]
    there.says("node", "resume", second)
    there.says("job", "cancel", str(short))
    over = there.comes_to(stays, "running")
    assert (over["attempt"], over["losses"], over["nodes"]) == (2, 0, [second])
    there.cancelled(stays, waits)


def test_a_node_that_was_deleted_under_a_job_is_told_and_the_job_ran_on_another(
    there: House, deserted: int
) -> None:
    over = there.comes_to(deserted, "done", "failed")
    assert (over["state"], over["attempt"], over["losses"], over["nodes"]) == ("done", 2, 1, [NODE])
    (said,) = there.events(deserted, "waits again")
    assert LOST in said
    assert "lost" in said
    assert there.logged(deserted) == f"ran on {NODE}\n"


def test_the_real_node_that_is_deleted_under_a_job_comes_back_and_the_job_runs_again(there: House) -> None:
    """Its Node object goes while its kubelet runs on, which makes it anew only when it starts.

    The last test here: whatever others have written on the node is gone with it.
    """
    script = "echo attempt $GLIDEPATH_ATTEMPT; [ $GLIDEPATH_ATTEMPT = 2 ] || sleep 600"
    job = there.submit("whole", *INTERACTIVE, "--time", "30m", script=script)
    ends = there.submit("whole", *INTERACTIVE, "--time", "30m", "--on-loss", "end", script=script)
    for each in (job, ends):
        there.comes_to(each, "running")
    try:
        there.cluster.kubectl("delete", "node", NODE, "--wait=false").must("the node")
        over = there.comes_to(ends, "failed")
        there.until("it waits again", lambda: bool(there.events(job, "waits again")))
    finally:
        there.cluster.restart("kubelet")
        there.until("the node is back", lambda: NODE in there.cluster.ready_nodes())
    assert (over["attempt"], over["exit_code"]) == (1, None)
    (said,) = there.events(job, "waits again")
    for why in (over["why"], said):
        assert "lost" in why
        assert NODE in why
    again = there.comes_to(job, "done")
    assert (again["attempt"], again["losses"], again["nodes"]) == (2, 1, [NODE])
    assert there.logged(job, "--attempt", "1") == "attempt 1\n"
    assert there.logged(job) == "attempt 2\n"
