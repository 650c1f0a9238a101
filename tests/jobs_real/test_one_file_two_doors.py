"""One submit file, on this machine and in pods, with one glidepath on PostgreSQL: the same comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left_in_the_end
from tests.postgres import postgres

from jobs_real.house import ON_THE_REAL_NODE, House, cluster_text, house

__all__ = ["nothing_is_left_in_the_end"]
pytestmark = pytest.mark.real

HERE = """
[clusters.here]
kind = "local"
cpus = 64
memory = "4GiB"
nodes = 2
cycle_max = "2s"

[partitions.here]
cluster = "here"
limit_default = "10m"

[store]
url = "{url}"
"""
SEATS = f"""{ON_THE_REAL_NODE}
[[clusters.pods.kubernetes.stated]]
name = "seat"
count = 2
cpus = 64
memory = "4GiB"
"""
FILE = """
queue = "interactive"
ranks = 2
cpus = 0.05
mem = "32MiB"
time = "10m"
name = "filed"
command = ["/bin/sh", "-c", '''
cat in/note; echo "$COLOUR $GLIDEPATH_RANK of $GLIDEPATH_RANKS"; wc -l <"$GLIDEPATH_RANK_FILE"
[ $CODE = 0 ] || [ $GLIDEPATH_RANK = 1 ] || sleep 600
exit $CODE
''']
env = { COLOUR = "blue", CODE = CODE_OF_IT }

[[files]]
path = "in/note"
content = "a note\\n"
"""
OVER_TIME = """
queue = "batch"
cpus = 0.05
mem = "32MiB"
time = "6s"
command = ["/bin/sh", "-c", "echo begun; sleep 600"]
"""
# What is told only where somebody looked in between.
PASSING = ("began", "ending")
ABSENT = """
cpus = 0.05
mem = "32MiB"
command = ["/no/such/program"]
"""


@pytest.fixture(scope="module")
def there(
    request: pytest.FixtureRequest,
    nothing_is_left_in_the_end: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("doors")
    with (
        postgres() as server,
        server.database() as url,
        house(kube_cluster(request.config), "doors", folder) as made,
    ):
        made.configure(HERE.format(url=url) + cluster_text("pods", made.account, more=SEATS))
        made.up()
        yield made


def outcome(there: House, job: int) -> dict[str, Any]:
    """What an owner reads of it, without names of nodes and times, and without who was a second earlier: the
    plan that ends what is over its limit, or the keeper of the limit.
    """
    over = there.comes_to(job, "done", "failed")
    kept = (
        "state",
        "exit_code",
        "signal",
        "attempt",
        "losses",
        "queue",
        "name",
        "shape",
        "ranks",
        "run_s_max",
    )
    logs = [" ".join(there.logged(job, "--rank", str(rank)).split()) for rank in range(over["ranks"])]
    kinds = [each["kind"] for each in over["events"] if each["kind"] not in PASSING]
    causes = [cause.replace("limit", "stopped") for _, cause in there.ranks(job)]
    return {key: over[key] for key in kept} | {"logs": logs, "events": kinds, "causes": causes}


def test_the_same_file_has_the_same_outcome_on_this_machine_and_in_pods(there: House) -> None:
    texts = {
        "good": FILE.replace("CODE_OF_IT", '"0"'),
        "bad": FILE.replace("CODE_OF_IT", '"3"'),
        "long": OVER_TIME,
        "absent": ABSENT,
    }
    jobs: dict[str, list[int]] = {}
    for name, text in texts.items():
        file = there.folder / f"{name}.toml"
        file.write_text(text)
        words = ("job", "submit", "--file", str(file), "--client-key")
        for partition in ("here", "pods"):
            key = (f"{name} {partition}", "--partition", partition)
            number = int(there.says(*words, *key).split()[-1])
            # The same word once more is the same job, on this store, too.
            assert int(there.says(*words, *key).split()[-1]) == number
            jobs.setdefault(name, []).append(number)
    found = {name: [outcome(there, job) for job in both] for name, both in jobs.items()}
    for name, (here, pods) in found.items():
        assert here == pods, name
    assert [found[name][0]["state"] for name in texts] == ["done", "failed", "failed", "failed"]
    assert found["good"][0]["logs"] == [f"a note blue {rank} of 2 2" for rank in (0, 1)]
    assert (found["bad"][0]["exit_code"], found["bad"][0]["causes"]) == (3, ["stopped", "exited"])
    assert found["long"][0]["logs"] == ["begun"]
