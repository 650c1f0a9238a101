"""Hostile text never reaches a terminal as it is."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.cli.output import json_text, yaml_lines
from glidepath.cli.text import cells, clipped, did_you_mean, quoted
from glidepath.core.text import CUT, one_line, visible

# Lone surrogates included: they come out of file names and damaged environment variables.
ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text("\x00\x1b\n\r\x7f\x9b\u202e\u2066\u05d0a ")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sim-0042", "sim-0042"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("one\ntwo\r", "one\\ntwo\\r"),
        ("tab\there", "tab\\there"),
        ("csi\x9b31m", "csi\\x9b31m"),
        ("exe\u202egpj", "exe\\u202egpj"),
        ("\u2066iso\u2069", "\\u2066iso\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("lone\udcff", "lone\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("line\u2028end", "line\\u2028end"),
        ("\u05d0\u05d1", "\\u05d0\\u05d1"),
        ("Größe 試料", "Größe 試料"),
        ('say "hi" \\ $(reboot)', 'say "hi" \\ $(reboot)'),
    ],
)
def test_controls_and_marks_are_shown_as_escapes(text: str, shown: str) -> None:
    assert one_line(text) == shown


@given(ANY_TEXT)
def test_safe_text_is_one_bounded_line_of_printable_left_to_right_letters(text: str) -> None:
    shown = one_line(text, letters_max=50)
    assert len(shown) <= 50
    assert shown.isprintable()
    assert not {unicodedata.bidirectional(char) for char in shown} & {"R", "AL", "AN", "RLO", "RLI", "RLE"}
    shown.encode("utf-8")


def test_three_hundred_letters_are_cut_with_a_sign() -> None:
    assert one_line("x" * 300) == "x" * 197 + CUT


@given(ANY_TEXT)
def test_making_safe_twice_changes_nothing(text: str) -> None:
    assert visible(visible(text)) == visible(text)


def test_lines_can_be_kept_for_text_that_has_lines() -> None:
    assert visible("a\n\x1bb", keep="\n") == "a\n\\x1bb"


@given(ANY_TEXT, st.integers(0, 30))
def test_clipped_text_is_never_wider_than_asked(text: str, cells_max: int) -> None:
    assert cells(clipped(one_line(text), cells_max)) <= cells_max


@given(ANY_TEXT)
def test_yaml_strings_are_printable_ascii(text: str) -> None:
    shown = quoted(text)
    assert shown.isascii()
    assert shown.isprintable()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | ANY_TEXT,
        lambda part: st.lists(part) | st.dictionaries(ANY_TEXT, part),
    )
)
def test_json_and_yaml_hold_no_control_character_and_json_reads_back(value: object) -> None:
    text = json_text(value)
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == value
    for line in yaml_lines({"items": value}):
        assert line.isascii()
        assert line.isprintable()


@pytest.mark.parametrize(
    ("word", "answer"),
    [("jbo", "; did you mean `job`?"), ("zzz", ""), ("x" * 5000, "")],
)
def test_only_a_near_word_is_suggested(word: str, answer: str) -> None:
    assert did_you_mean(word, ["job", "site", "pilot"]) == answer
