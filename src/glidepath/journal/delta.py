"""What changed between two sequences of values: the new one comes in, a small change goes out, and back.

Items are matched by a key, compared by identity and then by equality; only what changed is encoded. A change
speaks of positions, never of keys, so that a name is stored once. It knows nothing of what it compares.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from glidepath.journal.codec import Malformed, Plain

# The letters of a change: positions gone, items added, items moved, items changed.
GONE, ADDED, MOVED, CHANGED = "g", "a", "m", "c"
LENGTH = ""  # inside a patch: the new length of the list


@dataclass(frozen=True, slots=True)
class Part:
    """One sequence as it was last written, with its encoded form beside it."""

    values: tuple[Any, ...] = ()
    keys: Sequence[Hashable] = ()
    plain: Sequence[Plain] = ()


EMPTY = Part()


def advanced(
    old: Part, values: tuple[Any, ...], key: Callable[[Any], Hashable], encode: Callable[[Any], Plain]
) -> tuple[Part, Plain]:
    """The part with its new values, and the change that leads there; an empty one when nothing did."""
    if values is old.values:
        return old, {}
    keys = _distinct([key(value) for value in values])
    if keys == old.keys:
        origin: list[int | None] = list(range(len(keys)))
    else:
        where = {one: at for at, one in enumerate(old.keys)}
        origin = [where.get(one) for one in keys]
    plain: list[Plain] = []
    changed: dict[str, Plain] = {}
    for at, (value, was) in enumerate(zip(values, origin, strict=True)):
        if was is None:
            plain.append(encode(value))
        elif value is old.values[was] or value == old.values[was]:
            plain.append(old.plain[was])
        else:
            plain.append(encode(value))
            changed[str(at)] = patch(old.plain[was], plain[at])
    change = {} if keys == old.keys else _moves(origin, len(old.keys), plain)
    if changed:
        change[CHANGED] = changed
    return Part(values, keys, plain), change


def applied(old: Sequence[Plain], change: Plain) -> list[Plain]:
    """The encoded sequence after the change."""
    try:
        taken = {*change.get(GONE, ()), *(was for _, was in change.get(MOVED, ()))}
        kept = [item for at, item in enumerate(old) if at not in taken] if taken else list(old)
        placed = dict(change.get(ADDED, ()))
        placed |= {at: old[was] for at, was in change.get(MOVED, ())}
        if placed:
            rest = iter(kept)
            count = len(kept) + len(placed)
            kept = [placed[at] if at in placed else next(rest) for at in range(count)]
        for at, how in change.get(CHANGED, {}).items():
            kept[int(at)] = patched(kept[int(at)], how)
    except (LookupError, TypeError, AttributeError, StopIteration, RuntimeError) as error:
        raise Malformed(f"a change does not fit what it changes: {error!r}") from error
    return kept


def patch(old: Plain, new: Plain) -> Plain:
    """How to make `new` of `old`: positions in an object, or the whole value in a list of one."""
    if not isinstance(old, list) or not isinstance(new, list) or not old:
        return [new]
    steps: dict[str, Plain] = {}
    for at, item in enumerate(new):
        if at >= len(old):
            steps[str(at)] = [item]
        elif item != old[at] or type(item) is not type(old[at]):
            steps[str(at)] = patch(old[at], item)
    if len(new) != len(old):
        steps[LENGTH] = len(new)
    return steps if 2 * len(steps) <= len(new) + 1 else [new]


def patched(old: Plain, how: Plain) -> Plain:
    if isinstance(how, list):
        return how[0]
    new = list(old[: how.get(LENGTH, len(old))])
    for at, step in how.items():
        if at == LENGTH:
            continue
        if int(at) < len(new):
            new[int(at)] = patched(new[int(at)], step)
        else:
            new.append(step[0])
    return new


def _moves(origin: list[int | None], count_old: int, plain: list[Plain]) -> dict[str, Plain]:
    stays = _longest_rising([was for was in origin if was is not None])
    present = {was for was in origin if was is not None}
    found: dict[str, Plain] = {
        GONE: [at for at in range(count_old) if at not in present],
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


def _distinct(keys: list[Any]) -> list[Any]:
    """Keys made different by counting: a hostile listing may name one pilot twice, and both must be kept."""
    if len(set(keys)) == len(keys):
        return keys
    seen: dict[Any, int] = {}
    counted: list[Any] = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        counted.append((key, seen[key]))
    return counted
