"""A namespace that only an agent reaches: jobs of a real pool run in pods that the agent made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster

from calls.calling import AgentRun, free_port, listens
from kube.pods_world import IMAGE, Pods
from scenes.several import seldom
from whole.running import glidepath, until

WAIT_S = 240.0
CALLED = """
[serve]
listen = "127.0.0.1:{port}"
calls_per_minute = 6000

[sites.pods]
kind = "called"

[sites.pods.called]
call_again = "1s"
"""
AGENT = """
site = "pods"
server = "http://127.0.0.1:{port}"
token_file = "pods.token"
poll = "1s"
poll_max = "2s"
kind = "kubernetes"

[limits]
live_max = {live_max}

[kubernetes]
kubeconfig = "{kubeconfig}"
image = "{image}"
pull_policy = "Never"
"""

pytestmark = pytest.mark.real


class CalledPods(Pods):
    """The same pods, of a site whose agent calls: the glidepath itself has no access to the cluster."""

    def __init__(self, home: Path, daemons: Pool, cluster: Cluster) -> None:
        self.port = free_port()
        self.agents: list[AgentRun] = []
        super().__init__(home, daemons, cluster)

    def configure(self, *_: object, **more: object) -> None:
        super().configure(live_max=4)
        head, _, rest = self.config.read_text().partition("[sites.pods]")
        offers = rest.partition("[sites.pods.offers.small]")
        called = CALLED.format(port=self.port)
        assert str(self.kubeconfig) not in head + offers[2]
        self.config.write_text(head + called + offers[1] + offers[2])

    def agent(self, *, live_max: int) -> AgentRun:
        told = {"port": self.port, "kubeconfig": self.kubeconfig, "image": IMAGE, "live_max": live_max}
        (self.home / "pods.toml").write_text(AGENT.format(**told))
        self.agents.append(AgentRun(self.home, "pods"))
        return self.agents[-1]

    def said(self) -> str:
        return "\n".join([super().said(), *(line for run in self.agents for line in run.lines[-20:])])

    def close(self) -> None:
        while self.agents:
            self.agents.pop().close()
        super().close()


@pytest.fixture
def world(cluster: Cluster, daemons: Pool, image: str, tmp_path: Path) -> Iterator[CalledPods]:
    made = CalledPods(tmp_path, daemons, cluster)
    yield made
    made.close()


def test_jobs_run_in_pods_that_an_agent_made_within_its_own_limit_and_all_of_them_go(
    world: CalledPods,
) -> None:
    assert world.folders() == []
    token = world.home / "pods.token"
    token.touch(mode=0o600)
    token.write_text(glidepath(world.home, "token", "issue", "pods", "--config", str(world.config)).strip())
    work = world.submit("sleep 3", "request_memory = 400", "request_cpus = 1", count=6)
    world.up()
    until(lambda: listens(world.port), world.said, within_s=WAIT_S)
    world.agent(live_max=2)
    most: list[int] = []

    def done() -> bool:
        most.append(len(world.folders()))
        return not world.waiting(work)

    seldom(done, world.said, within_s=WAIT_S)
    assert world.history(work, "ExitCode") == [["0"]] * 6
    assert 1 <= max(most) <= 2, "the site's own limit holds, though the offer may have four"
    # What is over is cleared by the agent, which calls for that word too.
    seldom(lambda: world.folders() == [], world.said, within_s=WAIT_S)
    assert (world.pilots(), world.slots()) == ([], [])
    ended = world.ended()
    assert {(each["site"], each["phase"]) for each in ended} == {("pods", "done")}, ended
