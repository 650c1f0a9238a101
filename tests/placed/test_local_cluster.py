"""The local door keeps every promise of a cluster, with real processes of this machine."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from glidepath.cluster.local import LocalCluster
from glidepath.conformance.cluster import ClusterConformance
from glidepath.core.place.rank import Cause, ClusterName, SetKey
from glidepath.core.quantity import NodeName, Resources
from glidepath.core.schedule.cluster import Node
from glidepath.ports import Cluster, Place
from glidepath.ranklog import read_log

NODES = tuple(Node(NodeName(f"localhost-{at}"), Resources(2000, 2048, 1024)) for at in (1, 2))


class TestLocalCluster(ClusterConformance):
    def make(self, home: Path) -> LocalCluster:
        return LocalCluster(ClusterName("here"), NODES, Place(home, ""))

    def test_a_line_without_an_end_takes_no_memory(self, cluster: Cluster, home: Path) -> None:
        """As long as a 10 GB one is to whoever reads it piece by piece."""
        script = "head -c 200000000 /dev/zero; echo; sleep 600"
        self.started(cluster, replace(self.ranks(cluster, script), log_bytes_max=1 << 20))
        self.until("all came", lambda: read_log(home, SetKey("1.1"), 0).size == 200_000_001)
        keeper = json.loads((home / "ranks" / "1.1" / "keeper.json").read_text())["pid"]
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{keeper}/status").read_text())
        assert peak is not None
        assert int(peak[1]) < 64 * 1024

    def test_what_ran_when_the_machine_restarted_is_told_so(self, cluster: Cluster, home: Path) -> None:
        """Of a restart nothing is left but files, which say of which life of the machine they are."""
        self.started(cluster, self.ranks(cluster, "sleep 600"))
        self.runs(cluster, "1.1")
        file = home / "ranks" / "1.1" / "keeper.json"
        keeper = json.loads(file.read_text())
        os.kill(keeper["pid"], signal.SIGKILL)
        file.write_text(json.dumps({**keeper, "boot": "the one before"}))
        (rank,) = self.ended(cluster, "1.1").ranks
        assert (rank.cause, rank.why) == (Cause.RESTARTED, "the machine restarted")

    @contextmanager
    def break_listing(self, cluster: Cluster) -> Iterator[None]:
        assert isinstance(cluster, LocalCluster)
        home = cluster._home
        away = home.with_name("away")
        home.rename(away)
        try:
            yield
        finally:
            away.rename(home)
