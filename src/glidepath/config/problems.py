"""What is wrong with a configuration: where, what, and what to write instead.

Everything printed here comes from files of other people, so control and right-to-left characters are
escaped before a terminal sees them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from glidepath.core.text import one_line
from glidepath.plugins import did_you_mean

# More than this nobody reads; the count of the rest is said, and no time is spent on their hints.
PROBLEMS_MAX = 100

Loc = tuple[str | int, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `line` is None where no line can be named, `key` is empty where it is the whole file."""

    file: str
    line: int | None
    key: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{one_line(self.file)}:{self.line}" if self.line else one_line(self.file)
        said = f"{self.message}; {self.hint}" if self.hint else self.message
        return f"{place}: {self.key}: {said}" if self.key else f"{place}: {said}"


class ConfigError(Exception):
    """Every problem of every file at once, so that one look is enough to mend them all."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        assert problems, "a configuration error without a problem is a bug"
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems[:PROBLEMS_MAX]]
        if len(self.problems) > PROBLEMS_MAX:
            lines.append(f"and {len(self.problems) - PROBLEMS_MAX} more problems")
        return "\n".join(lines)


def shown_key(loc: Loc) -> str:
    """A key path as one would write it in TOML: `sites."a b".windows[1].end`."""
    parts = []
    for part in loc:
        if isinstance(part, int):
            parts.append(f"[{part + 1}]")
        else:
            word = part if _BARE_KEY.fullmatch(part) else '"' + one_line(part).replace('"', '\\"') + '"'
            parts.append(f".{word}" if parts else word)
    return "".join(parts)


__all__ = ["PROBLEMS_MAX", "ConfigError", "Loc", "Problem", "did_you_mean", "shown_key"]
