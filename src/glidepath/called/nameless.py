"""Sites whose client names no pilots, as clients of pyglidein: it is shown how many are wanted, and says how
many it launched, how many wait and how many run. Pure: trays in, trays out.

A request stands for one of them. It waits until the client was shown it, until it says that it launched as
many, and until as many no longer wait in its queue; then the pool knows the pilot, under a name of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from glidepath.called.tray import NAMELESS, Request, Step, Terms, Tray, lapsed
from glidepath.called.words import Report
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant

# What the original said where a job asked for nothing.
MEMORY_DEFAULT_MB, DISK_DEFAULT_MB = 2000, 10_000
STARTED = "a client that names no pilots has started it, or will"


@dataclass(frozen=True, slots=True, order=True)
class Wanted:
    """One row of `get_state`, in the units of pyglidein: memory and disk in MB."""

    cpus: int
    memory: int
    disk: int
    gpus: int
    os: str | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What a client says of its glideins, over all its partitions."""

    launched: int
    idle: int
    running: int


def wanted_of(cpu_milli: int, memory_mib: int, disk_mib: int, *, gpus: int, os: str | None) -> Wanted:
    return Wanted(
        cpus=max(1, -(-cpu_milli // 1000)),
        memory=memory_mib or MEMORY_DEFAULT_MB,
        disk=-(-disk_mib * 1024 // 1000) or DISK_DEFAULT_MB,
        gpus=gpus,
        os=os,
    )


def row_of(spec: PilotSpec) -> Wanted:
    size = spec.size
    os = dict(spec.traits).get("os")
    return wanted_of(size.cpu_milli, size.memory_mib, size.disk_mib, gpus=size.gpus, os=os)


def shown(tray: Tray, now: Instant, *, terms: Terms, client: str) -> tuple[Tray, dict[Wanted, int]]:
    """What the client is told now: requests that wait, and no more what it was told before.

    It was told, so it may have launched them though it said nothing: they are not told again.
    """
    tray = _heard(_faded(tray, now, terms), now, client)
    rows: Counter[Wanted] = Counter()
    for request in tray.requests:
        if request.step is Step.ASKED:
            rows[row_of(request.spec)] += 1
            tray = tray.with_request(replace(request, step=Step.SHOWN, given_at=now))
            tray = replace(tray, given=tray.given + 1)
    return tray, dict(rows)


def counted(tray: Tray, said: Counted, now: Instant, *, client: str) -> Tray:
    """What it says came of it. What it was shown and did not launch waits on; it may be shown again."""
    tray = _heard(tray, now, client)
    left = said.launched
    for request in _oldest_first(tray, Step.SHOWN):
        step = Step.LAUNCHED if left > 0 else Step.ASKED
        left -= 1
        tray = tray.with_request(replace(request, step=step))
    if not (said.launched or said.idle or said.running):
        return tray  # Who has nothing to do does not look at the queue, and says zero all the same.
    # It counted before it launched: so many wait now, and the others that it launched before do not.
    waiting = said.idle + said.launched
    launched = _oldest_first(tray, Step.LAUNCHED)
    for request in launched[: max(0, len(launched) - waiting)]:
        tray = tray.with_request(replace(request, step=Step.SERVED, note=STARTED))
    return tray


def _faded(tray: Tray, now: Instant, terms: Terms) -> Tray:
    """A client that fell silent after it was shown something may have launched it: it is not counted on."""
    away = tray.heard_at is not None and now - tray.heard_at > terms.silent_s
    tray = lapsed(tray, now, -1 if away else terms.lapse_s)
    for request in tray.requests:
        old = request.given_at is not None and now - request.given_at > terms.lapse_s
        if request.step is Step.SHOWN and old:
            tray = tray.with_request(replace(request, step=Step.SERVED, note=STARTED))
    return tray


def _heard(tray: Tray, now: Instant, client: str) -> Tray:
    report = Report(nonce="", seen=True, agent=client)
    return replace(tray, heard_at=now, report=report, calls=tray.calls + 1)


def _oldest_first(tray: Tray, step: Step) -> list[Request]:
    assert step in NAMELESS
    found = [request for request in tray.requests if request.step is step]
    return sorted(found, key=lambda request: (request.spec.asked_at, request.name))
