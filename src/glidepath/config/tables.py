"""What all tables of the configuration share: strictness, limits, and the keys set aside for plug-ins.

Tables as `tomllib` gives them come in, frozen models go out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from glidepath.config.fields import Count

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400


class Table(BaseModel):
    """What all tables have in common: no unknown keys, no silent conversions, no later changes."""

    # Validators are built when first used: a command that reads no configuration must not pay for them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


AnyTable = TypeVar("AnyTable", bound=Table)


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


def rebuilt(model: type[AnyTable], values: Mapping[str, Any]) -> AnyTable:
    """A table from values that were checked and taken apart before: numbers, and no longer texts with units.

    Tables within it, alone, in a row or by name, are tables again; what is not there has its default.
    """
    made = {}
    for name, value in values.items():
        field = model.model_fields[name]
        made[name] = _rebuilt(field.annotation, value)
    return model.model_construct(**made)


def _rebuilt(kind: Any, value: Any) -> Any:
    inner = [part for part in (kind, *get_args(kind)) if isinstance(part, type) and issubclass(part, Table)]
    if not inner or value is None or isinstance(value, Table):
        return value
    if isinstance(kind, type):
        return rebuilt(inner[0], value)
    if isinstance(value, (list, tuple)):
        return tuple(rebuilt(inner[0], each) for each in value)
    if get_origin(kind) is Mapping:
        return {key: rebuilt(inner[0], each) for key, each in value.items()}
    return rebuilt(inner[0], value)


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
