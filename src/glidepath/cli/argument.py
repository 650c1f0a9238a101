"""The values of options, as people write them: text comes in, checked numbers and pairs go out.

Each function is an `argparse` type. A refusal says what was given and which forms are accepted.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable
from typing import TypeVar

from glidepath.core.text import known_word, one_line

T = TypeVar("T")
COUNT_MAX = 1_000_000
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")
_COUNT = re.compile(r"[0-9]{1,7}")
_NUMBER = re.compile(r"[0-9]{1,18}")


def _asked(read: Callable[[str], T], text: str) -> T:
    # argparse drops the text of a ValueError, and with it the forms that would have helped.
    try:
        return read(text)
    except ValueError as error:
        raise ArgumentTypeError(one_line(str(error))) from None


def duration(text: str) -> int:
    from glidepath.core.units import duration_s

    return _asked(duration_s, text)


def size(text: str) -> int:
    """MiB. A bare zero needs no unit: none of anything is the same in all of them."""
    from glidepath.core.units import size_mib

    return 0 if text == "0" else _asked(size_mib, text)


def cpus(text: str) -> int:
    from glidepath.core.units import cpu_milli

    return _asked(cpu_milli, text)


def count(text: str) -> int:
    if not _COUNT.fullmatch(text) or int(text) > COUNT_MAX:
        raise ArgumentTypeError(f"`{one_line(text)}` is not a whole number from 0 to {COUNT_MAX}")
    return int(text)


def number(text: str) -> int:
    """Of a job, or of bytes: both grow for years."""
    if not _NUMBER.fullmatch(text):
        raise ArgumentTypeError(f"`{one_line(text)}` is not a whole number of at most 18 digits")
    return int(text)


def pair(text: str) -> tuple[str, str]:
    """`key=value`; the key is a plain word, the value is anything but nothing."""
    key, equals, value = text.partition("=")
    if not equals or not _WORD.fullmatch(key):
        raise ArgumentTypeError(f"`{one_line(text)}` is not `key=value` with a plain word as key")
    return key, value


def as_written(read: Callable[[str], object]) -> Callable[[str], str]:
    """A text that can be read so, kept as it was written: whoever it is handed to reads it once more."""

    def checked(text: str) -> str:
        read(text)
        return text

    return checked


def moment(text: str) -> float:
    """A time on the clock, or from now on."""
    from glidepath.jobs.values import wall_of

    return _asked(lambda words: wall_of(words, wall=0.0), text)


def limit(text: str) -> int | None:
    """A duration, or `none` for no limit."""
    return None if text == "none" else duration(text)


def one_of(words: Iterable[str]) -> Callable[[str], str]:
    """A closed set of words, with the nearest one named where the given one is not in it."""
    known = [str(word) for word in words]

    def read(text: str) -> str:
        return _asked(lambda word: known_word(word, known), text)

    return read
