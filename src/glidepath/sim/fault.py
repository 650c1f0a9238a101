"""Faults: what can go wrong, each in a small file of `faults/`, and how several of them go wrong together.

A fault wraps what passes through a door, or does something to the world between two cycles. It draws from a
source of chance of its own, so that adding one does not change what the others do. It can be told to stop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol

from glidepath.core.cycle import Outcome
from glidepath.core.text import nearest, one_line
from glidepath.sim.thing import SimPilot
from glidepath.sim.world import World

# From the site outwards to the controller: what is named later wraps what is named earlier, so that an act
# that a proxy repeats does not kill the controller twice.
NAMES = (
    "quota-cuts",
    "duplicate-effects",
    "late-effects",
    "lost-replies",
    "stale-lists",
    "partial-pages",
    "collector-emptied",
    "schedd-silence",
    "blind-reads",
    "slow-starts",
    "failing-starts",
    "black-hole-nodes",
    "black-hole-users",
    "evictions",
    "clock-jumps",
    "store-full",
    "leader-paused",
    "crashes",
)
# A rate is given in thousandths: of reads, of acts, of starts or of cycles, as each fault says.
RATE_MAX = 1000
# Whatever happens on the way, an act takes effect within this or not at all, as a site's own time-outs are:
# well under the time in which a pilot that was asked for must appear.
EFFECT_S_MAX = 120

Wrap = Callable[[str, Callable[[], Any]], Any]


class Crash(BaseException):
    """The controller dies here and now. Not an Exception: nothing of ours may catch it by accident."""


class Act(NamedTuple):
    """One act on its way to a site, however long somebody sleeps over it."""

    verb: str  # with the site, such as `submit west`
    begun_at: int

    def within(self, s: int, *, now: int) -> int:
        """The seconds from now that are left of so many, counted from its beginning; one at least."""
        return max(1, self.begun_at + s - now)


class Stage(Protocol):
    """What a fault may do to the controller itself."""

    world: World

    def supplant(self) -> bool:
        """Another leader takes over and works while this one sleeps; false when one sleeps already."""
        ...

    def reboot(self, wall_error_s: int) -> None:
        """From the next life on the machine has another boot and its wall clock is wrong by so much."""
        ...

    def set_wall(self, error_s: int) -> None: ...


class Fault:
    """Nothing goes wrong. Each real fault overrides what it needs."""

    name: ClassVar[str]
    every: ClassVar[str]  # what the rate is of
    about: ClassVar[str]  # one line for people

    def __init__(self, stage: Stage, draw: random.Random, rate: int) -> None:
        self.stage = stage
        self.draw = draw
        self.rate = rate
        self.count = 0
        self.on = True

    def hits(self) -> bool:
        """Whether it strikes this time; counted, so that a run can show how often each did."""
        if self.on and self.draw.randrange(RATE_MAX) < self.rate:
            self.count += 1
            return True
        return False

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        return go()

    def act(self, act: Act, go: Callable[[], Outcome]) -> Outcome:
        return go()

    def record(self, moment: str, go: Callable[[], None]) -> None:
        go()

    def step(self) -> None:
        """Between two cycles."""

    def start(self, pilot: SimPilot) -> None:
        """A pilot starts; the last word on how."""

    def stop(self) -> None:
        """No more of it; what it did to the world is mended."""
        self.on = False


class Faults:
    """All faults of a run, one inside the other."""

    def __init__(self, stage: Stage, seed: int, rates: Mapping[str, int]) -> None:
        ordered = sorted(rates.items(), key=lambda row: NAMES.index(row[0]) if row[0] in NAMES else -1)
        self.stage = stage
        self.all = tuple(
            kind_of(name)(stage, random.Random(f"{name} {seed}"), rate) for name, rate in ordered
        )
        self._reads = _overriding(self.all, "read")
        self._acts = _overriding(self.all, "act")
        self._records = _overriding(self.all, "record")
        self._starts = _overriding(self.all, "start")
        self._steps = _overriding(self.all, "step")

    @property
    def counts(self) -> dict[str, int]:
        return {fault.name: fault.count for fault in self.all}

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        for fault in self._reads:
            go = partial(fault.read, door, go)
        return go()

    def act(self, verb: str, go: Callable[[], Outcome]) -> Outcome:
        act = Act(verb, self.stage.world.now)
        for fault in self._acts:
            go = partial(fault.act, act, go)
        return go()

    def record(self, moment: str, go: Callable[[], None]) -> None:
        for fault in self._records:
            go = partial(fault.record, moment, go)
        go()

    def start(self, pilot: SimPilot) -> None:
        for fault in self._starts:
            fault.start(pilot)

    def step(self) -> None:
        for fault in self._steps:
            fault.step()

    def stop(self) -> None:
        for fault in self.all:
            fault.stop()


def _overriding(faults: Iterable[Fault], hook: str) -> tuple[Fault, ...]:
    return tuple(fault for fault in faults if getattr(type(fault), hook) is not getattr(Fault, hook))


def kind_of(name: str) -> type[Fault]:
    """The fault of that name. Raises ValueError that suggests the nearest one."""
    if name not in NAMES:
        near = nearest(name, NAMES)
        hint = f"did you mean `{near}`?" if near else f"there are: {', '.join(NAMES)}"
        raise ValueError(f"there is no fault `{one_line(name)}`; {hint}")
    module = import_module(f"glidepath.sim.faults.{name.replace('-', '_')}")
    kind: type[Fault] = module.fault
    return kind
