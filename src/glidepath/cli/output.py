"""Answers drawn: an `Answer` comes in, text for stdout goes out, as table, wide, JSON, YAML or names.

JSON and YAML are plain ASCII and never cut; tables are for people. It refuses to know where an answer
came from, and draws no colour and no box where nobody is looking at a terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from glidepath.cli import argument
from glidepath.cli.text import cells, clipped, quoted
from glidepath.cli.verb import (
    LINE_LETTERS_MAX,
    Answer,
    Caller,
    Column,
    Exit,
    Item,
    Options,
    Source,
    Stop,
    Verb,
)
from glidepath.core.text import TEXT_LETTERS_MAX, one_line

API_VERSION = "glidepath/v1"
FORMATS = ("table", "wide", "json", "yaml", "name")
COLUMNS_DEFAULT = 80
COLUMNS_MIN = 40
WATCH_EVERY_S = 2
# Weeks of watching; a forgotten terminal must not read the store for ever.
WATCH_LOOKS_MAX = 1_000_000
# Words that one version of YAML or another reads as a boolean or as nothing.
YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
HOME_AND_CLEAR = "\x1b[H\x1b[2J"

OUTPUT: Options = {
    "output": {
        "args": ("-o", "--output"),
        "choices": FORMATS,
        "default": "table",
        "help": "how the answer is written; json and yaml are stable, tables may change (default: table)",
    },
}
DRY_RUN: Options = {
    "dry_run": {
        "args": ("--dry-run",),
        "action": "store_true",
        "help": "say what would be done, and do nothing",
    },
}


def document(answer: Answer) -> dict[str, Any]:
    """The stable form. `complete` and `sources` let a script tell a partial answer from a whole one."""
    return {
        "apiVersion": API_VERSION,
        "kind": answer.kind,
        "complete": answer.complete,
        "sources": [_source(source) for source in answer.sources],
        "items": [dict(item) for item in answer.items],
        **({"notes": list(answer.notes)} if answer.notes else {}),
    }


def _source(source: Source) -> dict[str, Any]:
    return {"name": source.name, "age_s": source.age_s, "state": source.state, "why": source.why}


def drawn(answer: Answer, form: str, caller: Caller, *, compact: bool = False) -> str:
    """The whole answer as text that ends in a newline, or nothing at all."""
    if form == "json":
        return json_text(document(answer), compact=compact) + "\n"
    if form == "yaml":
        return ("---\n" if compact else "") + "".join(f"{line}\n" for line in yaml_lines(document(answer)))
    if form == "name":
        return "".join(f"{one_line(str(answer.name(item)))}\n" for item in answer.items)
    if answer.lines is not None:
        lines = [one_line(line, letters_max=LINE_LETTERS_MAX) for line in answer.lines]
    else:
        lines = table(answer.columns, answer.items, wide=form == "wide", caller=caller)
    lines += [one_line(f"note: {note}", letters_max=LINE_LETTERS_MAX) for note in answer.notes]
    if answer.sources and (answer.items or answer.lines):
        lines.append(
            one_line(f"sources: {', '.join(map(str, answer.sources))}", letters_max=LINE_LETTERS_MAX)
        )
    return "".join(f"{line}\n" for line in lines)


def json_text(value: object, *, compact: bool = False) -> str:
    # The encoder leaves DEL alone, the one ASCII control that it takes for a letter.
    return json.dumps(value, indent=None if compact else 2).replace("\x7f", "\\u007f")


def yaml_lines(value: object, indent: str = "") -> list[str]:
    """A safe subset: block mappings and sequences, JSON numbers, every string quoted."""
    if isinstance(value, Mapping):
        return [
            line
            for key, part in value.items()
            for line in _yaml_entry(f"{indent}{_key(str(key))}:", part, indent)
        ]
    assert isinstance(value, Sequence)
    lines: list[str] = []
    for part in value:
        block = yaml_lines(part, indent + "  ") if _block(part) else [f"{indent}  {_scalar(part)}"]
        lines.append(f"{indent}- {block[0][len(indent) + 2 :]}")
        lines.extend(block[1:])
    return lines


def _yaml_entry(opening: str, part: object, indent: str) -> list[str]:
    if _block(part):
        return [opening, *yaml_lines(part, indent + "  ")]
    return [f"{opening} {_scalar(part)}"]


def _block(value: object) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value)


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").isalpha() and key[0].isalpha()
    return key if bare and key.lower() not in YAML_WORDS else quoted(key)


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, (list, tuple)) else json_text(value)


def table(columns: Iterable[Column], items: Sequence[Item], *, wide: bool, caller: Caller) -> list[str]:
    """Aligned columns without lines around them. Only a terminal cuts, and only the last column."""
    if not items:
        return []
    shown = [column for column in columns if wide or not column.wide]
    rows = [[column.title for column in shown]]
    # The last column holds the reason, and half a reason is none; the others only name things.
    bounds = [TEXT_LETTERS_MAX] * (len(shown) - 1) + [LINE_LETTERS_MAX]
    for item in items:
        texts = [str(column.show(item)) for column in shown]
        rows.append(
            [one_line(text, letters_max=most) or "-" for text, most in zip(texts, bounds, strict=True)]
        )
    widths = [max(cells(row[place]) for row in rows) for place in range(len(shown))]
    if caller.out.isatty() and not wide:
        widths[-1] = max(min(widths[-1], _columns(caller) - sum(widths[:-1]) - 2 * (len(widths) - 1)), 10)
    lines = [_row(row, widths, shown) for row in rows]
    if caller.draws:
        lines[0] = f"{BOLD}{lines[0]}{PLAIN}"
    return lines


def _row(row: list[str], widths: list[int], columns: list[Column]) -> str:
    parts = []
    for text, width, column in zip(row, widths, columns, strict=True):
        text = clipped(text, width)
        pad = " " * (width - cells(text))
        parts.append(pad + text if column.right else text + pad)
    return "  ".join(parts).rstrip()


def _columns(caller: Caller) -> int:
    import os

    stated = caller.environ.get("COLUMNS", "")
    if stated.isascii() and stated.isdigit():
        return max(int(stated[:6]), COLUMNS_MIN)
    try:
        return max(os.get_terminal_size(caller.out.fileno()).columns or COLUMNS_DEFAULT, COLUMNS_MIN)
    except (OSError, ValueError):
        return COLUMNS_DEFAULT


def card(pairs: Iterable[tuple[str, object]]) -> tuple[str, ...]:
    """One thing in full: a name and a value on each line; values that are empty are left out."""
    known = [(name, str(value)) for name, value in pairs if value not in (None, "", ())]
    width = max((len(name) for name, _ in known), default=0) + 1
    return tuple(f"{name + ':':<{width}}  {value}" for name, value in known)


def span(seconds: int | None) -> str:
    """A duration for people; nothing where there is none."""
    from glidepath.core.units import shown_duration

    return "" if seconds is None else shown_duration(seconds)


class Reader(Verb):
    """Base of the verbs that only look: they answer, once or again and again."""

    options: ClassVar[Options] = {
        **OUTPUT,
        "watch": {"args": ("-w", "--watch"), "action": "store_true", "help": "look again and again"},
        "every": {
            "args": ("--every",),
            "type": argument.duration,
            "default": WATCH_EVERY_S,
            "metavar": "SPAN",
            "help": "with --watch: how long between two looks (default: 2s)",
        },
        "times": {
            "args": ("--times",),
            "type": argument.count,
            "default": WATCH_LOOKS_MAX,
            "metavar": "N",
            "help": "with --watch: how many looks at most",
        },
        "strict": {
            "args": ("--strict",),
            "action": "store_true",
            "help": "exit with 3 when the answer is incomplete or stale",
        },
    }

    def answer(self) -> Answer:
        raise NotImplementedError

    def run(self) -> int:
        looks = self.given["times"] if self.given["watch"] else 1
        code = 0
        for look in range(looks):
            if look:
                self.caller.sleep(self.given["every"])
            code = self.show(self.answer())
        return code

    def show(self, answer: Answer) -> int:
        form, watching = self.given["output"], self.given["watch"]
        text = drawn(answer, form, self.caller, compact=watching)
        if watching and self.caller.out.isatty() and form in ("table", "wide"):
            text = HOME_AND_CLEAR + text
        self.caller.out.write(text)
        self.caller.out.flush()
        if not answer.items and answer.nothing and form in ("table", "wide", "name"):
            self.caller.say(answer.nothing)
        if self.given["strict"] and not answer.complete:
            worst = ", ".join(str(source) for source in answer.sources if source.state != "seen")
            self.caller.say(f"the answer is incomplete: {worst}")
            return Exit.INCOMPLETE
        return Exit.DONE


def need(condition: object, message: str, *, hint: str = "") -> None:
    """A rule of use that argparse cannot say."""
    if not condition:
        raise Stop(message, code=Exit.USAGE, hint=hint)
