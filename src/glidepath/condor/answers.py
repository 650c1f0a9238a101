"""The child's side of the wire for demand: tables become questions, readings become tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glidepath.condor.reading import Question, Reading
from glidepath.condor.wire import offer_of

# Owners that are named per row; the core keeps fewer.
OWNERS_MAX = 50


def question_of(table: Mapping[str, Any]) -> Question:
    offers = [offer_of(row) for row in table["offers"]]
    return Question(
        offers=tuple(offer for offer, _ in offers),
        terms={offer.key: terms for offer, terms in offers if terms is not None},
        route=table["route"],
        run_names=tuple(table["run_names"]),
        digest=table["digest"],
        full_every_s=float(table["full_every_s"]),
        poisoned=tuple(table.get("poisoned", ())),
    )


def reading_table(reading: Reading) -> dict[str, Any]:
    tally = reading.tally
    rows = []
    for key, row in tally.rows.items():
        if not row.idle and not row.running:
            continue
        owners = sorted(row.owners.items(), key=lambda item: (-item[1], item[0]))
        rows.append(
            {
                "request": key.request.as_tuple(),
                "traits": key.traits,
                "run_s": key.run_s,
                "fits": key.fits,
                "idle": row.idle,
                "running": row.running,
                "owners": [(owner, idle) for owner, idle in owners[:OWNERS_MAX] if idle],
                "age_s": reading.ages_s.get(row.first) if row.first is not None else None,
            }
        )
    return {
        "rows": rows,
        "held": sum(tally.held.values()),
        "aside": tally.aside,
        "aside_jobs": tally.aside_jobs,
        "full": reading.full,
        "exact": reading.exact,
        "age_s": reading.age_s,
        "cost_s": reading.cost_s,
        "full_cost_s": reading.full_cost_s,
    }
