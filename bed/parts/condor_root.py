"""Builds HTCondor for the bed: pinned packages come in, a folder with `root` (a Debian root file system),
`condor-host.tar.gz` (HTCondor for the machine itself) and `host` (the same, unpacked) goes out. Where
apptainer can be had, the root file system has it too, and `about.json` says why where not.

Every chroot runs in private namespaces, so the machine sees no mount of it. It starts no daemon.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed.cache import Say, Steps
from bed.command import Ended, alone, run
from bed.machine import Machine
from bed.packages import DOWNLOAD_S_MAX, LOCAL_S_MAX, environ, fetch, install_tool
from bed.parts import condor_containers, condor_tree
from bed.versions import Pin, compare_files, pins, sha256_of

# Raise it whenever this file, condor_tree.py or condor_containers.py builds something else from the same
# versions.
BUILD_FORMAT = 4
STEPS = 7
# Fixed numbers, far from those that a distribution gives away: files of theirs are recognised on the
# machine, and the machine's tools can take on the same uid.
USERS = {"ann": 20001, "ben": 20002, "pilot": 20010}

# No daemon may start while packages are installed: the one way that all Debian packages ask.
POLICY = "#!/bin/sh\nexit 101\n"
HOSTS = "127.0.0.1 localhost\n"
# What only costs room in a root file system that nobody upgrades.
NOT_KEPT = (
    "var/cache/apt/archives",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
)
# The package's own pool: an instance brings its own configuration, and a pilot's image must carry none.
OWN_POOL = ("etc/condor/config.d", "etc/condor/passwords.d", "etc/condor/tokens.d")


def build(folder: Path, table: Mapping[str, Any], machine: Machine, say: Say) -> None:
    """Everything, into `folder`."""
    steps = Steps("condor", say, STEPS)
    pinned = pins(table)
    root, packages = folder / "root", folder / "packages"
    with steps.step(f"packages of {table['suite']}, versions and checksums compared"):
        if "debootstrap" not in machine.tools:
            install_tool("debootstrap")
        fetch(packages, table, machine)
    with steps.step("root file system by debootstrap"):
        bootstrap(root, table, machine)
    with steps.step(f"installing {', '.join(pinned)}"):
        install(root, packages, pinned)
    with steps.step(f"{condor_containers.PROGRAM} of {table['containers']['suite']}"):
        without = add_containers(root, packages / "containers", table, machine)
        if without:
            say(f"condor: goes on without {condor_containers.PROGRAM}: {without}")
    with steps.step("users, and what is not needed taken away"):
        furnish(root)
        shutil.rmtree(packages)
    with steps.step("HTCondor for this machine"):
        condor_tree.grow(root, folder / "host" / "condor")
        condor_tree.pack(folder / "host", folder / "condor-host.tar.gz")
    with steps.step("checksum and a first run of it"):
        tarball = folder / "condor-host.tar.gz"
        version = run([str(folder / "host/condor/bin/condor_version")], limit_s=LOCAL_S_MAX)
        about = {
            "version": version.must("HTCondor does not run on this machine").out.strip().splitlines()[0],
            "tarball_sha256": sha256_of(tarball),
            "packages": {name: pin.version for name, pin in pinned.items()},
            "without_containers": without,
        }
        (folder / condor_containers.ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def bootstrap(root: Path, table: Mapping[str, Any], machine: Machine) -> None:
    words = ["debootstrap", "--variant=minbase", f"--arch={table['architecture']}", table["suite"], str(root)]
    done = run(alone(*words, machine.mirror), environ=environ(), limit_s=DOWNLOAD_S_MAX)
    done.must("the root file system could not be made")


def install(root: Path, packages: Path, pinned: Mapping[str, Pin]) -> None:
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(POLICY, encoding="utf-8")
    policy.chmod(0o755)
    archives = root / "var/cache/apt/archives"
    for deb in packages.glob("*.deb"):
        shutil.copy(deb, archives)
    words = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "-o", "Acquire::Retries=3"]
    asked = [f"{name}={pin.version}" for name, pin in pinned.items()]
    inside(root, *words, *asked, limit_s=DOWNLOAD_S_MAX).must("HTCondor could not be installed")
    # Apt takes the copied files where they are the archive's own; these are the ones that were installed.
    compare_files(pinned, archives)


def add_containers(root: Path, folder: Path, table: Mapping[str, Any], machine: Machine) -> str:
    """Why the root file system has no apptainer now; empty where it has."""
    why = condor_containers.fetched(folder, table, lambda to, what: fetch(to, what, machine))
    return why or condor_containers.installed(
        root, folder, table, lambda *words: inside(*words, limit_s=DOWNLOAD_S_MAX)
    )


def furnish(root: Path) -> None:
    for name, uid in USERS.items():
        words = ["useradd", "--no-create-home", "--uid", str(uid), "--user-group", "--shell", "/bin/sh", name]
        inside(root, *words, limit_s=LOCAL_S_MAX).must(f"the user `{name}` could not be made")
    for name in (*NOT_KEPT, *OWN_POOL):
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir(parents=True)
    # The machine's own names would make the pool behave differently from machine to machine.
    (root / "etc/hosts").write_text(HOSTS, encoding="utf-8")
    (root / "etc/resolv.conf").write_text("", encoding="utf-8")


# The one shell text of the build: mounts must be made after the namespaces and before the chroot. The
# kernel's settings are the machine's own in any namespace, and no package may change them.
ENTER = """
set -e
mount -t proc proc "$0/proc"
mount --bind "$0/proc/sys" "$0/proc/sys"
mount -o remount,bind,ro "$0/proc/sys"
exec chroot "$0" "$@"
"""


def inside(root: Path, *words: str, limit_s: float) -> Ended:
    """Runs a program in the root file system while it is being built."""
    return run(alone("sh", "-c", ENTER, str(root), *words), environ=environ(), limit_s=limit_s)
