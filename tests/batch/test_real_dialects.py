"""The dialects of Slurm, Grid Engine and HTCondor with real servers: what they say is taken, and what these
answer is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from bed.parts.batch_root import USERS
from bed.parts.batch_site import Site
from bed.parts.condor import Pool
from bed.parts.gridengine import GridEngine
from bed.parts.slurm import Slurm
from dialect_jobs import a_job
from tests.bed_pool import MEANT, nothing_is_left, pool
from tests.bed_site import shared_site

from glidepath.batch.dialect import BatchJob, Dialect, JobSeen, OddAnswer, QueueFacts, Words
from glidepath.batch.dialects import DIALECTS
from glidepath.core.cycle import Refused
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

WAIT_S_MAX = 240
POLL_S = 0.25
TOOL_S = 60
OVER = (SiteState.ENDED, SiteState.FAILED)
# One machine that runs jobs as their owners, beside the daemons of the pool.
STARTD = """DAEMON_LIST = $(DAEMON_LIST) STARTD
NUM_CPUS = 2
MEMORY = 2000
use FEATURE : PartitionableSlot
EXECUTE = {folder}/execute
RunBenchmarks = False
STARTER_ALLOW_RUNAS_OWNER = True
UPDATE_INTERVAL = 5
NEGOTIATOR_UPDATE_INTERVAL = 5
SCHEDD_MIN_INTERVAL = 2
"""


@dataclass(frozen=True)
class Place:
    """One real site, and the dialect by which it is spoken to."""

    name: str
    site: Site | Pool

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.name]

    def says(self, words: Words, user: str = "ann") -> Ran:
        done = self.site.run(*words.argv, user=user, given=words.given or None, timeout_s=TOOL_S)
        return Ran(done.code, done.out, done.err)

    def job(self, key: str, text: str, **more: Any) -> BatchJob:
        """A job of one core whose script is this text."""
        script = self.site.home("ann") / f"{key}.sh"
        script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        script.chmod(0o755)
        os.chown(script, USERS["ann"], USERS["ann"])
        told = {"script": str(script), "output": str(self.site.home("ann") / f"{key}.out")}
        return a_job(**{"key": key, "cpus": 1, "memory_mib": 100, "walltime_s": 900, **told, **more})

    def submit(self, key: str, text: str, **more: Any) -> str:
        ran = self.says(self.dialect.submit(self.job(key, text, **more)))
        found = self.dialect.submitted(ran)
        assert isinstance(found, str), ran
        return found

    def queued(self) -> dict[str, JobSeen]:
        return {job.key: job for job in self.dialect.jobs_queued(self.says(self.dialect.queued(None)))}

    def past(self, *ids: str) -> dict[str, JobSeen]:
        words = self.dialect.past(ids, since_s=3600)
        assert words is not None
        return {job.native_id: job for job in self.dialect.jobs_past(self.says(words))}

    def facts(self) -> tuple[QueueFacts, ...]:
        probes: Any = self.dialect
        found: tuple[QueueFacts, ...] = probes.facts(tuple(self.says(words) for words in probes.probe()))
        return found

    def over(self, key: str, number: str) -> bool:
        """The queue does not have it, or has it as one that ended."""
        found = self.queued().get(key)
        return found is None or found.state in OVER


def until(true: Callable[[], bool], what: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not true():
        assert time.monotonic() < end, what()
        time.sleep(POLL_S)


@pytest.fixture(scope="module")
def condor_site() -> Iterator[Pool]:
    found = pool("condor@dialect")
    with found:
        found.up(tied=True, extra_config=STARTD.format(folder=found.folder))
        MEANT.add(found.folder)
        yield found
    MEANT.discard(found.folder)


@pytest.fixture(params=["slurm", "sge", "htcondor"])
def there(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "htcondor":
        found = Place(request.param, request.getfixturevalue("condor_site"))
    else:
        kind = Slurm if request.param == "slurm" else GridEngine
        found = Place(request.param, shared_site(request.config, kind))
    began(found)
    yield found
    ids = tuple(job.native_id for job in found.queued().values() if job.state not in OVER)
    if ids:
        found.says(found.dialect.cancel(ids))
    until(lambda: all(job.state in OVER for job in found.queued().values()), found.queued)


def began(place: Place) -> None:
    """Grid Engine has no accounting to look into before the first job of all has ended."""

    def looked_up() -> bool:
        try:
            return bool(place.past("1"))
        except OddAnswer:
            return False

    if place.name == "sge" and not looked_up():
        place.submit("gp-first.mark", "exit 0")
        until(looked_up, place.queued)


def test_a_job_is_queued_runs_and_is_cancelled(there: Place) -> None:
    number = there.submit("gp-real-1.mark", "sleep 600")
    assert number in {job.native_id for job in there.queued().values()}
    until(lambda: there.queued()["gp-real-1.mark"].state is SiteState.RUNNING, there.queued)
    running = there.queued()["gp-real-1.mark"]
    assert running.native_id == number
    assert len(running.nodes) == 1
    assert there.dialect.cancelled(there.says(there.dialect.cancel((number,)))) is None
    until(lambda: there.over("gp-real-1.mark", number), there.queued)
    until(lambda: there.past(number).get(number) is not None, lambda: there.past(number))
    until(lambda: there.past(number)[number].state in OVER, lambda: there.past(number))
    # Slurm's accounting may not have heard of the start, and with it of the name.
    assert there.past(number)[number].key in ("gp-real-1.mark", "")
    # Again: it is gone, and that is no mistake.
    assert there.dialect.cancelled(there.says(there.dialect.cancel((number,)))) is None


@pytest.mark.parametrize(("text", "state"), [("exit 0", SiteState.ENDED), ("exit 3", SiteState.FAILED)])
def test_accounting_knows_how_a_job_ended(there: Place, text: str, state: SiteState) -> None:
    key = f"gp-real-2-{state}.mark"
    number = there.submit(key, text)
    other = there.submit(f"{key}.2", text)
    until(lambda: set(there.past(number, other)) >= {number, other}, lambda: there.past(number, other))
    until(
        lambda: (
            {each.state for each in there.past(number, other).values() if each.key.startswith(key)} == {state}
        ),
        lambda: there.past(number, other),
    )
    found = there.past(number)[number]
    assert found.key in (key, "")
    assert text.split()[1] in found.why


def test_a_number_that_nobody_knows_is_not_found_and_not_cancelled(there: Place) -> None:
    number = "999999.0" if there.name == "htcondor" else "999999"
    assert number not in there.past(number)
    assert number not in there.past(number, number[0] + number)
    assert there.dialect.cancelled(there.says(there.dialect.cancel((number,)))) is None


def test_a_job_of_somebody_else_is_neither_listed_nor_cancelled(there: Place) -> None:
    number = there.submit("gp-real-3.mark", "sleep 600")
    others = there.dialect.jobs_queued(there.says(there.dialect.queued(None), user="ben"))
    if there.name != "htcondor":
        assert "gp-real-3.mark" not in {job.key for job in others}
    found = there.dialect.cancelled(there.says(there.dialect.cancel((number,)), user="ben"))
    assert isinstance(found, Refused)
    assert there.queued()["gp-real-3.mark"].state in (SiteState.PENDING, SiteState.RUNNING)


def test_what_the_site_does_not_have_is_refused(there: Place) -> None:
    mistakes: dict[str, list[dict[str, Any]]] = {
        "slurm": [{"queue": "nope"}, {"account": "nope"}, {"gpus": 1}, {"memory_mib": 99_999_999}],
        "sge": [{"queue": "nope.q"}, {"account": "nope"}, {"gpus": 1}, {"cpus": 2, "parallel": "nope"}],
        "htcondor": [{"script": "/nowhere/job.sh"}],
    }
    for more in mistakes[there.name]:
        ran = there.says(there.dialect.submit(there.job("gp-real-4.mark", "exit 0", **more)))
        assert isinstance(there.dialect.submitted(ran), Refused), (more, ran)


def test_every_form_of_asking_is_taken(there: Place) -> None:
    forms: dict[str, list[dict[str, Any]]] = {
        "slurm": [
            {"queue": "whole", "whole_node": True, "nodes": 2, "memory_by": "core", "cpus": 2},
            {"account": "abc123", "disk_mib": 100, "queue": "long,short", "avoid": ("node1",)},
            {"options": ("--nice=5",)},
        ],
        "sge": [
            {"cpus": 2, "avoid": ("n1", "n2"), "queue": "short.q"},
            {"cpus": 2, "memory_by": "core", "memory_form": "h_vmem", "options": ("-l arch=lx-amd64",)},
            {"memory_mib": 0, "parallel": "smp"},
        ],
        "htcondor": [
            {"disk_mib": 10, "avoid": ("n1", "n2"), "gpus": 1, "gpu_type": "a100"},
            {"gpus": 1, "gpu_type": "a100", "gpu_form": "GPUs_DeviceName", "account": "group.hep"},
        ],
    }
    for number, more in enumerate(forms[there.name]):
        key = f"gp-real-5-{number}.mark"
        there.submit(key, "sleep 600", **more)
        assert key in there.queued()


def test_a_node_that_is_avoided_gets_no_job(there: Place) -> None:
    if there.name == "slurm":
        there.submit("gp-real-6.mark", "sleep 600", avoid=("node1",), queue="long")
        until(lambda: there.queued()["gp-real-6.mark"].state is SiteState.RUNNING, there.queued)
        assert there.queued()["gp-real-6.mark"].nodes == ("node2",)
        return
    # The only node there is.
    there.submit("gp-real-6a.mark", "sleep 600")
    until(lambda: there.queued()["gp-real-6a.mark"].state is SiteState.RUNNING, there.queued)
    (node,) = there.queued()["gp-real-6a.mark"].nodes
    there.submit("gp-real-6.mark", "exit 0", avoid=(node,))
    number = there.submit("gp-real-6b.mark", "exit 0")
    # One that came later has run meanwhile.
    until(lambda: number in there.past(number), there.queued)
    assert there.queued()["gp-real-6.mark"].state is SiteState.PENDING


@pytest.mark.parametrize("there", ["htcondor"], indirect=True)
def test_htcondor_withdraws_what_has_not_begun_and_nothing_else(there: Place) -> None:
    def withdrawn(number: str) -> object:
        words = there.dialect.withdraw(number)
        assert words is not None
        return there.dialect.withdrawn(there.says(words))

    waiting = there.submit("gp-real-7.mark", "sleep 600", cpus=500)
    assert withdrawn(waiting) is None
    assert "gp-real-7.mark" not in there.queued()
    assert isinstance(withdrawn(waiting), Refused)
    running = there.submit("gp-real-8.mark", "sleep 600")
    until(lambda: there.queued()["gp-real-8.mark"].state is SiteState.RUNNING, there.queued)
    assert isinstance(withdrawn(running), Refused)
    assert there.queued()["gp-real-8.mark"].state is SiteState.RUNNING


@pytest.mark.parametrize("there", ["htcondor"], indirect=True)
def test_htcondor_takes_files_along_and_brings_back_what_a_job_wrote(there: Place) -> None:
    home = there.site.home("ann")
    taken, back = home / "taken", home / "last-words"
    taken.write_text("from here\n", encoding="utf-8")
    taken.chmod(0o644)
    there.submit("gp-real-11.mark", "cat taken > last-words; echo seen", files=(str(taken),))
    until(lambda: "gp-real-11.mark" not in there.queued(), there.queued)
    assert back.read_text(encoding="utf-8") == "from here\n"
    assert (home / "gp-real-11.mark.out").read_text(encoding="utf-8") == "seen\n"


@pytest.mark.parametrize("there", ["htcondor"], indirect=True)
def test_htcondor_ends_a_job_at_its_limit_and_says_why(there: Place) -> None:
    number = there.submit("gp-real-9.mark", "sleep 600", walltime_s=1)
    until(lambda: number in there.past(number), there.queued)
    found = there.past(number)[number]
    assert (found.state, "PeriodicRemove" in found.why) == (SiteState.FAILED, True)


@pytest.mark.parametrize("there", ["slurm", "sge"], indirect=True)
def test_a_server_that_is_away_tells_nothing(there: Place) -> None:
    daemon = "slurmctld" if there.name == "slurm" else "qmaster"
    site = there.site
    assert isinstance(site, Site)
    job = there.job("gp-real-10.mark", "exit 0")
    site.stop(daemon)
    try:
        with pytest.raises(ValueError):
            there.queued()
        found = there.dialect.submitted(there.says(there.dialect.submit(job)))
        assert not isinstance(found, str | Refused)
    finally:
        site.restart(daemon)
    until(lambda: there.facts() != () and all(each.open for each in there.facts()), there.facts)


def test_limits_of_a_real_site_are_read(there: Place) -> None:
    # A pool hears of its machines a moment after they started.
    until(lambda: there.facts() != (), there.facts)
    found = {
        each.name: (each.walltime_s_max, each.nodes_max, each.cpus_per_node, each.whole_node, each.open)
        for each in there.facts()
    }
    expected: dict[str, dict[str, object]] = {
        "slurm": {
            "short": (1800, 1, 4, False, True),
            "long": (7 * 86400, 2, 4, False, True),
            "whole": (7200, 2, 4, True, True),
            "minute": (60, 1, 4, False, True),
        },
        "sge": {"all.q": (None, None, 4, False, True), "short.q": (1800, None, 4, False, True)},
        "htcondor": {"cores-2-memory-2000": (None, 1, 2, False, True)},
    }
    assert found == expected[there.name]
    memory = {each.memory_mib_per_node for each in there.facts()}
    assert all(each and each > 0 for each in memory)
