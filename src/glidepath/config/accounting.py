"""The table of accounting: what is charged for, how often it is counted, what becomes of those who spent all.

Prices are for an hour, in credits; whole millionths of a credit go out, as the core counts them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from glidepath.config.fields import Duration, Span, Unit, Word
from glidepath.config.tables import DAY_S, HOUR_S, MINUTE_S, Table
from glidepath.core.account.run import CPU_HOUR, MILLIONTHS, Rates
from glidepath.core.place.accounts import Terms

CREDITS_MAX = 10**6


def _credits(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= CREDITS_MAX:
        raise ValueError(f"must be a number from 0 to {CREDITS_MAX}, such as `0.25`")
    return round(value * MILLIONTHS)


def _written(amount: int) -> str:
    return f"{amount / MILLIONTHS:.6f}".rstrip("0").rstrip(".")


def _written_each(amounts: Mapping[str, int]) -> str:
    pairs = ", ".join(
        f"{json.dumps(kind, ensure_ascii=False)} = {_written(amount)}"
        for kind, amount in sorted(amounts.items())
    )
    return f"{{ {pairs} }}"


Credits = Annotated[int, BeforeValidator(_credits), Unit("number", _written)]


class AccountingSettings(Table):
    """What placed jobs are charged, and what becomes of projects that have nothing left."""

    interval: Span = Field(
        default=MINUTE_S,
        description="How often what runs is counted, and looked at whether it may go on. What a project can "
        "spend beyond what it has is what its jobs take in this time.",
    )
    cpu_hour: Credits = Field(
        default=CPU_HOUR,
        description="What a CPU costs for an hour, in credits. One: then a credit is a CPU hour.",
    )
    memory_hour: Credits = Field(
        default=0,
        description="What a GiB of memory costs for an hour. By default nothing: most jobs ask for memory "
        "in proportion to their CPUs.",
    )
    disk_hour: Credits = Field(
        default=0, description="What a GiB of scratch disk costs for an hour. By default nothing."
    )
    gpu_hour: Credits = Field(
        default=0,
        description="What a GPU costs for an hour, whose kind is not named in `gpu_hours`. By default "
        "nothing, because only whoever bought it knows its worth.",
    )
    gpu_hours: Annotated[Mapping[Word, Credits], Unit("table", _written_each)] = Field(
        default_factory=dict,
        description="What a GPU costs for an hour by its kind, such as `{ a100 = 40, t4 = 4 }`. By default "
        "all cost the same.",
    )
    dry: Literal["stop", "go on"] = Field(
        default="stop",
        description="What becomes of running jobs of a project that has nothing left, after `warning`. Jobs "
        "that wait are not started in either case.",
    )
    warning: Duration = Field(
        default=HOUR_S,
        description="So long before they are stopped jobs of a project that has nothing left are told. An "
        "hour lets a job write down where it is, and people ask for more.",
    )
    fair: bool = Field(
        default=False,
        description="Whether batch jobs of those who used less go first: by project, by its `weight`, and "
        "within one by user. By default all wait in one line, in which short jobs go sooner.",
    )
    half_life: Span = Field(
        default=7 * DAY_S,
        description="After so long what somebody used counts half. A week forgets a busy weekend, and "
        "remembers a busy month.",
    )


def rates_of(accounting: AccountingSettings) -> Rates:
    return Rates(
        cpu=accounting.cpu_hour,
        memory=accounting.memory_hour,
        gpu=accounting.gpu_hour,
        disk=accounting.disk_hour,
        gpu_kinds=dict(accounting.gpu_hours),
    )


def account_terms(accounting: AccountingSettings) -> Terms:
    return Terms(accounting.warning, accounting.dry == "stop", accounting.fair, accounting.half_life)
