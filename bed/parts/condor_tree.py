"""HTCondor for the machine itself: a Debian root file system with the package `condor` comes in, a folder
that can be unpacked anywhere goes out, and as a tarball. It needs nothing of the machine but a kernel and
`/bin/sh`.

The programs want a newer C library than the machine may have. So each is kept in `real`, its libraries and
its loader in `lib`, and `bin`, `sbin` and `libexec` have a few lines of sh in its place that start it
through that loader. Only HTCondor runs with those libraries: the loader takes them from its arguments,
which a job does not inherit, so jobs run on the machine as it is.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from bed.command import alone, run
from bed.trouble import Trouble

LOADER = "lib64/ld-linux-x86-64.so.2"
# Where the package has its programs, and where a tarball of HTCondor has them.
FOLDERS = {"usr/bin": "bin", "usr/sbin": "sbin", "usr/libexec/condor": "libexec", "usr/lib/condor": "lib"}
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib")
# Loaded by name at run time, so that no program's list of libraries has them: TLS, munge, Kerberos and
# tokens of libcondor_utils, and the ways of the C library to look up names.
LOADED_BY_NAME = (
    *("libssl.so.3", "libcrypto.so.3", "libmunge.so.2", "libSciTokens.so.0", "libsystemd.so.0"),
    *("libkrb5.so.3", "libgssapi_krb5.so.2", "libk5crypto.so.3", "libcom_err.so.2"),
    *("libnss_files.so.2", "libnss_dns.so.2", "libnss_compat.so.2", "libgetpwnam.so"),
)
# Run by a master that is root, it changes kernel settings of the machine for everybody and for good.
LEFT_OUT = ("usr/libexec/condor/linux_kernel_tuning",)
LIST_S_MAX = 120
# Tarballs of the same tree are the same, so that their checksum means something.
TIME_OF_FILES = 0

# The loader gets the name under which it was called: condor_hold and condor_rm are one program. The
# machine's own list of libraries is not used, or a library of the machine could slip in between two
# versions.
WRAPPER = """#!/bin/sh
self=$(readlink -f "$0") || exit 127
root=${{self%{above}}}
exec "$root/lib/ld-linux-x86-64.so.2" --argv0 "$0" --inhibit-cache --library-path "$root/lib" \\
  "$root/real/{place}" "$@"
"""

# What a configuration must say to use this tree; RELEASE_DIR is up to whoever unpacks it.
SETTINGS = """# HTCondor from a tarball: set RELEASE_DIR to this tree, then include this file.
BIN = $(RELEASE_DIR)/bin
SBIN = $(RELEASE_DIR)/sbin
LIB = $(RELEASE_DIR)/lib
LIBEXEC = $(RELEASE_DIR)/libexec
SHARE = $(RELEASE_DIR)/share/condor
"""


def grow(root: Path, tree: Path) -> None:
    """Makes the whole tree from the root file system."""
    programs: list[str] = []
    for source in packaged(root):
        for theirs, ours in FOLDERS.items():
            if source.startswith(f"{theirs}/"):
                place = f"{ours}/{source.removeprefix(f'{theirs}/')}"
                programs += [source] if put(root / source, tree, place) else []
    wanted = [*programs, *(found(root, name) for name in LOADED_BY_NAME)]
    library = tree / "lib"
    library.mkdir(exist_ok=True)
    for path in libraries(root, wanted):
        shutil.copy2(inside(root, path), library / Path(path).name)
    for name in LOADED_BY_NAME:
        shutil.copy2(inside(root, found(root, name)), library / name)
    shutil.copy2(inside(root, LOADER), library / Path(LOADER).name)
    shared = root / "usr/share/condor"
    if shared.is_dir():
        shutil.copytree(shared, tree / "share/condor", symlinks=True)
    (tree / "etc").mkdir()
    (tree / "etc/condor_config.tree").write_text(SETTINGS, encoding="utf-8")


def packaged(root: Path) -> list[str]:
    listed = (root / "var/lib/dpkg/info/condor.list").read_text(encoding="utf-8").splitlines()
    return [line.lstrip("/") for line in listed if line.lstrip("/") not in LEFT_OUT]


def put(source: Path, tree: Path, place: str) -> bool:
    """One file of the package to its place; whether it is a program that needs its libraries."""
    target = tree / place
    if source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
        return False
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    if not needs_loader(source):
        shutil.copy2(source, target)
        return False
    real = tree / "real" / place
    real.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, real)
    target.write_text(WRAPPER.format(place=place, above="/*" * len(Path(place).parts)), encoding="utf-8")
    target.chmod(0o755)
    return True


def needs_loader(path: Path) -> bool:
    """A program, not a library or a script, that names a loader of its own; a static one runs as it is."""
    if ".so" in path.suffixes or not os.access(path, os.X_OK):
        return False
    return path.read_bytes()[:4] == b"\x7fELF" and LOADER.encode() in path.read_bytes()


def libraries(root: Path, programs: Iterable[str]) -> list[str]:
    """Every library that any of these loads, as the loader of the root file system finds them."""
    lister = 'root=$0; for one in "$@"; do chroot "$root" /' + LOADER + ' --list "/$one" || exit 1; done'
    done = run(alone("sh", "-c", lister, str(root), *programs), limit_s=LIST_S_MAX)
    listed = done.must("the libraries of HTCondor could not be listed").out
    if "not found" in listed:
        raise Trouble(f"HTCondor needs a library that its packages did not bring: {listed[:500]}")
    return sorted(set(re.findall(r"=> (/\S+) \(0x", listed)))


def found(root: Path, name: str) -> str:
    for folder in LIBRARY_FOLDERS:
        if (root / folder / name).exists():
            return f"{folder}/{name}"
    raise Trouble(f"the root file system has no `{name}`; HTCondor's packages have changed")


def inside(root: Path, path: str) -> Path:
    """The file behind a path of the root file system, whose absolute links must not lead out of it."""
    here = root / path.lstrip("/")
    for _ in range(LINKS_MAX):
        if not here.is_symlink():
            return here
        leads = here.readlink()
        here = root / leads.relative_to("/") if leads.is_absolute() else here.parent / leads
    raise Trouble(f"`{path}` is a chain of more than {LINKS_MAX} links")


# As many as the kernel follows.
LINKS_MAX = 40


def pack(folder: Path, tarball: Path) -> None:
    """The tree as a tarball in which every file belongs to root and has the same time."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = TIME_OF_FILES
        return entry

    with (
        tarball.open("wb") as stream,
        gzip.GzipFile("", "wb", fileobj=stream, mtime=TIME_OF_FILES) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w") as archive,
    ):
        # Sorted by tarfile itself, folder by folder.
        archive.add(folder / "condor", arcname="condor", filter=plain)
