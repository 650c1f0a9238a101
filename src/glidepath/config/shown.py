"""Settings come in, TOML goes out that reads back as the same settings.

Every value in force is printed, defaults included, so that nobody has to guess what holds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from glidepath.config.cluster import ClusterSettings
from glidepath.config.fields import Unit, exact_duration
from glidepath.config.settings import PolicySettings, PoolSettings, Settings
from glidepath.config.site import SiteSettings
from glidepath.config.tables import Table
from glidepath.core.text import one_line
from glidepath.core.units import DURATION_S_MAX

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def show(settings: Settings, origin: str = "") -> str:
    """The effective configuration as TOML; `origin` says in a comment where it comes from."""
    source = f"; from {one_line(origin)}" if origin else ""
    blocks = [[f"# In force, defaults included{source}"], *_blocks(settings, "")]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def written(value: object) -> str:
    """One value in TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case BaseModel():
            return written(value.model_dump())
        case Mapping():
            inner = ", ".join(f"{_key(key)} = {written(each)}" for key, each in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case Sequence():
            return f"[{', '.join(written(each) for each in value)}]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


def _text(value: str) -> str:
    # Control and right-to-left characters would be obeyed by the terminal instead of shown.
    escaped = (f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(escaped)}"'


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def unit_of(field: FieldInfo) -> Unit | None:
    return next((each for each in field.metadata if isinstance(each, Unit)), None)


def _blocks(table: Table, path: str) -> Iterable[list[str]]:
    """The table itself, then the tables in it; a table without keys of its own needs no header."""
    own, inner = _own_lines(table), list(_inner_blocks(table, path))
    if path and (own or not inner):
        yield [f"[{path}]", *own]
    if isinstance(table, Settings) and table.first:
        # A key at the very top, which TOML wants before the first table.
        yield [f"first = {written(table.first)}"]
    yield from inner


def _own_lines(table: Table) -> list[str]:
    lines = []
    for name, field in type(table).model_fields.items():
        value = getattr(table, name)
        if value is None or name in ("own", "numbers", "windows") or _is_block(value):
            continue
        unit = unit_of(field)
        if isinstance(value, Table):
            lines.append(f"{name} = {_inline(value)}")
        elif value != {}:
            lines.append(f"{name} = {unit.written(value) if unit else written(value)}")
    if isinstance(table, PolicySettings):
        lines.extend(_number(key, value) for key, value in table.numbers.items())
    return lines


def _number(key: str, value: int) -> str:
    stem = key.removesuffix("_s")
    if stem and stem not in ("name", key) and value <= DURATION_S_MAX:
        return f'{_key(stem)} = "{exact_duration(value)}"'
    return f"{_key(key)} = {value}"


def _inline(table: Table) -> str:
    lines = _own_lines(table)
    return f"{{ {', '.join(lines)} }}" if lines else "{}"


def _is_block(value: object) -> bool:
    """Tables of tables, and tables at the top, are printed under a header of their own."""
    return isinstance(value, Mapping) and any(isinstance(each, Table) for each in value.values())


def _inner_blocks(table: Table, path: str) -> Iterable[list[str]]:
    for name in type(table).model_fields:
        value = getattr(table, name)
        here = f"{path}.{name}" if path else name
        if isinstance(table, Settings) and isinstance(value, Table):
            yield from _blocks(value, here)
        elif _is_block(value):
            for key, each in value.items():
                yield from _blocks(each, f"{here}.{_key(key)}")
        elif name == "windows":
            yield from ([f"[[{here}]]", *_own_lines(each)] for each in value)
    if isinstance(table, (SiteSettings, PoolSettings, ClusterSettings)) and table.own:
        lines = [f"{_key(key)} = {written(each)}" for key, each in table.own.items()]
        yield [f"[{path}.{_key(table.kind)}]", *lines]
