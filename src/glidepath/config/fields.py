"""The kinds of values that settings have: text with a unit comes in, whole numbers go out.

Each kind knows how it is written back, so that the effective configuration can be printed and read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from glidepath.core.text import one_line
from glidepath.core.units import (
    CPU_FORMS,
    DURATION_FORMS,
    SIZE_FORMS,
    cpu_milli,
    duration_s,
    shown_cpus,
    size_mib,
)

COUNT_MAX = 10**9  # Sums of these must stay far from what a database column can hold.
LONG_MAX = 10**18  # Beyond this a number is not shown: it may have thousands of digits.
TEXT_LETTERS_MAX = 200
PRICE_MAX = 10**6
AMOUNT_MAX = 10**12

# Names end up in labels, paths and host names, and this is what all of those accept.
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
# As ClassAds have them; a dot or a dash would be read as an operator.
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TRAIT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}")


@dataclass(frozen=True, slots=True)
class Unit:
    """How the reference page calls a kind of value, and how a value of it is written in TOML."""

    word: str
    written: Callable[[Any], str]


def exact_duration(seconds: int) -> str:
    """All units that are needed: what is printed must be read back as the same number."""
    parts, left = [], seconds
    for unit, span_s in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, span_s)
        parts.append(f"{count}{unit}" if count else "")
    return "".join(parts) or "0s"


def exact_size(mib: int) -> str:
    return f"{mib // 1024}GiB" if mib and mib % 1024 == 0 else f"{mib}MiB"


def _text_with_unit(value: object, forms: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        shown = (
            "a number that long" if isinstance(value, int) and abs(value) > LONG_MAX else f"`{value:.12g}`"
        )
        raise ValueError(f"{shown} has no unit; write {forms}")
    raise ValueError(f"must be text with a unit; write {forms}")


def _duration(value: object) -> int:
    return duration_s(one_line(_text_with_unit(value, DURATION_FORMS)))


def _positive(seconds: int) -> int:
    if seconds < 1:
        raise ValueError("must be longer than nothing")
    return seconds


def _size(value: object) -> int:
    return size_mib(one_line(_text_with_unit(value, SIZE_FORMS)))


def _cpus(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"must be {CPU_FORMS}")
    return cpu_milli(one_line(str(value)))


def _money(value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"must be a number from 0 to {most}, such as `0.25`")
    return round(value * 1000)


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            "is not a usable name; write up to 40 small letters, digits and `-`, "
            "with a letter or digit at both ends"
        )
    return value


def _trait(value: str) -> str:
    if not _TRAIT.fullmatch(value):
        raise ValueError("is not a trait's name; write letters, digits, `_`, `.` and `-`, such as `gpu_type`")
    return value


def _attribute(value: str) -> str:
    if not _ATTRIBUTE.fullmatch(value):
        raise ValueError("is not an attribute's name; write letters, digits and `_`, such as `HasCvmfs`")
    return value


def _printable(value: str) -> str:
    if not value.isprintable() or len(value) > TEXT_LETTERS_MAX:
        raise ValueError(f"must be one line of printable text of at most {TEXT_LETTERS_MAX} letters")
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _thousandths(milli: int) -> str:
    return shown_cpus(milli) if milli % 1000 == 0 else f"{milli // 1000}.{milli % 1000:03d}".rstrip("0")


_IN_DURATIONS = Unit("duration", lambda seconds: f'"{exact_duration(seconds)}"')
_IN_SIZES = Unit("size", lambda mib: f'"{exact_size(mib)}"')

Duration = Annotated[int, BeforeValidator(_duration), _IN_DURATIONS]
Span = Annotated[int, BeforeValidator(_duration), AfterValidator(_positive), _IN_DURATIONS]
Size = Annotated[int, BeforeValidator(_size), _IN_SIZES]
Cpus = Annotated[int, BeforeValidator(_cpus), Unit("CPUs", _thousandths)]
Price = Annotated[int, BeforeValidator(partial(_money, most=PRICE_MAX)), Unit("number", _thousandths)]
Amount = Annotated[int, BeforeValidator(partial(_money, most=AMOUNT_MAX)), Unit("number", _thousandths)]
Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Name = Annotated[str, AfterValidator(_name)]
TraitName = Annotated[str, AfterValidator(_trait)]
AttributeName = Annotated[str, AfterValidator(_attribute)]
Text = Annotated[str, AfterValidator(_printable)]
Word = Annotated[str, AfterValidator(_printable), AfterValidator(_filled)]
