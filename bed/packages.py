"""Packages of the distribution: pinned names come in, their compared files or unpacked trees go out.

An apt with folders of its own fetches them, so that the machine's lists and installed packages are neither
read nor changed. Only `install_tool` changes the machine, for a tool that a part cannot do without.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bed.command import Ended, run
from bed.machine import Machine
from bed.versions import compare_files, compare_versions, pins

# Ten times what these take on two cores and a near mirror; a slow line should still succeed.
DOWNLOAD_S_MAX = 900
# Local work only.
LOCAL_S_MAX = 300
ADMIN_ENVIRON = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/",
    "DEBIAN_FRONTEND": "noninteractive",
}
# What the world outside may need to be reached at all; everything else of the caller stays out.
PASSED_ON = ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")


def environ() -> dict[str, str]:
    return {**ADMIN_ENVIRON, **{name: os.environ[name] for name in PASSED_ON if name in os.environ}}


def install_tool(package: str) -> None:
    """Installs a package of the machine's own distribution on the machine itself."""
    for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
        done = run(["apt-get", "-q", *words], environ=environ(), limit_s=DOWNLOAD_S_MAX)
        done.must(f"`{package}` could not be installed")


def fetch(packages: Path, table: Mapping[str, Any], machine: Machine) -> None:
    """The pinned packages, compared before anything else is done, into the new folder `packages`."""
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


def unpack(packages: Path, tree: Path) -> None:
    """The files of every package in the folder, with none of their scripts run and no daemon started."""
    for deb in sorted(packages.glob("*.deb")):
        words = ["dpkg-deb", "--extract", str(deb), str(tree)]
        run(words, environ=environ(), limit_s=LOCAL_S_MAX).must(f"`{deb.name}` could not be unpacked")
