"""Text in columns: strings come in, cut and quoted ones go out, measured as a terminal measures them.

What makes hostile text safe is `glidepath.core.text.one_line`; everything drawn here has been through it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from glidepath.core.text import CUT, escape, nearest


def cells(text: str) -> int:
    """How many columns of a terminal the text takes: ideographs take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clipped(text: str, cells_max: int) -> str:
    """The text cut to so many columns, with a sign that something is missing."""
    if cells(text) <= cells_max:
        return text
    kept, room = [], max(cells_max - len(CUT), 0)
    for char in text:
        room -= _cells_of(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + CUT[: max(cells_max, 0)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean `x`?`, or nothing where no known word is near."""
    near = nearest(word, known)
    return f"; did you mean `{near}`?" if near else ""


def quoted(value: str) -> str:
    """A YAML double-quoted scalar in plain ASCII; every parser reads it, no terminal obeys it."""
    return '"' + "".join(map(_yaml_char, value)) + '"'


def _yaml_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else escape(char)
