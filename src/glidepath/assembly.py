"""Putting the parts together: settings come in, doors and a policy go out.

A site or pool whose plug-in is broken is left without a door and therefore unseen, with the reason in
status; the others are served.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from glidepath.calls import ThreadCalls
from glidepath.clock import SteadyClock
from glidepath.config import (
    Settings,
    budgets_of,
    kind_settings,
    prices_of,
    rules_of,
    terms_of,
    windows_of,
)
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pressure import Policy
from glidepath.core.provision.sight import Pause, SiteListing, Window
from glidepath.core.quantity import Instant, PoolName, SiteName
from glidepath.journal.budgets import spent_of
from glidepath.journal.entry import Entry
from glidepath.plugins import BACKENDS, DEMAND, PluginError, load
from glidepath.policy import policy_of, with_numbers
from glidepath.ports import Backend, BackendKind, Place, Pool, PoolKind, Timetabled
from glidepath.provisioner import Doors, resumed
from glidepath.store.engine import Store

# Letters that cannot be mistaken for one another, in a name that people read aloud.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
INCARNATION_LETTERS = 6


@dataclass(frozen=True, slots=True)
class Broken:
    """A door that could not be made; every read of it fails with the reason."""

    site: SiteName
    why: str
    limit_s: float = 1.0

    def list(self, *, now: Instant) -> SiteListing:
        raise RuntimeError(self.why)


def incarnation() -> str:
    """Drawn at random at every start: a lost store must never reuse the name of a pilot that may live."""
    return "".join(secrets.choice(_LETTERS) for _ in range(INCARNATION_LETTERS))


def pools_of(settings: Settings, place: Place) -> dict[PoolName, Pool]:
    return {
        PoolName(name): cast("PoolKind", load(DEMAND, table.kind))(
            PoolName(name), kind_settings(table), place
        )
        for name, table in sorted(settings.pools.items())
    }


def backends_of(settings: Settings, place: Place) -> dict[SiteName, Backend]:
    backends: dict[SiteName, Backend] = {}
    for name, table in sorted(settings.sites.items()):
        site = SiteName(name)
        try:
            kind = cast("BackendKind", load(BACKENDS, table.kind))
            backends[site] = kind(site, kind_settings(table), place)
        except (PluginError, ValueError, OSError) as error:
            backends[site] = cast("Backend", Broken(site, f"the backend could not be made: {error}"))
    return backends


def windows_in(settings: Settings, clock: SteadyClock) -> Callable[[], tuple[Window, ...]]:
    """The calendar in steady instants, worked out anew at each look: the wall clock may have been set."""
    rows = windows_of(settings)
    return lambda: tuple(
        Window(site, clock.at_wall(start), clock.at_wall(end), why) for site, start, end, why in rows
    )


def doors_of(
    settings: Settings,
    place: Place,
    clock: SteadyClock,
    pauses: Callable[[], tuple[Pause, ...]],
    *,
    store: Store,
) -> tuple[Doors, Rules, Policy]:
    rules = with_numbers(rules_of(settings))
    place = replace(place, terms=terms_of(settings))
    backends = backends_of(settings, place)
    told = tuple(backend for backend in backends.values() if isinstance(backend, Timetabled))
    calendar = windows_in(settings, clock)
    doors = Doors(
        pools=pools_of(settings, place),
        backends=backends,
        calls=ThreadCalls(),
        clock=clock,
        pauses=pauses,
        windows=lambda: (*calendar(), *(window for backend in told for window in backend.windows())),
        spent=spent_of(store, clock, budgets_of(settings), price_milli=prices_of(settings)),
        read_s_max=float(settings.cycle.deadline),
        act_s_max=float(settings.cycle.deadline),
    )
    return doors, rules, policy_of(rules.policy)


def close_doors(doors: Doors) -> None:
    """What some of them keep open: child processes, watches, connections."""
    for door in (*doors.pools.values(), *doors.backends.values()):
        close = getattr(door, "close", None)
        if close is not None:
            close()


def memory_after(last: Entry | None, now: Instant, *, cycle: int = 0) -> Memory:
    """What this life starts with: the memory of the last one under a new incarnation, or nothing but the
    number of the cycle that the journal counts on from."""
    if last is None:
        return Memory(incarnation(), born_at=now, cycle=cycle)
    kept = resumed(last.memory, last.snapshot, last.plan, last.outcomes, rules=last.rules, now=now)
    return replace(kept, incarnation=incarnation())
