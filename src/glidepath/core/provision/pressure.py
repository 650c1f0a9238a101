"""Pressure: how many pilots should be waiting for one shape. The seam for policies.

A policy sees one shape's need in pilots' worth and answers with a number and the rule behind it, in words.
It is asked once per shape; what it wants is then shared out among the sites, never counted twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Need:
    """What a policy may know of one shape."""

    idle: int  # pilots' worth of waiting jobs that no free slot takes
    coming: int  # pilots' worth of them that pilots on their way will take
    idle_jobs: int
    running_jobs: int
    oldest_s: int  # how long the oldest has waited
    latency_s: int  # how long a pilot takes to join at the likeliest offer; 0 where unknown


@dataclass(frozen=True, slots=True)
class Pressure:
    """So many pilots should be waiting, because of this rule."""

    waiting: int
    rule: str


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def release_s(self) -> int | None:
        """Surplus pilots are drained when idle this long; None leaves it to their own idle limit."""
        ...

    def pressure(self, need: Need) -> Pressure: ...


class PolicyKind(Protocol):
    """What the entry point group `glidepath.policies` holds. NUMBERS names what it takes, with defaults."""

    NUMBERS: Mapping[str, int]

    def __call__(self, numbers: Mapping[str, int]) -> Policy: ...
