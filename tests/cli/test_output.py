"""An answer in each form, whole."""

from __future__ import annotations

import io
import json

import pytest

from glidepath.cli.output import BOLD, PLAIN, Reader, card, drawn
from glidepath.cli.verb import Answer, Caller, Column, Source

from .conftest import Screen

COLUMNS = (
    Column("NAME", lambda item: item["name"]),
    Column("IDLE", lambda item: item["idle"], right=True),
    Column("NODE", lambda item: item["node"], wide=True),
    Column("WHY", lambda item: item["why"]),
)
ITEMS = (
    {"name": "west", "idle": 12, "node": "n1", "why": "the offer is at its limit (room=0)"},
    {"name": "e\x1b[2J", "idle": 3, "node": "", "why": "one\ntwo"},
)
ANSWER = Answer(
    "SiteList",
    ITEMS,
    COLUMNS,
    (Source("demand local/embedded", 1), Source("site here", 40, "unseen", "timed out")),
)


def caller(out: io.StringIO, **environ: str) -> Caller:
    return Caller(out, io.StringIO(), environ, lambda seconds: None, lambda: 0.0)


TABLE = """\
NAME      IDLE  WHY
west        12  the offer is at its limit (room=0)
e\\x1b[2J     3  one\\ntwo
sources: demand local/embedded 1s old, site here UNSEEN 40s (timed out)
"""
WIDE = """\
NAME      IDLE  NODE  WHY
west        12  n1    the offer is at its limit (room=0)
e\\x1b[2J     3  -     one\\ntwo
sources: demand local/embedded 1s old, site here UNSEEN 40s (timed out)
"""
JSON = """\
{
  "apiVersion": "glidepath/v1",
  "kind": "SiteList",
  "complete": false,
  "sources": [
    {
      "name": "demand local/embedded",
      "age_s": 1,
      "state": "seen",
      "why": ""
    },
    {
      "name": "site here",
      "age_s": 40,
      "state": "unseen",
      "why": "timed out"
    }
  ],
  "items": [
    {
      "name": "west",
      "idle": 12,
      "node": "n1",
      "why": "the offer is at its limit (room=0)"
    },
    {
      "name": "e\\u001b[2J",
      "idle": 3,
      "node": "",
      "why": "one\\ntwo"
    }
  ]
}
"""
YAML = """\
apiVersion: "glidepath/v1"
kind: "SiteList"
complete: false
sources:
  - name: "demand local/embedded"
    age_s: 1
    state: "seen"
    why: ""
  - name: "site here"
    age_s: 40
    state: "unseen"
    why: "timed out"
items:
  - name: "west"
    idle: 12
    node: "n1"
    why: "the offer is at its limit (room=0)"
  - name: "e\\x1b[2J"
    idle: 3
    node: ""
    why: "one\\ntwo"
"""
NAMES = "west\ne\\x1b[2J\n"


@pytest.mark.parametrize(
    ("form", "text"), [("table", TABLE), ("wide", WIDE), ("json", JSON), ("yaml", YAML), ("name", NAMES)]
)
def test_each_form_shows_the_whole_answer_and_no_control_character(form: str, text: str) -> None:
    assert drawn(ANSWER, form, caller(io.StringIO())) == text


def test_a_pipe_gets_no_colour_and_is_never_cut() -> None:
    long = Answer("SiteList", ({"name": "west", "idle": 1, "node": "", "why": "x" * 190},), COLUMNS)
    assert drawn(long, "table", caller(io.StringIO())).splitlines()[1] == "west     1  " + "x" * 190


def test_a_terminal_gets_a_bold_header_and_its_own_width() -> None:
    long = Answer("SiteList", ({"name": "west", "idle": 1, "node": "", "why": "x" * 190},), COLUMNS)
    lines = drawn(long, "table", caller(Screen(), COLUMNS="60")).splitlines()
    assert lines == [f"{BOLD}NAME  IDLE  WHY{PLAIN}", "west     1  " + "x" * 45 + "..."]
    assert len(lines[1]) == 60


def test_no_color_keeps_a_terminal_free_of_escapes() -> None:
    assert "\x1b" not in drawn(ANSWER, "table", caller(Screen(), NO_COLOR="1"))


def test_wide_letters_keep_columns_aligned() -> None:
    items = (
        {"name": "試料", "idle": 1, "node": "", "why": "a"},
        {"name": "abcd", "idle": 1, "node": "", "why": "b"},
    )
    assert drawn(Answer("X", items, COLUMNS), "table", caller(io.StringIO())) == (
        "NAME  IDLE  WHY\n試料     1  a\nabcd     1  b\n"
    )


def test_a_card_leaves_out_what_is_not_known() -> None:
    assert card([("name", "west"), ("since", None), ("pilots", 0), ("note", "")]) == (
        "name:    west",
        "pilots:  0",
    )


class Look(Reader):
    """Look at something"""

    def answer(self) -> Answer:
        return ANSWER


def look(out: io.StringIO, **given: object) -> tuple[int, Caller]:
    asked = {"output": "table", "watch": False, "every": 2, "times": 2, "strict": False, **given}
    who = caller(out)
    return Look(None, caller=who, **asked).run(), who  # type: ignore[arg-type]


def test_watching_json_writes_one_object_per_line() -> None:
    out = io.StringIO()
    look(out, watch=True, output="json")
    lines = out.getvalue().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["SiteList", "SiteList"]


def test_watching_on_a_terminal_redraws() -> None:
    out = Screen()
    look(out, watch=True)
    assert out.getvalue().count("\x1b[H\x1b[2J") == 2


def test_watching_into_a_pipe_never_clears() -> None:
    out = io.StringIO()
    look(out, watch=True)
    assert out.getvalue() == TABLE * 2


@pytest.mark.parametrize(("strict", "code"), [(False, 0), (True, 3)])
def test_an_incomplete_answer_is_an_error_only_when_asked(strict: bool, code: int) -> None:
    ended, who = look(io.StringIO(), strict=strict)
    assert ended == code
    assert who.err.getvalue() == (  # type: ignore[attr-defined]
        "the answer is incomplete: site here UNSEEN 40s (timed out)\n" if strict else ""
    )
