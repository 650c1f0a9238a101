"""Which attributes an expression looks at: expressions come in, names go out.

A grouped answer of a schedd holds only the attributes that were asked for. An expression that looks at
another one would be worked out without it, silently, so those names are found and asked for too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glidepath.condor.binding import ClassAd, ExprTree

# Texts whose names are remembered; a queue with more has as many new ones at each read.
TEXTS_KEPT_MAX = 50_000
# Longer ones are nobody's requirements; working them out would take the time of all others.
TEXT_LETTERS_MAX = 65_536

_EMPTY = ClassAd()


class References:
    """The names in expressions, by text, remembered."""

    def __init__(self) -> None:
        self._own: dict[str, frozenset[str]] = {}
        self._both: dict[str, frozenset[str]] = {}

    def own(self, expression: ExprTree, text: str) -> frozenset[str]:
        """Names, in small letters, that are looked up in the ad itself (first, or alone)."""
        found = self._own.get(text)
        if found is None:
            found = self._own[text] = _names(expression, target=False)
            _bounded(self._own)
        return found

    def target(self, expression: ExprTree, text: str) -> frozenset[str]:
        """Names that are looked up in the other ad: those that say so, and those that say nothing."""
        found = self._both.get(text)
        if found is None:
            found = self._both[text] = _names(expression, target=True)
            _bounded(self._both)
        return found


def long_texts(ad: ClassAd, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Those of these attributes that are too long, and how many letters they have."""
    for name in names:
        value = ad.get(name)
        text = str(value) if isinstance(value, ExprTree) else value
        if isinstance(text, str) and len(text) > TEXT_LETTERS_MAX:
            yield name, len(text)


def _bounded(kept: dict[str, frozenset[str]]) -> None:
    if len(kept) > TEXTS_KEPT_MAX:
        kept.clear()


def _names(expression: ExprTree, *, target: bool) -> frozenset[str]:
    found = set()
    for reference in _EMPTY.externalRefs(expression):
        scope, dot, name = reference.lower().partition(".")
        if scope == "target" and dot:
            if target:
                found.add(name.partition(".")[0])
        elif scope == "my" and dot:
            if not target:
                found.add(name.partition(".")[0])
        elif scope:
            found.add(scope)
    return frozenset(found)
