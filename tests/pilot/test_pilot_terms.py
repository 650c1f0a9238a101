"""Nothing that somebody else wrote becomes a line of configuration that he did not mean to write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glidepath.pilot.parts.terms import Settings, Terms, expression, line, plain, settings_of, terms_of

LEAST = {"GLIDEPATH_COLLECTOR": "cm.example.org"}


@pytest.mark.parametrize(
    "text",
    [
        *("a\nSTART = true", "a\rb", "a\x0bb", "a\x00b", "a\u2028b", "a\x85b", "a\x1b[31m"),
        *("$(SECRET)", "x$(A)y", "$ENV(HOME)", "$RANDOM_CHOICE(1,2)", "$$(Arch)", "$$([1+1])", "$F(x)", "$$"),
        *("a\\", "a\\  ", "x" * 5000, 5, None, ["a"]),
    ],
)
def test_text_that_could_be_more_than_one_value_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="the word must"):
        plain(text, "the word")


@pytest.mark.parametrize("text", ["", "a b", 'a"b', "^x$", "costs $5", "a\\b", "Zürich", "(", "$ (A)"])
def test_other_text_is_taken_as_it_is(text: str) -> None:
    assert plain(text, "the word") == text


@pytest.mark.parametrize(
    "text",
    [
        *("true) || (true", "(true", "true)", "[a", "(a]", "{1, 2", "a)(b", "((a))) && ((b)"),
        *('"open', "'open", "a // b", "a /* b */", "a; b", "a # b", "", "  ", "a\nb", "$(X)", "(" * 101),
    ],
)
def test_an_expression_stays_one_inside_its_brackets(text: str) -> None:
    with pytest.raises(ValueError, match="a START term"):
        expression(text, "a START term")


@pytest.mark.parametrize(
    "text",
    [
        *("true", "TARGET.X =?= 5 && (A || B)", 'regexp("^(a|b)$", TARGET.Owner)', '"a) || (b"', '"//"'),
        *("[ a = 1; b = { 2, 3 } ]", "size({1,2}) > 1", '"a\\"b"'),
    ],
)
def test_expressions_that_are_one(text: str) -> None:
    assert expression(text, "a START term") == text


def test_a_line_of_the_operator_may_use_macros_but_stays_one_line() -> None:
    assert line("A = $(B) $ENV(C)", "a line") == "A = $(B) $ENV(C)"
    for text in ("A = 1\nB = 2", "A = \\", "A @=end", 5):
        with pytest.raises(ValueError, match="a line must"):
            line(text, "a line")


def test_settings_that_are_not_said_have_their_defaults() -> None:
    assert settings_of(LEAST) == Settings(
        pool="",
        collectors=("cm.example.org",),
        site="",
        offer="",
        terms=Terms(),
        route="RequestK8SNamespace",
        run_time=(),
        sources={"*": {"from": "machine", "sha256": ""}},
        grace_s=1200,
        trust_domain="",
        tokens="",
    )


def test_settings_as_a_pool_tells_them() -> None:
    terms = {
        "community": "physics",
        "owners": ["an*"],
        "attributes": [["HasCvmfs", "true"]],
        "start": ["A > 1"],
    }
    tarballs = {"Rocky9-x86_64": {"from": "https://a.example/c.tgz", "sha256": "a" * 64}}
    found = settings_of(
        {
            "GLIDEPATH_COLLECTOR": "cm1.example:9620, [fd00::1]:9618?sock=collector",
            "GLIDEPATH_TERMS": json.dumps(terms),
            "GLIDEPATH_RUN_TIME": "AllowedExecuteDuration,MaxWallTimeMins,Hours*3600",
            "GLIDEPATH_CONDOR": json.dumps(tarballs),
            "GLIDEPATH_GRACE_S": "60",
            "SOMETHING_NEW": "is for later pilots",
        }
    )
    assert found.collectors == ("cm1.example:9620", "[fd00::1]:9618?sock=collector")
    assert found.terms == Terms(
        community="physics", owners=("an*",), attributes=(("HasCvmfs", "true"),), start=("A > 1",)
    )
    assert found.run_time == (("AllowedExecuteDuration", 1), ("MaxWallTimeMins", 60), ("Hours", 3600))
    assert (found.sources, found.grace_s) == (tarballs, 60)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"GLIDEPATH_COLLECTOR": ""}, "GLIDEPATH_COLLECTOR must name"),
        ({"GLIDEPATH_COLLECTOR": "cm; START=true"}, "GLIDEPATH_COLLECTOR must name"),
        ({"GLIDEPATH_COLLECTOR": "cm\nA=1"}, "GLIDEPATH_COLLECTOR must not have a line break"),
        ({"GLIDEPATH_POOL": "a b"}, "GLIDEPATH_POOL has letters"),
        ({"GLIDEPATH_TRUST_DOMAIN": "a,b"}, "GLIDEPATH_TRUST_DOMAIN has letters"),
        ({"GLIDEPATH_ROUTE": "a.b"}, "GLIDEPATH_ROUTE must be the name"),
        ({"GLIDEPATH_GRACE_S": "-5"}, "GLIDEPATH_GRACE_S must be seconds"),
        ({"GLIDEPATH_RUN_TIME": "A,B C"}, "GLIDEPATH_RUN_TIME must name attributes"),
        ({"GLIDEPATH_TERMS": "{"}, "GLIDEPATH_TERMS is not JSON"),
        ({"GLIDEPATH_TERMS": "[]"}, "GLIDEPATH_TERMS must be one"),
        ({"GLIDEPATH_TERMS": '{"owners": "ann"}'}, "owners must be a list"),
        ({"GLIDEPATH_TERMS": '{"owners": ["a\\nb"]}'}, "the offer's owners must not have a line break"),
        ({"GLIDEPATH_TERMS": '{"attributes": [["a b", "1"]]}'}, "an attribute of the offer must be a name"),
        ({"GLIDEPATH_TERMS": '{"attributes": [["A", "1) || (1"]]}'}, "the attribute A has brackets"),
        ({"GLIDEPATH_CONDOR": "https://a.example/c.tgz"}, "GLIDEPATH_CONDOR has an address without a sha256"),
        ({"GLIDEPATH_CONDOR": '{"a": 5}'}, "GLIDEPATH_CONDOR must say `from`"),
        ({"GLIDEPATH_CONDOR": '{"a": {"from": "/x", "sha256": "zz"}}'}, "GLIDEPATH_CONDOR has a sha256"),
        ({"GLIDEPATH_CONDOR": "{"}, "GLIDEPATH_CONDOR is not JSON"),
    ],
)
def test_a_setting_that_is_wrong_is_named(told: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError) as error:
        settings_of({**LEAST, **told})
    assert str(error.value).startswith(why)


def test_terms_of_nothing_are_none() -> None:
    assert terms_of("") == terms_of("{}") == Terms()
