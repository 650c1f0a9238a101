"""Two replicas on PostgreSQL: one works, the other takes over, and neither doubles a pod when it wakes."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from bed.parts.kubernetes import Cluster
from tests.bed_pool import condor_pool
from tests.postgres import Server, postgres

from scenes.several import NOWHERE, Ever, Several, counted, head, pods_in, pool_table, site_table
from whole.running import Running, until

pytestmark = pytest.mark.real

# The lease, the time between two looks at it, and a busy machine.
TAKEN_S_MAX = 240
JOBS, LATER = 16, 2
# Two changes for each pod: the whole takes eight seconds, in the middle of which the leader is hit.
RATE = f"changes_per_second = 4\nnodes = {NOWHERE}"
BEFORE = 3
LOST = "another glidepath owns the store now; this one ends and leaves the pilots alone"


class Pair(Several):
    """Two glidepaths of one configuration on one store, and all pods that they ever made."""

    def __init__(self, home: Path, pool: Pool, cluster: Cluster, url: str) -> None:
        self.cluster, self.namespace = cluster, f"replicas-{home.name}"
        # Longer than it sleeps: what it does when it wakes must not be stopped by the cycle's own time.
        tables = head(store=url, deadline="5m") + pool_table(home, "bed", pool)
        tables += site_table("pods", cluster, self.namespace, kubernetes=RATE)
        super().__init__(home, pool, tables)
        self.first, self.second = self.start("one"), self.start("two")

    def begin(self, ever: Ever) -> None:
        """Both are up, jobs came, and the leader is in the middle of asking for pods."""
        self.ever = ever
        until(lambda: "standing by: " in self.first.text + self.second.text, self.said, within_s=TAKEN_S_MAX)
        if "standing by: " in self.first.text:
            self.first, self.second = self.second, self.first
        self.jobs(JOBS)
        ever.come_to(BEFORE, self.said, within_s=TAKEN_S_MAX)

    @property
    def made(self) -> int:
        return len(self.ever.names)

    def led_by(self, run: Running) -> bool:
        return "demand " in run.text

    def live(self) -> int:
        return len(pods_in(self.cluster, self.namespace))

    def tokens(self) -> list[str]:
        """The pods that have a Secret of their own."""
        words = ("get", "secrets", "--namespace", self.namespace, "-o", "name")
        found = self.cluster.kubectl(*words).must("no list").out.split()
        return sorted(each.removeprefix("secret/").removesuffix("-token") for each in found)

    def close(self) -> None:
        super().close()
        self.cluster.kubectl("delete", "namespace", self.namespace, "--wait=false")


@pytest.fixture
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


@pytest.fixture
def pools(request: pytest.FixtureRequest, daemons: Pool) -> dict[str, Pool]:
    """One for each pair: what the other's jobs need is not counted."""
    return {"stopped": daemons, "killed": condor_pool(request.config)}


@pytest.fixture
def pairs(server: Server, pools: dict[str, Pool], cluster: Cluster, tmp_path: Path) -> Iterator[list[Pair]]:
    """Two of them, so that the one waits for its lease while the other does."""
    with ExitStack() as closing:
        made = []
        for name, pool in pools.items():
            (tmp_path / name).mkdir()
            url = closing.enter_context(server.database())
            made.append(Pair(tmp_path / name, pool, cluster, url))
            closing.callback(made[-1].close)
        yield made


def prefixes(names: list[str]) -> Counter[str]:
    """Pods by the life that asked for them: each start of a glidepath has letters of its own."""
    return Counter(name.split("-")[1] for name in names)


def test_a_leader_that_is_stopped_or_killed_is_followed_and_no_pod_is_doubled(
    pairs: list[Pair], cluster: Cluster
) -> None:
    stopped, killed = pairs
    chance = random.Random()
    with counted(cluster, stopped.namespace) as first, counted(cluster, killed.namespace) as second:
        stopped.begin(first)
        stopped.first.signal(signal.SIGSTOP)
        killed.begin(second)
        wait_s = chance.uniform(0, 3)
        time.sleep(wait_s)
        killed.first.signal(signal.SIGKILL)
        before, left = prefixes(first.names), prefixes(second.names)
        print(f"stopped after {before}, killed {wait_s:.3f} s later than the third pod, after {left}")
        for pair in pairs:
            assert pair.made < JOBS, "it was hit too late: all pods are there"
        for pair in pairs:
            until(lambda pair=pair: pair.led_by(pair.second), pair.said, within_s=TAKEN_S_MAX)
            pair.jobs(LATER)
        for pair in pairs:
            pair.ever.come_to(JOBS + LATER, pair.said, within_s=TAKEN_S_MAX)
        for pair, its_own in zip(pairs, (before, left), strict=True):
            (own,) = its_own
            assert prefixes(pair.ever.names)[own] == JOBS, (
                "what the first had planned is asked for by its names"
            )
        _wakes(stopped)
        for pair in pairs:
            _ends(pair)


def _wakes(pair: Pair) -> None:
    """It has most of its plan left, and another has asked for that meanwhile."""
    its_own = prefixes(pair.ever.names)
    pair.first.signal(signal.SIGCONT)
    code = pair.first.wait_end()
    assert prefixes(pair.ever.names) == its_own
    assert code == 1
    assert LOST in pair.first.text


def _ends(pair: Pair) -> None:
    """As many pods as jobs, each name once; and without jobs, none."""
    names = pair.ever.names
    assert len(names) == len(set(names)) == JOBS + LATER, f"{names}:\n{pair.said()}"
    assert pair.live() == JOBS + LATER
    # Whoever died between a pod and its token is made up for.
    until(lambda: pair.tokens() == names, lambda: f"{pair.tokens()} of {names}", within_s=TAKEN_S_MAX)
    pair.take_away()
    until(lambda: pair.live() == 0, pair.said, within_s=TAKEN_S_MAX)
    assert pair.made == JOBS + LATER
    assert pair.second.process.poll() is None
