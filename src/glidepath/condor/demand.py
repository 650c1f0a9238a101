"""A child's answer about one schedd as the core's values: tables come in, demand and sentences go out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glidepath.core.provision.demand import Demand, SetAside, most_first
from glidepath.core.provision.offer import Offer, kind_for
from glidepath.core.quantity import Instant, OfferKey, Owner, PoolName, Resources, Shape
from glidepath.core.units import shown_duration

# A variant stands in the name of its group, on one line with the shape.
VARIANT_LETTERS_MAX = 60
DIGEST_LETTERS = 8
NOTHING_FITS = "fits nothing"


@dataclass(frozen=True, slots=True)
class Heard:
    """What is kept of a schedd's last answer, for people."""

    at_s: float
    full: bool
    exact: bool
    base_age_s: float
    cost_s: float
    full_cost_s: float
    idle: int
    running: int
    held: int
    aside_jobs: int
    aside: tuple[tuple[str, str], ...]

    def sentence(self, now_s: float) -> str:
        base_s = int(self.base_age_s + now_s - self.at_s)
        parts = [f"{self.idle} idle, {self.running} running, {self.held} held"]
        if self.aside_jobs:
            parts.append(f"{self.aside_jobs} set aside")
        parts.append(f"full read {shown_duration(base_s)} ago took {self.full_cost_s:.2f} s")
        if not self.exact:
            parts.append("changes since do not add up, so counts may be off until the next one")
        return "; ".join(parts)


def heard_of(answer: Mapping[str, Any], at_s: float) -> Heard:
    return Heard(
        at_s=at_s,
        full=answer["full"],
        exact=answer["exact"],
        base_age_s=answer["age_s"],
        cost_s=answer["cost_s"],
        full_cost_s=answer["full_cost_s"],
        idle=sum(row["idle"] for row in answer["rows"]),
        running=sum(row["running"] for row in answer["rows"]),
        held=answer["held"],
        aside_jobs=answer["aside_jobs"],
        aside=tuple((job, why) for job, why in answer["aside"]),
    )


def demands_of(
    pool: PoolName, rows: Iterable[Mapping[str, Any]], offers: Sequence[Offer], *, now: Instant
) -> tuple[Demand, ...]:
    """One demand per row, in a fixed order."""
    found = [_demand(pool, row, offers, now) for row in rows]
    return tuple(sorted(found, key=lambda each: (each.shape, each.run_s_max or 0, each.variant)))


def _demand(pool: PoolName, row: Mapping[str, Any], offers: Sequence[Offer], now: Instant) -> Demand:
    shape = Shape(Resources(*row["request"]), tuple((key, value) for key, value in row["traits"]))
    fits = tuple(OfferKey(key) for key in row["fits"])
    age_s = row["age_s"]
    return Demand(
        pool=pool,
        shape=shape,
        idle=row["idle"],
        running=row["running"],
        oldest_at=Instant(now - age_s) if row["idle"] and age_s is not None else None,
        owners=most_first({Owner(owner): idle for owner, idle in row["owners"]}),
        run_s_max=row["run_s"],
        fits=fits,
        variant=variant_of(shape, fits, offers),
    )


def variant_of(shape: Shape, fits: tuple[OfferKey, ...], offers: Sequence[Offer]) -> str:
    """Tells groups of one shape apart that fit different offers; empty where the size alone decides."""
    if fits == tuple(sorted(offer.key for offer in offers if kind_for(offer, shape))):
        return ""
    text = ",".join(fits) or NOTHING_FITS
    if len(text) <= VARIANT_LETTERS_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]
    return f"{text[: VARIANT_LETTERS_MAX - DIGEST_LETTERS - 1]}#{digest}"


def set_aside_of(answer: Mapping[str, Any]) -> tuple[SetAside, ...]:
    """The jobs that were set aside by name, and one line for those that are only counted."""
    named = tuple(SetAside(job, why) for job, why in answer["aside"])
    # A named row may stand for several jobs, so the rest is told as the whole.
    if answer["aside_jobs"] > len(named):
        return (*named, SetAside(f"{answer['aside_jobs']} in all", "jobs that cannot be counted"))
    return named
