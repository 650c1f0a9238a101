"""What is free on each node, now and later: changes in order of time, and the earliest hole for a job.

Columns come in and are changed in place, because a plan of 50,000 jobs asks millions of times. A change is
an amount that comes free or is taken at an instant; one in the past is overdue, which means that a job
should have ended: nobody can start on that room yet, but plans count on it from now on.

The last columns of a row of room are single devices (GPUs), in thousandths. A row of need has one number for
each of the other columns, and then how many devices and how much of each: a share of a device must lie on
one of them, and on the same one for all of the stay. A need below zero takes nothing and only has to be met
at the start: a job without a limit may begin before a window, and not in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import NEVER, NONE, Ints, apart, lean

# What a row of need has after its amounts: how many devices, and thousandths of each.
DEVICE_PARTS = 2


class Profile(NamedTuple):
    free: Ints  # [node, resource] right now, in truth
    first: Ints  # [node] its next change, or NONE
    when: Ints  # [change]
    amount: Ints  # [change, resource] more than zero where room comes free
    after: Ints  # [change] the next one of the same node, or NONE
    before: Ints  # [change] the one before it, or NONE
    unused: Ints  # [0] how many changes are unused, then which
    room: Ints  # [resource] to work in
    since: Ints  # [device] to work in


def profile_of(free: Ints, changes_max: int, devices: int = 0) -> Profile:
    """A profile without changes. The bound is what starts and reservations together may need."""
    nodes, resources = free.shape
    unused = np.empty(changes_max + 1, np.int64)
    unused[0] = changes_max
    unused[1:] = np.arange(changes_max)
    return Profile(
        free=free.astype(np.int64),
        first=np.full(nodes, NONE, np.int64),
        when=np.zeros(changes_max, np.int64),
        amount=np.zeros((changes_max, resources), np.int64),
        after=np.full(changes_max, NONE, np.int64),
        before=np.full(changes_max, NONE, np.int64),
        unused=unused,
        room=np.zeros(resources, np.int64),
        since=np.zeros(devices, np.int64),
    )


@lean
def lasts(room: Ints, need: Ints) -> bool:
    """Whether there is room for what is taken, devices apart."""
    enough = True
    for part in range(len(need) - DEVICE_PARTS):
        enough = enough and (need[part] <= room[part] or need[part] <= 0)
    return bool(enough)


@lean
def opens(room: Ints, need: Ints) -> bool:
    """Whether what only has to be met at the start is."""
    enough = True
    for part in range(len(need) - DEVICE_PARTS):
        enough = enough and (need[part] >= 0 or -need[part] <= room[part])
    return bool(enough)


@lean
def fits(room: Ints, need: Ints) -> bool:
    """Whether a job could begin in this room, if it stayed so."""
    parts = len(need) - DEVICE_PARTS
    for part in range(parts):
        wanted = need[part]
        if wanted != 0 and abs(wanted) > room[part]:
            return False
    wanted = need[-2]
    if wanted > 0:
        for device in range(parts, len(room)):
            wanted -= room[device] >= need[-1]
    return bool(wanted <= 0)


@lean
def comes_free(profile: Profile, node: int, when: int, amount: Ints) -> int:
    """Note that so much comes free then; returns the number of the change."""
    change = _insert(profile, node, when)
    for part in range(len(amount)):
        profile.amount[change, part] = amount[part]
    return change


@lean
def is_taken(profile: Profile, node: int, when: int, amount: Ints) -> int:
    """Note that so much is taken from then on; returns the number of the change."""
    change = comes_free(profile, node, when, amount)
    for part in range(len(amount)):
        profile.amount[change, part] *= -1
    return change


@lean
def _insert(profile: Profile, node: int, when: int) -> int:
    left = profile.unused[0]
    if left == 0:
        raise ValueError("more changes than were made room for")
    profile.unused[0] = left - 1
    change = profile.unused[left]
    profile.when[change] = when
    before, at = NONE, profile.first[node]
    while at != NONE and profile.when[at] <= when:
        before, at = at, profile.after[at]
    profile.after[change] = at
    profile.before[change] = before
    _link(profile, node, change)
    return int(change)


@lean
def _link(profile: Profile, node: int, change: int) -> None:
    """Its neighbours know the change from now on."""
    before, after = profile.before[change], profile.after[change]
    if before == NONE:
        profile.first[node] = change
    else:
        profile.after[before] = change
    if after != NONE:
        profile.before[after] = change


@lean
def drop(profile: Profile, node: int, change: int) -> None:
    """Take a change back; it must be one of this node."""
    before, after = profile.before[change], profile.after[change]
    if before == NONE:
        profile.first[node] = after
    else:
        profile.after[before] = after
    if after != NONE:
        profile.before[after] = before
    profile.unused[0] += 1
    profile.unused[profile.unused[0]] = change


@lean
def restore(profile: Profile, node: int, change: int) -> None:
    """Put back the change that was dropped last, where it was; nothing else may have changed since."""
    profile.unused[0] -= 1
    _link(profile, node, change)


@lean
def _apply(profile: Profile, change: int) -> None:
    for part in range(len(profile.room)):
        profile.room[part] += profile.amount[change, part]


@lean
def room_at(profile: Profile, node: int, when: int) -> int:
    """Puts what is free at that time into the scratch row; returns the first change after it."""
    for part in range(len(profile.room)):
        profile.room[part] = profile.free[node, part]
    at = profile.first[node]
    while at != NONE and profile.when[at] <= when:
        _apply(profile, at)
        at = profile.after[at]
    return int(at)


@lean
def _devices_since(profile: Profile, need: Ints, when: int) -> int:
    """Notes since when each device has room; the instant from which on enough of them do, or NEVER."""
    devices, wanted = len(profile.since), need[-2]
    if wanted <= 0:
        return 0
    if wanted > devices:
        return NEVER
    first = len(profile.room) - devices
    there = 0
    for device in range(devices):
        if profile.room[first + device] < need[-1]:
            profile.since[device] = NEVER
        elif profile.since[device] > when:
            profile.since[device] = when
        there += profile.since[device] != NEVER
    if there < wanted:
        return NEVER
    latest = 0
    for device in range(devices):
        sooner = 0
        for other in range(devices):
            sooner += profile.since[other] < profile.since[device]
        if sooner < wanted and latest < profile.since[device] != NEVER:
            latest = profile.since[device]
    return int(latest)


@lean
def earliest(profile: Profile, node: int, need: Ints, stay: tuple[int, int]) -> int:
    """The first instant from the start of the stay on at which there is room for all of it, or NEVER."""
    start, span = stay
    at = room_at(profile, node, start)
    for device in range(len(profile.since)):
        profile.since[device] = NEVER
    since, found, opened, closed = NEVER, NEVER, NEVER, NEVER
    when = start
    for _ in range(len(profile.when) + 1):
        if not lasts(profile.room, need):
            since = NEVER
        elif since == NEVER:
            since = when
        if not opens(profile.room, need):
            closed = min(closed, when)
        elif opened == NEVER or closed != NEVER:
            opened, closed = when, NEVER
        begin = max(since, _devices_since(profile, need, when))
        if begin == NEVER:
            found = NEVER
        elif found == NEVER or found < begin:
            found = max(begin, opened)
            if found >= closed:
                found = NEVER
        if at == NONE or (found != NEVER and profile.when[at] - found >= span):
            break
        when = profile.when[at]
        while at != NONE and profile.when[at] == when:
            _apply(profile, at)
            at = profile.after[at]
    return int(found)


@lean
def holds(profile: Profile, node: int, need: Ints, stay: tuple[int, int]) -> bool:
    """Whether the node has room for all of the stay, from its very start."""
    start, span = stay
    at = room_at(profile, node, start)
    if not fits(profile.room, need):
        return False
    wanted = need[-2]
    if wanted > 0:
        for device in range(len(profile.since)):
            profile.since[device] = NEVER
        _devices_since(profile, need, start)
    while at != NONE and profile.when[at] - start < span:
        when = profile.when[at]
        while at != NONE and profile.when[at] == when:
            _apply(profile, at)
            at = profile.after[at]
        if not lasts(profile.room, need):
            return False
        if wanted > 0 and _devices_since(profile, need, when) > start:
            return False
    return True


@apart
def devices_of(profile: Profile, node: int, need: Ints, stay: tuple[int, int]) -> int:
    """Which devices to take for the stay, one bit each: those that have room, fullest first.

    A share goes where the least is left over, so that whole devices stay whole. There must be a hole.
    """
    start, span = stay
    wanted = need[-2]
    if wanted <= 0:
        return 0
    at = room_at(profile, node, start)
    first = len(profile.room) - len(profile.since)
    for device in range(len(profile.since)):
        profile.since[device] = profile.room[first + device]
    while at != NONE and profile.when[at] - start < span:
        when = profile.when[at]
        while at != NONE and profile.when[at] == when:
            _apply(profile, at)
            at = profile.after[at]
        for device in range(len(profile.since)):
            profile.since[device] = min(profile.since[device], profile.room[first + device])
    taken = 0
    for _ in range(wanted):
        best = NONE
        for device in range(len(profile.since)):
            left = profile.since[device]
            if left >= need[-1] and not taken >> device & 1 and (best == NONE or left < profile.since[best]):
                best = device
        if best == NONE:
            return NONE
        taken |= 1 << best
    return int(taken)
