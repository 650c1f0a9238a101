"""One cycle, for every controller: observe, look, decide, check, record, act, record, remember.

The provisioner, the scheduler, the simulator, shadow mode and what-if all run this same function; only the
doors differ. The plan is in the journal before anything is done; a plan that breaks an invariant is not done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from glidepath.core.cycle import Did, Plan

S = TypeVar("S")
M = TypeVar("M")
P = TypeVar("P")
A = TypeVar("A")
S_in = TypeVar("S_in", contravariant=True)
M_in = TypeVar("M_in", contravariant=True)


class Controller(Protocol[S, M, P, A]):
    """What a controller is: two doors, observe and act, and pure functions between them."""

    def observe(self, memory: M) -> S: ...

    def look(self, snapshot: S, memory: M) -> P: ...

    def decide(self, picture: P) -> Plan[A]: ...

    def check(self, picture: P, plan: Plan[A]) -> Plan[A]:
        """The plan, or the same plan with nothing to do and a reason, if it must not be carried out."""
        ...

    def act(self, plan: Plan[A]) -> tuple[Did, ...]: ...

    def remember(self, picture: P, plan: Plan[A], outcomes: Iterable[Did]) -> M: ...


class Recorder(Protocol[S_in, M_in, A]):
    """Where a cycle is written down. `planned` is durable when it returns, or it raises OSError."""

    def planned(self, snapshot: S_in, memory: M_in, plan: Plan[A]) -> None: ...

    def acted(self, plan: Plan[A], outcomes: tuple[Did, ...]) -> None: ...


@dataclass(frozen=True, slots=True)
class Cycle(Generic[S, M, A]):
    """What one turn of the loop saw, decided, did, and will remember."""

    snapshot: S
    plan: Plan[A]
    outcomes: tuple[Did, ...]
    memory: M
    unrecorded: str = ""  # why the journal could not be written; nothing was done then


def run_cycle(controller: Controller[S, M, P, A], recorder: Recorder[S, M, A], memory: M) -> Cycle[S, M, A]:
    snapshot = controller.observe(memory)
    picture = controller.look(snapshot, memory)
    plan = controller.check(picture, controller.decide(picture))
    try:
        recorder.planned(snapshot, memory, plan)  # Before acting: a crash must not lose the why.
    except OSError as error:
        # Nothing is done that could not be written down; the next cycle looks again.
        return Cycle(snapshot, plan, (), memory, str(error) or type(error).__name__)
    outcomes = controller.act(plan)
    lost = ""
    try:
        recorder.acted(plan, outcomes)
    except OSError as error:
        lost = str(error) or type(error).__name__
    return Cycle(snapshot, plan, outcomes, controller.remember(picture, plan, outcomes), lost)
