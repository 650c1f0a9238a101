"""What `glidepath up` has to show, and what can show it: frames go out, a view draws them as it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import PilotAction

if TYPE_CHECKING:
    from glidepath.store.job import Job


@dataclass(frozen=True)
class Frame:
    """One turn of the loop as people should see it."""

    wall: float
    plan: Plan[PilotAction]
    memory: Memory
    outcomes: tuple[Did, ...]
    jobs: Sequence[Job]
    counts: Mapping[str, int]
    trouble: str = ""


class View(Protocol):
    def show(self, frame: Frame) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...
