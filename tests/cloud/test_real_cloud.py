"""A whole glidepath, a real pool of HTCondor, and a cloud whose jobs are processes that run our pilot."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bed.parts.condor import Pool

from bed_pool import condor_pool
from cloud.cloud_builders import LCLI
from cloud.queue_service import KEY, Job, Service, serving
from grid.grid_world import POOL, RIGHTS, Grid
from grid.test_real_deaths import life
from pilot.pilot_world import plain_python
from whole.running import house, until

pytestmark = pytest.mark.real

WAIT_S = 300.0
HEAD = """
[cycle]
min = "1s"
max = "3s"
deadline = "15s"

[policy]
name = "steady"
release_after = "5m"

[pilots]
withdraw_after = "1m"
left_min = "10s"
join_slack = "10s"
useful_min = "30s"
"""
SITE = """
[sites.cloud]
kind = "cloud"
failures_max = 2
on_exit = "stop"
repeat_within = "0s"

[sites.cloud.offers.box]
cpus = 2
memory = "2GiB"
disk = "2GiB"
lifetime = "1h"
idle = "{idle}"
limits = {{ live_max = 3 }}

[sites.cloud.offers.box.condor]
lines = ["NETWORK_INTERFACE = 127.0.0.1", "UPDATE_INTERVAL = 5"]

[sites.cloud.cloud]
way = "{way}"
image = "pilot:1"
key_file = "{key}"
memory_per_cpu = "1GiB"
cpu_sizes = [2, 4]

[sites.cloud.cloud.states]
queued = "pending"
running = "running"
stopping = "leaving"
finished = "ended"
canceled = "ended"
error = "failed"
"""
REST = """
[sites.cloud.cloud.rest]
url = "{url}"
headers = {{ Authorization = "Bearer {{key}}" }}
next = "next"
next_param = "after"
list = {{ method = "GET", path = "/jobs" }}
show = {{ method = "GET", path = "/jobs/{{id}}" }}
delete = {{ method = "DELETE", path = "/jobs/{{id}}" }}
cancel = {{ method = "POST", path = "/jobs/{{id}}/cancel" }}
drain = {{ method = "POST", path = "/jobs/{{id}}/signal" }}
logs = {{ method = "GET", path = "/jobs/{{id}}/output" }}

[sites.cloud.cloud.rest.submit]
method = "POST"
path = "/jobs"

[sites.cloud.cloud.rest.submit.body]
name = "{{name}}"
image = "{{image}}"
cpus = "{{cpus}}"
files = {{ "pilot.pyz" = "{{bundle}}" }}

[sites.cloud.cloud.listing]
items = "jobs[]"
state = "status.phase"
exit_code = "status.exit"
"""
COMMAND = """
[sites.cloud.cloud.command]
submit = [{lcli}, "run", "--name", "{{name}}", "--command", "python3 pilot.pyz", "--image", "{{image}}",
  "--input-file", "{{file}}", "--mem", "{{memory_gb}}", "--cores", "{{cpus}}"]
list = [{lcli}, "show", "-f", "csv"]
delete = [{lcli}, "delete", "{{id}}"]
env = {{ LANCIUM_API_KEY = "{{key}}", LCLI_URL = "{url}" }}

[sites.cloud.cloud.listing]
form = "csv"
"""


class CloudGrid(Grid):
    """The same as for pilots of this machine, with a cloud between."""

    service: Service
    way = "rest"

    def configure(self, *pools: Pool, idle: str = "6s", **more: Any) -> None:
        token, key = self.home / "0.token", self.home / "key"
        token.write_text(self.pool.token("glidepath-bed@bed.example", RIGHTS) + "\n")
        key.write_text(KEY)
        for secret in (token, key):
            secret.chmod(0o600)
        named = {"name": "bed", "address": self.pool.address, "tree": self.pool.host_tree(), "token": token}
        lcli = ", ".join(f'"{word}"' for word in (plain_python(), "-I", LCLI, "job"))
        way = (REST if self.way == "rest" else COMMAND).format(url=self.service.url, lcli=lcli)
        # A container that is stopped is left alone for a while, and its pilot is to be gone by then: a slot
        # of one that was killed would be in the pool for the next test, and take its jobs into nowhere.
        pool = POOL.replace("[pools.{name}.condor]", '[pools.{name}.condor]\ngrace = "2s"')
        text = (
            HEAD + pool.format(**named, deadline="8s") + SITE.format(way=self.way, key=key, idle=idle) + way
        )
        self.config.write_text(text)

    def jobs(self) -> list[Job]:
        """What the cloud lists."""
        self.service.queue.turn()
        return list(self.service.queue.jobs.values())


@contextmanager
def cloud_grid(request: pytest.FixtureRequest, way: str) -> Iterator[CloudGrid]:
    pool = condor_pool(request.config)
    images = {"pilot:1": [plain_python(), "-I", "pilot.pyz"]}
    with house() as home, serving(home / "jobs", images) as service:
        home.chmod(0o755)
        CloudGrid.service, CloudGrid.way = service, way
        made = CloudGrid(home, pool)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def by_api(request: pytest.FixtureRequest) -> Iterator[CloudGrid]:
    with cloud_grid(request, "rest") as made:
        yield made


@pytest.fixture
def by_command(request: pytest.FixtureRequest) -> Iterator[CloudGrid]:
    with cloud_grid(request, "command") as made:
        yield made


def test_jobs_run_in_containers_of_a_cloud_from_zero_to_zero(by_api: CloudGrid) -> None:
    grid = by_api
    narrow = grid.submit("sleep 1", "request_memory = 300", count=6)
    wide = grid.submit("sleep 1", "request_cpus = 2", "request_memory = 600", count=2)
    run = grid.up("--until-idle")
    grid.done(narrow, wide)
    assert run.wait_end(within_s=WAIT_S) == 0, run.text
    codes = [row for cluster in (narrow, wide) for row in grid.history(cluster, "ExitCode")]
    assert codes == [["0"]] * 8
    ended = grid.ended()
    assert 1 <= len(ended) <= 6
    assert {each["phase"] for each in ended} == {"done"}, ended
    # Nothing is left: no slot in the pool, no job in the cloud.
    names = {each["name"] for each in ended}
    assert (names & set(grid.slots()), grid.jobs()) == (set(), [])
    asked = [body for method, path, body in grid.service.asked if (method, path) == ("POST", "/jobs")]
    assert {json.loads(body)["cpus"] for body in asked} == {2}


def test_the_same_by_a_command_with_three_columns(by_command: CloudGrid) -> None:
    grid = by_command
    work = grid.submit("sleep 1", "request_memory = 300", count=4)
    run = grid.up("--until-idle")
    grid.done(work)
    assert run.wait_end(within_s=WAIT_S) == 0, run.text
    names = {each["name"] for each in grid.ended()}
    assert (names & set(grid.slots()), grid.jobs()) == (set(), [])


def test_lost_answers_and_repeated_requests_double_no_pilot_and_ctrl_c_ends_all(by_api: CloudGrid) -> None:
    grid = by_api
    grid.service.fails("POST", "/jobs", "lost", times=1)
    grid.service.fails("GET", "/jobs", "half", times=2)
    work = grid.submit("sleep 300", "request_memory = 1500", count=2)
    run = grid.up()
    grid.running(work, 2)
    until(lambda: len(grid.slots()) >= 2, grid.said, within_s=60)
    assert (len(grid.jobs()), len(grid.pilots())) == (2, 2)
    run.signal(signal.SIGINT)
    assert run.wait_end(within_s=WAIT_S) == 0
    assert grid.waiting(work) == 2
    until(lambda: {each.over for each in grid.jobs()} == {True}, "the containers have ended", within_s=60)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_death_around_asking_for_pilots_leaves_exactly_those_that_are_needed(
    by_command: CloudGrid, when: str
) -> None:
    grid = by_command
    grid.configure(grid.pool, idle="2m")  # Nobody asks for others when the second life is over.
    work = grid.submit("sleep 300", "request_memory = 300", "request_cpus = 2", count=2)
    code, said = life(grid, "--when", when, "--effect", "submit")
    assert code == -9, said
    # Once every source is fresh again nothing is left to do, and two pilots are there or coming.
    code, said = life(grid, cycles=6)
    assert (code, said[-1]["actions"]) == (0, []), said
    names = sorted(pilot.split()[0] for pilot in said[-1]["pilots"])
    assert (len(names), len(set(names))) == (2, 2), said
    grid.running(work, 2)
    # The pool may still know slots of containers that another test had killed.
    assert set(names) <= set(grid.slots())
    assert sorted(job.name.partition("_g1")[0] for job in grid.jobs()) == names
    assert not list((grid.home / "cloud" / "cloud").glob("ask-*"))
