"""The real client of pyglidein, unmodified, against the demand server: it launches its share, once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.agent_builders import WEST, Served, renamed, served, spec
from calls.pyglidein_client import CONFIG, run_client
from glidepath.called.backend import CalledBackend
from glidepath.called.settings import CalledSettings
from glidepath.called.tray import Step
from glidepath.ports import Place
from glidepath.store.site_tokens import ADDRESS

pytestmark = pytest.mark.real

# A queue of one file per job, with the words of Slurm that the client says.
SBATCH = """#!{python}
import pathlib, sys
queue = pathlib.Path(__file__).parent / "queue"
queue.mkdir(exist_ok=True)
number = len(list(queue.iterdir())) + 1
(queue / str(number)).write_text(pathlib.Path(sys.argv[-1]).read_text())
print("Submitted batch job", number)
"""
SQUEUE = """#!{python}
import pathlib, sys
queue = pathlib.Path(__file__).parent / "queue"
jobs = sorted(queue.iterdir()) if queue.exists() else []
running = pathlib.Path(__file__).parent / "running"
run = int(running.read_text()) if running.exists() else 0
if "--count" in sys.argv:
    print(run if sys.argv[-1] == "RUNNING" else len(jobs) - run)
else:
    print("\\n".join("2030-01-01T00:00:00" for _ in jobs[run:]))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "home", "west", "east") as made:
        yield made


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """A folder with the commands of a batch system."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE)):
        (folder / name).write_text(text.format(python=sys.executable))
        (folder / name).chmod(0o755)
    return folder


def one_round(work: Path, address: str, slurm: Path) -> str:
    return run_client(work, CONFIG.format(address=address, work=work), path=slurm)


def want(world: Served, *names: str) -> None:
    site, now = (
        CalledBackend(WEST, CalledSettings(), Place(world.home, world.url_of_store)),
        world.desk.clock(),
    )
    for name in names:
        site.submit(renamed(spec(asked_at=now.now()), name))
    site.close()


def jobs(slurm: Path) -> list[str]:
    queue = slurm / "queue"
    return [path.read_text() for path in sorted(queue.iterdir())] if queue.exists() else []


def steps(world: Served) -> list[Step]:
    return sorted(request.step for request in world.desk.post.tray(WEST).requests)


def test_the_unmodified_client_launches_its_share_once(world: Served, slurm: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    address = f"{world.url}/sites/{world.token('west', use=ADDRESS)}"
    want(world, "p1", "p2", "p3")
    assert "launched 3 glideins on Cluster" in one_round(work, address, slurm)
    assert len(jobs(slurm)) == 3
    for line in ("#SBATCH --mem=1075", "#SBATCH --ntasks-per-node=1", "#SBATCH --account=abc", "CPUS=1"):
        assert line in jobs(slurm)[0].splitlines()
    assert steps(world) == [Step.LAUNCHED] * 3
    for _ in range(2):
        assert "nothing to do" in one_round(work, address, slurm)
    assert (len(jobs(slurm)), steps(world)) == (3, [Step.LAUNCHED] * 3)
    (slurm / "running").write_text("2")
    want(world, "p4")
    one_round(work, address, slurm)
    assert len(jobs(slurm)) == 4
    assert steps(world) == [Step.LAUNCHED, Step.LAUNCHED, Step.STARTED, Step.STARTED]
    _, said = world.desk.post.clients("west")["ann@login"]
    assert said["sums"]["glideins_running"] == 2


def test_clients_of_two_sites_launch_for_their_own_share_alone(
    world: Served, slurm: Path, tmp_path: Path
) -> None:
    want(world, "p1")
    for name in ("east", "west"):
        work = tmp_path / name
        work.mkdir()
        one_round(work, f"{world.url}/sites/{world.token(name, use=ADDRESS)}", slurm)
    assert len(jobs(slurm)) == 1


def test_the_limit_of_the_client_holds_and_the_rest_waits_on(
    world: Served, slurm: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    address = f"{world.url}/sites/{world.token('west', use=ADDRESS)}"
    want(world, *(f"p{n}" for n in range(8)))
    one_round(work, address, slurm)
    assert (len(jobs(slurm)), steps(world).count(Step.ASKED)) == (5, 3)
    one_round(work, address, slurm)
    assert (len(jobs(slurm)), steps(world)) == (8, [Step.LAUNCHED] * 8)
