"""Remembering to the letter: what one plan and its outcomes leave in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import NOW, POOL, memory, picture_of, rules, site, snapshot
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Did, Done, Failed, Outcome, Plan, Reason, Refused, Unsure
from glidepath.core.provision.memory import Health, Memory
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import PilotAction, PilotPhase, Submit, Track
from glidepath.core.provision.remember import CLEARED_KEPT_MAX, remember
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, Resources, SiteName

SIZE = Resources(1000, 1024)
NAME, KEY, WEST = PilotName("p1"), OfferKey("west/a"), SiteName("west")
TRAITS, EVE = (("os", "el9"),), Owner("eve")
UNDER = rules(site("east", failures_max=9), site("west", failures_max=2, refused_s=77))


def remembered(
    outcome: Outcome, before: Memory, under: Rules = UNDER, *, marks: Any = (), where: str = "west"
) -> Memory:
    submit = Submit(SiteName(where), KEY, POOL, SIZE, TRAITS, 3600, 600, (NAME,), EVE)
    decision: Decision[PilotAction] = Decision("offer:west/a", Reason(Because.ASKED_HERE), submit)
    picture = picture_of(snapshot(), before, under)
    return remember(picture, Plan(8, NOW, (decision,), 10, marks), [Did("submit", NAME, outcome)], under)


@pytest.mark.parametrize("outcome", [Done(), Unsure("no answer")])
def test_what_was_asked_for_is_expected_with_all_that_was_asked(outcome: Outcome) -> None:
    expected = Track(NAME, WEST, KEY, POOL, SIZE, PilotPhase.EXPECTED, NOW, NOW, TRAITS, EVE)
    found = remembered(outcome, memory(cycle=7))
    assert (found.tracks, found.cycle, found.at, found.health) == ((expected,), 8, NOW, ())


FAILED = {"failures": 2, "failed": 5, "why": "no"}
OPENED = {"opened_at": NOW, "openings": 1}


@pytest.mark.parametrize(
    ("outcome", "offer", "whole"),
    [
        (
            Failed("no"),
            Health(KEY, retry_at=Instant(NOW + 60), **OPENED, **FAILED),
            Health(WEST, **FAILED),
        ),
        (
            Refused("no"),
            Health(KEY, retry_at=Instant(NOW + 77), **OPENED, **FAILED),
            Health(WEST, failures=1, failed=4),
        ),
    ],
)
def test_a_failed_create_counts_against_its_offer_and_more_mildly_its_site(
    outcome: Outcome, offer: Health, whole: Health
) -> None:
    before = memory(health=tuple(Health(about, failures=1, failed=4) for about in (WEST, KEY)))
    assert remembered(outcome, before).health == (whole, offer)
    # A site that is no longer configured has no patience to run out of.
    assert remembered(outcome, before, where="gone").health == before.health


@pytest.mark.parametrize(("marks", "quiet"), [((), 0), ((("quiet", Instant(5)),), 5)])
def test_how_quiet_it_was_is_remembered_and_is_no_mark(marks: Any, quiet: int) -> None:
    more = (*marks, ("surplus", Instant(9)))
    found = remembered(Done(), memory(), marks=more)
    assert (found.quiet, found.marks) == (quiet, (("surplus", Instant(9)),))


def test_sites_that_a_life_without_memory_has_not_seen_stay_unproven() -> None:
    assert remembered(Done(), memory(at=None)).unproven == ("east",)


def test_cleared_names_are_kept_for_an_hour_and_not_without_end() -> None:
    def cleared(*rows: tuple[str, int]) -> tuple[tuple[PilotName, Instant], ...]:
        return tuple((PilotName(name), Instant(at)) for name, at in rows)

    before = memory(cleared=cleared(("old", NOW - 3601), ("just", NOW - 3600), ("new", NOW)))
    assert remembered(Done(), before).cleared == before.cleared[1:]
    many = replace(before, cleared=cleared(*((f"p{n}", NOW) for n in range(20_001))))
    assert CLEARED_KEPT_MAX == 20_000
    assert remembered(Done(), many).cleared == many.cleared[1:]
