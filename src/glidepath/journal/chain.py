"""Cycles in groups: each begins with a keyframe and goes on with changes, compressed as one stream.

The group that is being written and the next cycle come in, the group after it and the bytes to keep go out;
and back. Where the bytes are kept is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from glidepath.clock import Moment
from glidepath.core.provision.offer import Rules
from glidepath.journal import wire
from glidepath.journal.codec import Malformed
from glidepath.journal.frames import Cycle, Decoded, Frame, followed, framed, pruned, rebuilt, unfolded

# Large enough that keyframes are a small part of the bytes, small enough that any cycle is read at once.
KEYFRAME_EVERY = 64


@dataclass(slots=True)
class Group:
    """The group that is being written, and the last cycle in it."""

    first_cycle: int
    boot_id: str
    rules: Rules
    stream: wire.Stream
    frame: Frame
    count: int = 1


def chained(
    old: Group | None,
    moment: Moment,
    cycle: Cycle,
    *,
    rules: Rules,
    keyframe_every: int = KEYFRAME_EVERY,
    level: int = wire.LEVEL,
) -> tuple[Group, bytes]:
    """The group to which the cycle belongs, and the bytes of the cycle in it."""
    frame, changes = framed(old.frame if old else None, cycle)
    same = old is not None and old.boot_id == moment.boot_id
    if old is not None and same and old.count < keyframe_every and old.rules == rules:
        group = Group(old.first_cycle, old.boot_id, rules, old.stream, frame, old.count + 1)
        return group, group.stream.piece(changes)
    frame = pruned(frame, cycle)
    group = Group(cycle.plan.cycle, moment.boot_id, rules, wire.Stream(level), frame)
    return group, group.stream.piece(frame.keyframe())


def unchained(rows: Iterable[tuple[int, bytes]], *, since_cycle: int = 0) -> Iterator[Cycle]:
    """The cycles of one group, all read in order but only those from `since_cycle` on made values again.

    Numbers and bytes come in, from the first of the group. Raises Malformed with the number of the cycle.
    """
    rows = list(rows)
    plains = wire.pieces(body for _, body in rows)
    parts: dict[tuple[str, ...], list[Any]] = {}
    decoded = Decoded()
    for place, (number, _) in enumerate(rows):
        try:
            plain = next(plains)
            parts = followed(parts, plain) if place else unfolded(plain)
            cycle = rebuilt(number, parts, decoded) if number >= since_cycle else None
        except Malformed as error:
            raise error.under(f"cycle {number}") from error
        if cycle is not None:
            yield cycle
