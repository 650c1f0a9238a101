"""Builds Kubernetes for the bed: pinned packages and Go modules come in, folders in the cache go out.

Four pieces, each built once and kept by itself: `etcd`, `node` (containerd, runc, network plug-ins, a shell),
`servers` (one program that is API server, controllers, scheduler, kubelet and kubectl) and `kwok`.
What Go has compiled is kept until all is there, so that an interrupted build goes on where it stopped.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bed import golang, versions
from bed.cache import Say, built
from bed.command import run
from bed.machine import Machine
from bed.packages import fetch, install_tool, unpack
from bed.place import Place
from bed.trouble import Trouble

# Raise it whenever this file builds something else from the same versions.
BUILD_FORMAT = 1
RECIPES = Path(__file__).parent.parent / "go"
PIECES = ("etcd", "node", "servers", "kwok")
RUN_S_MAX = 60
# Tools of this machine, and the packages that bring them.
TOOLS = {"ip": "iproute2", "openssl": "openssl"}


def folder_of(place: Place) -> Path:
    return place.cache / "kubernetes"


def piece(place: Place, name: str, table: Mapping[str, Any]) -> Path:
    """The folder of one piece, by a key of everything that decides what is in it."""
    recipe = RECIPES / {"servers": "kube"}.get(name, name)
    texts = {path.name: versions.sha256_of(path) for path in sorted(recipe.glob("*"))}
    decides = {"recipe": texts, "versions": table[name]}
    return folder_of(place) / f"{name}-{versions.key(decides, BUILD_FORMAT)}"


def go_folder(place: Place) -> Path:
    return folder_of(place) / "go"


def prepared(place: Place, table: Mapping[str, Any]) -> bool:
    return all(piece(place, name, table).is_dir() for name in PIECES)


def build(table: Mapping[str, Any], machine: Machine, place: Place, say: Say) -> None:
    """Everything that is not there yet."""
    makers: dict[str, Callable[[Path], None]] = {
        "etcd": lambda to: packages(to, table["etcd"], machine),
        "node": lambda to: packages(to, table["node"], machine),
        "servers": lambda to: servers(to, table, place, say),
        "kwok": lambda to: kwok(to, table, place, say),
    }
    for tool, package in TOOLS.items():
        if tool not in machine.tools:
            say(f"kubernetes: installing `{package}`")
            install_tool(package)
    for number, name in enumerate(PIECES, start=1):
        target = piece(place, name, table)
        if target.is_dir():
            say(f"kubernetes: piece {number} of {len(PIECES)}: {name}: cached")
            continue
        say(f"kubernetes: piece {number} of {len(PIECES)}: {name}")
        begun = time.monotonic()
        built(target.parent, target.name, makers[name], say)
        say(f"kubernetes: piece {number} of {len(PIECES)}: done in {time.monotonic() - begun:.1f} s")
    # Some gigabytes that only a build needs; with all pieces there, none is to come.
    shutil.rmtree(go_folder(place), ignore_errors=True)


def packages(to: Path, table: Mapping[str, Any], machine: Machine) -> None:
    fetched = to / "packages"
    fetch(fetched, table, machine)
    unpack(fetched, to / "tree")
    shutil.rmtree(fetched)


def servers(to: Path, table: Mapping[str, Any], place: Place, say: Say) -> None:
    version = str(table["servers"]["version"])
    golang.must_name(RECIPES / "kube", "k8s.io/kubernetes", version)
    major, minor = version.removeprefix("v").split(".")[:2]
    # What the build scripts of Kubernetes would set; clients decide by these numbers.
    numbers = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    modules = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    marks = [f"-X {module}.{name}={value}" for module in modules for name, value in numbers.items()]
    link = " ".join(["-s -w", *marks])
    golang.build(to / "kube", RECIPES / "kube", link=link, folder=go_folder(place), say=say)
    shown = run([str(to / "kube"), "kubelet", "--version"], limit_s=RUN_S_MAX)
    if version not in shown.must("the servers that were built do not run").out:
        raise Trouble(f"built `{shown.out.strip()}`, wanted {version}; see `servers` in {versions.FILE}")


def kwok(to: Path, table: Mapping[str, Any], place: Place, say: Say) -> None:
    recipe, package = RECIPES / "kwok", "sigs.k8s.io/kwok/cmd/kwok"
    golang.must_name(recipe, "sigs.k8s.io/kwok", str(table["kwok"]["version"]))
    folder = go_folder(place)
    golang.build(to / "kwok", recipe, link="-s -w", package=package, folder=folder, say=say)
    run([str(to / "kwok"), "--version"], limit_s=RUN_S_MAX).must("the kwok that was built does not run")
