"""Reads bed/versions.toml: the pinned versions and checksums of one part, and the key of its build.

The comparison of what was pinned with what the archive gave is here too. It downloads nothing.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.trouble import Trouble

FILE = Path(__file__).parent / "versions.toml"
KEY_LETTERS = 12
READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Pin:
    """One package: the version asked for and the checksum that its file must have."""

    version: str
    sha256: str


def section(part: str, file: Path = FILE) -> dict[str, Any]:
    try:
        return dict(tomllib.loads(file.read_text(encoding="utf-8"))[part])
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise Trouble(f"`{file}` has no readable section `{part}`: {error}") from error


def pins(table: Mapping[str, Any]) -> dict[str, Pin]:
    return {name: Pin(pin["version"], pin["sha256"]) for name, pin in table["packages"].items()}


def key(table: Mapping[str, Any], build_format: int) -> str:
    """Changes whenever something else would be built."""
    text = json.dumps([build_format, table], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LETTERS]


def sha256_of(path: Path) -> str:
    summed = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(READ_BYTES):
            summed.update(block)
    return summed.hexdigest()


def compare_versions(pinned: Mapping[str, Pin], offered: Mapping[str, str]) -> None:
    """Refuses an archive that has moved on, and says what to write into the one file."""
    moved = [
        f"  {name}: pinned {pin.version}, the archive has {offered.get(name) or 'none'}"
        for name, pin in pinned.items()
        if offered.get(name) != pin.version
    ]
    if moved:
        raise Trouble(
            "the archive does not have the pinned versions any more:\n" + "\n".join(moved) + "\n"
            f"hint: change `version` and `sha256` of these packages in {FILE}"
        )


def compare_files(pinned: Mapping[str, Pin], folder: Path) -> None:
    """Refuses downloaded packages that are not the pinned ones, byte by byte."""
    wrong = []
    for name, pin in pinned.items():
        path = folder / deb_name(name, pin, folder)
        found = sha256_of(path) if path.is_file() else "no such file"
        if found != pin.sha256:
            wrong.append(f"  {path.name}:\n    pinned     {pin.sha256}\n    downloaded {found}")
    if wrong:
        raise Trouble(
            "downloaded packages do not have the pinned checksum; nothing was installed:\n"
            + "\n".join(wrong)
            + f"\nhint: `sha256` in {FILE} says what is expected; if the archive is right, change it there"
        )


def deb_name(name: str, pin: Pin, folder: Path) -> str:
    """The name that apt gives to the file of a package; the epoch's colon is written as %3a."""
    start = f"{name}_{pin.version.replace(':', '%3a')}_"
    found = sorted(path.name for path in folder.glob("*.deb") if path.name.startswith(start))
    return found[0] if found else f"{start}*.deb"
