"""Jobs while the way to a real apiserver is bad: none fails for it, and none runs twice.

What is asked goes through a proxy that answers in the server's place, or loses an answer after the effect.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left_in_the_end

from jobs_real.fault_proxy import Fault, FaultProxy, Lost, status
from jobs_real.house import ON_THE_REAL_NODE, House, cluster_text, house
from kube.stand_in import Answer

__all__ = ["nothing_is_left_in_the_end"]
pytestmark = pytest.mark.real

SEATS = f"""{ON_THE_REAL_NODE}
[[clusters.far.kubernetes.stated]]
name = "seat"
count = 3
cpus = 64
memory = "4GiB"
"""
INTERACTIVE = ("--queue", "interactive")
RETRY_S = 2


def busy() -> Answer:
    return status(429, "TooManyRequests", "slow down", **{"Retry-After": str(RETRY_S)})


def conflict() -> Answer:
    return status(409, "Conflict", "the object has been modified; please apply your changes to the latest")


def gone() -> Answer:
    return status(404, "NotFound", "not found")


def early() -> Answer:
    return status(400, "BadRequest", 'container "job" in pod is waiting to start: ContainerCreating')


def inside() -> Answer:
    return status(500, "InternalError", "etcdserver: request timed out")


def down() -> Answer:
    return Answer(503, b"<html>no server is there</html>", kind="text/html")


@pytest.fixture(scope="module")
def there(
    request: pytest.FixtureRequest,
    nothing_is_left_in_the_end: None,
    proxy: FaultProxy,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    cluster = kube_cluster(request.config)
    # The first lists of all fail, too.
    proxy.faults |= {"GET pods": [busy(), down()], "GET services": [inside()], "GET pods watch": [gone()]}
    with house(cluster, "far", tmp_path_factory.mktemp("far"), port=proxy.port) as made:
        made.configure(cluster_text("far", made.account, more=SEATS))
        made.up()
        yield made


STEPS: dict[str, list[Fault]] = {
    "POST services": [busy(), conflict(), inside(), down(), Lost(), Lost(inside())],
    "POST secrets": [busy(), Lost()],
    "POST pods": [busy(), conflict(), down(), Lost(), Lost(inside())],
    "PATCH services": [busy(), conflict(), down(), Lost()],
    "GET pods/log": [early(), gone(), inside(), Lost()],
    "DELETE services": [busy(), conflict(), gone(), inside(), Lost()],
}


def test_whatever_is_answered_no_job_fails_and_each_runs_once(there: House, proxy: FaultProxy) -> None:
    note = there.folder / "note"
    note.write_text("a note")
    jobs = []
    for what, faults in STEPS.items():
        for fault in faults:
            proxy.faults[what] = [fault]
            jobs.append(there.submit("far", *INTERACTIVE, "--put", str(note), script="echo once"))
            there.until(f"{what} {fault}", lambda: not proxy.left())
    for job in jobs:
        over = there.comes_to(job, "done", "failed")
        assert (over["state"], over["exit_code"]) == ("done", 0), over
        assert there.logged(job) == "once\n"
    made = {job: [name for name in proxy.made.elements() if name.startswith(f"gp-{job}-")] for job in jobs}
    assert {job: len(names) for job, names in made.items()} == dict.fromkeys(jobs, 1), made
    there.until("all is cleared", lambda: there.objects() == [])


def test_a_gang_begins_once_whatever_becomes_of_the_word_to_begin(there: House, proxy: FaultProxy) -> None:
    proxy.faults["PATCH pods"] = [busy(), conflict(), inside(), Lost(), gone()]
    gang = there.submit("far", *INTERACTIVE, "--ranks", "3", script="echo once; sleep 600")
    there.comes_to(gang, "running")
    assert proxy.left() == []
    proxy.faults["PATCH pods"] = [busy(), conflict(), Lost(inside())]
    there.says("job", "extend", str(gang), "--time", "30m")

    def limits() -> set[str]:
        pods = [there.pod(f"gp-{gang}-1-{rank}") for rank in range(3)]
        return {pod["metadata"]["annotations"]["glidepath/limit"] for pod in pods}

    there.until("each rank has the new limit", lambda: limits() == {"1800"})
    proxy.faults |= {"PATCH services": [inside(), Lost()], "PATCH pods": [conflict(), Lost()]}
    there.cancelled(gang)
    assert there.ranks(gang) == [("over", "stopped")] * 3
    assert [there.logged(gang, "--rank", str(rank)) for rank in range(3)] == ["once\n"] * 3
    assert there.job(gang)["attempt"] == 1


def test_a_pod_that_is_taken_away_is_noticed_though_a_mark_of_its_set_was_lost(
    there: House, proxy: FaultProxy
) -> None:
    proxy.faults["PATCH services"] = [down()]
    script = "[ $GLIDEPATH_ATTEMPT = 2 ] || sleep 600; echo again"
    job = there.submit("far", *INTERACTIVE, script=script)
    there.comes_to(job, "running")
    assert proxy.left() == []
    there.down()
    there.kubectl("delete", "pod", f"gp-{job}-1-0", "--force", "--grace-period=0")
    there.up()
    over = there.comes_to(job, "done", "failed")
    assert (over["state"], over["attempt"], over["losses"]) == ("done", 2, 1)
