"""The models come in, the Markdown reference page of every table and key goes out.

Generated, so that it cannot say something else than the program does; `EXAMPLE` is loaded by a test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from glidepath.config.accounting import AccountingSettings
from glidepath.config.agent import AgentSettings, DowntimeSettings
from glidepath.config.cluster import ClusterSettings, ClusterWindowSettings, PartitionSettings
from glidepath.config.fields import exact_duration
from glidepath.config.notices import NoticesSettings, SmtpSettings
from glidepath.config.oidc import OidcSettings
from glidepath.config.settings import (
    BudgetSettings,
    CycleSettings,
    KeepSettings,
    OwnerSettings,
    PilotSettings,
    PolicySettings,
    PoolSettings,
    ServeSettings,
    StoreSettings,
)
from glidepath.config.shown import unit_of, written
from glidepath.config.site import AmountSettings, CondorSettings, OfferSettings, SiteSettings, WindowSettings
from glidepath.config.tables import LimitSettings, Table
from glidepath.core.text import one_line
from glidepath.core.units import CPU_FORMS, DURATION_FORMS, SIZE_FORMS
from glidepath.plugins import BACKENDS, DEMAND, POLICIES, Catalog, Installed, PluginError

TABLES: tuple[tuple[str, type[Table]], ...] = (
    ("[store]", StoreSettings),
    ("[keep]", KeepSettings),
    ("[accounting]", AccountingSettings),
    ("[cycle]", CycleSettings),
    ("[pilots]", PilotSettings),
    ("[policy]", PolicySettings),
    ("[limits] and every key called limits", LimitSettings),
    ("[pools.NAME]", PoolSettings),
    ("[clusters.NAME]", ClusterSettings),
    ("[[clusters.NAME.windows]]", ClusterWindowSettings),
    ("[partitions.NAME]", PartitionSettings),
    ("[sites.NAME]", SiteSettings),
    ("[sites.NAME.offers.OFFER]", OfferSettings),
    ("the keys min and step of a fitted offer", AmountSettings),
    ("[sites.NAME.offers.OFFER.condor]", CondorSettings),
    ("[[sites.NAME.windows]]", WindowSettings),
    ('[owners."NAME"]', OwnerSettings),
    ("[budgets.NAME]", BudgetSettings),
    ("[serve]", ServeSettings),
    ("[serve.oidc]", OidcSettings),
    ("[notices]", NoticesSettings),
    ("[notices.smtp]", SmtpSettings),
    ("the file of an agent", AgentSettings),
    ("[[downtimes]] in the file of an agent", DowntimeSettings),
)

EXAMPLE = """\
[store]
retention = "14d"

[cycle]
min = "5s"
max = "1m"

[policy]
name = "steady"
release_after = "5m"

[limits]
live_max = 500
per_second_max = 10

[pools.campus]
kind = "embedded"
limits = { live_max = 300 }
hold = "15m"

[partitions.batch]
pool = "campus"

[clusters.lab]
kind = "local"
nodes = 2

[partitions.desk]
cluster = "lab"
limit_max = "2d"

[sites.west]
kind = "local"
pools = ["campus"]
limits = { live_max = 40, pending_max = 10 }
patience = "30m"
on_exit = "leave"

[sites.west.offers.small]
cpus = 4
memory = "16GiB"
disk = "40GiB"
traits = { arch = "x86_64" }
lifetime = "12h"
weight = 200

[sites.west.offers.gpu]
cpus = 32
memory = "256GiB"
disk = "1TiB"
gpus = 4
fitted = true
min = { cpus = 1, memory = "4GiB", gpus = 1 }
step = { cpus = 1, memory = "1GiB" }
choices = { gpu_type = ["a10", "a100"] }
price = 1.25
limits = { live_max = 8 }

[[sites.west.windows]]
start = 2030-01-31T08:00:00+01:00
end = 2030-01-31T18:00:00+01:00
why = "new cooling"

[owners."alice@example.org"]
limits = { live_max = 20 }

[budgets.cloud]
amount = 500
sites = ["west"]
"""

_INTRO = f"""\
# Configuration

`glidepath.toml` and the files `conf.d/*.toml` beside it form one configuration, in TOML. Each pool, site,
cluster, partition, owner and budget is a table of its own and stands in one file, so that different people
can keep theirs.
A changed file is taken up without a restart; a bad one leaves the old settings in force and says so.
`glidepath config check` names every mistake with its file and line. Without any file, glidepath serves on
this machine.

Names of pools, sites, clusters, partitions and offers are up to 40 small letters, digits and `-`.

| type | written as |
|---|---|
| duration | text: {DURATION_FORMS} |
| size | text: {SIZE_FORMS} |
| CPUs | {CPU_FORMS} |
"""


def reference(*, catalog: Catalog | None = None) -> str:
    """The whole page, with the policies and kinds that are installed here."""
    found = catalog or Installed()
    parts = [_INTRO]
    for title, model in TABLES:
        about = (model.__doc__ or "").strip()
        parts.append(f"## {_code(title)}\n\n{about}\n\n{_rows(_fields(model))}")
        if model is PolicySettings:
            parts.append(_policies(found))
        if model is PoolSettings:
            parts.extend(_kinds(found, DEMAND, "pools"))
        if model is SiteSettings:
            parts.extend(_kinds(found, BACKENDS, "sites"))
    parts.append(f"## A complete example\n\n```toml\n{EXAMPLE}```\n")
    return "\n".join(parts)


def _code(title: str) -> str:
    return f"`{title}`" if title.endswith("]") else title


def _rows(rows: Iterable[tuple[str, str, str, str]]) -> str:
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines.extend(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    return "\n".join(lines) + "\n"


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        shown = {"own": "*the kind*", "numbers": "*numbers of the policy*"}.get(name, f"`{name}`")
        yield shown, type_word(field), _default(field), field.description or ""


def type_word(field: FieldInfo) -> str:
    """What a person writes for this field."""
    unit = unit_of(field)
    return unit.word if unit else _word(field.annotation)


def _word(kind: Any) -> str:
    options = [each for each in get_args(kind) if each is not type(None)]
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join(f'`"{each}"`' for each in options)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "table"
    if origin is tuple:
        return f"list of {'tables' if _word(options[0]) == 'table' else _word(options[0])}"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "table"
    if type(None) in get_args(kind) or hasattr(kind, "__metadata__"):
        return _word(options[0] if options else kind.__origin__)
    words = {bool: "`true` or `false`", int: "whole number", str: "text"}
    return words.get(kind, "date and time") if isinstance(kind, type) else "date and time"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*needed*"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, Table) or value in ({}, ()):
        return "none"
    unit = unit_of(field)
    return f"`{unit.written(value) if unit else written(value)}`"


def _policies(catalog: Catalog) -> str:
    rows = []
    for name in catalog.names(POLICIES):
        try:
            numbers = getattr(catalog.load(POLICIES, name), "NUMBERS", None)
        except PluginError:
            continue  # `glidepath doctor` tells of it; the page describes what can be used.
        listed = numbers if isinstance(numbers, Mapping) else {}
        shown = ", ".join(f"`{_number(key, value)}`" for key, value in listed.items())
        rows.append(f"| `{one_line(name)}` | {shown or 'none'} |")
    return "\n".join(["| policy | its numbers, with their defaults |", "|---|---|", *rows]) + "\n"


def _number(key: str, value: int) -> str:
    seconds = key.endswith("_s")
    return f'{key.removesuffix("_s")} = "{exact_duration(value)}"' if seconds else f"{key} = {value}"


def _kinds(catalog: Catalog, group: str, tables: str) -> Iterable[str]:
    for kind in catalog.names(group):
        try:
            model = getattr(catalog.load(group, kind), "Settings", None)
        except PluginError:
            continue
        title = f"### `[{tables}.NAME.{one_line(kind)}]`\n\nOnly for kind `{one_line(kind)}`.\n\n"
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield title + _rows(_fields(model))
            yield from _inner(f"{tables}.NAME.{one_line(kind)}", model, set())
        elif model is not None and dataclasses.is_dataclass(model):
            yield title + _rows(_of_dataclass(model))


def _inner(path: str, model: type[BaseModel], told: set[type[BaseModel]]) -> Iterable[str]:
    """The tables within a table of a kind, each form of them once."""
    for name, field in model.model_fields.items():
        kinds = [kind for kind in _parts(field.annotation) if issubclass(kind, Table) and kind not in told]
        for kind in kinds:
            told.add(kind)
            word = type_word(field)
            named = word == "table" and get_origin(field.annotation) is Mapping
            at = f"{path}.{name}{'.NAME' if named else ''}"
            title = f"[[{at}]]" if word == "list of tables" else f"[{at}]"
            yield f"#### `{title}`\n\n{cleandoc(kind.__doc__ or '')}\n\n{_rows(_fields(kind))}"
            yield from _inner(at, kind, told)


def _parts(kind: Any) -> Iterable[type]:
    """All classes that a type is made of."""
    if isinstance(kind, type):
        yield kind
    for each in get_args(kind):
        yield from _parts(each)


def _of_dataclass(model: Any) -> Iterable[tuple[str, str, str, str]]:
    for each in dataclasses.fields(model):
        needed = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
        kind = each.type if isinstance(each.type, str) else getattr(each.type, "__name__", str(each.type))
        default = (
            "*needed*"
            if needed
            else "none"
            if each.default in (None, dataclasses.MISSING)
            else f"`{each.default!r}`"
        )
        yield f"`{each.name}`", f"`{kind}`", default, str(each.metadata.get("description", ""))
