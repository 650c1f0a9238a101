"""HTCondor for a pilot: chosen by the machine, unpacked only from what was promised, and never outside."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from glidepath.pilot.parts.condor_config import Tree
from glidepath.pilot.parts.condor_source import (
    NoCondor,
    chosen,
    system_names,
    tree_from,
    tree_of_machine,
    unpack,
)

ALMA = 'NAME="AlmaLinux"\nVERSION_ID="8.10"\nID="almalinux"\nID_LIKE="rhel centos fedora"\n'
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12"\nVERSION_ID="12"\nID=debian\n'


def member(name: str, content: bytes = b"", **facts: object) -> tuple[tarfile.TarInfo, bytes]:
    found = tarfile.TarInfo(name)
    found.size = len(content)
    found.mode = 0o755
    for key, value in facts.items():
        setattr(found, key, value)
    return found, content


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for found, content in members:
            archive.addfile(found, io.BytesIO(content))
    return path


CONDOR = (
    member("condor-23/sbin/condor_master", b"#!/bin/sh\n"),
    member("condor-23/bin/condor_status", b""),
    member("condor-23/bin/link", b"", type=tarfile.SYMTYPE, linkname="../sbin/condor_master"),
    member("condor-23/bin/hard", b"", type=tarfile.LNKTYPE, linkname="condor-23/sbin/condor_master"),
    member("condor-23/libexec/condor_chirp", b"", mode=0o6777),
    member("condor-23/lib/condor/x.so", b"", mode=0o600),
)


@pytest.mark.parametrize(
    ("os_release", "machine", "expected"),
    [
        (DEBIAN, "x86_64", ["debian12-x86_64", "debian12-amd64", "debian-x86_64"]),
        (ALMA, "x86_64", ["almalinux8-x86_64", "almalinux8-amd64", "almalinux-x86_64"]),
        (ALMA, "arm64", ["almalinux8-aarch64", "almalinux8-arm64", "almalinux-aarch64"]),
        ("", "riscv64", ["linux-riscv64", "*"]),
    ],
)
def test_a_machine_has_names_from_the_narrowest_to_any(
    os_release: str, machine: str, expected: list[str]
) -> None:
    found = system_names(os_release, machine)
    assert found[: len(expected)] == expected
    assert found[-1] == "*"
    assert "rhel8-x86_64" in system_names(ALMA, "x86_64")


def test_the_narrowest_name_wins_whatever_its_capitals() -> None:
    names = {"linux-x86_64": "a", "AlmaLinux8-x86_64": "b", "rhel8-x86_64": "c"}
    sources = {name: {"from": place} for name, place in names.items()}
    assert chosen(sources, system_names(ALMA, "x86_64")) == {"from": "b"}
    assert chosen(sources, system_names(DEBIAN, "x86_64")) == {"from": "a"}
    with pytest.raises(NoCondor, match="no HTCondor is named for this machine"):
        chosen(sources, system_names(DEBIAN, "aarch64"))


def test_a_tarball_becomes_a_tree_of_plain_files(tmp_path: Path) -> None:
    path = packed(tmp_path / "c.tar.gz", *CONDOR)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    root = tmp_path / "release" / "condor-23"
    tree = tree_from({"from": str(path), "sha256": digest.upper()}, str(tmp_path), "")
    assert tree == Tree(
        *(str(root / part) for part in (".", "bin", "sbin", "libexec", "lib/condor"))
    )._replace(root=str(root))
    assert (root / "bin" / "link").resolve() == root / "sbin" / "condor_master"
    modes = [
        oct((root / name).stat().st_mode & 0o7777) for name in ("libexec/condor_chirp", "lib/condor/x.so")
    ]
    assert modes == ["0o755", "0o644"]


def test_a_tarball_with_another_sum_is_not_unpacked(tmp_path: Path) -> None:
    path = packed(tmp_path / "c.tar.gz", *CONDOR)
    with pytest.raises(NoCondor, match="it is not used"):
        tree_from({"from": str(path), "sha256": "0" * 64}, str(tmp_path), "")
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ([member("../out", b"x")], "outside of its folder"),
        ([member("/etc/out", b"x")], "outside of its folder"),
        ([member("a/../../out", b"x")], "outside of its folder"),
        ([member("l", type=tarfile.SYMTYPE, linkname="/etc/passwd")], "outside|out of its folder"),
        ([member("l", type=tarfile.SYMTYPE, linkname="../../x")], "outside of its folder"),
        ([member("l", type=tarfile.LNKTYPE, linkname="../../etc/passwd")], "outside of its folder"),
        ([member("l", type=tarfile.LNKTYPE, linkname="nothing")], "a hard link to no file"),
        ([member("d", type=tarfile.CHRTYPE)], "no file"),
        ([member("f", type=tarfile.FIFOTYPE)], "no file"),
    ],
)
def test_a_tarball_that_leads_out_or_holds_no_files_is_refused(
    tmp_path: Path, bad: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    path = packed(tmp_path / "c.tar.gz", *bad)
    with pytest.raises(NoCondor, match=why):
        unpack(str(path), str(tmp_path / "in"))
    assert sorted(found.name for found in tmp_path.iterdir()) == ["c.tar.gz", "in"]


def test_a_link_that_was_made_does_not_carry_the_next_member_out(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    path = packed(tmp_path / "c.tar.gz", member("a", type=tarfile.SYMTYPE, linkname="b"), member("a/x", b"1"))
    with pytest.raises(OSError):
        unpack(str(path), str(tmp_path / "in"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x1f\x8b\x08\x00"])
def test_what_is_no_tarball_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.tar.gz"
    path.write_bytes(content)
    with pytest.raises(NoCondor, match="cannot be read"):
        unpack(str(path), str(tmp_path / "in"))


def test_a_tarball_without_htcondor_and_a_machine_without_it_are_told(tmp_path: Path) -> None:
    path = packed(tmp_path / "c.tar.gz", member("bin/true", b"x"))
    with pytest.raises(NoCondor, match="has no sbin/condor_master"):
        tree_from({"from": str(path)}, str(tmp_path), "")
    with pytest.raises(NoCondor, match="there is no tarball"):
        tree_from({"from": str(tmp_path / "nothing")}, str(tmp_path), "")


def test_the_machines_own_is_found_on_its_path(tmp_path: Path) -> None:
    for name in ("usr/sbin/condor_master", "usr/libexec/condor/condor_chirp", "usr/bin/condor_status"):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    found = tree_of_machine(f"/nowhere:{tmp_path}/usr/sbin")
    assert (found.root, found.libexec) == (f"{tmp_path}/usr", f"{tmp_path}/usr/libexec/condor")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Not into the output of the tests."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_tarball_is_fetched_from_an_address(tmp_path: Path, served: str) -> None:
    path = packed(tmp_path / "served" / "c.tar.gz", *CONDOR)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    tree = tree_from({"from": f"{served}/c.tar.gz", "sha256": digest}, str(tmp_path), "")
    assert Path(tree.sbin, "condor_master").exists()
    assert not (tmp_path / "condor.tar").exists()
