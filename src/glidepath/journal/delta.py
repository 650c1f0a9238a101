"""What changed between two sequences of values: the new one comes in, a small change goes out, and back.

Items are matched by a key, compared by identity and then by equality; only what changed is encoded. A change
speaks of positions, never of keys, so that a name is stored once. It knows nothing of what it compares.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from operator import is_not
from typing import Any, NamedTuple

from glidepath.journal.codec import Malformed, Plain

# The letters of a change: positions gone, items added, items moved, items changed.
GONE, ADDED, MOVED, CHANGED = "g", "a", "m", "c"
LENGTH = ""  # inside a patch: the new length of the list


class Part(NamedTuple):
    """One sequence as it was last written: values, their keys, where each key stands, the encoded form."""

    values: tuple[Any, ...] = ()
    keys: Sequence[Hashable] = ()
    places: Mapping[Hashable, int] = {}
    plain: Sequence[Plain] = ()


EMPTY = Part()


def advanced(
    old: Part, values: tuple[Any, ...], key: Callable[[Any], Hashable], encode: Callable[[Any], Plain]
) -> tuple[Part, Plain]:
    """The part with its new values, and the change that leads there; an empty one when nothing did."""
    if values is old.values or values == old.values:
        return old, {}
    keys = list(map(key, values))
    if keys == old.keys:
        places, origin = old.places, None
        before: Sequence[Any] = old.values
        plain = list(old.plain)
    else:
        keys, places = _distinct(keys)
        origin = list(map(old.places.get, keys))
        before = [None if place is None else old.values[place] for place in origin]
        plain = [None if place is None else old.plain[place] for place in origin]
    changed: dict[str, Plain] = {}
    # What is the same object as before, which most are, is passed over without a step of ours.
    for at in compress(range(len(values)), map(is_not, values, before)):
        if before[at] is None:
            plain[at] = encode(values[at])
        elif values[at] != before[at]:
            was, plain[at] = plain[at], encode(values[at])
            changed[str(at)] = patch(was, plain[at])
    change = {} if origin is None else _moves(origin, len(old.keys), plain)
    if changed:
        change[CHANGED] = changed
    return Part(values, keys, places, plain), change


def applied(old: Sequence[Plain], change: Plain) -> list[Plain]:
    """The encoded sequence after the change."""
    try:
        kept = list(old)
        moved = change.get(MOVED, ())
        # From the end, and then from the start: what is still to come stands where the change says.
        for at in sorted({*change.get(GONE, ()), *(was for _, was in moved)}, reverse=True):
            del kept[at]
        placed = dict(change.get(ADDED, ()))
        placed |= {at: old[was] for at, was in moved}
        for at in sorted(placed):
            if not 0 <= at <= len(kept):
                raise IndexError(at)
            kept.insert(at, placed[at])
        for at, how in change.get(CHANGED, {}).items():
            place = int(at)
            kept[place] = patched(kept[place], how)
    except (LookupError, TypeError, AttributeError) as error:
        raise Malformed(f"a change does not fit what it changes: {error!r}") from error
    return kept


def patch(old: Plain, new: Plain) -> Plain:
    """How to make `new` of `old`: positions in an object, or the whole value in a list of one."""
    if not isinstance(old, list) or not isinstance(new, list) or not old:
        return [new]
    steps: dict[str, Plain] = {}
    for at in compress(range(len(old)), map(is_not, new, old)):
        if new[at] != old[at] or type(new[at]) is not type(old[at]):
            steps[str(at)] = patch(old[at], new[at])
    if len(new) != len(old):
        for at in range(len(old), len(new)):
            steps[str(at)] = [new[at]]
        steps[LENGTH] = len(new)
    return steps if 2 * len(steps) <= len(new) + 1 else [new]


def patched(old: Plain, how: Plain) -> Plain:
    if isinstance(how, list):
        return how[0]
    new = list(old[: how[LENGTH]] if LENGTH in how else old)
    for at, step in how.items():
        if at == LENGTH:
            continue
        place = int(at)
        if place >= len(new):
            new.append(step[0])
        else:
            new[place] = step[0] if isinstance(step, list) else patched(new[place], step)
    return new


def _moves(origin: list[int | None], count_old: int, plain: list[Plain]) -> dict[str, Plain]:
    known = [was for was in origin if was is not None]
    present = set(known)
    # Most of the time some are gone and some are new, and the rest stand as they stood.
    stays = present if known == sorted(known) else _longest_rising(known)
    found: dict[str, Plain] = {
        GONE: sorted(set(range(count_old)) - present),
        ADDED: [[at, plain[at]] for at, was in enumerate(origin) if was is None],
        MOVED: [[at, was] for at, was in enumerate(origin) if was is not None and was not in stays],
    }
    return {letter: items for letter, items in found.items() if items}


def _longest_rising(numbers: list[int]) -> set[int]:
    """The most numbers that already stand in order; all others have to be moved around them."""
    ends: list[int] = []  # the smallest last number of a rising run of each length
    before: dict[int, int | None] = {}
    for number in numbers:
        at = bisect_left(ends, number)
        before[number] = ends[at - 1] if at else None
        ends[at : at + 1] = [number]
    stays: set[int] = set()
    last: int | None = ends[-1] if ends else None
    while last is not None:
        stays.add(last)
        last = before[last]
    return stays


def _distinct(keys: list[Any]) -> tuple[list[Any], dict[Any, int]]:
    """Where each key stands. Those that come twice are made different by counting: a hostile listing may name
    one pilot twice, and both must be kept."""
    places = dict(zip(keys, range(len(keys)), strict=True))
    if len(places) == len(keys):
        return keys, places
    seen: dict[Any, int] = {}
    counted: list[Any] = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        counted.append((key, seen[key]))
    return counted, {key: place for place, key in enumerate(counted)}
