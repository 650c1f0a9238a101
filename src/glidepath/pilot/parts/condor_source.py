"""HTCondor for this pilot: what the machine has, or a tarball by path or address, checked and unpacked.

A choice by operating system and architecture comes in, the folders of its programs go out. What does not have
the promised sum, leads out of its folder or is no plain file is refused with OSError and a sentence.
"""

import hashlib
import os
import re
import shutil
import tarfile
import time
import urllib.request
from typing import Dict, List, Mapping, Optional, Sequence

from glidepath.pilot.parts.condor_config import Tree

MASTER = "condor_master"
PLACES = ("/usr/sbin", "/usr/local/sbin", "/opt/condor/sbin", "/usr/lib/condor/sbin")
LIBEXECS = ("libexec/condor", "lib/condor/libexec", "libexec", "lib/condor")
LIBS = ("lib/condor", "lib64/condor", "lib/x86_64-linux-gnu/condor", "lib")
# Marks the folder of programs that belong to the daemons; every HTCondor has one of these.
LIBEXEC_MARKS = ("condor_chirp", "condor_shared_port", "curl_plugin", "condor_pid_ns_init")
TAR_BYTES_MAX = 2 << 30
UNPACKED_BYTES_MAX = 8 << 30
MEMBERS_MAX = 200000
PIECE = 1 << 20
FETCH_S_MAX = 900.0
FETCH_TRIES = 3
FETCH_PAUSE_S = 5.0
SILENCE_S_MAX = 30.0
DEPTH_MAX = 3  # A tarball wraps its tree into one folder, seldom into two.
OS_RELEASE = re.compile(r'^([A-Z_]+)=["\']?([^"\'\n]*)["\']?$', re.MULTILINE)
ARCH_NAMES = {"arm64": "aarch64", "amd64": "x86_64"}


class NoCondor(OSError):
    """There is none to be had, and why."""


def system_names(os_release: str, machine: str) -> List[str]:
    """What this machine may be called, the narrowest first: `almalinux8-x86_64`, `rhel8-x86_64`, ..., `*`."""
    told = dict(OS_RELEASE.findall(os_release))
    major = told.get("VERSION_ID", "").partition(".")[0]
    names = [told.get("ID", "")] + told.get("ID_LIKE", "").split()
    machine = ARCH_NAMES.get(machine, machine)
    machines = [machine] + [other for other, one in ARCH_NAMES.items() if one == machine]
    found = []
    for name in [name for name in names if name] + ["linux"]:
        for form in (name + major, name):
            found += ["%s-%s" % (form.lower(), one) for one in machines]
    return list(dict.fromkeys(found)) + ["*"]


def chosen(sources: Mapping[str, Dict[str, str]], names: Sequence[str]) -> Dict[str, str]:
    lowered = {name.lower(): source for name, source in sources.items()}
    for name in names:
        if name in lowered:
            return lowered[name]
    raise NoCondor("no HTCondor is named for this machine (%s); there are %s" % (names[0], sorted(lowered)))


def tree_of_machine(path: str) -> Tree:
    """The HTCondor that is installed here or came with the container."""
    for folder in [one for one in path.split(os.pathsep) if one] + list(PLACES):
        program = os.path.join(folder, MASTER)
        if os.access(program, os.X_OK):
            return tree_at(os.path.dirname(os.path.dirname(os.path.realpath(program))))
    raise NoCondor("this machine has no condor_master, neither on the PATH nor in the usual places")


def tree_at(root: str) -> Tree:
    def first(names: Sequence[str], marks: Sequence[str]) -> Optional[str]:
        folders = [os.path.join(root, name) for name in names]
        return next(
            (one for one in folders if any(os.path.exists(os.path.join(one, m)) for m in marks)), None
        )

    sbin = first(("sbin", "bin"), (MASTER,))
    if sbin is None:
        raise NoCondor("%s has no condor_master" % root)
    libexec = first(LIBEXECS, LIBEXEC_MARKS) or os.path.join(root, "libexec")
    lib = next((os.path.join(root, one) for one in LIBS if os.path.isdir(os.path.join(root, one))), root)
    return Tree(root, os.path.join(root, "bin"), sbin, libexec, lib)


def tree_from(source: Mapping[str, str], folder: str, path: str) -> Tree:
    """Programs ready to run; a tarball is unpacked into the folder, once."""
    where = source["from"]
    if where in ("machine", "container"):
        return tree_of_machine(path)
    if os.path.isdir(where):
        return tree_at(os.path.abspath(where))
    packed = where
    if re.match("https?://", where):
        packed = os.path.join(folder, "condor.tar")
        fetch(where, packed)
    elif not os.path.isfile(where):
        raise NoCondor("there is no tarball %s" % where)
    wanted, found = source.get("sha256", "").lower(), sum_of(packed)
    if wanted and wanted != found:
        raise NoCondor("the tarball %s has the sha256 %s, not %s; it is not used" % (where, found, wanted))
    unpacked = os.path.join(folder, "release")
    unpack(packed, unpacked)
    if packed != where:
        os.unlink(packed)
    return tree_at(root_in(unpacked))


def sum_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def fetch(address: str, path: str) -> None:
    """The file behind the address; a broken line is tried again, a file without end is not."""
    until = time.monotonic() + FETCH_S_MAX
    why = ""
    for attempt in range(FETCH_TRIES):
        try:
            fetch_once(address, path, until)
            return
        except NoCondor:
            raise
        except (OSError, ValueError) as error:
            why = str(error) or type(error).__name__
        if attempt + 1 < FETCH_TRIES:
            time.sleep(FETCH_PAUSE_S)
    raise NoCondor("%s could not be fetched: %s" % (address, why))


def fetch_once(address: str, path: str, until: float) -> None:
    size = 0
    with urllib.request.urlopen(address, timeout=SILENCE_S_MAX) as answer, open(path, "wb") as file:
        for piece in iter(lambda: answer.read(PIECE), b""):
            size += len(piece)
            if size > TAR_BYTES_MAX or time.monotonic() > until:
                raise NoCondor("%s is too large or too slow" % address)
            file.write(piece)


def unpack(path: str, folder: str) -> None:
    """Plain files, folders and links that stay inside; nothing of what else a tarball can hold."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, 0o755)
    size = 0
    try:
        with tarfile.open(path, "r:*") as archive:
            for count, member in enumerate(archive):
                size += max(0, member.size)
                if count >= MEMBERS_MAX or size > UNPACKED_BYTES_MAX:
                    raise NoCondor("the tarball %s holds too much" % path)
                unpack_one(archive, member, folder)
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise NoCondor("the tarball %s cannot be read: %s" % (path, error)) from None


def inside(folder: str, name: str) -> str:
    """The path of a member, through links that are there already; refused where it leads out."""
    path = os.path.join(folder, name)
    where = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path.rstrip("/")) or ".")
    root = os.path.realpath(folder)
    if os.path.isabs(name) or ".." in name.split("/") or not (where + "/").startswith(root + "/"):
        raise NoCondor("the tarball has a member outside of its folder: %s" % ascii(name)[:200])
    return path


def unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: str) -> None:
    path = inside(folder, member.name)
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    if member.isdir():
        os.makedirs(path, 0o755, exist_ok=True)
        return
    if os.path.lexists(path):
        os.unlink(path)
    if member.issym():
        target = os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
        inside(folder, target)
        if os.path.isabs(member.linkname):
            raise NoCondor("the tarball has a link out of its folder: %s" % ascii(member.linkname)[:200])
        os.symlink(member.linkname, path)
    elif member.islnk():
        linked = inside(folder, member.linkname)
        if os.path.islink(linked) or not os.path.isfile(linked):
            raise NoCondor("the tarball has a hard link to no file: %s" % ascii(member.linkname)[:200])
        os.link(linked, path)
    elif member.isfile():
        file = archive.extractfile(member)
        assert file is not None
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 & (member.mode | 0o644))
        with os.fdopen(descriptor, "wb") as out:
            shutil.copyfileobj(file, out, PIECE)
    else:
        raise NoCondor("the tarball has a member that is no file: %s" % ascii(member.name)[:200])


def root_in(folder: str) -> str:
    """The tree inside what was unpacked."""
    places = [folder]
    for _ in range(DEPTH_MAX):
        for place in places:
            if os.path.exists(os.path.join(place, "sbin", MASTER)):
                return place
        below = [os.path.join(place, name) for place in places for name in sorted(os.listdir(place))]
        places = [place for place in below if os.path.isdir(place) and not os.path.islink(place)]
    raise NoCondor("the tarball has no sbin/condor_master")
