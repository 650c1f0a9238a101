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
from glidepath.core.cycle import Done
from glidepath.core.place.rank import Cause, ClusterName, File, RankSet, SetKey
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Node
from glidepath.ports import Cluster, Place
from glidepath.ranklog import read_log

NODES = tuple(Node(NodeName(f"localhost-{at}"), Resources(2000, 2048, 1024)) for at in (1, 2))


def command_line(pid: int) -> bytes:
    """Nothing of one that is gone, or waits to be buried."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class TestLocalCluster(ClusterConformance):
    def make(self, home: Path) -> LocalCluster:
        return LocalCluster(ClusterName("here"), NODES, Place(home, ""))

    def test_a_line_without_an_end_takes_no_memory(self, cluster: Cluster, home: Path) -> None:
        """As long as a 10 GB one is to whoever reads it piece by piece."""
        script = "head -c 200000000 /dev/zero; echo; sleep 600"
        self.started(cluster, replace(self.ranks(cluster, script), log_bytes_max=1 << 20))
        self.runs(cluster, "1.1")
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

    def hangs(self, cluster: Cluster, home: Path) -> RankSet:
        """A file is to go where a pipe is that nobody reads: whoever writes there waits for ever."""
        work = home / "shared"
        work.mkdir()
        os.mkfifo(work / ".input.glidepath")
        ranks = self.ranks(cluster, "sleep 600", count=2)
        file = File("input", "text")
        return replace(ranks, work=replace(ranks.work, workdir=str(work), files=(file,)))

    def test_a_set_up_that_hangs_is_ended_at_its_deadline(self, home: Path) -> None:
        cluster = LocalCluster(ClusterName("here"), NODES, Place(home, ""), setup_s_max=1)
        self.started(cluster, self.hangs(cluster, home))
        first, second = self.ended(cluster, "1.1").ranks
        why = "its set-up did not end within 1 s, and was ended"
        assert (first.cause, first.why) == (Cause.SETUP, why)
        assert (second.cause, second.why) == (Cause.NOT_GATHERED, "rank 0 could not begin")
        assert (first.began_at, second.began_at) == (None, None)
        self.cleared(cluster, home)

    def test_a_set_up_that_hangs_is_ended_when_it_is_to_stop(self, cluster: Cluster, home: Path) -> None:
        self.started(cluster, self.hangs(cluster, home))
        assert cluster.stop(SetKey("1.1")) == Done()
        why = "it was stopped before it began"
        assert [(rank.cause, rank.why) for rank in self.ended(cluster, "1.1").ranks] == [
            (Cause.STOPPED, why),
            (Cause.STOPPED, why),
        ]
        self.cleared(cluster, home)

    def cleared(self, cluster: Cluster, home: Path) -> None:
        keeper = json.loads((home / "ranks" / "1.1" / "keeper.json").read_text())["pid"]
        self.until("it is cleared", lambda: cluster.clear(SetKey("1.1")) == Done())
        self.until("its keeper has left", lambda: not command_line(keeper))

    def test_times_of_sets_that_are_cleared_are_forgotten(self, cluster: Cluster) -> None:
        assert isinstance(cluster, LocalCluster)
        kept = []
        for job in range(1, 5):
            key = SetKey(f"{job}.1")
            self.started(cluster, self.ranks(cluster, "true", key=key))
            ranks = self.ended(cluster, key).ranks
            assert cluster.list(now=Instant(5)).sets[0].ranks == ranks, "the same second each time"
            assert cluster.clear(key) == Done()
            cluster.list(now=Instant(6))
            cluster.list(now=Instant(7))
            kept.append(len(cluster._times) + len(cluster._times_before))
        assert kept == [0, 0, 0, 0]

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
