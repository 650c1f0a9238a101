"""The books to the letter: what one look makes of one pilot, as whole tracks, losses and health."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import NOW, POOL, listed, memory, picture_of, rules, site, slot, snapshot
from glidepath.core.because import Because
from glidepath.core.cycle import Unseen
from glidepath.core.provision.memory import Health, NodeHealth
from glidepath.core.provision.picture import Lost, Picture
from glidepath.core.provision.pilot import PilotPhase, SiteState, Track
from glidepath.core.quantity import Instant, NodeName, OfferKey, Owner, PilotName, Resources, SiteName

P, S = PilotPhase, SiteState
WEST, KEY, NODE = SiteName("west"), OfferKey("west/a"), NodeName("n1")
SIZE = Resources(1000, 1024, 100_000)
UNSEEN = Unseen(Instant(NOW - 30), "timed out")
RUNS = {"started_at": Instant(NOW - 45), "joined_at": Instant(NOW - 40)}


def ago(seconds: int) -> Instant:
    return Instant(NOW - seconds)


def track(phase: PilotPhase, **more: Any) -> Track:
    row = {"site": WEST, "offer": KEY, "pool": POOL, "size": SIZE, "since": ago(50), "asked_at": ago(100)}
    return Track(**{"name": PilotName("p1"), "phase": phase, **row, **more})


def looked(old: Track | None, pilots: Any, heard: Any = None, **more: Any) -> Picture:
    slots = UNSEEN if heard == "unseen" else (heard,) if heard else ()
    mem = memory(tracks=(old,) if old else (), **more.pop("mem", {}))
    return picture_of(snapshot(pilots={"west": pilots}, slots=slots), mem, more.pop("under", None))


@pytest.mark.parametrize(
    ("old", "said", "heard", "changes"),
    [
        (track(P.IDLE, **RUNS), {}, slot("p1", 1), {"phase": P.BUSY, "since": NOW, "idle_s": 50}),
        (track(P.BUSY, **RUNS), {}, slot("p1"), {"phase": P.IDLE, "since": NOW, "busy_s": 50}),
        # It worked between two looks, or it only looks as if it had.
        (track(P.IDLE, **RUNS), {}, slot("p1", jobs_run=3), {"since": NOW, "idle_s": 50, "jobs_run": 3}),
        (track(P.BUSY, **RUNS), {}, slot("p1", 1, jobs_run=3), {"jobs_run": 3}),
        (track(P.IDLE, **RUNS), {"note": "hot"}, slot("p1"), {"note": "hot"}),
        (track(P.IDLE, native_id="7", **RUNS), {"note": "hot"}, slot("p1"), {"note": "hot"}),
        # Silence of the pool: from the first look on, for as long as the pool allows, and only if it is seen.
        (track(P.BUSY, **RUNS), {}, None, {"silent_since": NOW}),
        (track(P.BUSY, silent_since=ago(900), **RUNS), {}, None, {}),
        (
            track(P.BUSY, silent_since=ago(901), **RUNS),
            {},
            None,
            {"phase": P.UNKNOWN, "since": NOW, "busy_s": 50},
        ),
        (track(P.BUSY, silent_since=ago(5000), **RUNS), {}, "unseen", {}),
        (track(P.BUSY, silent_since=ago(100), **RUNS), {}, slot("p1", 1), {"silent_since": None}),
        (track(P.UNKNOWN, **RUNS), {}, "unseen", {}),
        # What never joined is what its site says of it.
        (
            track(P.DRAINING, started_at=ago(45)),
            {},
            None,
            {"phase": P.STARTING, "since": NOW, "busy_s": 50},
        ),
        (track(P.STARTING, **RUNS), {"state": S.PENDING}, None, {"phase": P.PENDING, "since": NOW}),
    ],
)
def test_a_pilot_is_followed_by_what_its_site_and_its_pool_say(
    old: Track, said: dict[str, Any], heard: Any, changes: dict[str, Any]
) -> None:
    picture = looked(old, (listed("p1", **{"state": S.RUNNING, **said}),), heard)
    assert picture.tracks == (replace(old, **changes),)


@pytest.mark.parametrize(
    ("state", "heard", "phase", "times"),
    [
        (S.RUNNING, slot("p1", 1, jobs_run=4), P.BUSY, {"started_at": 50, "joined_at": 50, "jobs_run": 4}),
        (S.RUNNING, slot("p1"), P.IDLE, {"started_at": 50, "joined_at": 50}),
        (S.RUNNING, None, P.STARTING, {"started_at": 50}),
        (S.PENDING, None, P.PENDING, {}),
        (S.LEAVING, None, P.DRAINING, {"started_at": 50}),
        (S.LEAVING, slot("p1", 1), P.DRAINING, {"started_at": 50, "joined_at": 50}),
        (S.ENDED, slot("p1", 1), P.DONE, {"started_at": 50}),
        (S.FAILED, None, P.FAILED, {}),
    ],
)
@pytest.mark.parametrize("note", ["", "its own words"])
def test_a_pilot_that_nobody_remembers_is_taken_up_with_all_that_is_known_of_it(
    state: SiteState, heard: Any, phase: PilotPhase, times: dict[str, int], note: str
) -> None:
    known = {"traits": (("os", "el9"),), "owner": Owner("eve"), "native_id": "7", "node": NODE, "note": note}
    taken = {name: ago(value) if name.endswith("_at") else value for name, value in times.items()}
    expected = track(phase, **known, **taken)
    picture = looked(None, (listed("p1", state, **known),), heard)
    if phase in (P.DONE, P.FAILED):
        assert (picture.tracks, picture.lost) == (
            (),
            (Lost(expected, note or phase.value, Because.ENDED, True),),
        )
    else:
        assert (picture.tracks, picture.lost) == ((expected,), ())


@pytest.mark.parametrize("west", [(), UNSEEN])
@pytest.mark.parametrize("was", [{"silent_since": 30}, {"missing_since": 30}, {"jobs_run": 2}])
def test_a_pilot_that_its_pool_hears_again_is_neither_silent_nor_missing(
    was: dict[str, int], west: Any
) -> None:
    old = track(P.BUSY, **{name: ago(at) if name != "jobs_run" else at for name, at in was.items()}, **RUNS)
    heard = looked(old, west, slot("p1", 1, jobs_run=3))
    assert heard.tracks == (track(P.BUSY, jobs_run=3, **RUNS),)


def test_a_pilot_that_a_listing_names_twice_is_one_pilot() -> None:
    twice = (listed("new"), listed("new"), listed("p1"), listed("p1"), listed("new"))
    picture = looked(track(P.STARTING, started_at=ago(50)), twice)
    assert [each.name for each in picture.tracks] == ["new", "p1"]


@pytest.mark.parametrize(
    ("leaving", "note", "why"),
    [("told to go", "bye", "told to go"), ("", "bye", "bye"), ("", "", "done")],
)
def test_a_loss_is_told_by_our_reason_then_the_site_s_then_its_phase(
    leaving: str, note: str, why: str
) -> None:
    old = track(P.BUSY, leaving=leaving, **RUNS)
    over = replace(old, phase=P.DONE, since=NOW, busy_s=50, note=note)
    picture = looked(old, (listed("p1", S.ENDED, note=note),), "unseen")
    assert picture.lost == (Lost(over, why, Because.ENDED, True),)
    # It stays so until its traces are cleared, whether its site can be seen or not.
    for west in (UNSEEN, ()):
        assert looked(over, west).lost == (Lost(over, why, Because.ENDED, True),)


PASSED = "its lifetime has passed and its site cannot be seen"


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        (track(P.BUSY, ends_at=ago(3600), **RUNS), True),
        (track(P.BUSY, ends_at=ago(3601), **RUNS), False),
        (track(P.BUSY, asked_at=ago(21_600 + 50_400 + 3600), **RUNS), True),
        (track(P.BUSY, asked_at=ago(21_600 + 50_400 + 3601), **RUNS), False),
        # An offer that is no longer configured may have lived for a week, a site kept things for a day.
        (track(P.BUSY, offer=OfferKey("west/x"), asked_at=ago(21_600 + 604_800 + 3600), **RUNS), True),
        (track(P.BUSY, offer=OfferKey("west/x"), asked_at=ago(21_600 + 604_800 + 3601), **RUNS), False),
        (track(P.BUSY, site=SiteName("x"), offer=OfferKey("x/x"), asked_at=ago(694_800), **RUNS), True),
        (track(P.BUSY, site=SiteName("x"), offer=OfferKey("x/x"), asked_at=ago(694_801), **RUNS), False),
    ],
)
def test_a_pilot_of_an_unseen_site_is_kept_while_it_may_live(old: Track, kept: bool) -> None:
    picture = looked(old, UNSEEN)
    gone = replace(old, phase=P.GONE, since=NOW, busy_s=50)
    lost = () if kept else (Lost(gone, PASSED, Because.VANISHED, False),)
    assert (picture.tracks, picture.lost) == ((old,) if kept else (), lost)


@pytest.mark.parametrize(
    ("old", "phase", "failures"),
    [
        (track(P.PENDING, ends_at=ago(9999)), P.GONE, 1),
        (track(P.PENDING, ends_at=ago(9999), leaving="told to go"), P.DONE, 0),
        (track(P.FAILED, ends_at=ago(9999)), P.FAILED, 1),
        (track(P.PENDING, ends_at=ago(9999), site=SiteName("x")), P.GONE, 0),
    ],
)
def test_what_is_written_off_is_a_failure_unless_it_was_told_to_go_or_its_site_is_gone(
    old: Track, phase: PilotPhase, failures: int
) -> None:
    picture = looked(old, UNSEEN)
    assert [lost.track.phase for lost in picture.lost] == [phase]
    told = Health("", failures=failures, failed=failures, why=PASSED)
    expected = {about: replace(told, about=about) for about in (KEY, WEST)} if failures else {}
    assert picture.health == expected


@pytest.mark.parametrize(
    ("old", "counted"),
    [(track(P.STARTING, started_at=ago(45)), True), (track(P.BUSY, **RUNS), False)],
)
@pytest.mark.parametrize("west", [(), UNSEEN])
def test_a_pilot_that_only_its_pool_knows_has_joined_once(old: Track, counted: bool, west: Any) -> None:
    before = tuple(Health(about, failures=1, latency_s=20, joined=4, failed=2) for about in (KEY, WEST))
    bad = NodeHealth(WEST, NODE, 2, None, "", ago(10))
    old = replace(old, node=NODE)
    picture = looked(old, west, slot("p1"), mem={"health": before, "nodes": (bad,)})
    after = {each.about: Health(each.about, latency_s=40, joined=5, failed=2) for each in before}
    assert picture.health == (after if counted else {each.about: each for each in before})
    assert picture.nodes == ({} if counted else {(WEST, NODE): bad})
    assert [each.phase for each in picture.tracks] == [P.IDLE]


@pytest.mark.parametrize(
    ("old", "state", "note", "why"),
    [
        (track(P.STARTING), S.FAILED, "no disk", "no disk"),
        (track(P.STARTING), S.FAILED, "", "it failed without a word"),
        (track(P.STARTING), S.ENDED, "", "it ended without joining the pool"),
        (track(P.PENDING, leaving="told to go"), S.FAILED, "no disk", None),
        (track(P.BUSY, **RUNS), S.FAILED, "no disk", None),
        (track(P.BUSY, **RUNS), S.ENDED, "", None),
    ],
)
def test_an_end_before_joining_counts_against_offer_and_site_in_the_words_of_the_site(
    old: Track, state: SiteState, note: str, why: str | None
) -> None:
    picture = looked(old, (listed("p1", state, note=note),))
    told = {about: Health(about, failures=1, failed=1, why=why or "") for about in (KEY, WEST)}
    assert (picture.health, picture.nodes) == (told if why else {}, {})


@pytest.mark.parametrize(("silent_s", "failures"), [(240, 1), (241, 0)])
def test_a_quick_end_proves_nothing_after_a_long_silence_of_our_own(silent_s: int, failures: int) -> None:
    picture = looked(track(P.STARTING), (listed("p1", S.ENDED),), mem={"at": ago(silent_s)})
    assert [each.failures for each in picture.health.values()] == [failures] * (2 if failures else 0)


def test_failures_add_up_and_open_the_offer_before_the_site() -> None:
    before = tuple(Health(about, failures=1, failed=7) for about in (KEY, WEST))
    under = rules(site("west", failures_max=2))
    picture = looked(track(P.STARTING), (listed("p1", S.FAILED),), mem={"health": before}, under=under)
    told = {"failures": 2, "failed": 8, "why": "it failed without a word"}
    opened = {"opened_at": NOW, "retry_at": Instant(NOW + 60), "openings": 1}
    assert picture.health == {KEY: Health(KEY, **told, **opened), WEST: Health(WEST, **told)}


@pytest.mark.parametrize(
    ("state", "node_failures", "site_failures", "expected"),
    [
        (S.FAILED, 0, None, (1, None)),
        (S.FAILED, 2, 5, (3, Instant(NOW + 3600))),
        (S.FAILED, 2, 6, (3, None)),
        (S.ENDED, 0, None, None),
    ],
)
def test_of_a_pilot_that_had_joined_at_most_its_node_is_to_blame(
    state: SiteState, node_failures: int, site_failures: int | None, expected: Any
) -> None:
    health = (Health(WEST, failures=site_failures),) if site_failures else ()
    nodes = (NodeHealth(WEST, NODE, node_failures, None, "", ago(10)),) if node_failures else ()
    old = track(P.BUSY, node=NODE, **RUNS)
    pilot = listed("p1", state, node=NODE, note="lost disk")
    picture = looked(old, (pilot,), mem={"health": health, "nodes": nodes})
    told = NodeHealth(WEST, NODE, *expected, "lost disk", NOW) if expected else None
    assert picture.nodes == ({(WEST, NODE): told} if told else {})
    assert tuple(picture.health.values()) == health


@pytest.mark.parametrize(
    ("old", "kept", "why"),
    [
        (track(P.EXPECTED, asked_at=ago(600)), {}, None),
        (track(P.EXPECTED, asked_at=ago(601)), None, "unlisted 601 s after it was asked for"),
        (track(P.BUSY, **RUNS), {"phase": P.UNKNOWN, "since": NOW, "busy_s": 50, "missing_since": NOW}, None),
        (track(P.UNKNOWN, missing_since=ago(300), **RUNS), {}, None),
        (track(P.UNKNOWN, missing_since=ago(301), **RUNS), None, "missing from the listing for 301 s"),
    ],
)
def test_a_pilot_that_a_full_listing_lacks_is_written_off_only_after_the_site_s_own_bound(
    old: Track, kept: dict[str, Any] | None, why: str | None
) -> None:
    picture = looked(old, ())
    assert picture.tracks == ((replace(old, **kept),) if kept is not None else ())
    because = Because.NEVER_APPEARED if old.phase is P.EXPECTED else Because.VANISHED
    told = [(lost.track.phase, lost.why, lost.because, lost.listed) for lost in picture.lost]
    assert told == ([(P.GONE, why, because, False)] if why else [])
