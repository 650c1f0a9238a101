"""The kinds of values that a wish for a job has: text of anybody comes in, checked numbers and pairs go out.

Each kind knows how the document of the API shows it and how it is written again. What a value may be is
checked by the rules of the store, so that there is one rule and one sentence for each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from glidepath.config import fields
from glidepath.core.text import known_word, one_line
from glidepath.core.units import CPU_MILLI_MAX, duration_s, shown_cpus
from glidepath.store import job as jobs
from glidepath.store import placed_spec as places

# The time of a job that is to run without a limit.
ENDLESS = -1
JOB_MAX = 2**63 - 1
GPU_KINDS_MAX = 32
PARTITION_CHARS_MAX = 63
OCTAL = re.compile("0?[0-7]{3}")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
WHEN_FORMS = "`2030-01-31T08:00:00Z`, or `+2h` from now"

_SPAN = r"(?:[0-9]{1,9}[smhdw])+|(?:(?:[0-9]{1,5}-)?[0-9]{1,5}:[0-5][0-9]:[0-5][0-9])"
_SIZE = r"0|[0-9]{1,15}(?:\.[0-9]{1,6})? ?(?:B|[KMGTP]i?B|[KMGTP]i)"


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^(?:{pattern})$"}


def _whole(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _shown(*schemas: dict[str, Any]) -> WithJsonSchema:
    """What the document of the API says of a value: one of these forms."""
    return WithJsonSchema(schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)})


def _short(value: int) -> int:
    """Before anything prints it: a number of thousands of digits cannot be."""
    if abs(value) > fields.LONG_MAX:
        raise ValueError("a number that long is not taken")
    return value


def _amount(value: object) -> object:
    """None of anything is the same in all units, so that a bare zero needs none."""
    return "0MiB" if value == "0" or (type(value) is int and value == 0) else value


def _limit(value: object) -> int:
    if isinstance(value, str):
        return ENDLESS if value == "none" else duration_s(value)
    raise ValueError("must be text with a unit such as `2h`, or `none` for no limit")


def _known(words: tuple[str, ...], value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be one of {', '.join(f'`{word}`' for word in words)}")
    return known_word(value, words)


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    """A table, or `KEY=VALUE` alone or in a list."""
    if isinstance(value, Mapping):
        return tuple((_plain(key), _plain(each)) for key, each in value.items())
    found = []
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(each, tuple) and len(each) == 2:
            found.append((_plain(each[0]), _plain(each[1])))
            continue
        key, equals, rest = _plain(each).partition("=")
        if not equals:
            raise ValueError(f"`{one_line(key)}` is not `KEY=VALUE`")
        found.append((key, rest))
    return tuple(found)


def _plain(value: object) -> str:
    """Text; a number is taken as it is written, as on a command line."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(_short(value) if isinstance(value, int) else value)
    raise ValueError("is not a text or a number")


def _listed(value: object) -> object:
    return value if isinstance(value, (list, tuple)) else (value,)


def _words(value: object) -> object:
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise ValueError("is not a list of texts")
    return tuple(value)


def _flag(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("is `true` or `false`")
    return value


def wall_of(text: str, *, wall: float) -> float:
    """`+2h`, or a date and time with its offset, on the clock of people."""
    try:
        if text.startswith("+"):
            return wall + duration_s(text[1:])
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"`{one_line(text)}` is no time; write {WHEN_FORMS}")


def day_or_wall_of(text: str, *, wall: float) -> float:
    """The same, or a day in UTC."""
    if not DAY.fullmatch(text):
        return wall_of(text, wall=wall)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ValueError(f"`{text}` is no day of any calendar; write one such as `2030-01-31`") from None


def _when(value: object) -> str:
    # TOML and YAML have dates of their own.
    text = value.isoformat() if isinstance(value, datetime) else value
    if not isinstance(text, str):
        raise ValueError(f"is no time; write {WHEN_FORMS}")
    wall_of(text, wall=0.0)
    return text


def _mode(value: object) -> object:
    """A number, or its three octal digits as `chmod` takes them: JSON has no octal numbers."""
    if isinstance(value, str):
        if not OCTAL.fullmatch(value):
            raise ValueError("is three octal digits such as `755`")
        return int(value, 8)
    return value


def _pairs_written(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(pairs)


_PORT = _whole(1, places.PORT_MAX)
_PAIR = {"type": "string", "pattern": "="}
_VALUES = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}

Whole = Annotated[int, AfterValidator(_short)]
Cpus = Annotated[
    fields.Cpus,
    BeforeValidator(lambda value: _short(value) if type(value) is int else value),
    AfterValidator(partial(jobs.checked_amount, "cpu_milli")),
    PlainSerializer(shown_cpus),
    _shown(
        {"type": "number", "minimum": 0.001, "maximum": CPU_MILLI_MAX // 1000},
        _text(r"[0-9]{1,9}(?:\.[0-9]{1,3})?|[0-9]{1,12}m"),
    ),
]
Size = Annotated[
    fields.Size,
    BeforeValidator(_amount),
    PlainSerializer(fields.exact_size),
    _shown(_text(_SIZE), _whole(0, 0)),
]
Span = Annotated[fields.Duration, PlainSerializer(fields.exact_duration), _shown(_text(_SPAN))]
Pairs = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_pairs),
    PlainSerializer(_pairs_written),
    _shown(_VALUES, _PAIR, {"type": "array", "items": _PAIR}),
]
Flag = Annotated[bool, BeforeValidator(_flag)]
When = Annotated[
    str, BeforeValidator(_when), _shown({"type": "string", "examples": ["2030-01-31T08:00:00Z", "+2h"]})
]
Mode = Annotated[
    Whole,
    BeforeValidator(_mode),
    _shown(_whole(0, places.MODE_MAX), _text("0?[0-7]{3}")),
]
Command = Annotated[
    tuple[str, ...],
    Field(strict=False, json_schema_extra={"minItems": 1}),
    BeforeValidator(_words),
    AfterValidator(jobs.checked_command),
]
Limit = Annotated[
    int,
    BeforeValidator(_limit),
    AfterValidator(lambda span: span if span == ENDLESS else jobs.checked_limit(span)),
    PlainSerializer(lambda span: "none" if span == ENDLESS else fields.exact_duration(span)),
    _shown(_text(f"none|{_SPAN}")),
]
Ports = Annotated[
    tuple[Whole, ...],
    Field(strict=False),
    BeforeValidator(_listed),
    AfterValidator(places.checked_ports),
    _shown({"type": "array", "items": _PORT}, _PORT),
]
GpuKinds = Annotated[
    tuple[Annotated[str, AfterValidator(partial(places.checked_word, "kind of GPU"))], ...],
    Field(strict=False, max_length=GPU_KINDS_MAX),
    BeforeValidator(_listed),
    _shown({"type": "array", "items": {"type": "string"}}, {"type": "string"}),
]
Gpus = Annotated[
    Whole, AfterValidator(partial(jobs.checked_amount, "gpus")), _shown(_whole(0, jobs.GPUS_MAX))
]
Retries = Annotated[Whole, AfterValidator(jobs.checked_retries), _shown(_whole(0, jobs.RETRIES_MAX))]
Ranks = Annotated[
    Whole, AfterValidator(partial(places.checked_bound, "nodes")), _shown(_whole(1, places.NODES_MAX))
]
GpuShare = Annotated[
    Whole,
    AfterValidator(partial(places.checked_bound, "gpu_milli")),
    _shown(_whole(0, places.DEVICE_MILLI - 1)),
]
Neighbour = Annotated[Whole, AfterValidator(places.checked_number_of), _shown(_whole(1, JOB_MAX))]
Shm = Annotated[Size, AfterValidator(partial(places.checked_bound, "shm_mib"))]
Notice = Annotated[Span, AfterValidator(partial(places.checked_bound, "notice_s"))]
Gather = Annotated[Span, AfterValidator(partial(places.checked_bound, "gather_s"))]
Traits = Annotated[Pairs, AfterValidator(lambda pairs: jobs.checked_traits(tuple(sorted(pairs))))]
Env = Annotated[Pairs, AfterValidator(jobs.checked_env)]
Name = Annotated[
    str,
    AfterValidator(partial(jobs.checked_text, "name", chars_max=jobs.NAME_CHARS_MAX, empty=True)),
    Field(json_schema_extra={"maxLength": jobs.NAME_CHARS_MAX}),
]
PartitionWord = Annotated[
    str, AfterValidator(partial(jobs.checked_text, "partition", chars_max=PARTITION_CHARS_MAX))
]
Image = Annotated[str, AfterValidator(places.checked_image)]
Folder = Annotated[
    str,
    AfterValidator(lambda path: path and places.checked_path("working directory", path, absolute=True)),
]
Runtime = Annotated[str, AfterValidator(partial(places.checked_word, "runtime"))]
Payer = Annotated[str, AfterValidator(partial(places.checked_payer, "project"))]
QueueWord = Annotated[
    Literal["interactive", "batch"], BeforeValidator(partial(_known, ("interactive", "batch")))
]
LossWord = Annotated[
    Literal["end", "requeue", "go-on"], BeforeValidator(partial(_known, ("end", "requeue", "go-on")))
]
