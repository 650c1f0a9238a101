"""Sizes and times as people write them: `4GiB`, `90m`, `1-12:00:00`, `500m` of a CPU.

Text comes in, whole numbers go out, and back. A bare number is refused wherever a unit could be
mistaken: `memory = 4` has meant megabytes, gigabytes and a typing error in one user's files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from glidepath.core.quantity import Resources
from glidepath.core.text import one_line

DURATION_FORMS = "`90s`, `15m`, `2h`, `1d`, `1w`, `1h30m`, `HH:MM:SS` or `D-HH:MM:SS`"
SIZE_FORMS = "`512MiB`, `4GiB`, `1TiB`, or `4GB` for powers of ten"
CPU_FORMS = "a number of CPUs such as `4` or `0.5`, or `500m` for thousandths"

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {
    "B": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", start=1)},
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGTP", start=1)},
}
_MIB = 1024**2
# Beyond these nothing is meant in earnest, and sums must stay far from what a database can hold.
DURATION_S_MAX = 10 * 366 * 86400
SIZE_MIB_MAX = 1024**3
CPU_MILLI_MAX = 10**9
QUOTED_LETTERS_MAX = 40
NAMES_KEPT_MAX = 4096  # of amounts; they are named in every cycle

_SPAN = re.compile(r"(?:[0-9]{1,9}[smhdw])+")
_PART = re.compile(r"[0-9]+[smhdw]")
_CLOCK = re.compile(r"(?:(?P<d>[0-9]{1,5})-)?(?P<h>[0-9]{1,5}):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])")
_SIZE = re.compile(r"(?P<n>[0-9]{1,15})(?:\.(?P<f>[0-9]{1,6}))? ?(?P<u>[A-Za-z]{1,3})")
_CPU = re.compile(r"(?:(?P<n>[0-9]{1,9})(?:\.(?P<f>[0-9]{1,3}))?|(?P<m>[0-9]{1,12})m)")


def _quoted(text: str) -> str:
    """What was written, short: it may come from anyone and ends on a terminal."""
    return one_line(text, letters_max=QUOTED_LETTERS_MAX)


def duration_s(text: str) -> int:
    """Seconds of a written span; raises ValueError that names the accepted forms."""
    text = text.strip()
    if match := _CLOCK.fullmatch(text):
        days, hours = int(match["d"] or 0), int(match["h"])
        seconds = ((days * 24 + hours) * 60 + int(match["m"])) * 60 + int(match["s"])
    elif _SPAN.fullmatch(text):
        seconds = sum(int(part[:-1]) * _SECONDS[part[-1]] for part in _PART.findall(text))
    else:
        raise ValueError(f"`{_quoted(text)}` is not a duration; write {DURATION_FORMS}")
    if seconds > DURATION_S_MAX:
        raise ValueError(f"`{_quoted(text)}` is longer than ten years")
    return seconds


def size_mib(text: str) -> int:
    """MiB of a written size, rounded up so that nothing is promised short."""
    match = _SIZE.fullmatch(text.strip())
    if not match or match["u"] not in _BYTES:
        raise ValueError(f"`{_quoted(text)}` is not a size; write {SIZE_FORMS}")
    digits = match["f"] or ""
    amount = int(match["n"] + digits) * _BYTES[match["u"]]
    mib: int = -(-amount // (_MIB * 10 ** len(digits)))
    if mib > SIZE_MIB_MAX:
        raise ValueError(f"`{_quoted(text)}` is more than 1 PiB")
    return mib


def cpu_milli(text: str | int) -> int:
    """Thousandths of a CPU from `4`, `0.5` or `500m`."""
    match = _CPU.fullmatch(str(text).strip())
    if not match:
        raise ValueError(f"`{_quoted(str(text))}` is not a number of CPUs; write {CPU_FORMS}")
    milli = int(match["m"]) if match["m"] else int(match["n"]) * 1000 + int((match["f"] or "").ljust(3, "0"))
    if milli > CPU_MILLI_MAX:
        raise ValueError(f"`{_quoted(str(text))}` is more than a million CPUs")
    return milli


def shown_duration(seconds: int) -> str:
    """The shortest honest form: exact below an hour, two units above."""
    sign, left = ("-", -seconds) if seconds < 0 else ("", seconds)
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return sign + ("".join(parts[:2]) or "0s")


def shown_size(mib: int) -> str:
    for unit, step in (("TiB", 1024**2), ("GiB", 1024)):
        if mib >= step:
            whole, rest = divmod(mib * 10, step)
            tenths = whole + (rest * 2 >= step)
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}{unit}"
    return f"{mib}MiB"


def shown_cpus(milli: int) -> str:
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def shown_resources(amount: Resources) -> str:
    """`4 CPU 8GiB 1 GPU`: disk and GPUs only where asked for, sizes rounded to be read."""
    return _resources(amount, shown_size)


@lru_cache(maxsize=NAMES_KEPT_MAX)
def exact_resources(amount: Resources) -> str:
    """The same without rounding, for names: two amounts that differ must never read alike."""
    return _resources(amount, exact_size)


def exact_size(mib: int) -> str:
    for unit, step in (("TiB", 1024**2), ("GiB", 1024)):
        if mib and mib % step == 0:
            return f"{mib // step}{unit}"
    return f"{mib}MiB"


def _resources(amount: Resources, size: Callable[[int], str]) -> str:
    parts = [f"{shown_cpus(amount.cpu_milli)} CPU", size(amount.memory_mib)]
    if amount.disk_mib:
        parts.append(f"{size(amount.disk_mib)} disk")
    if amount.gpus:
        parts.append(f"{amount.gpus} GPU")
    return " ".join(parts)
