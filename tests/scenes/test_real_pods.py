"""The whole on a real cluster: jobs of a real schedd run in pods that glidepath made, from zero to zero."""

from __future__ import annotations

import json

import pytest

from kube.pods_world import Pods
from whole.running import until

pytestmark = pytest.mark.real


def test_jobs_run_in_pods_several_in_each_and_all_of_them_go(pods: Pods) -> None:
    work = pods.submit("sleep 1", "request_memory = 100", count=6)
    run = pods.up("--until-idle")
    pods.done(work)
    assert run.wait_end(within_s=120) == 0, run.text
    assert pods.history(work, "ExitCode") == [["0"]] * 6
    asked = pods.asked()
    assert len(asked) == 1
    until(lambda: pods.folders() == [], lambda: str(pods.folders()), within_s=60)
    assert pods.slots() == []


def test_a_pod_that_is_deleted_under_a_job_lets_it_finish(pods: Pods) -> None:
    work = pods.submit("sleep 12", "request_memory = 100")
    pods.up()
    pods.running(work, 1)
    (name,) = pods.folders()
    pods.kubectl("delete", name, "--wait=false")
    pods.done(work)
    assert pods.history(work, "ExitCode", "NumJobStarts") == [["0", "1"]]
    assert pods.asked() == [name.removeprefix("pod/")]


def test_an_image_that_is_missing_rests_the_offer_and_is_told(pods: Pods) -> None:
    pods.configure(image="bed.invalid/missing:1")
    pods.submit("true", "request_memory = 100")
    pods.up()

    def told() -> bool:
        shown = pods.ask("pilot", "list", "--ended", "--limit", "10")["items"]
        return any("ErrImageNeverPull" in json.dumps(item) for item in shown)

    until(told, pods.said, within_s=90)
    until(lambda: "fail" in json.dumps(pods.ask("site", "status")["items"]), pods.said, within_s=60)
    assert len(pods.asked()) <= 4
