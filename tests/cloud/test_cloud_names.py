"""What a pilot was asked for, folded into the name of its job and read back; sizes; who is behind a hash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.cloud_builders import spec
from glidepath.cloud.key import key_source, without
from glidepath.cloud.label import (
    NAME,
    digest,
    folded,
    intent_of,
    label_of,
    name_looks_ours,
    owner_hash,
    unfolded,
)
from glidepath.cloud.owners import Owners
from glidepath.cloud.sizes import Boxes
from glidepath.core.quantity import Owner, Resources, SiteName

WORDS = st.text(st.characters(codec="utf-8"), max_size=30)
TRAITS = st.dictionaries(WORDS, WORDS, max_size=4).map(lambda found: tuple(sorted(found.items())))
SIZES = st.tuples(*[st.integers(0, 10**9)] * 4).map(lambda found: Resources(*found))
PILOTS = st.from_regex(NAME, fullmatch=True)


@given(PILOTS, WORDS, TRAITS, SIZES, st.integers(0, 10**9))
def test_an_intent_is_read_back_from_a_name_as_it_was_written(
    pilot: str, pool: str, traits: Any, size: Resources, lifetime_s: int
) -> None:
    told = spec(pilot, pool=pool, traits=traits, size=size, lifetime_s=lifetime_s)
    name = folded(told, letters_max=10_000)
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_")
    found = unfolded(name)
    assert (found.pilot, found.site, found.offer, found.pool) == (told.name, told.site, told.offer, told.pool)
    assert (found.size, found.traits, found.lifetime_s) == (told.size, told.traits, told.lifetime_s)
    assert (found.owner_hash, found.digest, found.asked_at) == (
        owner_hash(told.owner),
        digest(told),
        told.asked_at,
    )
    assert name_looks_ours(name, told.site)
    assert found == intent_of(told.name, label_of(told))


@given(st.data(), PILOTS)
def test_a_name_that_was_cut_or_changed_is_never_read(data: Any, pilot: str) -> None:
    name = folded(spec(pilot), letters_max=10_000)
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abz27-_AZ \n"))
    for other in {name[:place], name[:place] + letter + name[place + 1 :], name + letter} - {name}:
        with pytest.raises(ValueError, match=r"was cut or is not ours|is no name of a pilot") as caught:
            unfolded(other)
        assert str(caught.value).isprintable()


@given(st.text(max_size=300))
def test_any_text_is_refused_on_one_line(text: str) -> None:
    for read in (lambda: unfolded(text), lambda: intent_of("gp-1", text), lambda: intent_of(text, "a")):
        with pytest.raises(ValueError) as caught:
            read()
        assert str(caught.value).isprintable()


def test_a_usual_name_fits_what_common_queues_take_and_a_long_one_says_what_to_do() -> None:
    told = spec("gp-7f3a-c1234-0001", offer="west/standard", pool="campus")
    assert len(folded(told, letters_max=128)) <= 128
    with pytest.raises(ValueError, match="`name_letters_max` is 100; shorten"):
        folded(told, letters_max=100)


def test_a_repeated_request_has_the_same_digest_and_another_has_not() -> None:
    assert digest(spec(asked_at=9)) == digest(spec())
    others = [spec(lifetime_s=1), spec(owner="b"), spec(traits=()), spec(size=Resources(1, 1)), spec("gp-2")]
    assert len({digest(each) for each in (spec(), *others)}) == 6


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("", False),
        ("gp-1", False),
        ("my_g1_job", False),
        ("x_g1interactive", False),
        ("gp 1_g1", False),
        ("gp-1_g1", True),
        ("gp-1_g1ar3", True),
    ],
)
def test_a_name_looks_ours_where_it_could_be_one_of_ours_that_was_cut(name: str, ours: bool) -> None:
    assert name_looks_ours(name, SiteName("west")) is ours


@pytest.mark.parametrize(
    ("per_cpu", "cpus", "wanted", "box"),
    [
        (0, (), (500, 100), (1000, 100)),
        (0, (), (1001, 100), (2000, 100)),
        (2048, (), (1000, 2049), (2000, 4096)),
        (2048, (), (4000, 100), (4000, 8192)),
        (2048, (16, 48), (1000, 100), (16_000, 32_768)),
        (2048, (48, 16), (16_000, 32_769), (48_000, 98_304)),
        (0, (16, 48), (17_000, 5), (48_000, 5)),
        (2048, (16, 48), (48_001, 5), None),
        (2048, (16,), (1000, 32_769), None),
    ],
)
def test_the_smallest_container_that_holds_a_size(
    per_cpu: int, cpus: tuple[int, ...], wanted: tuple[int, int], box: tuple[int, int] | None
) -> None:
    boxes = Boxes(per_cpu, cpus)
    found = boxes.holding(Resources(*wanted, 7, 1))
    assert (found and found.as_tuple()) == (box and (*box, 7, 1))
    assert boxes.refusal(Resources(*wanted)).startswith("the cloud has no container of") is (wanted != box)


@given(
    st.integers(0, 4096), st.lists(st.integers(1, 64), max_size=3), st.tuples(*[st.integers(0, 10**6)] * 4)
)
def test_a_container_holds_what_it_is_for_and_holds_itself(per_cpu: int, cpus: list[int], size: Any) -> None:
    boxes, wanted = Boxes(per_cpu, cpus), Resources(*size)
    found = boxes.holding(wanted)
    if found is not None:
        assert all(want <= have for want, have in zip(size, found.as_tuple(), strict=True))
        assert boxes.holding(found) == found
        assert boxes.refusal(found) == ""


def test_owners_are_kept_for_the_next_life_and_a_broken_file_costs_names_only(tmp_path: Path) -> None:
    path = tmp_path / "cloud" / "owners.json"
    Owners(path).learn(Owner("ada"))
    hashed = owner_hash(Owner("ada"))
    assert Owners(path).named(hashed) == "ada"
    assert (Owners(path).named(""), Owners(path).named("00")) == ("", "hash-00")
    for text in ("{", "[]", f'{{"{hashed}": "eve"}}', "[" * 100_000):
        path.write_text(text)
        assert Owners(path).named(hashed) == f"hash-{hashed}"
    blocked = Owners(Path("/proc/nowhere/owners.json"))
    blocked.learn(Owner("ada"))
    assert blocked.named(hashed) == "ada"


def test_a_key_is_read_anew_and_only_where_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    read = key_source(str(path), "", {})
    with pytest.raises(ValueError, match="cannot be read"):
        read()
    for text, found in (("one\n", "one"), ("two", "two")):
        path.write_text(text)
        path.chmod(0o600)
        assert read() == found
    path.chmod(0o644)
    with pytest.raises(ValueError, match="others may read"):
        read()
    path.chmod(0o600)
    for bad, words in (("", "is empty"), ("two\nlines", "holds no key"), ("\u202e", "holds no key")):
        path.write_text(bad)
        with pytest.raises(ValueError, match=words):
            read()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="is no file"):
        key_source(str(tmp_path / "pipe"), "", {})()
    assert key_source("", "", {})() == ""
    assert without("a k-secret b", ("k-secret", "b")) == "a <hidden> b"
