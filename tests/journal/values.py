"""Random core values for properties, made from the type hints that the codec reads, and small builders."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from functools import lru_cache
from typing import Any, NewType, Union, get_args, get_origin

from hypothesis import strategies as st

from glidepath.clock import Moment
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Plan, Reason, Seen, Unseen
from glidepath.core.provision.demand import Demand, DemandSight, SetAside
from glidepath.core.provision.memory import Health, Held, Memory
from glidepath.core.provision.offer import Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.pilot import (
    Clear,
    Ended,
    PilotAction,
    PilotPhase,
    SitePilot,
    SiteState,
    Slot,
    Track,
    WriteOff,
)
from glidepath.core.provision.sight import Pause, PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, Resources, Shape
from glidepath.journal.codec import field_hints
from glidepath.journal.words import record_ended
from glidepath.store.engine import Store

# Any character at all: half ones, zero bytes, line breaks and those that turn the writing direction.
HOSTILE = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    ["", "\0", "\n\r\t", "\u202eevil", "\ud83d\ude00", "😀", "'; DROP TABLE cycles; --", "x" * 300, '"\\']
)
WHOLE = st.integers(-(2**62), 2**62)
RESOURCES = st.builds(Resources, *([st.integers(0, 2**50)] * 4))
TRAITS = st.dictionaries(HOSTILE, HOSTILE, max_size=2).map(lambda traits: tuple(sorted(traits.items())))


@lru_cache(maxsize=512)
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of the type."""
    origin, args = get_origin(hint), get_args(hint)
    special = {int: WHOLE, str: HOSTILE, bool: st.booleans(), type(None): st.none(), Resources: RESOURCES}
    if hint in special:
        return special[hint]
    if hint is Shape:
        return st.builds(Shape, RESOURCES, TRAITS)
    if hint is Clear:
        pairs = st.lists(st.tuples(values(Ended), HOSTILE), max_size=2)
        return st.builds(
            lambda site, rows: Clear(site, tuple(e for e, _ in rows), tuple(h for _, h in rows)),
            HOSTILE,
            pairs,
        )
    if isinstance(hint, NewType):
        return values(hint.__supertype__)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, args))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    assert dataclasses.is_dataclass(origin or hint), hint
    return st.builds(origin or hint, *map(values, field_hints(hint).values()))


def some(pool: list[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """A few of the pool in any order, some of them twice: what a hostile listing looks like."""
    return st.lists(st.sampled_from(pool), max_size=5).map(tuple)


def pool_of(hint: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    made = values(hint)
    if fixed:
        made = st.tuples(made, st.fixed_dictionaries(fixed)).map(
            lambda two: dataclasses.replace(two[0], **two[1])
        )
    return st.lists(made, min_size=1, max_size=5)


@st.composite
def histories(draw: st.DrawFn, cycles_max: int = 6) -> list[tuple[Snapshot, Memory, Plan[PilotAction]]]:
    """Cycles after one another, in which things come, change, move, vanish from sight and go."""
    names = st.sampled_from(["a", "b", "c"])
    pools = {
        hint: draw(pool_of(hint, **{key: names}))
        for hint, key in [(SitePilot, "name"), (Slot, "pilot"), (Track, "name"), (Health, "about")]
    }
    pools[Demand] = draw(pool_of(Demand, shape=st.sampled_from([Shape(Resources(n)) for n in (1, 2)])))
    pools[Decision] = draw(pool_of(Decision[PilotAction], about=names))
    sights = {
        DemandSight: st.builds(DemandSight, some(pools[Demand]), st.booleans(), values(tuple[SetAside, ...])),
        PoolSlots: st.builds(PoolSlots, some(pools[Slot]), st.booleans()),
        SiteListing: st.builds(SiteListing, some(pools[SitePilot]), st.booleans()),
    }
    times = st.integers(0, 10**9).map(Instant)

    def seen(kind: Any) -> st.SearchStrategy[Any]:
        return st.builds(Seen, times, sights[kind]) | st.builds(Unseen, times, HOSTILE)

    def listed(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(*parts), max_size=3).map(tuple)

    snapshots = st.builds(
        Snapshot,
        times,
        listed(names, names, seen(DemandSight)),
        listed(names, seen(PoolSlots)),
        listed(names, seen(SiteListing)),
        pauses=values(tuple[Pause, ...]),
    )
    held = st.lists(st.builds(Held, names, names, times, some(pools[Demand])), max_size=3).map(tuple)
    count = draw(st.integers(1, cycles_max))
    history: list[tuple[Snapshot, Memory, Plan[PilotAction]]] = []
    for number in range(1, count + 1):
        snapshot = draw(snapshots)
        memory = draw(values(Memory))
        before = history[-1][0].demand if history else ()
        remembered = tuple(Held(p, s, g.at, g.value.demands) for p, s, g in before if isinstance(g, Seen))
        kept = draw(st.sampled_from([remembered, draw(held)]))
        tracks, health = draw(some(pools[Track])), draw(some(pools[Health]))
        memory = dataclasses.replace(memory, tracks=tracks, health=health, held=kept)
        plan = dataclasses.replace(
            draw(values(Plan[PilotAction])), cycle=number, decisions=draw(some(pools[Decision]))
        )
        history.append((snapshot, memory, plan))
    return history


SMALL = Resources(1000, 1024)
RULES = Rules(
    (PoolRules("main"),), (SiteRules("west", (Offer("west", "big", SMALL), Offer("west", "small", SMALL))),)
)


def a_moment(number: int = 1, *, wall_s: float | None = None, boot_id: str = "boot") -> Moment:
    return Moment(
        1_000_000.0 + 10 * number if wall_s is None else wall_s, Instant(10 * number), boot_id, 10.0 * number
    )


def a_pilot(name: str, **changes: Any) -> SitePilot:
    fields = {"state": SiteState.RUNNING, "since": 1, "asked_at": 0, **changes}
    return SitePilot(name, "west/big", "main", SMALL, **fields)


def a_track(name: str, phase: PilotPhase = PilotPhase.BUSY) -> Track:
    return Track(name, "west", "west/big", "main", SMALL, phase, Instant(1), Instant(0))


def a_snapshot(number: int, *pilots: SitePilot, idle: int = 0) -> Snapshot:
    now = Instant(10 * number)
    demand = Demand("main", Shape(SMALL), idle, running=1, oldest_at=Instant(0))
    return Snapshot(
        now,
        (("main", "queue", Seen(now, DemandSight((demand,)))),),
        (("main", Seen(now, PoolSlots(tuple(Slot(p.name, SMALL, 1) for p in pilots)))),),
        (("west", Seen(now, SiteListing(pilots))),),
    )


def a_memory(number: int, *tracks: Track) -> Memory:
    return Memory("incarnation", Instant(0), number - 1, tracks=tracks)


def a_plan(number: int, *decisions: Decision[Any]) -> Plan[Any]:
    return Plan(number, Instant(10 * number), decisions, wake_after_s=10)


def an_end(name: str, site: str = "west", **changes: Any) -> Ended:
    spans = {"pending_s": 1, "starting_s": 2, "busy_s": 3, "idle_s": 4, "failed_s": 0, "jobs_run": 5}
    fields = {"asked_at": Instant(0), "ended_at": Instant(15), "why": "left by itself", **spans, **changes}
    return Ended(name, site, f"{site}/big", "main", "alice", PilotPhase.DONE, **fields)


def written_off(store: Store, *ends: Ended) -> None:
    """Pilots that are over, as a cycle writes them down."""
    reason = Reason(Because.ENDED)
    decisions = tuple(Decision(f"site:{end.site}", reason, WriteOff(end.site, (end,))) for end in ends)
    with store.write() as connection:
        record_ended(connection, a_moment(1), Plan(1, Instant(0), decisions, 1), ())
