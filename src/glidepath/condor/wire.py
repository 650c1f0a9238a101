"""Questions and answers between us and our children, as JSON: values come in, plain tables go out, and back.

Both sides are ours; what a child passes on of strangers' words has been checked in the child.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import OfferKey, Resources, SiteName, Traits
from glidepath.terms import OfferTerms

Table = dict[str, Any]


def offer_table(offer: Offer, terms: OfferTerms | None) -> Table:
    return {
        "site": offer.site,
        "name": offer.name,
        "size": offer.size.as_tuple(),
        "size_min": offer.size_min.as_tuple() if offer.size_min is not None else None,
        "step": offer.step.as_tuple(),
        "traits": offer.traits,
        "choices": offer.choices,
        "lifetime_s": offer.lifetime_s,
        "terms": asdict(terms) if terms is not None else None,
    }


def offer_of(table: Mapping[str, Any]) -> tuple[Offer, OfferTerms | None]:
    size_min = table["size_min"]
    offer = Offer(
        site=SiteName(table["site"]),
        name=table["name"],
        size=Resources(*table["size"]),
        size_min=Resources(*size_min) if size_min is not None else None,
        step=Resources(*table["step"]),
        traits=pairs(table["traits"]),
        choices=tuple((name, tuple(values)) for name, values in table["choices"]),
        lifetime_s=table["lifetime_s"],
    )
    return offer, terms_of(table["terms"]) if table["terms"] is not None else None


def terms_of(table: Mapping[str, Any]) -> OfferTerms:
    kept = {name: value for name, value in table.items() if name in ("community", "init", "jobs")}
    lists = ("owners", "owners_refused", "groups", "groups_refused", "start", "lines")
    kept |= {name: tuple(table[name]) for name in lists}
    return OfferTerms(**kept, attributes=pairs(table["attributes"]))


def pairs(rows: Sequence[Sequence[str]]) -> Traits:
    return tuple((row[0], row[1]) for row in rows)


def question_table(
    offers: Sequence[Offer],
    terms: Mapping[OfferKey, OfferTerms],
    *,
    route: str,
    run_names: Sequence[str],
    full_every_s: float,
) -> Table:
    """What a schedd's child is asked with each read; `digest` changes with all that answers depend on."""
    table: Table = {
        "offers": [offer_table(offer, terms.get(offer.key)) for offer in sorted(offers, key=lambda o: o.key)],
        "route": route,
        "run_names": list(run_names),
    }
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    return {**table, "full_every_s": full_every_s, "digest": digest}
