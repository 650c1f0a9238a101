"""What a cloud answers, read: text comes in, rows of checked values go out, or `OddAnswer`.

JSON, CSV and columns below headings all become the same rows. An answer that is not understood as a whole
raises: nothing is concluded from it, least of all that there is nothing.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from glidepath.core.text import one_line

ROWS_MAX = 100_000
HEADINGS_WITHIN = 200  # lines: what a login or a new version has to say stands before them
CELL_LETTERS_MAX = 4000
YEAR_9999 = 253_402_300_799
_KEY = r"[A-Za-z0-9_ -]{1,80}"
_PATH = re.compile(rf"(?:{_KEY}(?:\.{_KEY}){{0,8}})?")
_ITEMS = re.compile(rf"(?:{_KEY}(?:\.{_KEY}){{0,8}})?\[\]")
_COLUMN = re.compile(r"\S+(?: \S+)*")


class OddAnswer(ValueError):
    """What came back is not what was asked for; the words are in the message, cut."""


class Layout(Protocol):
    """The part of the settings that says where things are."""

    @property
    def form(self) -> str: ...

    @property
    def items(self) -> str: ...
    @property
    def empty(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def exit_code(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def started(self) -> str: ...
    @property
    def ended(self) -> str: ...


FIELDS = ("id", "name", "state", "label", "exit_code", "reason", "node", "started", "ended")
NEEDED = ("id", "name", "state")


@dataclass(frozen=True, slots=True)
class Row:
    """One job as the cloud lists it, ours or not; nothing in it is believed yet."""

    id: str
    name: str
    state: str
    label: str = ""
    exit_code: str = ""
    reason: str = ""
    node: str = ""
    started: str = ""
    ended: str = ""


def check_path(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise ValueError("is no heading and no path such as `status.phase`")
    return value


def check_items(value: str) -> str:
    if not _ITEMS.fullmatch(value):
        raise ValueError("is no path of a list, such as `jobs[]`, or `[]` where the document is the list")
    return value


def rows_of(text: str, layout: Layout, *, alone: bool = False) -> tuple[Row, ...]:
    """All jobs of one answer; `alone` where one was asked for, which JSON then may give without a list."""
    match layout.form:
        case "csv":
            found = _from_csv(text, layout)
        case "columns":
            found = _from_columns(text, layout)
        case _:
            found = _from_json(document(text), layout, alone=alone)
    rows = []
    for row in found:
        rows.append(row)
        if len(rows) > ROWS_MAX:
            raise OddAnswer(f"more than {ROWS_MAX} jobs are listed")
    return tuple(rows)


def document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise OddAnswer(f"this is no JSON: `{one_line(text)}`") from None


def at_path(found: Any, path: str) -> Any:
    """What is there in a document; None where a part of the way is missing."""
    for key in path.split(".") if path else ():
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def rows_in(found: Any, layout: Layout) -> tuple[Row, ...]:
    """The same of a document that was read before, as one page of several."""
    return tuple(_from_json(found, layout, alone=False))


def _from_json(found: Any, layout: Layout, *, alone: bool) -> Iterator[Row]:
    items = at_path(found, layout.items.removesuffix("[]"))
    if alone and isinstance(found, Mapping) and not isinstance(items, list):
        items = [found]
    if not isinstance(items, list):
        raise OddAnswer(f"there is no list at `{layout.items}` in `{one_line(json.dumps(found))}`")
    for item in items:
        cells = {}
        for field in FIELDS:
            value = at_path(item, path) if (path := getattr(layout, field)) else None
            if isinstance(value, (Mapping, list)):
                raise OddAnswer(f"`{path}` of a job is no text: `{one_line(json.dumps(value))}`")
            cells[field] = "" if value is None else str(value)
        yield _row(cells, layout)


def _from_csv(text: str, layout: Layout) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        # Counted from the first line that has all headings; what stands before it is for people.
        headings = _headings(([cell.strip() for cell in line] for line in lines), layout, text)
        if headings is None:
            return
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(headings):
                shown = one_line(",".join(cells))
                raise OddAnswer(f"a row has {len(cells)} cells under {len(headings)} headings: `{shown}`")
            yield _row(_cells(dict(zip(headings, cells, strict=True)), layout), layout)
    except csv.Error as error:
        raise OddAnswer(f"this is no CSV: {error}: `{one_line(text)}`") from None


def _headings(lines: Iterable[list[str]], layout: Layout, text: str) -> list[str] | None:
    """None where the cloud says in its own words that there is nothing."""
    wanted = {path for field in FIELDS if (path := getattr(layout, field))}
    for number, cells in enumerate(lines):
        if layout.empty and layout.empty in ",".join(cells):
            return None
        if wanted <= set(cells):
            if len(set(cells)) != len(cells):
                raise OddAnswer(f"a heading stands there twice: `{one_line(','.join(cells))}`")
            return cells
        if number >= HEADINGS_WITHIN:
            break
    missing = ", ".join(f"`{each}`" for each in sorted(wanted))
    raise OddAnswer(f"there is no line with the headings {missing} in `{one_line(text)}`")


def _from_columns(text: str, layout: Layout) -> Iterator[Row]:
    lines = iter(text.splitlines())
    spans: list[tuple[str, int]] = []

    def split() -> Iterator[list[str]]:
        for line in lines:
            found = [(each[0], each.start()) for each in _COLUMN.finditer(line)]
            spans[:] = found
            yield [name for name, _ in found]

    if _headings(split(), layout, text) is None:
        return
    starts = [start for _, start in spans]
    for line in lines:
        if not line.strip() or set(line.strip()) <= set("-=+ "):
            continue
        for start in starts[1:]:
            # A cell that reaches below the next heading would be cut into two wrong ones.
            if line[start - 1 : start].strip():
                raise OddAnswer(f"the columns are not below their headings: `{one_line(line)}`")
        ends = [*starts[1:], None]
        named = {name: line[start:end].strip() for (name, start), end in zip(spans, ends, strict=True)}
        yield _row(_cells(named, layout), layout)


def _cells(named: Mapping[str, str], layout: Layout) -> dict[str, str]:
    return {field: named[path].strip() if (path := getattr(layout, field)) else "" for field in FIELDS}


def _row(cells: dict[str, str], layout: Layout) -> Row:
    for field in NEEDED:
        if not cells[field]:
            raise OddAnswer(f"a job has no `{getattr(layout, field)}`: `{one_line(str(cells))}`")
    for field, value in cells.items():
        if len(value) > CELL_LETTERS_MAX:
            raise OddAnswer(f"the `{getattr(layout, field)}` of a job has {len(value)} letters")
    return Row(**cells)


def seconds_of(text: str) -> float | None:
    """A time of the cloud by its wall clock; None where it is none that we can read."""
    try:
        found = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        # Without an offset it could be of any place on earth.
        return moment.timestamp() if moment.tzinfo is not None else None
    return found if 0 < found < YEAR_9999 else None


def code_of(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None
