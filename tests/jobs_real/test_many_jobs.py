"""A thousand queued jobs on five hundred nodes by a real control plane: all of them done, and none run twice.

The nodes are not there: kwok says of each pod that it runs, and after a while that it has ended.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left_in_the_end

from jobs_real.house import House, cluster_text, house

__all__ = ["nothing_is_left_in_the_end"]
pytestmark = pytest.mark.real

JOBS, NODES, RUN_S = 1000, 500, 2.0
# Each has a node for itself, so that the second half waits for the first.
FULL = ("--cpus", "32")


@pytest.fixture(scope="module")
def there(
    request: pytest.FixtureRequest,
    nothing_is_left_in_the_end: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    cluster = kube_cluster(request.config)
    with house(cluster, "crowd", tmp_path_factory.mktemp("crowd")) as made:
        cluster.fake_nodes(NODES, prefix="crowd", run_s=RUN_S, labels={"tests/house": made.namespace})
        try:
            label = f'nodes_of = [{{ key = "tests/house", any_of = ["{made.namespace}"] }}]'
            made.configure(cluster_text("crowd", made.account, more=label))
            made.up()
            yield made
        finally:
            cluster.drop_fake_nodes()


def test_a_thousand_jobs_are_all_done_and_none_runs_twice(there: House) -> None:
    given = ("--partition", "crowd", *FULL, "--mem", "64MiB", "--time", "30m", "--count", str(JOBS))
    assert len(there.says("job", "submit", *given, "--", "true").split()) == JOBS

    def states() -> Counter[str]:
        items = json.loads(there.says("job", "list", "--all", "-o", "json"))["items"]
        return Counter(each["state"] for each in items)

    for _ in range(3):  # Each wave may take its time on a busy machine.
        there.told("job", "wait", str(JOBS), "--timeout", "4m")
    there.until(f"all are over: {states()}", lambda: set(states()) <= {"done", "failed"})
    assert states() == {"done": JOBS}
    # By the kube-scheduler's own word, which is not ours: no job was bound to a node more than once.
    shown = json.loads(there.kubectl("get", "events", "--field-selector", "reason=Scheduled", "-o", "json"))
    bound = Counter(each["involvedObject"]["name"].split("-")[1] for each in shown["items"])
    assert len(bound) > JOBS // 2  # Some events may be dropped; none is made up.
    assert max(bound.values()) == 1
    there.until("all is cleared", lambda: there.objects() == [])
