"""One job explained: the answer of a child comes in, the story that whoever asked is told goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glidepath.core.quantity import OfferKey, Resources
from glidepath.story import FailedTerm, JobStory, OfferStory


def story_of(table: Mapping[str, Any]) -> JobStory:
    """From a child's answer."""
    request = table["request"]
    offers = tuple(
        OfferStory(
            offer=OfferKey(row["offer"]),
            fits=row["fits"],
            failed=tuple(FailedTerm(*term) for term in row["failed"]),
            note=row["note"],
        )
        for row in table["offers"]
    )
    plain = {name: table[name] for name in ("job", "schedd", "owner", "state", "age_s", "run_s_max")}
    return JobStory(
        **plain,
        request=Resources(*request) if request is not None else None,
        hold_reason=table["hold_reason"],
        set_aside=table["set_aside"],
        offers=offers,
    )
