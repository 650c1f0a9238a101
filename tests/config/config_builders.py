"""What the tests of configuration share: a good file, a catalog of plug-ins that needs no installation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from glidepath.config import ConfigError, Loaded, load
from glidepath.plugins import BACKENDS, DEMAND, POLICIES, BrokenPlugin, UnknownPlugin

GOOD = """\
[pools.campus]
kind = "embedded"

[sites.west]
kind = "local"
pools = ["campus"]

[sites.west.offers.small]
cpus = 4
memory = "8GiB"
"""


@dataclass(frozen=True)
class Policy:
    NUMBERS: Mapping[str, int]

    def __call__(self, numbers: Mapping[str, int]) -> Policy:
        if numbers.get("divisor") == 0:
            raise ValueError("policy `seed`: `divisor` must be 1 or more")
        return self


@dataclass(frozen=True)
class Plain:
    """A plug-in without `Settings`."""


@dataclass(frozen=True)
class FakeCatalog:
    """Plug-ins by group and name; None stands for one that cannot be imported."""

    more: Mapping[tuple[str, str], object] = field(default_factory=dict)

    @property
    def found(self) -> dict[tuple[str, str], object]:
        return {
            (BACKENDS, "local"): Plain(),
            (DEMAND, "embedded"): Plain(),
            (POLICIES, "seed"): Policy({"nmin": 5, "divisor": 4}),
            (POLICIES, "steady"): Policy({"release_after_s": 300, "waiting_max": 0}),
            **self.more,
        }

    def names(self, group: str) -> tuple[str, ...]:
        return tuple(sorted(name for each, name in self.found if each == group))

    def load(self, group: str, name: str) -> object:
        if (group, name) not in self.found:
            raise UnknownPlugin(f"no `{name}`")
        if self.found[group, name] is None:
            raise BrokenPlugin(f"the plug-in `{name}`, from the distribution `odd`, cannot be loaded")
        return self.found[group, name]


CATALOG = FakeCatalog()


def written(folder: Path, text: str = GOOD, **more: str) -> Path:
    """The main file in the folder, and further files in `conf.d` by their stems."""
    main = folder / "glidepath.toml"
    main.write_text(text)
    for stem, content in more.items():
        (folder / "conf.d").mkdir(exist_ok=True)
        (folder / "conf.d" / f"{stem}.toml").write_text(content)
    return main


def loaded(folder: Path, text: str = GOOD, **more: str) -> Loaded:
    return load(written(folder, text, **more), catalog=CATALOG)


def problems(folder: Path, text: str, *, catalog: FakeCatalog = CATALOG, **more: str) -> list[str]:
    """What is said about the text, with the folder taken off the file names; nothing where it is good."""
    try:
        load(written(folder, text, **more), catalog=catalog)
    except ConfigError as error:
        return str(error).replace(f"{folder}/", "").splitlines()
    return []
