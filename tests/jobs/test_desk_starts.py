"""What the desk says of queues and starts: why a job is in its queue, when it starts, how sure that is."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from glidepath.clock import iso
from glidepath.config import Settings
from glidepath.jobs.desk import Asked
from glidepath.jobs.errors import Clash
from glidepath.jobs.specs import queue_of
from glidepath.jobs.submission import read_submission
from glidepath.store.job_rows import jobs as job_rows
from glidepath.store.placed import Stands
from glidepath.store.placed_rows import placed as placed_rows
from jobs.desk_scene import ADMIN, ANN, CLEO, DeskScene, ids

PLACED = {"queue": "interactive", "time": "1h"}


def test_a_list_is_narrowed_by_the_word_that_it_shows(scene_anywhere: DeskScene) -> None:
    scene = scene_anywhere
    scene.world.cluster.runs_s[4] = 0
    runs, ends, waits, done = (scene.placed(ANN, cpus=2) for _ in range(4))
    pulled = [scene.pulled(ANN), scene.pulled(ANN)]
    scene.taken()
    for _ in range(3):
        scene.world.turn()
    starts = scene.placed(ANN, cpus=2)
    stored = scene.world.store
    with stored.write() as conn:  # Each of these lasts for a moment only.
        for job, phase in ((starts, "starting"), (ends, "ending"), (waits, "waits")):
            conn.execute(update(placed_rows).where(placed_rows.c.job == job).values(phase=phase))
        conn.execute(update(job_rows).where(job_rows.c.id == waits).values(state="queued"))
    scene.desk.cancel(ANN, pulled[1])
    shown = {item["id"]: item["state"] for item in scene.desk.list(ANN, Asked())}
    assert shown == {
        runs: "running",
        ends: "ending",
        waits: "queued",
        done: "done",
        starts: "starting",
        pulled[0]: "running",
        pulled[1]: "cancelling",
    }
    for word in Stands:
        expected = [job for job, state in sorted(shown.items()) if state == word]
        assert ids(scene.desk.list(ANN, Asked(state=word))) == expected


def test_a_list_says_when_batch_jobs_will_probably_start_and_how_sure_that_is(scene: DeskScene) -> None:
    for _ in range(2):
        scene.placed(CLEO, cpus=4, time="2h")
    first, second = (ids(scene.asked(ANN, queue="batch", cpus=4, time="1h").items)[0] for _ in range(2))
    promised = scene.placed(ANN, cpus=4, time="1h")
    large = ids(scene.asked(ANN, queue="batch", cpus=4, ranks=2, time="1h").items)[0]
    pulled = scene.pulled(ANN)
    items = {item["id"]: item["likely"] for item in scene.desk.list(ADMIN, Asked(starts=True))}
    assert {job for job, likely in items.items() if likely} == {first, second, large}
    assert items[promised] is items[pulled] is None
    for job in (first, second, large):
        assert items[job]["earliest"] <= items[job]["start"] <= items[job]["latest"]
        assert items[job]["confidence"] == 0.8
    assert items[first]["start"] <= items[large]["start"]
    assert "likely" not in scene.desk.list(ADMIN, Asked())[0]
    scene.world.time.at += 3600  # The scheduler has not been heard of for an hour.
    assert {item["likely"] for item in scene.desk.list(ADMIN, Asked(starts=True))} == {None}


ALONE = Settings.model_validate(
    {
        "clusters": {"lab": {"kind": "local"}},
        "partitions": {
            "batch": {"cluster": "lab", "queues": ["batch"]},
            "both": {"cluster": "lab"},
            "desk": {"cluster": "lab", "queues": ["interactive"]},
        },
    }
)


@pytest.mark.parametrize(
    ("wish", "queue", "why"),
    [
        ({"queue": "batch", "terminal": True}, "batch", ""),
        ({"terminal": True}, "interactive", "because it asks for a terminal"),
        ({"terminal": True, "port": 80}, "interactive", "because it asks for a terminal"),
        ({"port": 80}, "interactive", "because it serves at a port"),
        ({}, "batch", "because it serves at no port and asks for no terminal"),
        ({"terminal": True, "partition": "batch"}, "batch", "because its partition has no other"),
        ({"partition": "desk"}, "interactive", "because its partition has no other"),
    ],
)
def test_which_queue_a_wish_goes_to_and_why(wish: dict[str, Any], queue: str, why: str) -> None:
    made = read_submission({"command": ["true"], "partition": "both", **wish})
    assert made.partition is not None
    assert queue_of(made, ALONE.partitions[made.partition]) == (queue, why)


def test_a_job_tells_why_it_is_in_its_queue(scene: DeskScene) -> None:
    done = scene.asked(ANN, terminal=True, time="1h", key="k")
    why = "because it asks for a terminal"
    assert done.say == f"job 1 starts now on n1; interactive, {why}"
    item = scene.desk.show(ANN, 1)
    assert (item["terminal"], item["queue"], item["queue_why"]) == (True, "interactive", why)
    assert item["events"][0]["text"] == f"submitted to interactive of `here`, {why}"
    named = scene.asked(ANN, terminal=True, queue="interactive", time="1h", key="k")
    assert (named.new, ids(named.items)) == (False, [1]), "the reason is ours and no part of the wish"


def test_a_wish_names_its_times_and_starts_within_them_or_not_at_all(scene: DeskScene) -> None:
    for _ in range(2):
        scene.placed(CLEO, cpus=4, time="110m")
    at = scene.world.time.at
    shown = scene.desk.show(ANN, scene.placed(ANN, start_after="+2h"))
    assert shown["state"] == "queued"
    # To the second but for what clocks are rounded by.
    assert iso(at + 7200) <= shown["promised"] <= iso(at + 7202)
    wish = {"command": ["true"], **PLACED, "start_after": "+3h"}
    tested = scene.desk.test(ANN, read_submission(wish))
    assert 3 * 3600 <= tested["wait_s"] <= 3 * 3600 + 2
    too_late = {"command": ["true"], "queue": "batch", "cpus": 4, "time": "1h"}
    for more, said in (
        ({"start_before": "+1h"}, "it would not start: room for it is free at .*, and it must start by "),
        ({"deadline": "+2h"}, "it would not start: room for it is free at .*, and it must start by "),
        ({"deadline": "+30m"}, "it would not start: "),
        ({"start_after": "+2h", "start_before": "+1h"}, "it would not start: "),
    ):
        with pytest.raises(Clash, match=said):
            scene.desk.test(ANN, read_submission({**too_late, **more}))
    hopeless = ids(scene.asked(ANN, queue="batch", cpus=4, time="1h", deadline="+30m").items)[0]
    scene.world.turn()
    assert scene.desk.show(ANN, hopeless)["state"] == "failed"
    assert "a limit of at most 29m" in scene.desk.show(ANN, hopeless)["why"]
    waits = scene.asked(ANN, **PLACED, cpus=4, start_before="+90m")
    assert "must start by" in waits.say
    item = waits.items[0]
    assert (item["state"], item["start"], item["promised"]) == ("queued", None, None), (
        "no start that is not meant"
    )
    scene.world.turn(after_s=91 * 60)
    shown = scene.desk.show(ANN, item["id"])
    assert (shown["state"], shown["attempt"]) == ("failed", 0)
    assert "latest start" in shown["why"]
