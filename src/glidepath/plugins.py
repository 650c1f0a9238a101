"""Plug-ins by entry point: a group and a name come in, the object that the plug-in offers goes out.

It refuses to know what the objects do. One broken, clashing or misspelt plug-in is an error about that
one name; the others keep working.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from glidepath.core.text import nearest, one_line

if TYPE_CHECKING:
    from importlib import metadata

BACKENDS = "glidepath.backends"
DEMAND = "glidepath.demand"
POLICIES = "glidepath.policies"
GROUPS = (BACKENDS, DEMAND, POLICIES)

# All that the standard library and the interpreter raise while foreign code is imported. `SystemExit` is
# among them because a module that calls `sys.exit` must not end the controller of everyone else.
IMPORT_ERRORS = (Exception, SystemExit)


class PluginError(Exception):
    """What is wrong with one plug-in, as a sentence for people."""


class UnknownPlugin(PluginError):
    """No installed distribution offers this name."""


class BrokenPlugin(PluginError):
    """The plug-in is installed and cannot be imported."""


class ClashingPlugins(PluginError):
    """Two distributions offer the same name, so which one was meant cannot be known."""


class Catalog(Protocol):
    """Where plug-ins are found; tests bring their own."""

    def names(self, group: str) -> tuple[str, ...]: ...

    def load(self, group: str, name: str) -> object: ...


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = nearest(word, known)
    return f"did you mean `{one_line(near)}`?" if near else ""


class Installed:
    """The plug-ins of the installed distributions, looked up once; `path` narrows the search to folders."""

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self._path = path
        self._found: dict[str, dict[str, list[tuple[str, metadata.EntryPoint]]]] | None = None

    def names(self, group: str) -> tuple[str, ...]:
        return tuple(sorted(self._group(group)))

    def load(self, group: str, name: str) -> object:
        offered = self._group(group)
        noun = group.rpartition(".")[2]
        if name not in offered:
            hint = did_you_mean(name, offered)
            known = ", ".join(f"`{one_line(each)}`" for each in sorted(offered)) or "none"
            said = f"no plug-in named `{one_line(name)}` in `{group}`; "
            raise UnknownPlugin(f"{said}{hint + ' ' if hint else ''}installed {noun}: {known}")
        entries = offered[name]
        if len(entries) > 1:
            both = " and ".join(f"`{one_line(distribution)}`" for distribution, _ in entries)
            raise ClashingPlugins(
                f"the plug-in `{one_line(name)}` of `{group}` is offered by {both}; uninstall all but one"
            )
        distribution, entry = entries[0]
        try:
            return entry.load()
        except IMPORT_ERRORS as error:
            said = f"{type(error).__name__}: {one_line(str(error))}"
            raise BrokenPlugin(
                f"the plug-in `{one_line(name)}` of `{group}`, from the distribution "
                f"`{one_line(distribution)}`, cannot be loaded: {said}"
            ) from error

    def _group(self, group: str) -> dict[str, list[tuple[str, metadata.EntryPoint]]]:
        if self._found is None:
            self._found = _found(self._path)
        return self._found.get(group, {})


def _found(path: Sequence[str] | None) -> dict[str, dict[str, list[tuple[str, metadata.EntryPoint]]]]:
    from importlib import metadata  # Here, because it doubles the time that `glidepath --help` takes.

    distributions = metadata.distributions() if path is None else metadata.distributions(path=list(path))
    found: dict[str, dict[str, list[tuple[str, metadata.EntryPoint]]]] = {group: {} for group in GROUPS}
    seen: set[str] = set()
    for distribution in distributions:
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in found]
            about = distribution.metadata
            name = about["Name"] if entries and "Name" in about else "without a name"
        except (TypeError, ValueError, LookupError, AttributeError, OSError):
            continue  # Unreadable metadata is this distribution's fault; the others must still be found.
        key = re.sub(r"[-_.]+", "-", name).lower()
        # The same distribution may stand twice on the search path; only the first can be imported.
        if not entries or key in seen:
            continue
        seen.add(key)
        for entry in entries:
            found[entry.group].setdefault(entry.name, []).append((name, entry))
    return found


# Looked up once: what is installed does not change under a running program.
_INSTALLED = Installed()


def names(group: str) -> tuple[str, ...]:
    """The names that installed distributions offer in the group, sorted."""
    return _INSTALLED.names(group)


def load(group: str, name: str) -> object:
    """The object behind the name; raises a `PluginError` that says what is wrong and what there is."""
    return _INSTALLED.load(group, name)
