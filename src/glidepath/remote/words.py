"""The one type through which every value passes that reaches a script, an argument, a submit file or a name.

Text comes in, the same text goes out, or ValueError with a sentence that names the letter which has no place.
What has passed needs no quoting anywhere: not in a shell, not in a submit file, not behind an option.
"""

from __future__ import annotations

import re
from typing import NewType

from glidepath.core.text import one_line

# A value of an option: no blank, no quote, nothing that a shell, a submit file or a list of values gives a meaning.
SafeWord = NewType("SafeWord", str)
# A whole path, absolute, of plain letters, without `..`.
SafePath = NewType("SafePath", str)
# One argument that a person wrote into the configuration, such as `--constraint=haswell`.
SafeLine = NewType("SafeLine", str)

WORD_LETTERS_MAX = 200
PATH_LETTERS_MAX = 1000
_WORD = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:+@/-]{0,198}[A-Za-z0-9_+])?")
_PATH = re.compile(r"/(?:[A-Za-z0-9_.+@-]{1,255}/?){1,64}")
_LINE = re.compile(r"-{1,2}[A-Za-z][A-Za-z0-9_-]{0,60}(?:=[A-Za-z0-9_.:,+@/=\[\]&|()*%-]{1,200})?")


def safe_word(text: str, what: str) -> SafeWord:
    """A name of a queue, account, host or key."""
    if not _WORD.fullmatch(text):
        raise ValueError(_refusal(text, what, "letters, digits and `_ . : + @ / -`, not at the edges"))
    return SafeWord(text)


def safe_path(text: str, what: str) -> SafePath:
    if not _PATH.fullmatch(text) or ".." in text.split("/") or len(text) > PATH_LETTERS_MAX:
        raise ValueError(_refusal(text, what, "`/`, letters, digits and `_ . + @ -`, absolute, without `..`"))
    return SafePath(text)


def safe_line(text: str, what: str) -> SafeLine:
    if not _LINE.fullmatch(text):
        raise ValueError(_refusal(text, what, "one option such as `--constraint=haswell`, without blanks"))
    return SafeLine(text)


def _refusal(text: str, what: str, allowed: str) -> str:
    return f"{what}: `{one_line(text[:WORD_LETTERS_MAX])}` is refused; allowed are {allowed}"
