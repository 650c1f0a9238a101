"""What all tables of the configuration share: strictness, limits, and the keys set aside for plug-ins.

Tables as `tomllib` gives them come in, frozen models go out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from glidepath.config.fields import Count

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


class Table(BaseModel):
    """What all tables have in common: no unknown keys, no silent conversions, no later changes."""

    # Validators are built when first used: a command that reads no configuration must not pay for them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Own(dict[str, object]):
    """Keys that a model has set aside for a plug-in; a user cannot write one of these in TOML."""


def only_own(value: object) -> dict[str, object]:
    if not isinstance(value, Own):
        raise PydanticCustomError("extra_forbidden", "unknown key")
    return dict(value)


OwnTable = Annotated[Mapping[str, object], BeforeValidator(only_own)]


def with_own(raw: object, known: Mapping[str, object]) -> object:
    """Sets aside the sub-table that is named like the kind; everything else stays where it was."""
    if not isinstance(raw, dict):
        return raw
    kind = raw.get("kind")
    if not isinstance(kind, str) or kind in known or not isinstance(raw.get(kind), dict):
        return raw
    rest = {key: value for key, value in raw.items() if key != kind}
    # A key that is really called `own` stays, and is refused like any other that nobody knows.
    return {"own": Own(raw[kind]), **rest}


class LimitSettings(Table):
    """How many pilots at most; a limit that is not set does not exist."""

    live_max: Count | None = Field(
        default=None,
        description="Pilots that exist at once, pending and unknown ones included. Unset: no limit.",
    )
    pending_max: Count | None = Field(default=None, description="Pilots that wait to start. Unset: no limit.")
    per_cycle_max: Count | None = Field(
        default=None, description="Pilots asked for in one cycle. Unset: no limit."
    )
    per_second_max: Count | None = Field(
        default=None, description="Pilots asked for in one second, averaged over the cycle. Unset: no limit."
    )
