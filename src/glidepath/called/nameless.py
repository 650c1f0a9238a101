"""Sites whose client names no pilots, as clients of pyglidein: it is shown how many are wanted, and says how
many it launched, how many wait and how many run. Pure: trays in, trays out.

A request stands for one of them. It waits until the client was shown it, until it says that it launched as
many, and until as many no longer wait in its queue; then the pool knows the pilot, under a name of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from glidepath.called.tray import HAS_STARTED, NAMELESS, Request, Step, Terms, Tray, lapsed
from glidepath.called.words import Report
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant

# What the original said where a job asked for nothing.
MEMORY_DEFAULT_MB, DISK_DEFAULT_MB = 2000, 10_000


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


def shown(
    tray: Tray, now: Instant, *, terms: Terms, client: str, address: str = ""
) -> tuple[Tray, dict[Wanted, int]]:
    """What the client is told now: requests that wait, and no more what it was told before.

    It was told, so it may have launched them though it said nothing: they are not told again.
    """
    tray = _heard(_faded(tray, now, terms), now, client)
    rows: Counter[Wanted] = Counter()
    for request in tray.requests:
        if request.step is Step.ASKED:
            rows[row_of(request.spec)] += 1
            told = replace(request, step=Step.SHOWN, given_at=now, held_by=address, look=tray.calls)
            tray = replace(tray.with_request(told), given=tray.given + 1)
    return tray, dict(rows)


def counted(tray: Tray, said: Counted, now: Instant, *, client: str, address: str = "") -> Tray:
    """What it says came of it, and how many wait in its queue.

    It counted before it launched: so many wait now, and the others that it launched before do not.
    """
    if not (said.launched or said.idle or said.running):
        # Who was shown nothing does not look at the queue, and says zero all the same.
        return _heard(tray, now, client)
    tray = _heard(tray, now, client, f"{said.launched + said.idle} wait there and {said.running} run")
    holder = f"{address} {client}"
    tray = _launched(tray, said.launched, address=address, holder=holder)
    launched = _oldest_first(tray, Step.LAUNCHED, holder)
    started = max(0, len(launched) - said.idle - said.launched)
    for at, request in enumerate(launched):
        step = Step.STARTED if at < started else Step.LAUNCHED
        tray = tray.with_request(replace(request, step=step, counted_at=now))
    return tray


def _launched(tray: Tray, count: int, *, address: str, holder: str) -> Tray:
    """So many of what the address was shown are launched; what it was shown beside them waits on.

    Where it was shown things twice and told of one, another client has the address too, or a report was
    lost: what is left may be launched this very moment, so it is not shown again.
    """
    shown = _oldest_first(tray, Step.SHOWN, address)
    looks = {request.look for request in shown}
    for at, request in enumerate(sorted(shown, key=lambda each: -each.look)):
        if at < count:
            tray = tray.with_request(replace(request, step=Step.LAUNCHED, held_by=holder))
        elif len(looks) == 1:
            tray = tray.with_request(replace(request, step=Step.ASKED, held_by=""))
    return tray


def _faded(tray: Tray, now: Instant, terms: Terms) -> Tray:
    """What nobody has had a word of for long is not counted on.

    A client counts its queue only when it is shown something. So of what it launched and has not counted, one
    at a time makes room: while work waits, another is asked for in its place, and then it counts.
    """
    away = tray.heard_at is not None and now - tray.heard_at > terms.silent_s
    tray = lapsed(tray, now, -1 if away else terms.lapse_s)
    for request in tray.requests:
        old = request.given_at is not None and now - request.given_at > terms.lapse_s
        if request.step is Step.SHOWN and old:
            tray = tray.with_request(replace(request, step=Step.SERVED, note=HAS_STARTED))
    holders = {request.held_by for request in tray.requests if request.step is Step.LAUNCHED}
    for holder in sorted(holders):
        launched = _oldest_first(tray, Step.LAUNCHED, holder)
        if all(now - (each.counted_at or 0) > terms.lapse_s for each in launched):
            tray = tray.with_request(replace(launched[0], step=Step.SERVED, note=HAS_STARTED))
            for request in launched[1:]:
                tray = tray.with_request(replace(request, counted_at=now))
    return tray


def _heard(tray: Tray, now: Instant, client: str, counts: str = "") -> Tray:
    before = tray.report.why if tray.report is not None else ""
    report = Report(nonce="", seen=True, agent=client, why=counts or before)
    return replace(tray, heard_at=now, report=report, calls=tray.calls + 1)


def _oldest_first(tray: Tray, step: Step, holder: str) -> list[Request]:
    assert step in NAMELESS
    found = [each for each in tray.requests if each.step is step and each.held_by == holder]
    return sorted(found, key=lambda request: (request.spec.asked_at, request.name))
