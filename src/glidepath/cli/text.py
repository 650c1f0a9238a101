"""Hostile text made safe for a terminal: any string comes in, one line of visible characters goes out.

Job names, owners and a site's own words come from strangers. An escape sequence can repaint the screen,
a newline can forge a row, and a right-to-left mark can turn `rm` into something that reads harmless.
"""

from __future__ import annotations

import unicodedata

# Long enough for a path or a sentence of a batch system, short enough to keep one row on one screen.
TEXT_LETTERS_MAX = 200
CUT = "..."

# Letters of these classes reorder what stands beside them in a row, columns of other fields included.
_REORDERING = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI", "PDF", "PDI"})


def safe(text: str, *, letters_max: int = TEXT_LETTERS_MAX) -> str:
    """The text on one line, every control, mark or lone surrogate shown as an escape, bounded in length."""
    cut = len(text) > letters_max
    shown = visible(text[: letters_max - len(CUT)] if cut else text)
    if len(shown) > letters_max:
        shown, cut = shown[: letters_max - len(CUT)], True
    return shown + CUT if cut else shown


def visible(text: str, *, keep: str = "") -> str:
    """The same without a bound; characters in `keep` stay as they are, for text that has lines."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in keep or plain(char) else escape(char) for char in text)


def plain(char: str) -> bool:
    return char.isprintable() and unicodedata.bidirectional(char) not in _REORDERING


def escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


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


def did_you_mean(word: str, known: list[str]) -> str:
    """`; did you mean `x`?`, or nothing where no known word is near."""
    # Imported here because most calls of the command line make no mistake.
    from difflib import get_close_matches

    near = get_close_matches(word[:TEXT_LETTERS_MAX], known, n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def quoted(value: str) -> str:
    """A YAML double-quoted scalar in plain ASCII; every parser reads it, no terminal obeys it."""
    return '"' + "".join(map(_yaml_char, value)) + '"'


def _yaml_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if " " <= char <= "~" else escape(char)
