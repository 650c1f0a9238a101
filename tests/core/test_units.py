"""Units: what people write is read exactly, rounded up, bounded; a bare number is never guessed at."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glidepath.core.quantity import Resources
from glidepath.core.units import (
    CPU_FORMS,
    CPU_MILLI_MAX,
    DURATION_FORMS,
    DURATION_S_MAX,
    SIZE_FORMS,
    SIZE_MIB_MAX,
    cpu_milli,
    duration_s,
    exact_resources,
    exact_size,
    shown_cpus,
    shown_duration,
    shown_resources,
    shown_size,
    size_mib,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("90s", 90),
        ("15m", 900),
        ("90m", 5400),
        ("2h", 7200),
        ("1d", 86400),
        ("1w", 604800),
        ("1h30m", 5400),
        ("1d2h3m4s", 93784),
        ("  5m ", 300),
        ("00:00:01", 1),
        ("12:30:00", 45000),
        ("100:00:00", 360000),
        ("1-12:00:00", 129600),
        ("0-00:00:59", 59),
        ("3660d", DURATION_S_MAX),
    ],
)
def test_durations_are_read_as_written(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "90",
        "5400",
        "1.5h",
        "-5m",
        "+5m",
        "5 m",
        "5M",
        "m",
        "1h-30m",
        "12:30",
        "1-12:00",
        "00:60:00",
        "00:00:60",
        "1:2:3",
        "٣m",
        "5m\x1b[31m",
        "5m\n6m",
        "1e3s",
        "inf",
        "0x10s",
        "P1D",
        "9999999999s",
        "5m" + "x" * 10_000,
    ],
)
def test_what_is_no_duration_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        duration_s(text)
    assert DURATION_FORMS in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["3661d", "99999-00:00:00", "999999999w", "1w" * 2000])
def test_durations_beyond_ten_years_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is longer than ten years"):
        duration_s(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("0B", 0),
        ("512MiB", 512),
        ("512Mi", 512),
        ("4GiB", 4096),
        ("4Gi", 4096),
        ("4 GiB", 4096),
        ("4GB", 3815),  # 4e9 bytes are 3814.7 MiB: rounded up, nothing is promised short.
        ("0.5GiB", 512),
        ("1.5GiB", 1536),
        ("1TiB", 1024**2),
        ("1PiB", SIZE_MIB_MAX),
        ("1B", 1),
        ("1KiB", 1),
        ("1025KiB", 2),
        ("1.000001GiB", 1025),
        (" 4GiB\n", 4096),
    ],
)
def test_sizes_are_read_and_rounded_up(text: str, mib: int) -> None:
    assert size_mib(text) == mib


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        "4096",
        "4G",
        "4M",
        "4gib",
        "4GIB",
        "-4GiB",
        "4.GiB",
        ".5GiB",
        "4,5GiB",
        "4GiBs",
        "4  GiB",
        "4\tGiB",
        "4\nGiB",
        "4\u00a0GiB",
        "4\u2009GiB",
        "1e3MiB",
        "0x4GiB",
        "4EiB",
        "٤GiB",
        "4GiB\x00",
        "1.0000001GiB",
        "1234567890123456B",
        "GiB",
        "4GiB" + "x" * 10_000,
    ],
)
def test_what_is_no_size_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        size_mib(text)
    assert SIZE_FORMS in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["2PiB", "1025TiB", "1099511627777KiB", "999999999999999PiB"])
def test_sizes_beyond_one_pebibyte_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is more than 1 PiB"):
        size_mib(text)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("4", 4000),
        (4, 4000),
        (0, 0),
        ("0.5", 500),
        ("0.05", 50),
        ("0.005", 5),
        ("500m", 500),
        ("1500m", 1500),
        (" 2 ", 2000),
        ("1000000", CPU_MILLI_MAX),
        ("1000000000m", CPU_MILLI_MAX),
    ],
)
def test_cpus_are_read_in_thousandths(text: str | int, milli: int) -> None:
    assert cpu_milli(text) == milli


@pytest.mark.parametrize(
    "text",
    ["", "-1", -1, "0.0005", "1.", ".5", "4 CPUs", "0.5m", "1e3", "0x4", "٤", "4\n5", "4" * 20, "nan", "4c"],
)
def test_what_is_no_number_of_cpus_is_refused_with_the_accepted_forms(text: str | int) -> None:
    with pytest.raises(ValueError) as caught:
        cpu_milli(text)
    assert CPU_FORMS in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["1000001", "1000000.001", "1000000001m", 10**8])
def test_more_than_a_million_cpus_are_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match="is more than a million CPUs"):
        cpu_milli(text)


READERS = [(duration_s, DURATION_FORMS), (size_mib, SIZE_FORMS), (cpu_milli, CPU_FORMS)]


@pytest.mark.parametrize(("read", "forms"), READERS)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("5\x1b[31mm", r"`5\x1b[31mm`"),
        ("5\nm", r"`5\nm`"),
        ("5\x00m", r"`5\x00m`"),
        ("5\u202em", r"`5\u202em`"),
        ("5\ud800m", r"`5\ud800m`"),
        ("5\U000e0001m", r"`5\U000e0001m`"),
        ("5é?", "`5é?`"),
        ("x" * 10_000, f"`{'x' * 37}...`"),
    ],
)
def test_what_was_written_is_quoted_short_and_without_control_characters(
    text: str, shown: str, read: Callable[[str], int], forms: str
) -> None:
    with pytest.raises(ValueError) as caught:
        read(text)
    assert str(caught.value).startswith(f"{shown} is not ")
    assert str(caught.value).endswith(forms)


@pytest.mark.parametrize(("read", "forms"), READERS)
@given(text=st.text(max_size=80))
def test_no_text_breaks_the_line_that_refuses_it(text: str, read: Callable[[str], int], forms: str) -> None:
    said = ""
    try:
        read(text)
    except ValueError as error:
        said = str(error)
    assert said.isprintable()


@pytest.mark.parametrize(("read", "forms"), READERS)
def test_every_form_that_a_message_names_is_read(read: Callable[[str], int], forms: str) -> None:
    examples = {"HH:MM:SS": "01:02:03", "D-HH:MM:SS": "1-02:03:04"}
    named = re.findall(r"`([^`]+)`", forms)
    assert named
    for form in named:
        assert read(examples.get(form, form)) > 0


def test_every_unit_of_time_is_named_in_the_message() -> None:
    assert {form[-1] for form in re.findall(r"`(?:\d+)([a-z])`", DURATION_FORMS)} == set("smhdw")


@given(st.text(max_size=60))
def test_any_text_is_read_within_bounds_or_refused(text: str) -> None:
    for read, most in ((duration_s, DURATION_S_MAX), (size_mib, SIZE_MIB_MAX), (cpu_milli, CPU_MILLI_MAX)):
        try:
            found = read(text)
        except ValueError:
            continue
        assert type(found) is int
        assert 0 <= found <= most


@given(st.from_regex(re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?[KMGT]?i?B?", re.ASCII), fullmatch=True))
def test_a_size_is_never_less_than_what_was_written(text: str) -> None:
    """Counted again in bytes, with integers, from the text itself."""
    try:
        mib = size_mib(text)
    except ValueError:
        return
    number, letter, binary = re.fullmatch(r"([0-9.]+)([KMGT]?)(i?)B?", text).groups()  # type: ignore[union-attr]
    base = 1024 if binary else 1000
    whole, _, part = number.partition(".")
    scaled = int(whole + part) * base ** (" KMGT".index(letter or " "))
    unit = 1024**2 * 10 ** len(part)
    assert (mib - 1) * unit < scaled <= mib * unit


@given(st.integers(0, 99), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_both_spellings_of_a_duration_agree(days: int, hours: int, minutes: int, seconds: int) -> None:
    clock = f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    assert duration_s(clock) == duration_s(f"{days}d{hours}h{minutes}m{seconds}s")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m59s"),
        (3600, "1h"),
        (3661, "1h1m"),
        (86400 + 7200 + 59, "1d2h"),
        (86405, "1d5s"),
        (-90, "-1m30s"),
    ],
)
def test_durations_are_shown_short(seconds: int, text: str) -> None:
    assert shown_duration(seconds) == text


@given(st.integers(0, DURATION_S_MAX))
def test_a_shown_duration_is_exact_below_an_hour_and_never_overstated(seconds: int) -> None:
    back = duration_s(shown_duration(seconds))
    assert back <= seconds
    assert seconds - back < (1 if seconds < 3600 else 60 if seconds < 86400 else 3600)


@pytest.mark.parametrize(
    ("mib", "text"),
    [(0, "0MiB"), (1, "1MiB"), (1023, "1023MiB"), (1024, "1GiB"), (1536, "1.5GiB"), (1024**2, "1TiB")],
)
def test_sizes_are_shown_in_the_unit_that_suits(mib: int, text: str) -> None:
    assert shown_size(mib) == text


@given(st.integers(0, 1023) | st.integers(1, 1023).map(lambda gib: gib * 1024))
def test_whole_sizes_survive_being_shown(mib: int) -> None:
    assert size_mib(shown_size(mib)) == mib


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0MiB"),
        (1023, "1023MiB"),
        (1024, "1GiB"),
        (1060, "1060MiB"),
        (1536, "1536MiB"),
        (1024**2, "1TiB"),
        (1024**2 + 1024, "1025GiB"),
        (1024**2 + 1, "1048577MiB"),
    ],
)
def test_an_exact_size_is_never_rounded(mib: int, text: str) -> None:
    assert exact_size(mib) == text


@given(st.integers(0, SIZE_MIB_MAX) | st.integers(0, 1024).map(lambda tib: tib * 1024**2))
def test_exact_sizes_survive_being_shown(mib: int) -> None:
    assert size_mib(exact_size(mib)) == mib


def test_what_is_rounded_to_be_read_is_exact_in_a_name() -> None:
    one, other = Resources(1000, 1024), Resources(1000, 1060)
    assert shown_resources(one) == shown_resources(other) == "1 CPU 1GiB"
    assert (exact_resources(one), exact_resources(other)) == ("1 CPU 1GiB", "1 CPU 1060MiB")


@pytest.mark.parametrize(
    ("milli", "text"), [(0, "0"), (1, "0.001"), (500, "0.5"), (1000, "1"), (1001, "1.001"), (10_010, "10.01")]
)
def test_cpus_are_shown_exactly(milli: int, text: str) -> None:
    assert shown_cpus(milli) == text


@given(st.integers(0, 999_999))
def test_cpus_survive_being_shown(milli: int) -> None:
    assert cpu_milli(shown_cpus(milli)) == milli


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Resources(), "0 CPU 0MiB"),
        (Resources(4000, 8192), "4 CPU 8GiB"),
        (Resources(250, 100, 2048, 1), "0.25 CPU 100MiB 2GiB disk 1 GPU"),
    ],
)
def test_disk_and_gpus_are_shown_only_where_asked_for(amount: Resources, text: str) -> None:
    assert shown_resources(amount) == text
