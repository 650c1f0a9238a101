"""Numbers and words of one job ad, checked: an ad comes in, amounts that can be trusted go out, or `BadJob`.

ClassAd values pass for numbers without being any: `int()` of undefined is 2, of error 1, and a literal that
is too large reads as 0. Nothing here is rounded into sense; what cannot be meant is refused with a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glidepath.condor.binding import ClassAd, ClassAdException, Value
from glidepath.core.quantity import Resources
from glidepath.core.text import one_line
from glidepath.core.units import CPU_MILLI_MAX, DURATION_S_MAX, SIZE_MIB_MAX

CPUS_MAX = CPU_MILLI_MAX // 1000
GPUS_MAX = 10_000  # No machine has as many; more is a typing error or malice.
KIB_PER_MIB = 1024
DISK_KIB_MAX = SIZE_MIB_MAX * KIB_PER_MIB
# What HTCondor itself gives a job that says nothing: JOB_DEFAULT_REQUESTCPUS and JOB_DEFAULT_REQUESTMEMORY.
CPUS_DEFAULT = 1
MEMORY_MIB_DEFAULT = 128
# HTCondor's default is the size of the job's own files, which is not known where it was not stated.
DISK_KIB_DEFAULT = 1024
SHOWN_LETTERS_MAX = 60
# Longer ones are nobody's name, and each would stand in the journal.
OWNER_LETTERS_MAX = 128
# Attributes with such a name are in minutes by custom, as `MaxWallTimeMins` is; all others are in seconds.
MINUTES_ENDING = "mins"


class BadJob(ValueError):
    """Why one job cannot be counted, as a sentence for its owner."""


def request_of(ad: ClassAd) -> Resources:
    """What the job asks for, its expressions worked out."""
    return Resources(*amounts_of(ad))


def amounts_of(ad: ClassAd) -> tuple[int, int, int, int]:
    """The same as bare numbers, in the order of `Resources`."""
    disk_kib = whole(ad, "RequestDisk", default=DISK_KIB_DEFAULT, least=0, most=DISK_KIB_MAX)
    return (
        1000 * whole(ad, "RequestCpus", default=CPUS_DEFAULT, least=1, most=CPUS_MAX),
        whole(ad, "RequestMemory", default=MEMORY_MIB_DEFAULT, least=1, most=SIZE_MIB_MAX),
        -(-disk_kib // KIB_PER_MIB),
        whole(ad, "RequestGPUs", default=0, least=0, most=GPUS_MAX),
    )


def run_s_of(ad: ClassAd, names: Sequence[str]) -> int | None:
    """The shortest of the run times that the job states; each of them ends it. None where it states none."""
    stated = []
    for name in names:
        # Undefined is the same as not stated, as everywhere in HTCondor.
        if name not in ad or evaluated(ad, name) is Value.Undefined:
            continue
        seconds = 60 if name.lower().endswith(MINUTES_ENDING) else 1
        stated.append(seconds * whole(ad, name, default=0, least=1, most=DURATION_S_MAX // seconds))
    return min(stated, default=None)


def owner_of(ad: ClassAd) -> str:
    return word(ad, "Owner")


def word(ad: ClassAd, name: str, *, letters_max: int = OWNER_LETTERS_MAX) -> str:
    """A name that can stand in a row; one with a line break could forge the next row."""
    value = ad.get(name)
    if type(value) is not str:
        value = evaluated(ad, name)
    if type(value) is not str or not value:
        raise BadJob(f"{name} is {shown(value)}, not a name")
    if len(value) > letters_max:
        raise BadJob(f"{name} has {len(value)} letters, more than {letters_max}")
    if not value.isprintable():
        raise BadJob(f"{name} is {shown(value)}, with letters that cannot be shown")
    return value


def whole(ad: ClassAd, name: str, *, default: int, least: int, most: int) -> int:
    """A whole number within bounds, fractions raised so that nothing is promised short."""
    try:
        value = ad[name]
    except KeyError:
        return default
    if type(value) is not int:
        value = evaluated(ad, name)
        if type(value) is float and math.isfinite(value):
            value = math.ceil(value)
        elif type(value) is not int:
            raise BadJob(f"{name} is {shown(value)}, not an amount")
    if value < least:
        hint = "; a number that is too large to be read also becomes 0" if value == 0 else ""
        raise BadJob(f"{name} is {value}, and must be at least {least}{hint}")
    if value > most:
        raise BadJob(f"{name} is {value}, more than {most}")
    return int(value)


def evaluated(ad: ClassAd, name: str) -> Any:
    """The value in the ad's own light; None where the ad has no such attribute."""
    try:
        return ad.eval(name)
    except KeyError:
        return None
    except ClassAdException as error:
        # The binding gives up on what is nested too deep.
        raise BadJob(f"{name} cannot be evaluated: {one_line(str(error))}") from None


def shown(value: object) -> str:
    """A value of any type for a sentence."""
    if value is None:
        return "missing"
    if isinstance(value, Value):
        return str(value.name).lower()
    if isinstance(value, str):
        return f"the text `{one_line(value, letters_max=SHOWN_LETTERS_MAX)}`"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ClassAd):
        return "a nested ad"
    if type(value) in (int, float):
        return f"`{value}`"
    kind = "a list" if isinstance(value, list) else "a value"
    return f"{kind}, `{one_line(str(value)[: SHOWN_LETTERS_MAX * 2], letters_max=SHOWN_LETTERS_MAX)}`"
