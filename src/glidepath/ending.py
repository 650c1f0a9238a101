"""Ending pilots when glidepath itself ends: asked to stop, all at once, and killed if that takes too long.

Only sites with `on_exit = "stop"` are handed in; elsewhere pilots work on and are adopted later.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol, runtime_checkable

from glidepath.calls import ThreadCalls, answer
from glidepath.core.cycle import Outcome
from glidepath.core.provision.pilot import SiteState, Target
from glidepath.core.quantity import Instant
from glidepath.ports import Backend

_OVER = (SiteState.ENDED, SiteState.FAILED, SiteState.WITHDRAWN)


@runtime_checkable
class Kills(Protocol):
    """A backend whose pilots can be killed at once: those on this machine."""

    def kill(self, target: Target) -> Outcome: ...


def live(backend: Backend, now: Instant) -> list[Target]:
    pilots = backend.list(now=now).pilots
    return [Target(pilot.name, pilot.native_id) for pilot in pilots if pilot.state not in _OVER]


def stop_pilots(backends: Iterable[Backend], now: Instant, *, limit_s: float) -> None:
    calls = {
        f"{backend.site} {target.name}": partial(backend.remove, target)
        for backend in backends
        for target in answer(partial(live, backend, now)).value or ()
    }
    ThreadCalls().gather(calls, limit_s=limit_s)


def kill_pilots(backends: Iterable[Backend], now: Instant) -> None:
    for backend in backends:
        if isinstance(backend, Kills):
            for target in live(backend, now):
                backend.kill(target)
