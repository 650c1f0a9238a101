"""What a job ad asks for, and every number that cannot be meant."""

from __future__ import annotations

import pytest

from condor.ads import job_ad
from glidepath.condor.binding import ClassAd, Value
from glidepath.condor.evaluate import BadJob, owner_of, request_of, run_s_of, shown
from glidepath.core.quantity import Resources

DEEP = {f"A{n}": f"A{n - 1} + A{n - 1}" for n in range(1, 60)}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, Resources(1000, 1024, 1, 0)),
        ({"RequestMemory": "1024 * RequestCpus", "RequestCpus": "4"}, Resources(4000, 4096, 1, 0)),
        ({"RequestMemory": "A", "A": "B + 1", "B": "RequestCpus * 10"}, Resources(1000, 11, 1, 0)),
        ({"RequestMemory": "1500.2", "RequestCpus": "1.5"}, Resources(2000, 1501, 1, 0)),
        ({"RequestDisk": "1025"}, Resources(1000, 1024, 2, 0)),
        ({"RequestDisk": "0"}, Resources(1000, 1024, 0, 0)),
        ({"RequestGPUs": "2"}, Resources(1000, 1024, 1, 2)),
        (
            {"RequestMemory": "ifthenelse(MemoryUsage isnt undefined, MemoryUsage, 7)"},
            Resources(1000, 7, 1, 0),
        ),
        ({"RequestCpus": "", "RequestMemory": "", "RequestDisk": ""}, Resources(1000, 128, 1, 0)),
    ],
)
def test_a_request_is_what_its_expressions_amount_to(attributes: dict[str, str], expected: Resources) -> None:
    assert request_of(job_ad(**attributes)) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-5", "RequestMemory is -5, and must be at least 1"),
        (
            "0",
            "RequestMemory is 0, and must be at least 1; a number that is too large",
        ),
        ("99999999999999999999999", "RequestMemory is 0, and must be at least 1; a number that is"),
        ("9223372036854775807", "RequestMemory is 9223372036854775807, more than 1073741824"),
        ("1e300", "RequestMemory is 1000000000000000"),
        ("undefined", "RequestMemory is undefined, not an amount"),
        ("NoSuchAttribute", "RequestMemory is undefined, not an amount"),
        ("error", "RequestMemory is error, not an amount"),
        ("true", "RequestMemory is true, not an amount"),
        ('"4 GB"', "RequestMemory is the text `4 GB`, not an amount"),
        ('"4\\nGB"', "RequestMemory is the text `4\\nGB`, not an amount"),
        ("{1, 2}", "RequestMemory is a list, `[1, 2]`, not an amount"),
        ("[a = 1]", "RequestMemory is a nested ad, not an amount"),
        ('real("NaN")', "RequestMemory is `nan`, not an amount"),
        ('real("INF")', "RequestMemory is `inf`, not an amount"),
        ("RequestMemory * 2", "RequestMemory is undefined, not an amount"),
        ("Other", "RequestMemory is undefined, not an amount"),
        ("A59", "RequestMemory cannot be evaluated: failed to evaluate expression"),
        ('absTime("2020-01-01T00:00:00Z")', "RequestMemory is a value, `2020-01-01 00:00:00+00:00`, not an"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(BadJob) as bad:
        request_of(job_ad(RequestMemory=text, Other="RequestMemory", A0="1", **DEEP))
    assert str(bad.value).startswith(why)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        *(("RequestCpus", text) for text in ("0", "-1", "true", "1e12")),
        *(("RequestGPUs", text) for text in ("-1", "10001", '"one"')),
        ("RequestDisk", "-1"),
    ],
)
def test_every_part_of_a_request_is_checked(attribute: str, text: str) -> None:
    with pytest.raises(BadJob, match=attribute):
        request_of(job_ad(**{attribute: text}))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, None),
        ({"AllowedExecuteDuration": "3600"}, 3600),
        ({"MaxWallTimeMins": "30"}, 1800),
        ({"AllowedExecuteDuration": "3600", "MaxWallTimeMins": "30"}, 1800),
        ({"MaxWallTimeMins": "10 * RequestCpus"}, 600),
        ({"AllowedExecuteDuration": "undefined"}, None),
    ],
)
def test_the_shortest_stated_run_time_counts(attributes: dict[str, str], expected: int | None) -> None:
    assert run_s_of(job_ad(**attributes), ("AllowedExecuteDuration", "MaxWallTimeMins")) == expected


@pytest.mark.parametrize("text", ["-1", "0", '"long"', "true", 'real("INF")', "1e18"])
def test_a_run_time_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadJob, match="AllowedExecuteDuration"):
        run_s_of(job_ad(AllowedExecuteDuration=text), ("AllowedExecuteDuration",))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"ann\\nroot"', "Owner is the text `ann\\nroot`, with letters that cannot be shown"),
        ('""', "Owner is the text ``, not a name"),
        ("7", "Owner is `7`, not a name"),
        ("", "Owner is missing, not a name"),
        (f'"{"a" * 300}"', "Owner has 300 letters, more than 128"),
    ],
)
def test_an_owner_must_be_a_name_on_one_line(text: str, why: str) -> None:
    with pytest.raises(BadJob) as bad:
        owner_of(job_ad(Owner=text))
    assert str(bad.value) == why


def test_ten_megabytes_of_text_are_shown_short() -> None:
    assert len(shown("x" * 10_000_000)) < 100
    assert len(shown(["x" * 10_000_000])) < 100
    assert shown(Value.Error) == "error"
    assert shown(ClassAd()) == "a nested ad"
