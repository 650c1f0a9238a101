"""What the models found wrong, in words for the person who wrote the file.

Validation errors come in, findings (a key path, a message, a hint) go out. It knows no files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from glidepath.config.problems import PROBLEMS_MAX, Loc, did_you_mean
from glidepath.config.tables import Table
from glidepath.core.text import one_line

_MUST_BE = {
    "int_type": "a whole number",
    "string_type": "text",
    "string_unicode": "valid text in UTF-8",
    "bool_type": "`true` or `false`",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "mapping_type": "a table",
    "dataclass_type": "a table",
    "tuple_type": "a list",
    "list_type": "a list",
    "datetime_type": "a date and time with an offset, such as `2030-01-31T08:00:00Z`",
    "timezone_aware": "a date and time with an offset, such as `2030-01-31T08:00:00Z`",
    "too_short": "a list with at least one entry",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a key path; the reader of files adds where that path stands."""

    loc: Loc
    message: str
    hint: str = ""


def findings_of(error: ValidationError, model: type[Table] | None, at: Loc) -> list[Finding]:
    """One finding per error; `at` is where the validated table stands in the whole configuration."""
    found: list[Finding] = []
    for each in error.errors(include_url=False):
        loc = tuple(part for part in each["loc"] if part != "[key]")
        hint = ""
        if each["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            message = "unknown key"
            hint = _near_key(model, loc, each) if len(found) < PROBLEMS_MAX else ""
        elif each["type"] == "missing":
            message = "this key is needed"
            hint = _meaning(model, loc)
        else:
            message, hint = _message(each)
        found.append(Finding((*at, *loc), message, hint))
    return found


def _message(error: Any) -> tuple[str, str]:
    context = error.get("ctx", {})
    match error["type"]:
        case "value_error":
            return one_line(str(context["error"])), ""
        case "greater_than_equal":
            return f"must be {context['ge']} or more, not {_shown(error['input'])}", ""
        case "less_than_equal":
            return f"must be {context['le']} or less, not {_shown(error['input'])}", ""
        case "literal_error":
            known = [word.strip("'") for word in context["expected"].replace(" or ", ", ").split(", ")]
            listed = " or ".join(f"`{word}`" for word in known)
            return f"must be {listed}, not {_shown(error['input'])}", did_you_mean(str(error["input"]), known)
        case kind if kind in _MUST_BE:
            return f"must be {_MUST_BE[kind]}, not {_shown(error['input'])}", ""
        case _:
            return one_line(error["msg"]), ""


def _shown(value: object) -> str:
    """What was written, in words that fit on a line."""
    match value:
        case dict():
            return "a table"
        case list() | tuple():
            return "an empty list" if not value else "a list"
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'the text `"{one_line(value[:40])}"`'
        case dt.datetime() | dt.date() | dt.time():
            return f"`{value.isoformat()}`"
        case int():
            return f"`{value}`" if abs(value) < 10**18 else "a number that long"
        case _:
            return f"`{one_line(str(value)[:40])}`"


def table_at(model: object, loc: Loc) -> type[Table] | None:
    """The model of the table at the path, through maps, lists and optional tables."""
    here = model
    for part in loc:
        if isinstance(here, type) and issubclass(here, Table):
            field = here.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            inner = [arg for arg in get_args(here) if arg is not Ellipsis]
            here = inner[-1] if inner else None
        here = next((arg for arg in get_args(here) if _is_table(arg) and type(None) in get_args(here)), here)
    return here if isinstance(here, type) and issubclass(here, Table) else None


def _is_table(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def keys_of(model: type[Table]) -> list[str]:
    """The keys one may write in the table: the fields, without those set aside for plug-ins."""
    return [name for name in model.model_fields if name not in ("own", "numbers")]


def _near_key(model: type[Table] | None, loc: Loc, error: Any) -> str:
    table = table_at(model, loc[:-1]) if model else None
    key = str(loc[-1])
    if table is None:
        return ""
    keys = keys_of(table)
    # Many expect a limit beside the name of the site; tell them the table it stands in.
    for name in keys:
        inner = table_at(table, (name,))
        if inner is not None and key in inner.model_fields:
            return f"did you mean `{name}.{key}`?"
    if isinstance(error["input"], Mapping) and "own" in table.model_fields:
        return did_you_mean(key, keys) or "a sub-table of its own must be named like the `kind`"
    return did_you_mean(key, keys)


def _meaning(model: type[Table] | None, loc: Loc) -> str:
    table = table_at(model, loc[:-1]) if model else None
    field = table.model_fields.get(str(loc[-1])) if table else None
    text = (field.description or "") if field else ""
    first = text.split(". ")[0].rstrip(".")
    return first if first[:2].isupper() else first[:1].lower() + first[1:]
