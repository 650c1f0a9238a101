"""Keys are found on the lines they stand on, whatever form of TOML they are written in."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glidepath.config.lines import scan
from glidepath.config.problems import Loc

EVERY_FORM = '''\
# a comment with [a.table] = "in it"
top = 1
dotted.key."quoted part".'literal "one"' = 2

[table]   # behind a header
text = """
[not.a.table]
key = 1
"""
more = \'\'\'
x = 1
""" \'\'\'
quotes = """a"""""
list = [
  1, # ]
  { inner = 3, "]" = "}" },
  [2,
   "["],
]
inline = { a = 1, b.c = 2 }
"esc\\u0061ped" = 1
  spaced   .  key  =  1

[ spaced . header ]
k = 1
[[array]]
k = 1
[array.sub]
k = 2
[[array]]
k = 3
[[array.nested]]
k = 4
[[array.nested]]
k = 5
[last]
time = 2030-01-01T00:00:00.5Z
real = 1.5
'''


@pytest.mark.parametrize(
    ("loc", "line"),
    [
        (("top",), 2),
        (("dotted", "key", "quoted part", 'literal "one"'), 3),
        (("dotted", "key"), 3),
        (("table",), 5),
        (("table", "text"), 6),
        (("table", "more"), 10),
        (("table", "quotes"), 13),
        (("table", "list"), 14),
        (("table", "list", 1, "inner"), 14),
        (("table", "inline", "b", "c"), 20),
        (("table", "escaped"), 21),
        (("table", "spaced", "key"), 22),
        (("table", "absent"), 5),
        (("spaced", "header", "k"), 25),
        (("array", 0, "k"), 27),
        (("array", 0, "sub", "k"), 29),
        (("array", 1), 30),
        (("array", 1, "k"), 31),
        (("array", 1, "nested", 0, "k"), 33),
        (("array", 1, "nested", 1, "k"), 35),
        (("last", "real"), 38),
        (("nowhere",), None),
    ],
)
def test_a_key_is_found_on_its_line(loc: Loc, line: int | None) -> None:
    assert scan(EVERY_FORM).of(loc) == line


def leaves(value: Any, loc: Loc = ()) -> list[Loc]:
    """The paths of all tables and keys outside of inline values."""
    found = [loc] if loc else []
    if isinstance(value, dict):
        for key, each in value.items():
            found += leaves(each, (*loc, key))
    return found


def test_every_key_that_the_parser_knows_has_a_line() -> None:
    lines = scan(EVERY_FORM)
    tables = tomllib.loads(EVERY_FORM)
    del tables["table"]["inline"]
    missing = [loc for loc in leaves(tables) if loc not in lines.at]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ok = 1\n" + ".".join("a" * 100) + " = 1", 2),
        ("x = { " + ".".join("a" * 100) + " = 1 }", 1),
        ('x = { "a" . "b" = 1, y = "' + "." * 100 + '" }', None),
        ("[" + ".".join("a" * 17) + "]", 1),
        ("[" + ".".join("a" * 16) + "]", None),
        ("x = 1\nx = " + "[" * 50_000, 2),
        ("x = " + '{ "a" = ' * 100, 1),
        ("x = " + "{ " + ".".join(['"a"'] * 30) + " = 1 }", 1),
    ],
)
def test_what_would_drown_the_parser_is_seen_before_it(text: str, line: int | None) -> None:
    assert scan(text).too_deep == line


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab.=[]{}\"'\\#\n ,1", max_size=60))
def test_any_text_is_scanned_without_an_error(text: str) -> None:
    lines = scan(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.at.values())


names = st.sampled_from(["a", "b-c", '"d e"', "'f'"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.lists(names, min_size=1, max_size=3)), max_size=8))
def test_whatever_the_parser_accepts_the_scanner_follows_to_the_end(
    parts: list[tuple[bool, list[str]]],
) -> None:
    text = "".join(f"[{'.'.join(path)}]\n" if table else f"{'.'.join(path)} = 1\n" for table, path in parts)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = scan(text)
    assert [loc for loc in leaves(tables) if loc not in lines.at] == []
