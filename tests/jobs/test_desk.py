"""What the desk answers: jobs of both kinds, keys, pages, limits, words, and what is refused and why."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from glidepath.config import Settings
from glidepath.core.place.rank import Cause
from glidepath.jobs.desk import Asked, What, Wish, Word
from glidepath.jobs.errors import Clash, DeskError, Unanswered, Unknown, Unusable
from glidepath.jobs.submission import read_submission
from jobs.desk_scene import ADMIN, ANN, BEN, CLEO, NEVER_WAS, OPERATOR, SETTINGS, VIEWER, DeskScene, ids

PLACED = {"queue": "interactive", "time": "1h"}


def test_a_placed_job_is_answered_with_its_start_and_a_pulled_one_at_once(scene: DeskScene) -> None:
    placed = scene.asked(ANN, **PLACED, name="fit", env={"TOKEN": "secret"})
    assert (placed.new, placed.answered, len(placed.items)) == (True, True, 1)
    assert placed.say == "job 1 starts now on n1"
    assert placed.items[0] == scene.desk.list(ANN, Asked())[0]
    slept = scene.slept
    pulled = scene.asked(ANN, count=3, name="many", cpus=2)
    assert (pulled.answered, pulled.say, ids(pulled.items), scene.slept) == (True, "", [2, 3, 4], slept)
    assert list(pulled.items) == scene.desk.list(ANN, Asked(partition="local"))
    assert "secret" not in json.dumps([placed.items, scene.desk.show(ADMIN, 1)])


def test_who_must_wait_is_promised_a_start_and_told_so(scene: DeskScene) -> None:
    for _ in range(2):
        scene.placed(CLEO, cpus=4, time="2h")
    done = scene.asked(ANN, **PLACED, cpus=4)
    assert "this is promised" in done.say
    assert done.items[0]["promised"] == done.items[0]["start"] is not None
    assert done.items[0]["nodes"] == []


def test_a_batch_job_is_answered_by_the_first_plan_that_saw_it(scene: DeskScene) -> None:
    for _ in range(2):
        scene.placed(CLEO, cpus=4, time="2h")
    slept = scene.slept
    done = scene.asked(ANN, queue="batch", time="1h", cpus=4)
    assert (done.answered, scene.slept) == (True, slept + 1)
    assert "waits in the batch queue, 0 before it" in done.say


def test_while_the_nodes_are_not_seen_nobody_is_answered(scene: DeskScene) -> None:
    scene.world.cluster.away = "no route"
    assert not scene.asked(ANN, **PLACED).answered
    scene.world.cluster.away = ""
    assert scene.asked(ANN, **PLACED).answered


def test_where_no_scheduler_runs_nobody_is_kept_waiting(scene: DeskScene) -> None:
    scene.world.time.at += 3600
    slept = scene.slept
    done = scene.asked(ANN, **PLACED)
    assert (done.answered, done.new, scene.slept) == (False, True, slept)
    assert done.say.startswith("no scheduler runs here at present, so nothing is promised yet")
    assert scene.desk.explain(ANN, done.items[0]["id"])["explained"][-1] == (
        "nobody plans at present: `glidepath up` does not run"
    )


def test_nobody_waits_longer_than_they_want(scene: DeskScene) -> None:
    scene.answers = False
    wish = read_submission({"command": ["true"], **PLACED})
    at_once = scene.desk.submit(ANN, wish, wait_s=0)
    assert (at_once.answered, scene.slept) == (False, 0)
    assert at_once.say == (
        "job 1 is kept and will be planned within seconds; `glidepath job explain 1` says more"
    )
    later = scene.desk.submit(ANN, wish, wait_s=1.0)
    assert (later.answered, 0 < scene.slept <= 60) == (False, True)


@pytest.mark.parametrize("wish", [{}, PLACED], ids=["pulled", "placed"])
def test_the_same_client_key_is_the_same_job_of_the_same_person(
    scene_anywhere: DeskScene, wish: dict[str, Any]
) -> None:
    scene = scene_anywhere
    first = scene.asked(ANN, key="k", **wish)
    again = scene.asked(ANN, key="k", **wish)
    assert (first.new, again.new, ids(again.items)) == (True, False, ids(first.items))
    assert again.say.endswith(f"the client key had this job already: {ids(first.items)[0]}")
    other = scene.asked(BEN, key="k", **wish)
    assert ids(other.items) != ids(first.items)
    with pytest.raises(Clash, match="the client key was used for another job, 1; choose a new one"):
        scene.asked(ANN, key="k", **{**wish, "cpus": 2})
    assert len(scene.desk.list(ADMIN, Asked())) == 2


def test_one_key_at_the_same_moment_is_one_job(scene_anywhere: DeskScene) -> None:
    scene = scene_anywhere
    scene.answers = False
    wish = read_submission({"command": ["true"], **PLACED})
    together = threading.Barrier(8)

    def submit(_: int) -> tuple[int, bool]:
        together.wait()
        done = scene.desk.submit(ANN, wish, key="one", wait_s=0)
        return ids(done.items)[0], done.new

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(submit, range(8)))
    assert {number for number, _ in found} == {1}
    assert sorted(new for _, new in found) == [False] * 7 + [True]


def test_what_several_people_submit_together_has_an_answer_or_a_refusal_for_each(
    scene_anywhere: DeskScene,
) -> None:
    scene = scene_anywhere
    scene.answers = False
    first = scene.asked(BEN, key="k", **PLACED)
    wishes = [
        Wish(caller, read_submission({"command": ["true"], **wish}), key, count)
        for caller, wish, key, count in (
            (ANN, PLACED, "", 2),
            (ANN, {}, "", 1),
            (VIEWER, PLACED, "", 1),
            (BEN, PLACED, "k", 1),
            (BEN, {**PLACED, "cpus": 2}, "k", 1),
            (CLEO, PLACED, "k\x1b", 1),
            (CLEO, {**PLACED, "partition": "hree"}, "", 1),
            (CLEO, PLACED, "k", 1),
        )
    ]
    done = scene.desk.submit_each(wishes)
    said = [one.why if isinstance(one, DeskError) else (ids(one.items), one.new, one.say) for one in done]
    soon = "job {0} is kept and will be planned within seconds; `glidepath job explain {0}` says more"
    had = ids(first.items)
    assert said == [
        ([3, 4], True, soon.format(4)),
        ([2], True, ""),
        "the role `viewer` may not submit jobs; `user` may",
        (had, False, f"the client key had this job already: {had[0]}"),
        "the client key was used for another job, 1; choose a new one",
        "the client key has the control character U+001B at place 2; leave it out",
        "no partition is named `hree`; did you mean `here`?",
        ([5], True, soon.format(5)),
    ]
    assert ids(scene.desk.list(ADMIN, Asked())) == [1, 2, 3, 4, 5]


Ask = Callable[[DeskScene], Any]


@pytest.mark.parametrize(
    ("ask", "kind", "said"),
    [
        (lambda s: s.asked(ANN, key="k", count=2), Unusable, "a client key is for one job"),
        (lambda s: s.asked(ANN, count=0), Unusable, "`count`: must be from 1 to 100000"),
        (lambda s: s.asked(ANN, key="k\x1b"), Unusable, "the client key has the control character U+001B"),
        (lambda s: s.asked(ANN, key="k" * 201), Unusable, "the client key has 201 characters"),
        (
            lambda s: s.asked(ANN, partition="hree"),
            Unknown,
            "no partition is named `hree`; did you mean `here`?",
        ),
        (
            lambda s: s.asked(ANN, partition="local", ranks=2),
            Unusable,
            "`ranks` is for jobs that are placed, and pilots take those of `local`",
        ),
        (
            lambda s: s.desk.test(ANN, read_submission({"command": ["true"]})),
            Unusable,
            "a job that pilots take is promised no start",
        ),
        (
            lambda s: s.desk.test(ANN, read_submission({"command": ["true"], "cpus": 64, **PLACED})),
            Clash,
            "it would not start: no node of the partition is as large",
        ),
        (lambda s: s.desk.list(ANN, Asked(state="runing")), Unusable, "did you mean `running`?"),
        (lambda s: s.desk.show(ANN, NEVER_WAS), Unknown, "there is no job 999999"),
        (lambda s: s.desk.show(ANN, 10**30), Unknown, f"there is no job {10**30}"),
        (lambda s: s.desk.show(ANN, -1), Unknown, "there is no job -1"),
        (lambda s: s.desk.explain(ANN, s.pulled(ANN)), Unusable, "job 1 is not a placed one"),
        (lambda s: s.desk.extend(ANN, s.pulled(ANN), 60), Unusable, "job 1 is not a placed one"),
        (lambda s: s.desk.extend(ANN, s.placed(ANN), 0), Unusable, "`time`: the run time limit is 0 s"),
        (lambda s: s.desk.extend(ANN, s.placed(ANN), 10**12), Unusable, "it must be from 1 s to ten years"),
        (
            lambda s: s.desk.extend(ANN, s.placed(ANN, start_after="+2h"), 7200),
            Clash,
            "job 1 does not run: it is queued",
        ),
        (lambda s: s.desk.word(OPERATOR, "queue", "fast", "pause"), Unknown, "no queue is named `fast`"),
        (
            lambda s: s.desk.word(OPERATOR, "queue", "batch", "drain"),
            Unusable,
            "`drain` is no word for a queue; say one of `pause`, `resume`",
        ),
        (
            lambda s: s.desk.word(OPERATOR, "queue", "batch", "pause", why="a\nb"),
            Unusable,
            "`why`: the reason has the control character U+000A",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(
    scene: DeskScene, ask: Ask, kind: type[DeskError], said: str
) -> None:
    with pytest.raises(DeskError) as refused:
        ask(scene)
    assert type(refused.value) is kind
    assert said in str(refused.value)


def test_testing_tells_the_start_and_submits_nothing(scene: DeskScene) -> None:
    wish = read_submission({"command": ["true"], **PLACED, "name": "fit"})
    item = scene.desk.test(ANN, wish)
    start = item.pop("start")
    assert item == {
        "id": 0,
        "name": "fit",
        "partition": "here",
        "nodes": ["n1"],
        "wait_s": 0,
        "queue": "interactive",
        "queue_why": "",
    }
    assert start.startswith("2027-01-15T08:")
    assert scene.desk.list(ADMIN, Asked()) == []


def test_a_list_has_jobs_of_both_kinds_in_one_order_and_pages(scene: DeskScene) -> None:
    numbers = [(scene.placed if at % 2 else scene.pulled)(ANN) for at in range(7)]
    listed = scene.desk.list(ANN, Asked())
    assert ids(listed) == numbers
    assert ["queue" in item for item in listed] == [bool(at % 2) for at in range(7)]
    pages, below = [], None
    for _ in range(4):
        page = ids(scene.desk.list(ANN, Asked(limit=2, below=below)))
        pages.append(page)
        below = page[0]
    assert pages == [[6, 7], [4, 5], [2, 3], [1]]
    assert scene.desk.list(ANN, Asked(limit=0)) == []
    assert scene.desk.list(ANN, Asked(limit=-5, below=10**30)) == []
    assert ids(scene.desk.list(ANN, Asked(state="queued"))) == [1, 3, 5, 7]


def test_a_job_is_shown_with_attempts_ranks_and_events(scene: DeskScene) -> None:
    pulled, placed = scene.pulled(ANN), scene.placed(ANN, ranks=2)
    scene.taken(exit_code=3)
    scene.world.until_over(placed)
    one = scene.desk.show(ANN, pulled)
    assert [(a["attempt"], a["how"], a["exit_code"]) for a in one["attempts"]] == [(1, "exited", 3)]
    assert one["rank_list"] == []
    assert [(event["attempt"], event["kind"], event["text"]) for event in one["events"]] == [
        (1, "began", "taken by the pilot gp-x-1-0"),
        (1, "failed", "it ended with exit code 3"),
    ]
    two = scene.desk.show(ANN, placed)
    assert [(r["rank"], r["node"], r["state"], r["cause"]) for r in two["rank_list"]] == [
        (0, "n1", "over", "exited"),
        (1, "n2", "over", "exited"),
    ]
    assert [event["kind"] for event in two["events"]] == ["submitted", "starting", "promise", "began", "done"]
    assert two["events"] == list(scene.desk.events(ANN, job=placed))
    after = scene.desk.events(ANN, after=two["events"][2]["id"])
    assert [event for event in after if event["job"] == placed] == two["events"][3:]
    assert scene.desk.newest() == two["events"][-1]["id"]
    assert scene.desk.events(ANN, after=10**30) == scene.desk.events(ANN, limit=-1) == []


@pytest.mark.parametrize("wish", [{}, {**PLACED, "start_after": "+2h"}], ids=["pulled", "placed"])
def test_a_job_that_waits_is_cancelled_at_once_and_dry_changes_nothing(
    scene: DeskScene, wish: dict[str, Any]
) -> None:
    job = ids(scene.asked(ANN, **wish).items)[0]
    expected = {"id": job, "before": "queued", "state": "cancelled"}
    assert scene.desk.cancel(ANN, job, dry=True) == expected
    assert scene.desk.cancel(ANN, job) == expected
    again = {**expected, "before": "cancelled"}
    assert scene.desk.cancel(ANN, job, dry=True) == scene.desk.cancel(ANN, job) == again


def test_a_limit_is_granted_refused_or_kept_as_a_wish(scene: DeskScene) -> None:
    job = scene.placed(ANN, cpus=4)
    scene.world.turns(2)
    tried = scene.desk.extend(ANN, job, 7200, dry=True)
    assert (tried["run_s_max"], tried["say"] != "") == (3600, True)
    assert scene.desk.extend(ANN, job, 7200)["run_s_max"] == 7200
    for _ in range(2):
        scene.placed(CLEO, cpus=4, time="4h")
    for dry in (True, False):
        with pytest.raises(Clash, match="a promised start would have to move"):
            scene.desk.extend(ANN, job, 20000, dry=dry)
    assert scene.desk.show(ANN, job)["run_s_max"] == 7200
    scene.answers = False
    with pytest.raises(Unanswered, match=f"nobody answered within 10 s; the wish for job {job} is kept"):
        scene.desk.extend(ANN, job, 7300)


@pytest.mark.parametrize(
    ("what", "name", "word", "past"),
    [
        ("queue", "batch", "pause", "paused"),
        ("partition", "here", "pause", "paused"),
        ("node", "n1", "cordon", "cordoned"),
        ("node", "n1", "drain", "drained"),
    ],
)
def test_a_word_is_kept_may_be_repeated_and_is_taken_back(
    scene: DeskScene, what: What, name: str, word: Word, past: str
) -> None:
    say, thing = scene.desk.word, f"{what} `{name}`"

    def said(verb: Word, **more: Any) -> str:
        return str(say(OPERATOR, what, name, verb, **more)["say"])

    def stands() -> dict[str, Any]:
        rows = {"queue": scene.desk.queues, "partition": scene.desk.partitions, "node": scene.desk.nodes}
        return next(dict(row) for row in rows[what](ANN) if row["name"] == name)

    before = stands()
    assert said(word, dry=True) == f"{thing} would be {past}; nothing was changed"
    assert stands() == before
    assert said(word, why="a disk") == f"{thing} is {past}"
    assert stands()["why"] == "a disk"
    assert said(word, why="a disk") == f"{thing} is {past} already"
    assert said(word, dry=True) == f"{thing} is {past} already; nothing was changed"
    assert said("resume") == f"{thing} is open"
    assert stands() == before
    assert said("resume") == f"{thing} is open already"


def test_partitions_tell_what_waits_and_runs_in_both_kinds(scene: DeskScene) -> None:
    scene.pulled(CLEO)
    scene.taken()
    scene.pulled(CLEO)
    scene.placed(CLEO)
    scene.placed(CLEO, start_after="+2h")
    rows = {row["name"]: row for row in scene.desk.partitions(ANN)}
    assert {name: (row["kind"], row["waiting"], row["running"]) for name, row in rows.items()} == {
        "here": ("placed", 1, 1),
        "local": ("pulled", 1, 1),
    }
    queues = {row["name"]: (row["waiting"], row["running"]) for row in scene.desk.queues(ANN)}
    assert queues == {"interactive": (1, 1), "batch": (0, 0)}


def test_what_a_cluster_has_to_say_is_told_of_its_partitions_and_of_jobs_that_wait(scene: DeskScene) -> None:
    def told() -> dict[str, list[str]]:
        return {row["name"]: row["notes"] for row in scene.desk.partitions(ANN)}

    job = scene.placed(ANN, start_after="+2h")
    assert told() == {"here": [], "local": []}
    for note in ("memory is not limited", "nothing is checked"):
        scene.world.cluster.notes = (note,)
        scene.world.turn()
        assert told() == {"here": [note], "local": []}
        assert f"cluster `lab`: {note}" in scene.desk.explain(ANN, job)["explained"]
    scene.world.cluster.notes = ()
    scene.world.turn()
    assert told() == {"here": [], "local": []}


def test_limits_that_are_not_kept_are_told_of_partitions_and_to_whom_they_concern(scene: DeskScene) -> None:
    """Below every explanation nobody would read it any more."""
    scene.world.cluster.unkept = ("memory of jobs is not limited",)
    told = "cluster `lab`: memory of jobs is not limited"
    plain = scene.placed(ANN, start_after="+2h")
    asks = scene.placed(ANN, start_after="+2h", mem="1GiB")
    ended, done = scene.placed(ANN), scene.placed(ANN)
    scene.world.turns(2)
    scene.world.cluster.end(f"{ended}.1", Cause.MEMORY)
    scene.world.cluster.end(f"{done}.1", Cause.EXITED, code=1)
    scene.world.until_over(ended, done)
    notes = {row["name"]: row["notes"] for row in scene.desk.partitions(ANN)}
    assert notes == {"here": ["memory of jobs is not limited"], "local": []}
    jobs = (plain, asks, ended, done)
    assert [told in scene.desk.explain(ANN, job)["explained"] for job in jobs] == [False, True, True, False]


def test_other_settings_hold_from_the_next_question_on(scene: DeskScene) -> None:
    job = scene.placed(ANN, start_after="+2h")
    only_pool = Settings.model_validate({"pools": {"local": {"kind": "embedded"}}})
    scene.desk.settings = only_pool
    with pytest.raises(Unusable, match="no partition of a cluster is configured"):
        scene.placed(ANN)
    with pytest.raises(Unknown, match="the partition `here` is not one of a cluster any more"):
        scene.desk.explain(ANN, job)
    assert scene.desk.show(ANN, job)["state"] == "queued"
    scene.desk.settings = SETTINGS
    assert scene.placed(ANN) > job


def test_without_a_node_that_was_seen_nothing_is_foretold(scene: DeskScene) -> None:
    scene.desk.settings = Settings.model_validate(
        {"clusters": {"new": {"kind": "local"}}, "partitions": {"new": {"cluster": "new"}}}
    )
    wish = read_submission({"command": ["true"], "partition": "new"})
    with pytest.raises(Unanswered, match="no node of the cluster `new` has been seen yet"):
        scene.desk.test(ANN, wish)
