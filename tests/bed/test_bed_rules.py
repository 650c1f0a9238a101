"""What the bed decides without starting a server: names, facts of machines, pins, the cache, what is left."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bed.cache import built
from bed.machine import Machine, mirror_of, os_release
from bed.main import main
from bed.packages import versions_shown
from bed.parts.condor import Condor
from bed.parts.postgres import Postgres, find_binaries
from bed.place import Instance, Place
from bed.running import State, began, remember, state_of
from bed.trouble import Trouble
from bed.versions import Pin
from tests.bed_pool import needs

from bed import leaks, versions

ROOT = Path(__file__).parent.parent.parent
WAIT_S_MAX = 120
GOOD = Machine(
    uid=0,
    system="debian",
    codename="bookworm",
    architecture="x86_64",
    tools=frozenset({"apt-get", "nsenter", "pivot_root", "setpriv", "unshare"}),
    namespaces=True,
    mirror="http://mirror.example/debian",
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(cache=tmp_path / "cache", run=Path(f"/tmp/gp-rules-{os.getpid()}"))


# Names and folders.


@pytest.mark.parametrize(
    ("name", "label"),
    [("condor", "condor"), ("condor@two", "condor-two"), ("postgres@a-1", "postgres-a-1")],
)
def test_an_instance_has_a_folder_of_its_own(name: str, label: str) -> None:
    instance = Instance.named(name, Place(Path("/c"), Path("/r")))
    assert (instance.name, instance.folder) == (name, Path("/r") / label)


@pytest.mark.parametrize(
    "name", ["", "condor@", "Condor", "../x", "condor@a/b", "condor@" + "a" * 17, "a b", "-o"]
)
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(Trouble, match="is not a name"):
        Instance.named(name, Place(Path("/c"), Path("/r")))


def test_a_run_folder_whose_sockets_would_not_fit_is_refused() -> None:
    with pytest.raises(Trouble, match="GLIDEPATH_BED_RUN"):
        Instance.named("condor", Place(Path("/c"), Path("/r" * 40)))


@pytest.mark.parametrize(
    ("environ", "cache", "run"),
    [
        ({"GLIDEPATH_BED_CACHE": "/a", "GLIDEPATH_BED_RUN": "/b"}, "/a", "/b"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/glidepath-bed", "/tmp/gp-bed"),
        ({"GLIDEPATH_BED_CACHE": "", "XDG_CACHE_HOME": "/x"}, "/x/glidepath-bed", "/tmp/gp-bed"),
    ],
)
def test_the_folders_come_from_the_environment(environ: dict[str, str], cache: str, run: str) -> None:
    assert Place.of(environ) == Place(Path(cache), Path(run))


# What a machine can host.


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, []),
        ({"uid": 1000}, ["not root"]),
        ({"system": "fedora"}, ["not Debian but `fedora`"]),
        ({"architecture": "aarch64"}, ["this is aarch64"]),
        ({"namespaces": False}, ["forbids private mount"]),
        ({"mirror": ""}, ["no apt source of `bookworm`"]),
        ({"tools": GOOD.tools - {"apt-get"}}, ["neither debootstrap nor packages"]),
        ({"tools": GOOD.tools - {"unshare", "nsenter"}}, ["`nsenter`, `unshare`"]),
        ({"uid": 1000, "system": "fedora"}, ["not root", "not Debian but `fedora`"]),
    ],
)
def test_a_machine_that_cannot_host_condor_says_why(
    facts: dict[str, object], expected: list[str], place: Place
) -> None:
    reasons = Condor().obstacles(dataclasses.replace(GOOD, **facts), place)  # type: ignore[arg-type]
    assert len(reasons) == len(expected), reasons
    assert all(part in reason for part, reason in zip(expected, reasons, strict=True))


def test_what_is_cached_needs_no_debian(place: Place) -> None:
    Condor().build_folder(place).mkdir(parents=True)
    assert Condor().obstacles(dataclasses.replace(GOOD, system="fedora", mirror=""), place) == []


def test_postgres_is_refused_only_where_it_is_neither_there_nor_to_be_had(place: Place) -> None:
    ordinary = dataclasses.replace(GOOD, uid=1000, system="fedora")
    assert (Postgres().obstacles(ordinary, place) == []) == (find_binaries() is not None)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([(".list", "deb http://m.example/debian bookworm main\n")], "http://m.example/debian"),
        ([(".list", "deb [signed-by=/k arch=amd64] https://m.example/d/ bookworm x")], "https://m.example/d"),
        ([(".list", "# deb http://no.example/d bookworm x\ndeb-src http://no.example/d bookworm x")], ""),
        ([(".list", "deb http://s.example/d bookworm-security main")], ""),
        ([(".list", "deb cdrom:[D]/ bookworm main\ndeb http://m.example/d bookworm x")], "http://m.example/d"),
        (
            [(".sources", "Types: deb\n# http://no.example\nURIs: http://m.example/d\nSuites: bookworm o\n")],
            "http://m.example/d",
        ),
        (
            [(".sources", "Types: deb\nURIs: http://v.example\nSuites: nodistro\n\nTypes: deb\nURIs:\n"
              " http://m.example/d\nSuites: bookworm\n")],
            "http://m.example/d",
        ),
        ([(".sources", "Enabled: no\nTypes: deb\nURIs: http://no.example\nSuites: bookworm")], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_mirror_is_the_machines_own(sources: list[tuple[str, str]], expected: str) -> None:
    assert mirror_of(sources, "bookworm") == expected


def test_a_machine_without_a_release_file_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "r").write_text('# x\nID="debian"\nVERSION_CODENAME=bookworm\nodd line\n')
    assert os_release(tmp_path / "r") == {"ID": "debian", "VERSION_CODENAME": "bookworm"}
    assert os_release(tmp_path / "none") == {}


# Versions and checksums.


PINS = {"condor": Pin("23.9", hashlib.sha256(b"right").hexdigest()), "procps": Pin("2:4", "00")}


def test_another_checksum_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "condor_23.9_amd64.deb").write_bytes(b"wrong")
        (folder / "procps_2%3a4_amd64.deb").write_bytes(b"")
        versions.compare_files(PINS, folder)

    with pytest.raises(Trouble) as raised:
        built(tmp_path, "condor-1", build, print)
    text = str(raised.value)
    assert "condor_23.9_amd64.deb" in text
    assert PINS["condor"].sha256 in text
    assert hashlib.sha256(b"wrong").hexdigest() in text
    assert "procps_2%3a4_amd64.deb" in text
    assert "versions.toml" in text
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_the_right_checksum_is_taken(tmp_path: Path) -> None:
    (tmp_path / "condor_23.9_amd64.deb").write_bytes(b"right")
    versions.compare_files({"condor": PINS["condor"]}, tmp_path)


def test_a_package_that_did_not_come_is_told(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="no such file"):
        versions.compare_files(PINS, tmp_path)


def test_an_archive_that_has_moved_on_is_told_with_what_to_change() -> None:
    shown = "Package: condor\nVersion: 23.10\n\nPackage: condor\nVersion: 23.8\nSHA256: 1\n"
    with pytest.raises(Trouble) as raised:
        versions.compare_versions(PINS, versions_shown(shown))
    assert "condor: pinned 23.9, the archive has 23.10" in str(raised.value)
    assert "procps: pinned 2:4, the archive has none" in str(raised.value)
    assert "versions.toml" in str(raised.value)


def test_the_pinned_versions_of_condor_are_whole() -> None:
    pinned = versions.pins(versions.section("condor"))
    assert set(pinned) >= {"condor", "python3-minimal", "procps"}
    assert all(pin.version and len(pin.sha256) == 64 for pin in pinned.values())


def test_another_version_or_format_is_another_build() -> None:
    keys = {versions.key(table, number) for table in ({"a": 1}, {"a": 2}) for number in (1, 2)}
    assert len(keys) == 4
    assert versions.key({"a": 1, "b": 2}, 1) == versions.key({"b": 2, "a": 1}, 1)


def test_a_section_that_is_not_there_is_told() -> None:
    with pytest.raises(Trouble, match="no readable section `nothing`"):
        versions.section("nothing")


# The cache.

BUILDER = """
import sys, time
from pathlib import Path
from bed.cache import built
def build(folder):
    (folder / "half").write_text("")
    print("building", flush=True)
    time.sleep(float(sys.argv[2]))
    (folder / "whole").write_text("")
found = built(Path(sys.argv[1]), "x-1", build, lambda text: print(text, flush=True))
print(sorted(path.name for path in found.iterdir()))
"""


def builder(cache: Path, seconds: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", BUILDER, str(cache), str(seconds)]
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_build_that_was_killed_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    with builder(tmp_path, WAIT_S_MAX) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "building\n"
        killed.kill()
    assert not (tmp_path / "x-1").exists()
    with builder(tmp_path, 0) as second:
        out, _ = second.communicate(timeout=WAIT_S_MAX)
    assert out == "building\n['half', 'whole']\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locks", "x-1"]


def test_a_build_that_was_interrupted_leaves_nothing(tmp_path: Path) -> None:
    with builder(tmp_path, WAIT_S_MAX) as interrupted:
        assert interrupted.stdout is not None
        assert interrupted.stdout.readline() == "building\n"
        interrupted.send_signal(signal.SIGINT)
        interrupted.wait(WAIT_S_MAX)
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_two_builds_at_once_wait_for_each_other_and_build_once(tmp_path: Path) -> None:
    with builder(tmp_path, 2) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "building\n"
        with builder(tmp_path, 0) as second:
            out, _ = second.communicate(timeout=WAIT_S_MAX)
        first.wait(WAIT_S_MAX)
        assert first.stdout.read() == "['half', 'whole']\n"
    assert out == "building x-1: another run is at it; waiting for it to end\n['half', 'whole']\n"


# What is left.


def test_a_process_is_told_by_its_folder_its_command_or_its_environment(place: Place, tmp_path: Path) -> None:
    folder = place.run / "condor"
    sleeping = ["sleep", str(WAIT_S_MAX)]
    folder.mkdir(parents=True)
    alike = place.run.with_name(place.run.name + "-other")
    children = [
        subprocess.Popen(sleeping, cwd=folder),
        subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({WAIT_S_MAX})", f"{folder}/x"]),
        subprocess.Popen(sleeping, env={**os.environ, "CONDOR_CONFIG": f"{folder}/c"}),
        subprocess.Popen(sleeping, env={**os.environ, "CONDOR_CONFIG": f"{alike}/c"}),
    ]
    try:
        found = {one.pid for one in leaks.left(place) if one.kind == "process"}
        assert found & {child.pid for child in children} == {child.pid for child in children[:3]}
        assert os.getpid() not in found
    finally:
        for child in children:
            child.kill()
            child.wait()
        folder.rmdir()
        place.run.rmdir()


# Adds a labelled address in a network namespace of its own, by the call that `ifconfig lo:gp` uses.
ADDRESS = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    asked = struct.pack("16sH2s4s8x", b"lo:gpbed", socket.AF_INET, b"", socket.inet_aton("10.199.0.1"))
    fcntl.ioctl(any_socket.fileno(), 0x8916, asked)
os.execv(sys.executable, [sys.executable, "bed/ctl", "leaks"])
"""


@pytest.mark.real
def test_an_address_of_the_bed_is_told_by_its_label(place: Place) -> None:
    needs(Condor())
    words = ["unshare", "--net", sys.executable, "-c", ADDRESS]
    environ = {**os.environ, "GLIDEPATH_BED_RUN": str(place.run)}
    done = subprocess.run(
        words, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
    )
    assert (done.returncode, done.stdout) == (1, "address: 10.199.0.1 (lo:gpbed)\n"), done.stderr


def test_a_number_that_was_given_to_another_process_is_not_ours(place: Place) -> None:
    instance = Instance.named("condor", place)
    instance.folder.mkdir(parents=True)
    try:
        remember(instance, State("condor", os.getpid(), 1, "", 0, ""))
        state = state_of(instance)
        assert state is not None
        assert began(os.getpid()) > 1
        assert not state.alive()
        (instance.folder / "state.json").write_text("{")
        with pytest.raises(Trouble, match="is damaged"):
            state_of(instance)
    finally:
        (instance.folder / "state.json").unlink()
        instance.folder.rmdir()
        place.run.rmdir()


# Words that are not understood.


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["up", "nothing"], 1, "there is no part `nothing`; there are `condor`, "),
        (["up", "condor", "condor@two", "--port", "9618"], 1, "`--port` goes with one name only"),
        (["up", "postgres", "--port", "5432"], 1, "listens on a socket only"),
        (["down", "../x"], 1, "is not a name"),
        (["up", "condor", "--port", "70000"], 2, "`70000` is not a port"),
        (["up"], 2, "NAME"),
        ([], 2, "COMMAND"),
    ],
)
def test_wrong_words_are_told(
    words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        ended: object = main(words)
    except SystemExit as leaving:
        ended = leaving.code
    assert ended == code
    assert told in capsys.readouterr().err
