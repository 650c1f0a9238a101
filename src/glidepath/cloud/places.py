"""Templates of the configuration: words with named places come in, checked values go into the places.

A value is always inside one word, one text of JSON or one part of a path; it can neither end it nor begin
another. What the words mean is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any
from urllib.parse import quote

from glidepath.core.text import nearest, one_line

VALUE_LETTERS_MAX = 1000
SECRET_BYTES_MAX = 4 << 20
NESTED_MAX = 8  # levels of a body

_NUMBER = re.compile(r"[0-9]{1,15}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,998}[a-z0-9])?")
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/@+=-]{0,254})")
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_./:@+-]{0,510})")
_FILE = re.compile(r"/[A-Za-z0-9_./+@-]{1,999}")
# Names of hosts with their ports, several with commas between them.
_HOSTS = re.compile(r"[A-Za-z0-9\[](?:[A-Za-z0-9_.:,\[\]?=&-]{0,510})")


@dataclass(frozen=True, slots=True)
class Form:
    """What values of a place look like. `free` ones are any printable text and may begin with `-`."""

    pattern: re.Pattern[str] | None = None
    number: bool = False
    secret: bool = False

    @property
    def free(self) -> bool:
        return self.pattern is None

    def checked(self, name: str, value: str) -> str:
        if self.secret:
            if not value or "\0" in value or len(value) > SECRET_BYTES_MAX:
                raise ValueError(f"there is nothing usable for `{{{name}}}`")
            return value
        if not value:
            raise ValueError(f"there is nothing for `{{{name}}}`")
        fits = (
            self.pattern.fullmatch(value)
            if self.pattern
            else (value.isprintable() and len(value) <= VALUE_LETTERS_MAX)
        )
        if not fits:
            raise ValueError(f"`{one_line(value)}` has letters that have no place in `{{{name}}}`")
        return value


_COUNT, _TEXT, _SECRET = Form(_NUMBER, number=True), Form(_PLAIN), Form(secret=True)
# What a pilot that is to be started has.
OF_PILOT: dict[str, Form] = {
    "name": Form(_NAME),
    "pilot": Form(_NAME),
    "label": Form(_NAME),
    "site": Form(_NAME),
    "offer": Form(_NAME),
    "pool": Form(_NAME),
    "image": _TEXT,
    "collector": Form(_HOSTS),
    "cpus": _COUNT,
    "cpus_milli": _COUNT,
    "memory_mib": _COUNT,
    "memory_gb": _COUNT,
    "disk_mib": _COUNT,
    "disk_gb": _COUNT,
    "gpus": _COUNT,
    "gpu_type": Form(),
    "lifetime_s": _COUNT,
    "idle_s": _COUNT,
    "walltime_s": _COUNT,
    "walltime_m": _COUNT,
    "file": Form(_FILE),
    "file_name": _TEXT,
    "token_file": Form(_FILE),
    "token_file_name": _TEXT,
}
# What only the pilot and the cloud may read: never in words of a command, which everybody sees.
OF_SECRETS: dict[str, Form] = {"bundle": _SECRET, "token": _SECRET}
OF_KEY: dict[str, Form] = {"key": _SECRET}
# What a job of the cloud has that is there already.
OF_JOB: dict[str, Form] = {"id": Form(_ID), "pilot": Form(_NAME), "site": Form(_NAME)}
FORMS = {**OF_PILOT, **OF_SECRETS, **OF_KEY, **OF_JOB}

Values = Mapping[str, str]


def parts_of(template: str) -> list[tuple[str, str, bool]]:
    """Literal texts, each with the place behind it (or none), and whether a number there stays text."""
    found = []
    try:
        for literal, field, spec, conversion in Formatter().parse(template):
            if conversion or spec not in (None, "", "text"):
                raise ValueError("a place is written `{name}`, or `{name:text}`")
            found.append((literal, field or "", spec == "text"))
            if field == "":
                raise ValueError("`{}` names no place")
    except ValueError as error:
        raise ValueError(f"`{one_line(template)}`: {error}; `{{{{` stands for a brace") from None
    return found


def check_template(template: str, known: Mapping[str, Form], *, word: bool = False) -> str:
    """The same text, or ValueError. In a word of a command nothing may begin with what may begin with `-`."""
    if not template.isprintable():
        raise ValueError(f"`{one_line(template)}` must be one line of printable text")
    for number, (literal, field, _) in enumerate(parts_of(template)):
        if not field:
            continue
        if field not in known:
            raise ValueError(_unknown(field, known))
        if word and not literal and not number and known[field].free:
            raise ValueError(
                f"`{{{field}}}` may begin with `-` and must not begin a word; write `--option={{{field}}}`"
            )
    return template


def _unknown(field: str, known: Mapping[str, Form]) -> str:
    if field in FORMS:
        why = "would be seen by everybody" if FORMS[field].secret else "is not known then"
        return f"`{{{field}}}` has no place here: it {why}"
    near = nearest(field, known)
    listed = ", ".join(f"`{{{name}}}`" for name in sorted(known)) or "none"
    hint = f"did you mean `{{{near}}}`?" if near else f"there are: {listed}"
    return f"`{{{one_line(field)}}}` is no place; {hint}"


def filled(template: str, values: Values) -> str:
    """One text with every place filled; raises ValueError for a value that does not belong there."""
    made = []
    for literal, field, _ in parts_of(template):
        made.append(literal)
        if field:
            made.append(FORMS[field].checked(field, values.get(field, "")))
    return "".join(made)


def filled_words(words: tuple[str, ...], values: Values) -> list[str]:
    """As many words as there were."""
    return [filled(word, values) for word in words]


def filled_path(template: str, values: Values) -> str:
    """A path of a URL: what is filled in stays one part of it, or one value of its query."""
    made = []
    for literal, field, _ in parts_of(template):
        made.append(literal)
        if field:
            made.append(quote(FORMS[field].checked(field, values.get(field, "")), safe=""))
    return "".join(made)


def filled_body(template: Any, values: Values, *, depth: int = 0) -> Any:
    """A document of JSON: a text that is one place of a number alone becomes that number."""
    if depth > NESTED_MAX:
        raise ValueError(f"the body has more than {NESTED_MAX} levels")
    if isinstance(template, str):
        parts = parts_of(template)
        text = filled(template, values)
        alone = len(parts) == 1 and not parts[0][0] and parts[0][1]
        return int(text) if alone and FORMS[parts[0][1]].number and not parts[0][2] else text
    if isinstance(template, Mapping):
        return {key: filled_body(each, values, depth=depth + 1) for key, each in template.items()}
    if isinstance(template, (list, tuple)):
        return [filled_body(each, values, depth=depth + 1) for each in template]
    return template


def check_body(template: Any, known: Mapping[str, Form], *, depth: int = 0) -> None:
    if depth > NESTED_MAX:
        raise ValueError(f"has more than {NESTED_MAX} levels")
    if isinstance(template, str):
        check_template(template, known)
    elif isinstance(template, Mapping):
        for each in template.values():
            check_body(each, known, depth=depth + 1)
    elif isinstance(template, (list, tuple)):
        for each in template:
            check_body(each, known, depth=depth + 1)
    elif not isinstance(template, (bool, int, float)):
        raise ValueError(f"has a {type(template).__name__}, which JSON does not know")


def hidden(values: Values) -> dict[str, str]:
    """The same for people: what is secret is named and not shown."""
    return {name: f"<{name}>" if FORMS[name].secret else value for name, value in values.items()}
