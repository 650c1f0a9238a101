"""Hostile text made safe for a line that people read: any string comes in, visible characters go out.

Job names, owners and a site's own words come from strangers. An escape sequence can repaint the screen,
a newline can forge a row, and a right-to-left mark can turn `rm` into something that reads harmless.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Long enough for a path or a sentence of a batch system, short enough to keep one row on one screen.
TEXT_LETTERS_MAX = 200
CUT = "..."

# Letters of these classes reorder what stands beside them in a row, columns of other fields included.
_REORDERING = frozenset({"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI", "PDF", "PDI"})
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str, *, letters_max: int = TEXT_LETTERS_MAX) -> str:
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
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty where none is near."""
    # Imported here because most calls make no mistake.
    from difflib import get_close_matches

    near = get_close_matches(word[:TEXT_LETTERS_MAX], sorted(known), n=1, cutoff=0.6)
    return near[0] if near else ""


def known_word(text: str, known: Iterable[str]) -> str:
    """A word of a closed set, or a ValueError that names them all and the nearest."""
    words = list(known)
    if text in words:
        return text
    near = nearest(text, words)
    hint = f"; did you mean `{near}`?" if near else ""
    raise ValueError(f"`{one_line(text)}` is none of {', '.join(f'`{word}`' for word in words)}{hint}")
