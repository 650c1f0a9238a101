"""Who may see and do what at the desk: every caller, every job, every question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import Asked, JobDesk, LogAsked
from glidepath.jobs.errors import DeskError, Forbidden, Unknown, Unusable
from glidepath.jobs.stored import StoredDesk
from glidepath.jobs.submission import read_submission
from jobs.desk_scene import (
    ADMIN,
    ANN,
    BEN,
    CLEO,
    NEVER_WAS,
    OPERATOR,
    VIEWER,
    DeskScene,
)

Question = Callable[[StoredDesk, Caller, int], Any]
LOOKS: dict[str, Question] = {
    "show": lambda desk, caller, job: desk.show(caller, job),
    "explain": lambda desk, caller, job: desk.explain(caller, job),
    "events": lambda desk, caller, job: desk.events(caller, job=job),
    "log": lambda desk, caller, job: desk.log(caller, job, LogAsked()),
}
CHANGES: dict[str, Question] = {
    "cancel": lambda desk, caller, job: desk.cancel(caller, job),
    "cancel, dry": lambda desk, caller, job: desk.cancel(caller, job, dry=True),
    "extend": lambda desk, caller, job: desk.extend(caller, job, 7200),
    "extend, dry": lambda desk, caller, job: desk.extend(caller, job, 7200, dry=True),
}
# The other questions are about no job, and have tests of their own below.
WINDOWS = {"windows", "window", "add_window", "move_window", "cancel_window"}
OTHERS = {
    "submit",
    "test",
    "list",
    "usage",
    "queues",
    "partitions",
    "nodes",
    "word",
    "newest",
    "notices",
    *WINDOWS,
}
JOBS: dict[str, tuple[Caller, dict[str, Any]]] = {
    "own, pulled": (ANN, {}),
    "own, placed": (ANN, {"queue": "interactive"}),
    "of the project": (BEN, {"queue": "interactive", "project": "astro"}),
    "of another project": (CLEO, {"queue": "interactive", "project": "geo"}),
    "of nobody we know": (CLEO, {"queue": "batch"}),
    "of another, pulled": (CLEO, {}),
}
SEEN = {"own, pulled", "own, placed", "of the project"}
OWN = {"own, pulled", "own, placed"}
CALLERS: list[tuple[str, Caller, set[str], set[str]]] = [
    ("viewer", VIEWER, SEEN, set()),
    ("user", ANN, SEEN, OWN),
    ("user elsewhere", Caller("dan", ANN.role), set(), set()),
    ("operator", OPERATOR, set(JOBS), set(JOBS)),
    ("admin", ADMIN, set(JOBS), set(JOBS)),
]


def made(scene: DeskScene) -> dict[str, int]:
    found = {}
    for name, (owner, wish) in JOBS.items():
        found[name] = int(scene.asked(owner, time="1h", **wish).items[0]["id"])
    scene.world.turns(3)
    return found


def outcome(question: Question, desk: StoredDesk, caller: Caller, job: int) -> DeskError | None:
    try:
        question(desk, caller, job)
    except DeskError as error:
        return error
    return None


def test_every_question_of_the_desk_has_a_row() -> None:
    asked = {name for name in vars(JobDesk) if not name.startswith("_")}
    assert asked == OTHERS | set(LOOKS) | {"cancel", "extend"}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(("who", "caller", "seen", "changed"), CALLERS, ids=[row[0] for row in CALLERS])
def test_what_may_not_be_seen_is_as_unknown_as_what_never_was(
    scene: DeskScene, who: str, caller: Caller, seen: set[str], changed: set[str], name: str
) -> None:
    job = made(scene)[name]
    for question in (*LOOKS.values(), *CHANGES.values()):
        error = outcome(question, scene.desk, caller, job)
        never = outcome(question, scene.desk, caller, NEVER_WAS)
        assert isinstance(never, Unknown)
        same = error is not None and str(error) == str(never).replace(str(NEVER_WAS), str(job))
        assert same is (name not in seen)
        assert (type(error), error.hint if error else "") == (Unknown, never.hint) or name in seen


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize(("who", "caller", "seen", "changed"), CALLERS, ids=[row[0] for row in CALLERS])
def test_what_is_seen_is_changed_only_by_its_owner_and_operators(
    scene: DeskScene, who: str, caller: Caller, seen: set[str], changed: set[str], name: str
) -> None:
    job = made(scene)[name]
    before = scene.desk.show(ADMIN, job)["state"]
    for question in (*CHANGES.values(), CHANGES["cancel"]):
        error = outcome(question, scene.desk, caller, job)
        pulled_extend = isinstance(error, DeskError) and "is not a placed one" in str(error)
        if name in seen and name not in changed:
            assert isinstance(error, Forbidden) or pulled_extend
        else:
            assert not isinstance(error, Forbidden)
    after = scene.desk.show(ADMIN, job)["state"]
    assert (after in ("cancelled", "cancelling", "ending")) is (name in changed), (before, after)


@pytest.mark.parametrize(("who", "caller", "seen", "changed"), CALLERS, ids=[row[0] for row in CALLERS])
def test_lists_events_and_nodes_hold_what_is_seen_and_nothing_else(
    scene_anywhere: DeskScene, who: str, caller: Caller, seen: set[str], changed: set[str]
) -> None:
    scene = scene_anywhere
    jobs = made(scene)
    numbers = [jobs[name] for name in JOBS if name in seen]
    listed = scene.desk.list(caller, Asked())
    assert [item["id"] for item in listed] == numbers
    told = {item["job"] for item in scene.desk.events(caller)}
    assert told == {jobs[name] for name in seen if "pulled" not in name}
    on_nodes = {job for item in scene.desk.nodes(caller) for job in item["jobs"]}
    assert on_nodes == told


def test_a_list_is_cut_after_it_was_narrowed(scene_anywhere: DeskScene) -> None:
    scene = scene_anywhere
    own = [scene.pulled(ANN)]
    for _ in range(5):
        scene.pulled(CLEO)
    own.append(scene.placed(ANN))
    for _ in range(5):
        scene.placed(CLEO, project="geo")
    shared = scene.placed(BEN, project="astro")
    ids = [item["id"] for item in scene.desk.list(ANN, Asked(limit=2))]
    assert ids == [own[1], shared]
    assert [item["id"] for item in scene.desk.list(ANN, Asked(limit=2, below=own[1]))] == [own[0]]
    assert [item["id"] for item in scene.desk.list(ANN, Asked(project="astro"))] == [shared]
    assert scene.desk.list(ANN, Asked(owner="cleo")) == []
    assert [item["id"] for item in scene.desk.list(ANN, Asked(mine=True))] == own
    assert [item["id"] for item in scene.desk.list(ANN, Asked(partition="here"))] == [own[1], shared]
    events = scene.desk.events(ANN, limit=2)
    assert len(events) == 2
    assert {item["job"] for item in scene.desk.events(ANN, after=events[-1]["id"])} <= {own[1], shared}


@pytest.mark.parametrize(
    ("caller", "allowed"), [(VIEWER, False), (ANN, True), (OPERATOR, True), (ADMIN, True)]
)
def test_a_viewer_submits_nothing(scene: DeskScene, caller: Caller, allowed: bool) -> None:
    scene.placed(CLEO)
    wish = read_submission({"command": ["true"], "queue": "interactive", "time": "5m"})
    asked: list[Callable[[], Any]] = [
        lambda: scene.desk.submit(caller, wish),
        lambda: scene.desk.test(caller, wish),
    ]
    for ask in asked:
        if allowed:
            assert ask() is not None
        else:
            with pytest.raises(Forbidden, match="the role `viewer` may not submit jobs; `user` may"):
                ask()
    assert len(scene.desk.list(ADMIN, Asked())) == 1 + allowed


@pytest.mark.parametrize(
    ("caller", "project", "allowed"),
    [
        (ANN, "astro", True),
        (ANN, "geo", False),
        (ANN, "no-such-project", False),
        (OPERATOR, "geo", False),
        (ADMIN, "geo", True),
    ],
)
def test_only_who_belongs_to_a_project_lets_it_pay(
    scene: DeskScene, caller: Caller, project: str, allowed: bool
) -> None:
    if allowed:
        job = scene.placed(caller, project=project)
        assert scene.desk.show(caller, job)["project"] == project
        return
    with pytest.raises(Forbidden, match=f"`{project}` is none of your projects, so it cannot pay"):
        scene.placed(caller, project=project)
    assert scene.desk.list(ADMIN, Asked()) == []


def test_nobody_goes_beside_a_job_that_they_may_not_see(scene: DeskScene) -> None:
    hidden = scene.placed(CLEO, project="geo")
    with pytest.raises(DeskError) as unseen:
        scene.placed(ANN, beside=hidden)
    with pytest.raises(DeskError) as never:
        scene.placed(ANN, beside=NEVER_WAS)
    assert str(unseen.value) == str(never.value).replace(str(NEVER_WAS), str(hidden))
    assert scene.placed(CLEO, beside=hidden) > hidden


def test_whom_a_job_may_be_beside_is_told_before_anything_is_submitted(scene: DeskScene) -> None:
    """It opens the network between the two, so that to see the other one is not enough."""
    shared = scene.placed(BEN, project="astro")
    over = scene.pulled(ANN)
    scene.desk.cancel(ANN, over)
    pulled = scene.pulled(ANN)
    known = len(scene.desk.list(ADMIN, Asked()))
    for other, words in (
        (shared, f"job {shared} is of `{BEN.name}`; a job beside it is reached by it"),
        (over, f"job {over} is over"),
        (pulled, f"job {pulled} waits for a pilot"),
    ):
        with pytest.raises(Unusable, match=words):
            scene.placed(ANN, beside=other)
    assert scene.placed(BEN, beside=shared) > shared
    assert len(scene.desk.list(ADMIN, Asked())) == known + 1


def test_only_operators_insist_and_say_words(scene: DeskScene) -> None:
    job = scene.placed(ANN)
    scene.world.turns(3)
    with pytest.raises(Forbidden, match="the role `user` may not insist on a limit; `operator` may"):
        scene.desk.extend(ANN, job, 7200, forced=True)
    assert scene.desk.extend(OPERATOR, job, 7200, forced=True)["run_s_max"] == 7200
    with pytest.raises(Forbidden, match="the role `user` may not pause a queue; `operator` may"):
        scene.desk.word(ANN, "queue", "batch", "pause")
    with pytest.raises(Forbidden):
        scene.desk.word(ANN, "queue", "no-such-queue", "pause")
    assert [item["paused"] for item in scene.desk.queues(ANN)] == [False, False]


def test_what_holds_the_nodes_is_named_only_to_those_who_may_see_it(scene: DeskScene) -> None:
    holders = [scene.placed(CLEO, cpus=4, time="2h") for _ in range(2)]
    scene.world.turns(3)
    waits = scene.placed(ANN, cpus=4, time="1h")
    to_owner, to_operator = (
        " ".join(scene.desk.explain(caller, waits)["explained"]) for caller in (ANN, OPERATOR)
    )
    assert "by `a job of others`, which ends" in to_owner
    assert not any(f"`{job}`" in to_owner for job in holders)
    assert all(f"by `{job}`, which ends" in to_operator for job in holders)


def test_a_refused_limit_names_no_job_of_others(scene: DeskScene) -> None:
    mine = scene.placed(ANN, cpus=4, time="1h")
    other = scene.placed(CLEO, cpus=4, time="1h")
    scene.world.turns(3)
    waits = scene.placed(CLEO, cpus=4, time="1h")
    with pytest.raises(DeskError) as refused:
        scene.desk.extend(ANN, mine, 3 * 3600)
    assert "first=a job of others" in str(refused.value)
    texts = [item["text"] for item in scene.desk.events(ANN, job=mine)]
    assert not any(f"first={waits}" in text for text in texts)
    assert any(f"first={waits}" in item["text"] for item in scene.desk.events(OPERATOR, job=mine))
    assert other != waits
