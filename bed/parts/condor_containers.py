"""Apptainer for the bed: a pinned package of another suite comes in, a root file system that can start
containers goes out, or the reason why it cannot.

Whatever goes wrong here is told and not fatal: HTCondor is there without it, and only jobs in containers
are not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed.command import Ended
from bed.trouble import Trouble
from bed.versions import deb_name, pins

PROGRAM = "apptainer"
# Of what an archive or an installer says: enough to know the cause, little enough for one line.
WHY_LETTERS_MAX = 400
ABOUT = "about.json"

Fetch = Callable[[Path, Mapping[str, Any]], None]
Inside = Callable[..., Ended]


def table_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be fetched, as the table of a part of its own."""
    return {**table["containers"], "architecture": table["architecture"]}


def fetched(folder: Path, table: Mapping[str, Any], fetch: Fetch) -> str:
    """Why the packages are not in `folder` now; empty where they are, with the pinned checksums."""
    try:
        fetch(folder, table_of(table))
    except Trouble as trouble:
        return one_line(str(trouble))
    return ""


def installed(root: Path, folder: Path, table: Mapping[str, Any], inside: Inside) -> str:
    """Why it is not in the root file system now; what it needs comes from the suite of the others."""
    archives = root / "var/cache/apt/archives"
    names = [deb_name(name, pin, folder) for name, pin in pins(table_of(table)).items()]
    for name in names:
        shutil.copy(folder / name, archives)
    words = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "-o", "Acquire::Retries=3"]
    try:
        inside(root, *words, *(f"/var/cache/apt/archives/{name}" for name in names)).must(
            f"`{PROGRAM}` could not be installed"
        )
        inside(root, PROGRAM, "--version").must(f"`{PROGRAM}` does not run")
    except Trouble as trouble:
        return one_line(str(trouble))
    return ""


def one_line(text: str) -> str:
    told = "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return told.replace(":; ", ": ")[:WHY_LETTERS_MAX]


def why_none(build: Path) -> str:
    """Why a finished build has no apptainer; empty where it has one."""
    try:
        about = json.loads((build / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""  # Not a finished build; whoever needs it says so.
    why = str(about.get("without_containers", ""))
    return f"no `{PROGRAM}`, so that no jobs in containers: {why}; `rm -r {build}` tries again" if why else ""
