"""Where the bed keeps things: the environment comes in, the cache and run folders and the folder of each
instance go out. It makes no folder and reads nothing else of the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bed.trouble import Trouble

NAME = re.compile(r"(?P<part>[a-z]+)(?:@(?P<other>[a-z0-9-]{1,16}))?")
# A socket's path has 107 letters at most; servers add names of their own below the instance's folder.
FOLDER_LETTERS_MAX = 60


@dataclass(frozen=True)
class Place:
    """The two folders of the bed."""

    cache: Path
    run: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Place:
        # Resolved, because the kernel tells folders and mounts of processes without links.
        home_cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cls(
            cache=Path(environ.get("GLIDEPATH_BED_CACHE") or home_cache / "glidepath-bed").resolve(),
            run=Path(environ.get("GLIDEPATH_BED_RUN") or "/tmp/gp-bed").resolve(),
        )


@dataclass(frozen=True)
class Instance:
    """One server of a part: `condor`, or another one of the same part such as `condor@two`."""

    part: str
    other: str
    place: Place

    @classmethod
    def named(cls, name: str, place: Place) -> Instance:
        found = NAME.fullmatch(name)
        if not found:
            raise Trouble(
                f"`{name}` is not a name; say a part such as `condor`, or `condor@two` for another one"
            )
        instance = cls(found["part"], found["other"] or "", place)
        if len(str(instance.folder)) > FOLDER_LETTERS_MAX:
            raise Trouble(
                f"`{instance.folder}` has more than {FOLDER_LETTERS_MAX} letters, its sockets would not fit; "
                "set GLIDEPATH_BED_RUN to a shorter folder"
            )
        return instance

    @property
    def name(self) -> str:
        return f"{self.part}@{self.other}" if self.other else self.part

    @property
    def label(self) -> str:
        """The name in letters that are safe in files, host names and identities."""
        return self.name.replace("@", "-")

    @property
    def folder(self) -> Path:
        return self.place.run / self.label
