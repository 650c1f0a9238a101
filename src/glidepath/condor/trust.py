"""Which daemons of a pool are believed: ads and patterns come in, trusted schedds and reasons go out.

A name is what a daemon says of itself; its identity is what the collector has checked. Both must fit one and
the same rule, or anybody who may advertise could have pilots started for jobs of their own making.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from glidepath.core.text import one_line

PATTERNS_KEPT_MAX = 256
NAME_LETTERS_MAX = 200
SCHEDDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Rule:
    """Patterns in which `*` stands for any letters; both must fit from end to end."""

    name: str
    identity: str


@dataclass(frozen=True, slots=True)
class Schedd:
    """A schedd as the collector lists it."""

    name: str
    address: str
    identity: str
    version: str = ""


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    parts = ".*".join(re.escape(part) for part in pattern.split("*"))
    return re.compile(parts, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def fits(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    return _compiled(pattern, ignore_case).fullmatch(text) is not None


def judged(found: Iterable[Schedd], rules: Sequence[Rule]) -> tuple[tuple[Schedd, ...], tuple[str, ...]]:
    """Those that are trusted, each name once, and a sentence about each that is not."""
    trusted: dict[str, Schedd] = {}
    refused = []
    for schedd in sorted(found, key=lambda each: (each.name, each.identity)):
        why = _doubt(schedd, rules)
        if not why and schedd.name in trusted:
            why = "another schedd of this name is listed too"
        if not why and len(trusted) >= SCHEDDS_MAX:
            why = f"there are more than {SCHEDDS_MAX}"
        if why:
            refused.append(f"schedd `{one_line(schedd.name)}` is not asked: {why}")
        else:
            trusted[schedd.name] = schedd
    return tuple(trusted.values()), tuple(refused)


def _doubt(schedd: Schedd, rules: Sequence[Rule]) -> str:
    if not schedd.name or not schedd.name.isprintable() or len(schedd.name) > NAME_LETTERS_MAX:
        return "its name cannot be shown"
    if not schedd.address.startswith("<"):
        return "it lists no address"
    named = [rule for rule in rules if fits(rule.name, schedd.name, ignore_case=True)]
    if not named:
        return "no entry of `schedds` fits its name"
    if not any(fits(rule.identity, schedd.identity) for rule in named):
        who = f"`{one_line(schedd.identity)}`" if schedd.identity else "nobody that the collector could check"
        wanted = " or ".join(sorted({f"`{rule.identity}`" for rule in named}))
        return f"it is signed by {who}, and {wanted} is asked for"
    return ""
