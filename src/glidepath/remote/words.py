"""The types through which every value passes that reaches a script, an argument, a submit file or a name.

Text comes in, the same text goes out, or ValueError with a sentence that says what would be accepted. A word
or a path that has passed needs no quoting anywhere: not in a shell, not in a submit file, not behind an
option. A line is one option or one entry; it holds no control character and cannot become two.
"""

from __future__ import annotations

import re
from typing import NewType

from glidepath.core.text import one_line

# A value of an option: no blank, no quote, nothing that has a meaning in a shell, a submit file or a list.
SafeWord = NewType("SafeWord", str)
# A whole path, absolute, of plain letters, without `..`.
SafePath = NewType("SafePath", str)
# One option that a person wrote into the configuration, such as `--constraint=haswell` or `-l scratch=10gb`,
# or one entry of a submit file, such as `rank = Memory`.
SafeLine = NewType("SafeLine", str)

WORD_LETTERS_MAX = 200
PATH_LETTERS_MAX = 1000
WORDS_MAX = 50  # in a list, such as that of partitions
_WORD = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:+@/-]{0,198}[A-Za-z0-9_+])?")
# Each part ends with a slash or the text: a part that could end anywhere would be tried in every place.
_PATH = re.compile(r"(?:/[A-Za-z0-9_.+@-]{1,255}){1,64}/?")
_VALUE = r"[A-Za-z0-9_.:,+@/=\[\]&|()*%<>!~^-]{1,200}"
_LONG = re.compile(rf"--[a-z][a-z0-9-]{{0,60}}(?:={_VALUE})?")
_SHORT = re.compile(rf"-[A-Za-z]{{1,20}}(?: (?!-){_VALUE})?")
# Printable ASCII but `\`, which would go on in the next line, and `$`, which would stand for something else.
_ENTRY = re.compile(r"[+A-Za-z_][A-Za-z0-9_.]{0,60} ?= ?[ -#%-\[\]-~]{1,400}")


def safe_word(text: str, what: str) -> SafeWord:
    """A name of a queue, account, host or key."""
    if not _WORD.fullmatch(text):
        raise ValueError(_refusal(text, what, "letters, digits and `_ . : + @ / -`, not at the edges"))
    return SafeWord(text)


def safe_words(text: str, what: str) -> SafeWord:
    """Several of them with commas between, as one word: what a list of partitions is."""
    words = text.split(",")
    if len(words) > WORDS_MAX:
        raise ValueError(f"{what}: more than {WORDS_MAX} names are refused")
    return SafeWord(",".join(safe_word(word, what) for word in words))


def safe_path(text: str, what: str) -> SafePath:
    if len(text) > PATH_LETTERS_MAX or not _PATH.fullmatch(text) or {".", ".."} & set(text.split("/")):
        raise ValueError(_refusal(text, what, "`/`, letters, digits and `_ . + @ -`, absolute, without `..`"))
    return SafePath(text)


def safe_line(text: str, what: str) -> SafeLine:
    """One option of a command: `--long`, `--long=value`, `-s` or `-s value`."""
    if not (_LONG.fullmatch(text) or _SHORT.fullmatch(text)):
        raise ValueError(
            _refusal(text, what, "one option such as `--constraint=haswell` or `-l scratch=10gb`")
        )
    return SafeLine(text)


def safe_entry(text: str, what: str) -> SafeLine:
    """One entry of a submit file of HTCondor: `name = value`, all of it on this line."""
    if not _ENTRY.fullmatch(text):
        raise ValueError(
            _refusal(text, what, "one entry such as `rank = Memory`, on one line, without `$` and `\\`")
        )
    return SafeLine(text)


def _refusal(text: str, what: str, allowed: str) -> str:
    return f"{what}: `{one_line(text[:WORD_LETTERS_MAX])}` is refused; allowed are {allowed}"
