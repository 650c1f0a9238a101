"""The promises of a cluster's door, one test each. It refuses to know what kind of cluster stands behind it.

A subclass says how a door is made, how its listing can be made to fail, and what a rank can run there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest

from glidepath.core.cycle import Done, Outcome, Refused, Unsure
from glidepath.core.place.rank import Cause, File, RankSet, RankState, Seat, SetKey, SetSeen, Work
from glidepath.core.quantity import Instant, Resources
from glidepath.core.schedule.cluster import NodeState
from glidepath.ports import WORLD_ERRORS, Cluster
from glidepath.ranklog import log_folder, read_log

T = TypeVar("T")

POLL_S = 0.05
HOSTILE_KEYS = (
    "",
    ".",
    "..",
    "../1.1",
    "1",
    "0.1",
    "1.0",
    "1.1/x",
    "-1.1",
    "1.1\n",
    "x.1",
    "1.1.1",
    "9" * 40 + ".1",
)

# Some shells say what became of a program that got the same signal; clusters may keep both outputs as one.
QUIET = "exec 2>/dev/null;"


class ClusterConformance:
    """Subclass it, supply `make` and `break_listing`, and let pytest collect the subclass."""

    settle_s: ClassVar[float] = 60.0  # how long the cluster may take until a change shows in its listing
    image: ClassVar[str] = ""
    ranks_max: ClassVar[int] = 2  # how many seats a gang of the tests takes

    def make(self, home: Path) -> Cluster:
        """A door that keeps everything under this folder, which may not exist yet."""
        raise NotImplementedError("say how a door is made")

    def break_listing(self, cluster: Cluster) -> AbstractContextManager[object]:
        """While this is entered, the listing cannot be had."""
        raise NotImplementedError("say how the listing is made to fail")

    def shell(self, script: str) -> tuple[str, ...]:
        """A command that runs these lines on a rank."""
        return ("/bin/sh", "-c", script)

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        home = tmp_path / "home"
        home.mkdir()
        return home

    @pytest.fixture
    def cluster(self, home: Path) -> Iterator[Cluster]:
        made = self.make(home)
        yield made
        self.empty(made)

    # What the tests are made of.

    def now(self) -> Instant:
        return Instant(int(time.time()))

    def timed(self, cluster: Cluster, call: Callable[[], T]) -> T:
        began = time.monotonic()
        try:
            return call()
        finally:
            took_s = time.monotonic() - began
            assert took_s <= cluster.limit_s, f"a call took {took_s:.1f} s of {cluster.limit_s:g} s"

    def seats(self, cluster: Cluster, count: int) -> tuple[Seat, ...]:
        """The first nodes by name that are up, over again where there are fewer."""
        listing = self.timed(cluster, lambda: cluster.nodes(now=self.now()))
        up = sorted(seen.node.name for seen in listing.nodes if seen.node.state is NodeState.UP)
        assert up, "the cluster has no node that is up"
        return tuple(Seat(up[at % len(up)]) for at in range(count))

    def ranks(self, cluster: Cluster, script: str, *, key: str = "1.1", count: int = 1) -> RankSet:
        return RankSet(
            key=SetKey(key),
            seats=self.seats(cluster, count),
            work=Work(self.shell(script), image=self.image),
            size=Resources(cpu_milli=50, memory_mib=32),
            owner="ada",
            grace_s=5,
            gather_s_max=int(self.settle_s),
        )

    def listed(self, cluster: Cluster) -> dict[str, SetSeen]:
        listing = self.timed(cluster, lambda: cluster.list(now=self.now()))
        keys = [seen.key for seen in listing.sets]
        assert len(keys) == len(set(keys)), f"a key is listed twice: {keys}"
        return {seen.key: seen for seen in listing.sets}

    def started(self, cluster: Cluster, ranks: RankSet) -> SetSeen:
        done = self.timed(cluster, lambda: cluster.start(ranks))
        assert isinstance(done, Done), done
        self.until(f"{ranks.key} is listed", lambda: ranks.key in self.listed(cluster))
        return self.listed(cluster)[ranks.key]

    def until(self, what: str, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self.settle_s
        while not met():
            assert time.monotonic() < deadline, f"not within settle_s = {self.settle_s:g}: {what}"
            time.sleep(POLL_S)

    def runs(self, cluster: Cluster, key: str) -> SetSeen:
        def met() -> bool:
            seen = self.listed(cluster).get(key)
            return seen is not None and all(rank.state is RankState.RUNNING for rank in seen.ranks)

        self.until(f"all ranks of {key} run", met)
        return self.listed(cluster)[key]

    def ended(self, cluster: Cluster, key: str) -> SetSeen:
        self.until(f"{key} is over", lambda: key in (got := self.listed(cluster)) and got[key].over)
        return self.listed(cluster)[key]

    def wrote(self, home: Path, key: str, rank: int = 0) -> str:
        return read_log(home, SetKey(key), rank).content.decode()

    def empty(self, cluster: Cluster) -> None:
        def emptied() -> bool:
            left = self.listed(cluster)
            for key, seen in left.items():
                cluster.clear(SetKey(key)) if seen.over else cluster.stop(SetKey(key))
            return not left

        self.until("all sets are cleared", emptied)

    # The promises.

    def test_it_is_a_cluster_and_empty(self, cluster: Cluster) -> None:
        assert isinstance(cluster, Cluster)
        assert cluster.limit_s > 0
        assert self.listed(cluster) == {}

    def test_making_one_touches_nothing(self, tmp_path: Path) -> None:
        self.make(tmp_path / "not" / "there")
        assert list(tmp_path.iterdir()) == []

    def test_nodes_have_a_size_and_a_name_each(self, cluster: Cluster) -> None:
        listing = self.timed(cluster, lambda: cluster.nodes(now=self.now()))
        names = [seen.node.name for seen in listing.nodes]
        assert names
        assert len(names) == len(set(names))
        assert all(seen.node.size.cpu_milli and seen.node.size.memory_mib for seen in listing.nodes)

    def test_a_command_runs_and_its_end_and_its_words_are_kept(self, cluster: Cluster, home: Path) -> None:
        self.started(cluster, self.ranks(cluster, "echo hello; exit 3"))
        (rank,) = self.ended(cluster, "1.1").ranks
        assert (rank.cause, rank.exit_code) == (Cause.EXITED, 3)
        assert self.wrote(home, "1.1") == "hello\n"
        assert rank.began_at is not None
        assert rank.ended_at is not None
        assert rank.began_at <= rank.ended_at

    def test_logs_outlive_what_is_cleared(self, cluster: Cluster, home: Path) -> None:
        self.started(cluster, self.ranks(cluster, "echo kept"))
        self.ended(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.clear(SetKey("1.1"))), Done)
        self.until("it is gone", lambda: "1.1" not in self.listed(cluster))
        assert self.wrote(home, "1.1") == "kept\n"

    def test_files_variables_and_ranks_are_there_before_the_command(
        self, cluster: Cluster, home: Path
    ) -> None:
        told = 'echo "$COLOUR $GLIDEPATH_JOB $GLIDEPATH_RANK $GLIDEPATH_RANKS"'
        script = f'cat in/note; {told}; wc -l < "$GLIDEPATH_RANK_FILE"'
        ranks = self.ranks(cluster, script, key="7.2", count=self.ranks_max)
        work = replace(ranks.work, env=(("COLOUR", "blue"),), files=(File("in/note", "a note\n"),))
        self.started(cluster, replace(ranks, work=work))
        seen = self.ended(cluster, "7.2")
        assert [rank.exit_code for rank in seen.ranks] == [0] * self.ranks_max
        for rank in range(self.ranks_max):
            lines = self.wrote(home, "7.2", rank).split("\n")
            assert lines[:2] == ["a note", f"blue 7 {rank} {self.ranks_max}"]
            assert lines[2].strip() == str(self.ranks_max)

    def test_the_same_key_twice_makes_one(self, cluster: Cluster, home: Path) -> None:
        ranks = self.ranks(cluster, "echo once; sleep 60")
        self.started(cluster, ranks)
        self.runs(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.start(ranks)), Done)
        self.until("it has written", lambda: self.has_written(home, "1.1", "once"))
        assert len(self.listed(cluster)["1.1"].ranks) == 1
        assert self.wrote(home, "1.1") == "once\n"

    def test_a_key_that_is_over_is_not_run_again(self, cluster: Cluster, home: Path) -> None:
        ranks = self.ranks(cluster, "echo once")
        self.started(cluster, ranks)
        self.ended(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.start(ranks)), Done)
        assert self.ended(cluster, "1.1").over
        assert self.wrote(home, "1.1") == "once\n"

    def test_the_same_key_for_something_else_is_refused(self, cluster: Cluster) -> None:
        ranks = self.ranks(cluster, "sleep 60")
        self.started(cluster, ranks)
        other = replace(ranks, work=Work(self.shell("sleep 61"), image=self.image))
        assert isinstance(self.timed(cluster, lambda: cluster.start(other)), Refused)

    def test_a_stopped_set_ends_and_others_do_not(self, cluster: Cluster) -> None:
        self.started(cluster, self.ranks(cluster, "sleep 600", key="1.1", count=self.ranks_max))
        self.started(cluster, self.ranks(cluster, "sleep 600", key="2.1"))
        self.runs(cluster, "1.1")
        self.runs(cluster, "2.1")
        assert isinstance(self.timed(cluster, lambda: cluster.stop(SetKey("1.1"))), Done | Unsure)
        seen = self.ended(cluster, "1.1")
        assert {rank.cause for rank in seen.ranks} == {Cause.STOPPED}
        assert not self.listed(cluster)["2.1"].over

    def test_a_command_may_put_things_in_order_before_it_ends(self, cluster: Cluster, home: Path) -> None:
        script = f"{QUIET} trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.2; done"
        self.started(cluster, replace(self.ranks(cluster, script), grace_s=30))
        self.until("it is ready", lambda: self.has_written(home, "1.1", "ready"))
        cluster.stop(SetKey("1.1"))
        assert self.ended(cluster, "1.1").ranks[0].cause is Cause.STOPPED
        assert self.wrote(home, "1.1").split() == ["ready", "bye"]

    def test_a_command_that_will_not_end_is_killed(self, cluster: Cluster) -> None:
        ranks = self.ranks(cluster, "trap '' TERM; while :; do sleep 1; done")
        self.started(cluster, replace(ranks, grace_s=1))
        self.runs(cluster, "1.1")
        cluster.stop(SetKey("1.1"))
        assert self.ended(cluster, "1.1").over

    def test_a_limit_ends_a_set_and_notice_is_given_before(self, cluster: Cluster, home: Path) -> None:
        script = f"{QUIET} trap 'echo noticed' USR1; echo ready; while :; do sleep 0.2; done"
        ranks = replace(self.ranks(cluster, script), limit_s=8, notice_s=5, grace_s=1)
        self.started(cluster, ranks)
        (rank,) = self.ended(cluster, "1.1").ranks
        assert rank.cause is Cause.LIMIT
        assert self.wrote(home, "1.1").split() == ["ready", "noticed"]

    def test_a_limit_can_be_made_longer_and_shorter(self, cluster: Cluster) -> None:
        ranks = replace(self.ranks(cluster, "sleep 600"), limit_s=6, grace_s=1)
        self.started(cluster, ranks)
        self.runs(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.extend(SetKey("1.1"), 3600)), Done)
        self.until("the new limit is kept", lambda: self.listed(cluster)["1.1"].limit_s == 3600)
        deadline = time.monotonic() + 7
        while time.monotonic() < deadline:
            assert not self.listed(cluster)["1.1"].over
            time.sleep(0.5)
        assert isinstance(self.timed(cluster, lambda: cluster.extend(SetKey("1.1"), 9)), Done)
        assert self.ended(cluster, "1.1").ranks[0].cause is Cause.LIMIT

    def test_notice_can_be_given_at_once(self, cluster: Cluster, home: Path) -> None:
        script = f"{QUIET} trap 'echo noticed' USR1; echo ready; while :; do sleep 0.2; done"
        self.started(cluster, self.ranks(cluster, script))
        self.until("it is ready", lambda: self.has_written(home, "1.1", "ready"))
        assert isinstance(self.timed(cluster, lambda: cluster.give_notice(SetKey("1.1"))), Done)
        self.until("notice was given", lambda: self.has_written(home, "1.1", "noticed"))

    def has_written(self, home: Path, key: str, word: str) -> bool:
        try:
            return word in self.wrote(home, key).split()
        except LookupError:
            return False

    def test_a_command_that_is_not_there_is_a_failure_with_a_word(self, cluster: Cluster) -> None:
        ranks = self.ranks(cluster, "")
        work = replace(ranks.work, command=("/no/such/program",))
        done = self.timed(cluster, lambda: cluster.start(replace(ranks, work=work)))
        if isinstance(done, Refused):
            return
        (rank,) = self.ended(cluster, "1.1").ranks
        assert rank.cause is Cause.SETUP
        assert rank.why

    def test_if_one_rank_cannot_begin_none_does(self, cluster: Cluster, home: Path) -> None:
        ranks = self.ranks(cluster, "echo began", count=self.ranks_max)
        work = replace(ranks.work, workdir="/no/such/folder/anywhere")
        done = self.timed(cluster, lambda: cluster.start(replace(ranks, work=work)))
        if not isinstance(done, Refused):
            seen = self.ended(cluster, "1.1")
            assert Cause.SETUP in {rank.cause for rank in seen.ranks}
        for rank in range(self.ranks_max):
            try:
                assert self.wrote(home, "1.1", rank) == ""
            except LookupError:
                pass  # Nothing began, so that nothing was kept.

    @pytest.mark.parametrize("act", ["stop", "clear", "give_notice"])
    def test_what_is_gone_is_done(self, cluster: Cluster, act: str) -> None:
        assert isinstance(self.timed(cluster, lambda: getattr(cluster, act)(SetKey("9.9"))), Done)

    def test_what_is_over_cannot_be_extended(self, cluster: Cluster) -> None:
        self.started(cluster, self.ranks(cluster, "true"))
        self.ended(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.extend(SetKey("1.1"), 60)), Refused)
        assert isinstance(self.timed(cluster, lambda: cluster.extend(SetKey("9.9"), 60)), Refused)

    def test_what_runs_is_not_cleared(self, cluster: Cluster) -> None:
        self.started(cluster, self.ranks(cluster, "sleep 60"))
        self.runs(cluster, "1.1")
        assert isinstance(self.timed(cluster, lambda: cluster.clear(SetKey("1.1"))), Refused)
        assert "1.1" in self.listed(cluster)

    def test_another_door_to_the_same_cluster_finds_what_runs(self, cluster: Cluster, home: Path) -> None:
        self.started(cluster, self.ranks(cluster, "sleep 600"))
        self.runs(cluster, "1.1")
        again = self.make(home)
        self.until("it is found", lambda: "1.1" in self.listed(again))
        again.stop(SetKey("1.1"))
        assert self.ended(again, "1.1").ranks[0].cause is Cause.STOPPED

    def test_a_failed_listing_raises_and_never_returns_less(self, cluster: Cluster) -> None:
        self.started(cluster, self.ranks(cluster, "sleep 60"))
        with self.break_listing(cluster), pytest.raises(WORLD_ERRORS):
            self.timed(cluster, lambda: cluster.list(now=self.now()))
        assert "1.1" in self.listed(cluster)

    @pytest.mark.parametrize("key", HOSTILE_KEYS)
    def test_a_hostile_key_is_refused(self, cluster: Cluster, key: str) -> None:
        ranks = replace(self.ranks(cluster, "true"), key=SetKey(key))
        refused = self.timed(cluster, lambda: cluster.start(ranks))
        assert isinstance(refused, Refused)
        assert refused.why.isprintable()
        acts: tuple[Callable[[SetKey], Outcome], ...] = (cluster.stop, cluster.clear, cluster.give_notice)
        for act in acts:
            self.timed(cluster, lambda act=act: act(SetKey(key)))  # type: ignore[misc]
        assert self.listed(cluster) == {}

    @pytest.mark.parametrize("path", ["../out", "a/../../out", "", "a\0b"])
    def test_a_hostile_path_of_a_file_is_refused(self, cluster: Cluster, path: str) -> None:
        ranks = self.ranks(cluster, "true")
        work = replace(ranks.work, files=(File(path, "x"),))
        assert isinstance(self.timed(cluster, lambda: cluster.start(replace(ranks, work=work))), Refused)
        assert self.listed(cluster) == {}

    def test_a_long_line_and_bytes_that_are_no_text_are_kept_as_they_are(
        self, cluster: Cluster, home: Path
    ) -> None:
        script = "head -c 300000 /dev/zero; printf '\\377\\376'"
        self.started(cluster, self.ranks(cluster, script))
        self.ended(cluster, "1.1")
        piece = read_log(home, SetKey("1.1"), 0, offset=299_990, bytes_max=100)
        assert piece.content == b"\0" * 10 + b"\xff\xfe"
        assert (piece.offset, piece.size) == (300_002, 300_002)

    def test_of_output_beyond_its_bound_the_beginning_and_the_latest_are_kept(
        self, cluster: Cluster, home: Path
    ) -> None:
        script = "echo first; head -c 300000 /dev/zero; echo; echo last"
        ranks = replace(self.ranks(cluster, script), log_bytes_max=16_000)
        self.started(cluster, ranks)
        assert self.ended(cluster, "1.1").ranks[0].exit_code == 0
        first = read_log(home, SetKey("1.1"), 0)
        assert first.content[:6] == b"first\n"
        assert first.size == 300_012, "offsets are of all that was written"
        later = read_log(home, SetKey("1.1"), 0, offset=first.offset)
        assert later.start > first.offset, "what lies between is gone"
        assert later.content[-6:] == b"\nlast\n"
        assert later.offset == later.size == first.size
        files = log_folder(home, SetKey("1.1"), 0).glob("stdout*")
        assert sum(file.stat().st_size for file in files) <= 16_000
