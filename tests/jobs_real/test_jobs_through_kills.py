"""glidepath is killed just before and just after each thing it does to a cluster: nothing is lost or twice.

The proxy between it and a real apiserver knows the moment: it kills, and the request goes on or does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.bed_cluster import kube_cluster
from tests.bed_pool import nothing_is_left_in_the_end

from jobs_real.fault_proxy import Before, FaultProxy, Lost
from jobs_real.house import ON_THE_REAL_NODE, House, cluster_text, house

__all__ = ["nothing_is_left_in_the_end"]
pytestmark = pytest.mark.real

SEATS = f"""{ON_THE_REAL_NODE}
[[clusters.mortal.kubernetes.stated]]
name = "seat"
count = 2
cpus = 64
memory = "4GiB"
"""
INTERACTIVE = ("--queue", "interactive")
# What is done to a cluster for a gang with files, in the order in which it is done.
EFFECTS = ("POST services", "POST secrets", "POST pods", "PATCH services", "PATCH pods", "DELETE services")


@pytest.fixture(scope="module")
def there(
    request: pytest.FixtureRequest,
    nothing_is_left_in_the_end: None,
    proxy: FaultProxy,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("mortal")
    with house(kube_cluster(request.config), "mortal", folder, port=proxy.port) as made:
        made.configure(cluster_text("mortal", made.account, more=SEATS))
        made.up()
        yield made


@pytest.mark.parametrize("kind", [Before, Lost], ids=["before", "after"])
def test_killed_around_every_effect_each_job_runs_once(
    there: House, proxy: FaultProxy, kind: type[Before] | type[Lost]
) -> None:
    note = there.folder / "note"
    note.write_text("a note")
    gangs = []
    for effect in EFFECTS:
        dead = threading.Event()

        def killed(dead: threading.Event = dead) -> None:
            if not dead.is_set():
                there.kill()
                dead.set()

        proxy.faults[effect] = [Before(killed) if kind is Before else Lost(then=killed)]
        words = ("--client-key", f"{kind.__name__} {effect}", "--ranks", "2", "--put", str(note))
        gangs.append(there.submit("mortal", *INTERACTIVE, *words, script="echo once"))
        there.until(f"it was killed at {effect}", dead.is_set)
        there.up()
    for gang in gangs:
        over = there.comes_to(gang, "done", "failed")
        assert (over["state"], over["exit_code"], over["attempt"]) == ("done", 0, 1), over
        assert [there.logged(gang, "--rank", str(rank)) for rank in (0, 1)] == ["once\n"] * 2
    mine = [f"gp-{gang}-1-{rank}" for gang in gangs for rank in (0, 1)]
    made = {name: count for name, count in proxy.made.items() if int(name.split("-")[1]) in gangs}
    assert made == dict.fromkeys(mine, 1)
    there.until("all is cleared", lambda: there.objects() == [])
