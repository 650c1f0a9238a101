"""Builds HTCondor for the bed: pinned packages come in, a folder with `root` (a Debian root file system),
`condor-host.tar.gz` (HTCondor for the machine itself) and `host` (the same, unpacked) goes out.

Every chroot runs in private namespaces, so the machine sees no mount of it. It starts no daemon.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed.cache import Say, Steps
from bed.command import Ended, alone, run
from bed.machine import Machine
from bed.parts import condor_tree
from bed.versions import Pin, compare_files, compare_versions, pins, sha256_of

# Raise it whenever this file or condor_tree.py builds something else from the same versions.
BUILD_FORMAT = 3
STEPS = 6
# Ten times what these take on two cores and a near mirror; a slow line should still succeed.
DOWNLOAD_S_MAX = 900
# Local work only.
LOCAL_S_MAX = 300
# Fixed numbers, far from those that a distribution gives away: files of theirs are recognised on the
# machine, and the machine's tools can take on the same uid.
USERS = {"ann": 20001, "ben": 20002, "pilot": 20010}

ADMIN_ENVIRON = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/",
    "DEBIAN_FRONTEND": "noninteractive",
}
# What the world outside may need to be reached at all; everything else of the caller stays out.
PASSED_ON = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
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
        install_debootstrap(machine)
        fetch(packages, table, machine)
    with steps.step("root file system by debootstrap"):
        bootstrap(root, table, machine)
    with steps.step(f"installing {', '.join(pinned)}"):
        install(root, packages, pinned)
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
        }
        (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def environ() -> dict[str, str]:
    return {**ADMIN_ENVIRON, **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}


def install_debootstrap(machine: Machine) -> None:
    if "debootstrap" in machine.tools:
        return
    for words in (["update"], ["install", "-y", "--no-install-recommends", "debootstrap"]):
        done = run(["apt-get", "-q", *words], environ=environ(), limit_s=DOWNLOAD_S_MAX)
        done.must("`debootstrap` could not be installed")


def fetch(packages: Path, table: Mapping[str, Any], machine: Machine) -> None:
    """The pinned packages, compared before anything else is done, by an apt that has folders of its own.

    The machine's lists and its installed packages are neither read nor changed.
    """
    packages.mkdir()
    state = packages / "apt"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    (state / "sources.list").write_text(f"deb {machine.mirror} {table['suite']} main\n", encoding="utf-8")
    (state / "status").write_text("", encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "APT::Architecture": table["architecture"],
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": 3,
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def apt(program: str, *words: str) -> Ended:
        done = run([program, *options, *words], environ=environ(), limit_s=DOWNLOAD_S_MAX, folder=packages)
        return done.must(f"packages of {table['suite']} could not be had from {machine.mirror}")

    pinned = pins(table)
    apt("apt-get", "-q", "update")
    offered = apt("apt-cache", "show", "--no-all-versions", *pinned).out
    compare_versions(pinned, versions_shown(offered))
    apt("apt-get", "-q", "download", *(f"{name}={pin.version}" for name, pin in pinned.items()))
    compare_files(pinned, packages)
    shutil.rmtree(state)


def versions_shown(text: str) -> dict[str, str]:
    """Package and version of each stanza that `apt-cache show` printed."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("Package: "):
            name = line.removeprefix("Package: ").strip()
        elif line.startswith("Version: ") and name not in found:
            found[name] = line.removeprefix("Version: ").strip()
    return found


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
