"""Helm: the tool that installs charts, built from its source. It is no server, so there is nothing to start.

A place comes in, the path of the program goes out. Tests render our chart with it, and install it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bed import golang, versions
from bed.cache import Say, built
from bed.command import run
from bed.machine import Machine
from bed.place import Instance, Place
from bed.running import State
from bed.trouble import Trouble

# Raise it whenever this file builds something else from the same versions.
BUILD_FORMAT = 1
RECIPE = Path(__file__).parent.parent / "go" / "helm"
MODULE = "helm.sh/helm/v3"
GO_MIN = (1, 26)
RUN_S_MAX = 60


class Helm:
    """The part of the bed; `program` is what it is for."""

    name = "helm"

    def __init__(self) -> None:
        self.table = versions.section(self.name)
        self.version = str(self.table["version"])

    def program(self, place: Place) -> Path:
        return self._folder(place) / "helm"

    def prepared(self, place: Place) -> bool:
        return self._folder(place).is_dir()

    def obstacles(self, machine: Machine, place: Place) -> list[str]:
        return [] if self.prepared(place) else golang.obstacles(machine, GO_MIN)

    def lacking(self, place: Place) -> list[str]:
        return []

    def prepare(self, machine: Machine, place: Place, say: Say) -> None:
        target = self._folder(place)
        built(target.parent, target.name, lambda to: self._build(to / "helm", place, say), say)
        # Needed by a build only, and kept until it has ended: an interrupted one goes on where it stopped.
        shutil.rmtree(go_folder(place), ignore_errors=True)

    def up(self, instance: Instance, say: Say, port: int) -> State:
        raise Trouble("`helm` is a tool and no server; `bed/ctl prepare helm` is all there is to do")

    def down(self, instance: Instance) -> None:
        """Nothing of it runs."""

    def _folder(self, place: Place) -> Path:
        recipe = {path.name: versions.sha256_of(path) for path in sorted(RECIPE.glob("*"))}
        return place.cache / f"helm-{versions.key({'recipe': recipe, 'versions': self.table}, BUILD_FORMAT)}"

    def _build(self, program: Path, place: Place, say: Say) -> None:
        golang.must_name(RECIPE, MODULE, self.version)
        # What the build scripts of helm would set.
        link = f"-s -w -X {MODULE}/internal/version.version={self.version}"
        package, folder = f"{MODULE}/cmd/helm", go_folder(place)
        golang.build(program, RECIPE, link=link, package=package, folder=folder, say=say)
        shown = run([str(program), "version", "--short"], limit_s=RUN_S_MAX)
        if self.version not in shown.must("the helm that was built does not run").out:
            raise Trouble(f"built `{shown.out.strip()}`, wanted {self.version}; see {versions.FILE}")


def go_folder(place: Place) -> Path:
    return place.cache / "helm-go"
