"""The kernel keeps ranks of this machine within their size where a tree of control groups is ours.

Where the kernel lets us have its controllers, it does so really, with either version of control groups.
Version 2 is also stood in for by folders that say they are one: not every kernel has controllers for it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glidepath.cluster.cgroup import CONTROLLERS, LEAF, Group, Tree, told, tree_of
from glidepath.cluster.local import LocalCluster
from glidepath.core.cycle import Done, Failed
from glidepath.core.place.rank import Cause, ClusterName, RankSeen, RankSet, Seat, SetKey, Work
from glidepath.core.quantity import Instant, NodeName, Resources
from glidepath.core.schedule.cluster import Node
from glidepath.ports import Place
from whole.running import glidepath, until

NODE = Node(NodeName("localhost"), Resources(2000, 2048, 1024))
SIZE = Resources(500, 32)
PROCESSES_MAX = 20
LIMITS = ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max")
FORKS = "for i in 1 2 3 4 5 6 7 8 9 0; do for j in 1 2 3; do sleep 60 & done; done; wait; exit 3"


def cluster_at(home: Path, cgroup: str, limits: Callable[[str], Tree] = tree_of) -> LocalCluster:
    name = ClusterName("here")
    return LocalCluster(
        name, (NODE,), Place(home, ""), cgroup=cgroup, processes_max=PROCESSES_MAX, limits=limits
    )


def rank_set(key: str, script: str, ranks: int = 1) -> RankSet:
    seats = (Seat(NODE.name),) * ranks
    return RankSet(SetKey(key), seats, Work(("/bin/sh", "-c", script)), SIZE, "ada", grace_s=2)


def ended(cluster: LocalCluster, key: str) -> tuple[RankSeen, ...]:
    def found() -> tuple[RankSeen, ...]:
        now = Instant(int(time.time()))
        return next(one.ranks for one in cluster.list(now=now).sets if one.key == key)

    until(lambda: all(rank.ended_at is not None for rank in found()), f"{key} is over")
    return found()


def runs(pid: str) -> bool:
    """Not where it has ended and nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wrote(home: Path, key: str) -> str:
    return (home / "jobs" / key.replace(".", "/") / "0" / "stdout").read_text()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    bare = tmp_path / "home"
    bare.mkdir()
    return bare


# The kernel itself.


@pytest.fixture
def name() -> Iterator[str]:
    """Of a group that is of this test alone, and gone afterwards."""
    name = f"/glidepath-test-{os.getpid()}"
    yield name
    for _, _, folder in tree_of(name).folders:
        if Path(folder).exists():
            Path(folder).rmdir()  # Fails where anything of a job was left in it.


def test_a_job_is_kept_within_its_size_by_the_kernel_and_told_of_it_or_does_not_start(
    bare: Path, name: str
) -> None:
    """Without the right to make groups, a job that was to be kept within them does not start."""
    tree, cluster = tree_of(name), cluster_at(bare, name)
    if tree.held != CONTROLLERS:
        refused = cluster.start(rank_set("1.1", "true"))
        assert refused == Failed(f"its limits cannot be kept: {tree.why}")
        assert cluster.nodes(now=Instant(0)).notes == (told(tree, asked=name),)
        return
    assert cluster.nodes(now=Instant(0)).notes == ()
    scripts = {
        "1.1": "python3 -c 'x = bytearray(300 << 20)'",
        "2.1": "cat /proc/self/cgroup",
        "3.1": FORKS,
        # What is left behind, in a session of its own and without a trace of us, ends with the command.
        "4.1": "env -i setsid sleep 600 & echo $!",
    }
    for key, script in scripts.items():
        assert cluster.start(rank_set(key, script)) == Done()
    ends = {key: ended(cluster, key)[0] for key in scripts}
    assert ends["1.1"].cause is Cause.MEMORY
    assert ends["1.1"].why.startswith("the kernel ended 1 of its processes at 32 MiB; together they had 3")
    groups = [line.rpartition(":")[2] for line in wrote(bare, "2.1").splitlines() if name in line]
    assert len(groups) == len({folder for _, _, folder in tree.folders})
    assert {group.rpartition("-")[2] for group in groups} == {"0"}
    assert ends["3.1"].cause is Cause.EXITED
    assert ends["3.1"].exit_code
    assert "it was refused more than 20 processes" in ends["3.1"].why
    assert (ends["4.1"].exit_code, ends["4.1"].why) == (0, "")
    assert not runs(wrote(bare, "4.1").strip())
    assert [cluster.clear(SetKey(key)) for key in scripts] == [Done()] * len(scripts)


def test_groups_of_a_killed_keeper_go_with_all_that_is_in_them(bare: Path, name: str) -> None:
    tree, cluster = tree_of(name), cluster_at(bare, name)
    if tree.held != CONTROLLERS:
        assert tree.why, "who has no groups is told why"
        return
    # It has lost the mark by which a killed keeper's processes are found, and their parent.
    script = "env -i setsid sleep 600 & wait"
    assert cluster.start(rank_set("1.1", script, ranks=2)) == Done()
    top = Path(tree.folders[0][2])

    def inside() -> list[str]:
        return [pid for file in top.glob("gp-*/cgroup.procs") for pid in file.read_text().split()]

    until(lambda: len(inside()) == 4, "both ranks run")
    pids = inside()
    keeper = int((bare / "ranks" / "1.1" / "keeper.json").read_text().split('"pid": ')[1].split(",")[0])
    os.kill(keeper, signal.SIGKILL)
    assert [rank.cause for rank in ended(cluster, "1.1")] == [Cause.NODE_LOST] * 2
    assert list(top.glob("gp-*")) == []
    until(lambda: not any(map(runs, pids)), "what was in them is gone")


def test_a_group_of_version_2_is_entered_and_goes_with_all_that_is_in_it() -> None:
    """By the kernel itself, which need not have a controller for that. A job may have made groups inside."""
    rows = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    tops = [row[4] for row in rows if row[row.index("-") + 1] == "cgroup2"]
    name = f"glidepath-test-{os.getpid()}"
    group = Group([("none", 2, tops[0] if tops else "/nowhere")], name)
    if not tops or not os.access(tops[0], os.W_OK):
        with pytest.raises(OSError):
            group.make({}, 0)
        return
    group.make({}, 0)
    folder = Path(tops[0], name)
    inner = folder / "of-the-job"
    inner.mkdir()
    (door,) = group.doors()
    command = ["/bin/sh", "-c", f"sleep 600 & echo $! > {inner}/cgroup.procs; wait"]
    with subprocess.Popen(command, preexec_fn=lambda: os.write(door, str(os.getpid()).encode())) as process:
        os.close(door)
        until(lambda: (inner / "cgroup.procs").read_text() != "", "one is in the inner group")
        assert (folder / "cgroup.procs").read_text().split() == [str(process.pid)]
        (inside,) = (inner / "cgroup.procs").read_text().split()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert runs(inside)
        assert group.end()
    assert not folder.exists()
    assert not runs(inside)


# Version 2, stood in for by folders.


class StandIn:
    """A mount of version 2 with a group that was handed over, as systemd does it."""

    def __init__(self, folder: Path, *, own: str = "/unit/here", passed_on: str = "cpu memory pids") -> None:
        self.top, self.unit = folder / "top", folder / "top" / "unit"
        self.own, self.mounts = folder / "own", folder / "mounts"
        self.group(self.top, "cpu memory pids hugetlb")
        self.group(self.unit, passed_on)
        self.group(self.unit / "here")
        self.own.write_text(f"1:name=systemd:/elsewhere\n0::{own}\n")
        self.mounts.write_text(
            "21 20 0:1 / /proc rw - proc proc rw\n"
            f"22 20 0:2 / {self.top} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        os.setxattr(self.unit, "user.delegate", b"1")

    @staticmethod
    def group(folder: Path, passed_on: str = "") -> None:
        folder.mkdir()
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (folder / name).touch()
        (folder / "cgroup.controllers").write_text(f"{passed_on}\n")

    def tree(self, asked: str = "") -> Tree:
        return tree_of(asked, own=self.own, mounts=self.mounts)

    def rank(self, name: str) -> Path:
        """What the kernel makes of a new folder with all controllers."""
        folder = self.unit / name
        folder.mkdir()
        for file in ("cgroup.procs", *LIMITS):
            (folder / file).touch()
        (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n")
        (folder / "memory.peak").write_text("0\n")
        (folder / "pids.events").write_text("max 0\n")
        return folder


def test_what_was_handed_over_is_found_and_made_ready(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path)
    assert stand_in.tree() == Tree(tuple((name, 2, str(stand_in.unit)) for name in CONTROLLERS))
    assert told(stand_in.tree(), asked="") == ""
    # A file keeps the last word that was written, where the kernel adds them up.
    assert (stand_in.unit / "cgroup.subtree_control").read_text() == "+pids"


def test_a_group_that_is_named_is_made_where_it_may_be(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path)
    assert stand_in.tree("/unit").held == CONTROLLERS
    gone = stand_in.tree("/none/below")
    assert gone.held == ()
    assert gone.why.startswith(f"memory at `{stand_in.top}/none/below`: No such file or directory; CPUs at")


@pytest.mark.parametrize(
    ("passed_on", "held", "sentence"),
    [
        (
            "memory pids",
            ("memory", "pids"),
            "the kernel keeps jobs within their memory and processes alone; CPUs are not limited; CPUs at "
            "`UNIT`: the group above it does not pass it on, `cgroup.subtree_control`; start it with "
            "`systemd-run --user --scope -p Delegate=yes`, or name a control group with `cgroup`",
        ),
        (
            "cpu",
            ("cpu",),
            "the kernel keeps jobs within their CPUs alone; memory of jobs is measured twice a second and "
            "not limited, processes are not limited; memory at `UNIT`: the group above it does not pass it "
            "on, `cgroup.subtree_control`; processes at `UNIT`: the group above it does not pass it on, "
            "`cgroup.subtree_control`; start it with `systemd-run --user --scope -p Delegate=yes`, or name "
            "a control group with `cgroup`",
        ),
    ],
)
def test_what_is_not_passed_on_is_named_with_what_to_do(
    tmp_path: Path, passed_on: str, held: tuple[str, ...], sentence: str
) -> None:
    stand_in = StandIn(tmp_path, passed_on=passed_on)
    tree = stand_in.tree()
    assert tree.held == held
    assert told(tree, asked="").replace(str(stand_in.unit), "UNIT") == sentence


def test_what_another_systemd_runs_is_left_alone(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path)
    (stand_in.unit / "init.scope").mkdir()
    assert stand_in.tree() == Tree(why="no control group was handed over to glidepath")


def test_nothing_is_touched_that_was_not_handed_over(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path, own="/")
    assert stand_in.tree() == Tree(why="no control group was handed over to glidepath")
    assert told(stand_in.tree(), asked="") == (
        "memory of jobs is measured twice a second and not limited, CPUs and processes are not limited; no "
        "control group was handed over to glidepath; start it with `systemd-run --user --scope -p "
        "Delegate=yes`, or name a control group with `cgroup`"
    )
    assert (stand_in.top / "cgroup.subtree_control").read_text() == ""


def test_a_kernel_without_control_groups_is_told(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path)
    stand_in.mounts.write_text("21 20 0:1 / /proc rw - proc proc rw\n")
    why = "the kernel has no control groups for memory, CPUs and processes here"
    assert stand_in.tree("/x") == Tree(why=why)
    assert stand_in.tree().why == "no control group was handed over to glidepath"
    assert stand_in.tree("/x").why in told(stand_in.tree("/x"), asked="/x")


def test_processes_of_ours_make_way_or_it_is_said_that_they_do_not(tmp_path: Path) -> None:
    """Folders do not move processes: whoever is there stays, and is asked to go for as long as is stated."""
    stand_in = StandIn(tmp_path, own="/unit")
    (stand_in.unit / LEAF).mkdir()
    (stand_in.unit / LEAF / "cgroup.procs").touch()
    (stand_in.unit / "cgroup.procs").write_text("4711\n")
    tree = stand_in.tree()
    assert (stand_in.unit / LEAF / "cgroup.procs").read_text() == "4711"
    assert tree.held == ()
    assert tree.why.startswith(f"memory at `{stand_in.unit}`: processes are in it that do not leave; CPUs at")


def test_a_group_has_the_limits_of_its_rank_and_says_how_it_ended(tmp_path: Path) -> None:
    stand_in = StandIn(tmp_path)
    tree = stand_in.tree()
    folder = stand_in.rank("gp-1.1-0")
    group = Group(tree.folders, "gp-1.1-0")
    group.make({"memory_mib": 512, "cpu_milli": 1500}, 100)
    written = [(folder / file).read_text() for file in LIMITS]
    assert written == [str(512 << 20), "0", "1", "150000 100000", "100"]
    assert (group.memory_kills(), group.memory_most_mib(), group.refused_processes()) == (0, 0, 0)
    (folder / "memory.events").write_text("oom 1\noom_kill 3\noom_group_kill 1\n")
    (folder / "memory.peak").write_text(f"{512 << 20}\n")
    (folder / "pids.events").write_text("max 9\n")
    assert (group.memory_kills(), group.memory_most_mib(), group.refused_processes()) == (3, 512, 9)


def test_what_the_kernel_says_of_a_rank_is_how_it_ended(tmp_path: Path, bare: Path) -> None:
    stand_in = StandIn(tmp_path)
    cluster = cluster_at(bare, "", lambda asked: stand_in.tree(asked))
    mark = cluster._mark_of_groups
    folder = stand_in.rank(f"{mark}1.1-0")
    assert cluster.start(rank_set("1.1", "exec sleep 600")) == Done()
    until(lambda: (folder / "cgroup.procs").read_text() != "", "it is in its group")
    pid = int((folder / "cgroup.procs").read_text())
    assert Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] in (b"sleep", b"/bin/sh")
    (folder / "memory.events").write_text("oom 1\noom_kill 2\n")
    (folder / "memory.peak").write_text(f"{32 << 20}\n")
    os.kill(pid, signal.SIGKILL)
    (rank,) = ended(cluster, "1.1")
    why = "the kernel ended 2 of its processes at 32 MiB; together they had 32 MiB"
    assert (rank.cause, rank.signal, rank.why) == (Cause.MEMORY, None, why)
    for file in folder.iterdir():
        file.unlink()  # Those of the kernel go with their folder.
    assert cluster.clear(SetKey("1.1")) == Done()
    assert not folder.exists()


@pytest.mark.real
def test_where_limits_cannot_be_kept_as_asked_people_read_it_wherever_they_look(
    house_of: Callable[[str], Path], up: Callable[..., object]
) -> None:
    home = house_of('cgroup = "/no-such-group/here"')
    up()
    with_config = {"GLIDEPATH_CONFIG": str(home / "lab.toml")}

    def items(*words: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(glidepath(home, *words, "-o", "json", **with_config))[
            "items"
        ]
        return found

    def note() -> str:
        rows = {str(row["name"]): row["notes"] for row in items("partition", "list")}
        notes = rows["desk"]
        assert isinstance(notes, list)
        return str(notes[0]) if notes else ""

    words = ("--queue", "interactive", "--cpus", "1", "--mem", "64MiB", "--time", "1m", "--", "true")
    job = glidepath(home, "job", "submit", *words, **with_config).split()[-1]
    until(lambda: bool(note()), "the scheduler has planned")
    assert note().startswith("no job starts there, since `cgroup` names what cannot be used; ")
    assert note().endswith(
        "; hand `/no-such-group/here` over to the user of glidepath, or leave `cgroup` out"
    )
    assert f"note: partition desk: {note()}"[:80] in glidepath(home, "partition", "list", **with_config)
    found = {str(row["name"]): (row["verdict"], row["found"]) for row in items("doctor")}
    assert found["cluster lab"] == ("warn", note())
    until(
        lambda: (
            "the cluster did not take it: its limits cannot be kept: "
            in glidepath(home, "job", "show", job, **with_config)
        ),
        "it was tried",
    )
    explained = items("job", "explain", job)[0]["explained"]
    assert isinstance(explained, list)
    assert f"cluster `lab`: {note()}" in explained
