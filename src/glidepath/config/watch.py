"""A path is looked at again and again; a changed configuration goes out once, good or bad.

Only the marks of the files are compared, so that a look each second costs next to nothing. It never
raises: a bad file leaves the old settings in force, and the caller says so.
"""

from __future__ import annotations

import os
from pathlib import Path

from glidepath.config.files import paths_of
from glidepath.config.problems import ConfigError
from glidepath.config.reading import Loaded, load
from glidepath.plugins import Catalog

_Marks = tuple[tuple[str, tuple[int, ...]], ...]


class Watcher:
    """Tells of changes of one configuration. Without `known`, the first look reads and reports it."""

    def __init__(self, path: Path, known: Loaded | None = None, *, catalog: Catalog | None = None) -> None:
        self._path = path
        self._catalog = catalog
        self._marks: _Marks | None = None
        self._digest = known.digest if known else ""

    def poll(self) -> Loaded | ConfigError | None:
        # Looked at before reading: a change while we read is then seen by the next look.
        marks = _marks(self._path)
        if marks == self._marks:
            return None
        self._marks = marks
        try:
            loaded = load(self._path, catalog=self._catalog)
        except ConfigError as error:
            self._digest = ""
            return error
        if loaded.digest == self._digest:
            return None  # Touched, not changed.
        self._digest = loaded.digest
        return loaded


def _marks(path: Path) -> _Marks:
    paths, problems = paths_of(path)
    marks = [(str(each), _mark(each)) for each in paths]
    return (*marks, *((str(problem), ()) for problem in problems))


def _mark(path: Path) -> tuple[int, ...]:
    try:
        about = os.stat(path)  # noqa: PTH116 - thrice as fast, and done for every file each second.
    except OSError as error:
        return (error.errno or -1,)
    except ValueError:
        return (-1,)
    return (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino)
