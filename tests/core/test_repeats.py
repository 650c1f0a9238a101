"""A create that may still be repeated: its name stays at the site until then, and a second life is booked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import (
    NOW,
    after,
    asked,
    demand,
    later,
    limits,
    listed,
    memory,
    picture_of,
    plan_of,
    rules,
    site,
    slot,
    snapshot,
)
from core.small_world import World
from core.test_worlds import turn, two_sites, within_limits
from glidepath.core.because import Because
from glidepath.core.check import Breach, check
from glidepath.core.cycle import Outcome
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Rules, SiteRules
from glidepath.core.provision.pilot import (
    Clear,
    Drain,
    PilotPhase,
    SitePilot,
    SiteState,
    Submit,
    Withdraw,
)
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.retire import settled
from glidepath.core.provision.sight import Snapshot, Window
from glidepath.core.quantity import Instant, PilotName, SiteName

P = PilotPhase
REPEAT_S = 120
KEPT = rules(site("west", repeat_s=REPEAT_S), withdraw_after_s=0)
EAGER = Steady(release_s=1)


def asked_ago(
    seconds: int, name: str = "p1", state: SiteState = SiteState.PENDING, **more: object
) -> SitePilot:
    return listed(name, state, asked_at=Instant(NOW - seconds), since=Instant(NOW - seconds), **more)


def withdrawn(snap: Snapshot, under: Rules) -> list[str]:
    plan = plan_of(snap, under=under, policy=EAGER)
    return [target.name for a in plan.actions if isinstance(a, Withdraw) for target in a.pilots]


@pytest.mark.parametrize(
    ("age_s", "repeat_s", "stopping", "expected"),
    [
        (0, 120, False, False),
        (119, 120, False, False),
        (120, 120, False, True),
        (9999, 120, False, True),
        (0, 0, False, True),
        (0, 120, True, True),  # Whoever stops does not come back to clear up.
        (0, None, False, True),  # The site is no longer configured, so nobody knows how long.
    ],
)
def test_a_create_is_settled_when_nothing_on_the_way_can_repeat_it(
    age_s: int, repeat_s: int | None, stopping: bool, expected: bool
) -> None:
    picture = picture_of(snapshot(pilots={"west": (asked_ago(age_s),)}, stopping=stopping))
    found: SiteRules | None = None if repeat_s is None else site("west", repeat_s=repeat_s)
    assert settled(picture.tracks[0], found, picture) is expected


@pytest.mark.parametrize("state", [SiteState.ENDED, SiteState.FAILED])
@pytest.mark.parametrize(
    ("age_s", "stopping", "cleared"),
    [(0, False, False), (119, False, False), (120, False, True), (5, True, True)],
)
def test_a_pilot_that_ended_is_cleared_only_when_its_create_is_settled(
    state: SiteState, age_s: int, stopping: bool, cleared: bool
) -> None:
    snap = snapshot(pilots={"west": (asked_ago(age_s, state=state),)}, stopping=stopping)
    plan = plan_of(snap, under=KEPT)
    assert [e.name for a in plan.actions if isinstance(a, Clear) for e in a.ended] == ["p1"] * cleared
    assert check(picture_of(snap, under=KEPT), KEPT, plan) == ()


def test_a_pilot_that_ended_early_is_kept_judged_once_and_cleared_once_with_the_time_of_its_end() -> None:
    pilot = asked_ago(0, state=SiteState.FAILED, note="no image")
    _, mem = after(snapshot(pilots={"west": (asked_ago(0),)}), memory(), KEPT)
    found = []
    for seconds in (10, 20, 110, 119, 120, 130):
        plan, mem = after(later(snapshot(pilots={"west": (pilot,)}), seconds), mem, KEPT)
        ends = [(e.why, e.phase, e.ended_at) for a in plan.actions if isinstance(a, Clear) for e in a.ended]
        found.append((ends, [t.phase for t in mem.tracks], {h.about: h.failures for h in mem.health}))
    once = {"west/a": 1, "west": 1}
    kept = ([], [P.FAILED], once)
    assert found == [
        *[kept] * 4,
        ([("no image", P.FAILED, NOW + 10)], [], once),
        ([], [], once),  # It is still listed, as its site trails behind; that is old news.
    ]


def test_a_pilot_that_has_ended_and_is_not_cleared_yet_takes_no_room_of_a_limit() -> None:
    under = rules(site("west", repeat_s=REPEAT_S, limits=limits(live_max=1)))
    snap = snapshot((demand(idle=3),), pilots={"west": (asked_ago(10, state=SiteState.ENDED),)})
    plan = plan_of(snap, under=under)
    assert (asked(plan), [type(a) for a in plan.actions]) == ({"west/a": 1}, [Submit])


@pytest.mark.parametrize("age_s", [0, 119])
def test_what_ended_and_is_missing_from_a_listing_is_cleared_all_the_same_when_its_time_has_come(
    age_s: int,
) -> None:
    """The listing may be an old one; clearing what is gone does nothing."""
    _, mem = after(snapshot(pilots={"west": (asked_ago(age_s, state=SiteState.ENDED),)}), memory(), KEPT)
    assert [t.phase for t in mem.tracks] == [P.DONE]
    plan, _ = after(later(snapshot(), 0), mem, KEPT)
    assert plan.actions == ()
    plan, _ = after(later(snapshot(), REPEAT_S), mem, KEPT)
    assert [type(a) for a in plan.actions] == [Clear]


WINDOW = Window(SiteName("west"), Instant(NOW + 60), Instant(NOW + 9000), "psu")


@pytest.mark.parametrize(("age_s", "goes"), [(0, False), (119, False), (120, True)])
@pytest.mark.parametrize(
    ("because", "key", "pending_s_max", "windows"),
    [
        (Because.SURPLUS_PENDING, "west/a", 9999, ()),
        (Because.OFFER_GONE, "west/gone", 9999, ()),
        (Because.OVERDUE, "west/a", -1, ()),
        (Because.WINDOW_DRAIN, "west/a", 9999, (WINDOW,)),
    ],
)
def test_a_pending_pilot_is_withdrawn_only_when_its_create_is_settled(
    age_s: int, goes: bool, because: Because, key: str, pending_s_max: int, windows: tuple[Window, ...]
) -> None:
    under = rules(site("west", repeat_s=REPEAT_S, pending_s_max=pending_s_max), withdraw_after_s=0)
    pilots = {"west": (asked_ago(age_s, key=key),)}
    found = [
        (d.reason.because, [target.name for target in d.action.pilots])
        for d in plan_of(snapshot(pilots=pilots, windows=windows), under=under, policy=EAGER).decisions
        if isinstance(d.action, Withdraw)
    ]
    assert found == ([(because, ["p1"])] if goes else [])
    stops = snapshot(pilots=pilots, windows=windows, stopping=True)
    assert withdrawn(stops, under) == ["p1"]  # Whoever stops waits for nothing.


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (0, ["p100", "p130", "p140"]),
        (1, ["p100", "p130", "p140"]),
        (2, ["p100", "p130"]),  # The newest of those that may go, though a younger one is surplus as well.
        (3, ["p100"]),
        (4, []),
    ],
)
def test_of_surplus_pilots_the_newest_settled_ones_go(idle: int, expected: list[str]) -> None:
    pilots = tuple(asked_ago(age_s, f"p{age_s}") for age_s in (140, 130, 100, 10))
    under = rules(site("west", repeat_s=100), withdraw_after_s=0)
    assert withdrawn(snapshot((demand(idle=idle),), pilots={"west": pilots}), under) == expected


def test_a_free_pilot_is_drained_whatever_its_age_because_its_name_stays() -> None:
    snap = snapshot(pilots={"west": (asked_ago(5, state=SiteState.RUNNING),)}, slots=(slot("p1"),))
    assert [type(a) for a in plan_of(snap, under=KEPT, policy=EAGER).actions] == [Drain]


CLEARED_AT = Instant(NOW - 300)


@pytest.mark.parametrize(
    ("state", "since_s", "phase"),
    [
        (SiteState.RUNNING, -1, None),
        (SiteState.RUNNING, 0, None),
        (SiteState.RUNNING, 1, P.STARTING),
        (SiteState.PENDING, 0, None),
        (SiteState.PENDING, 1, P.PENDING),
        (SiteState.LEAVING, 1, P.DRAINING),
        (SiteState.UNKNOWN, 1, P.UNKNOWN),
        (SiteState.ENDED, 0, None),
        (SiteState.ENDED, 1, None),  # Over again before anybody saw it; its statistics are kept already.
        (SiteState.FAILED, 1, None),
    ],
)
def test_a_cleared_name_that_came_to_life_again_is_adopted_and_one_from_before_is_old_news(
    state: SiteState, since_s: int, phase: PilotPhase | None
) -> None:
    pilot = listed("p1", state, since=Instant(CLEARED_AT + since_s), asked_at=Instant(CLEARED_AT - 100))
    mem = memory(cleared=((PilotName("p1"), CLEARED_AT),))
    snap = snapshot(pilots={"west": (pilot,)})
    seen = picture_of(snap, mem)
    assert ([t.phase for t in seen.tracks], seen.lost) == ([] if phase is None else [phase], ())
    assert check(seen, rules(), plan_of(snap, mem)) == ()


def test_the_last_time_that_a_name_was_cleared_is_the_one_that_counts() -> None:
    for last_s, booked in ((10, 0), (100, 1)):
        mem = memory(cleared=tuple((PilotName("p1"), Instant(NOW - s)) for s in (300, last_s)))
        pilot = listed("p1", since=Instant(NOW - 50))
        assert len(picture_of(snapshot(pilots={"west": (pilot,)}), mem).tracks) == booked


@pytest.mark.parametrize(
    ("state", "since_s", "breaches"),
    [
        (SiteState.RUNNING, 1, (Breach("unknown is not gone", "`p1` is listed alive and not on the books"),)),
        (SiteState.PENDING, 1, (Breach("unknown is not gone", "`p1` is listed alive and not on the books"),)),
        (SiteState.RUNNING, 0, ()),
        (SiteState.RUNNING, -50, ()),
        (SiteState.ENDED, 1, ()),
    ],
)
def test_the_checker_demands_that_a_name_that_lives_again_is_on_the_books(
    state: SiteState, since_s: int, breaches: tuple[Breach, ...]
) -> None:
    pilot = listed("p1", state, since=Instant(CLEARED_AT + since_s))
    mem = memory(cleared=((PilotName("p1"), CLEARED_AT),))
    bare = snapshot()
    # Booked and decided as if the listing had been empty.
    forgot = replace(picture_of(bare, mem), snapshot=snapshot(pilots={"west": (pilot,)}))
    assert check(forgot, rules(), plan_of(bare, mem)) == breaches


def test_a_second_life_counts_against_the_limits_and_is_cleared_in_its_turn() -> None:
    under = rules(site("west", limits=limits(live_max=2)))
    mem = memory(cleared=((PilotName("p1"), CLEARED_AT),))
    alive = listed("p1", since=Instant(NOW - 50))
    plan, mem = after(snapshot((demand(idle=5),), pilots={"west": (alive,)}), mem, under)
    assert asked(plan) == {"west/a": 1}
    over = listed("p1", SiteState.ENDED, since=Instant(NOW + 5))
    plan, mem = after(later(snapshot(pilots={"west": (over,)}), 10), mem, under)
    assert [e.name for a in plan.actions if isinstance(a, Clear) for e in a.ended] == ["p1"]
    assert [row for row in mem.cleared if row[0] == "p1"] == [("p1", CLEARED_AT), ("p1", NOW + 10)]


class RepeatingWorld(World):
    """Something between glidepath and the sites repeats creates, always sooner than after so long.

    A site that still has the name does nothing; one that has given it up starts a second pilot by it.
    """

    def __init__(self, seed: int, rules: Rules, repeats_s: int) -> None:
        super().__init__(seed, rules)
        self.repeats_s = repeats_s
        self.on_the_way: list[tuple[int, Submit, str]] = []
        self.second_lives: list[str] = []

    def _submit(self, submit: Submit, name: str) -> Outcome:
        known = name in self.workers
        outcome = super()._submit(submit, name)
        if name in self.workers and not known:
            self.on_the_way.append((self.now + self.draw.randrange(self.repeats_s), submit, name))
        return outcome

    def step(self, seconds: int) -> None:
        super().step(seconds)
        due = [row for row in self.on_the_way if row[0] <= self.now]
        self.on_the_way = [row for row in self.on_the_way if row[0] > self.now]
        for _, submit, name in due:
            if name not in self.workers:
                self.second_lives.append(name)
                super()._submit(submit, name)


def second_lives(seed: int, repeat_s: int) -> list[str]:
    """Names that came to life again in a world whose creates are repeated within two minutes."""
    under = two_sites(withdraw_after_s=0)
    under = replace(under, sites=tuple(replace(each, repeat_s=repeat_s) for each in under.sites))
    world = RepeatingWorld(seed, under, REPEAT_S)
    mem = Memory("sim", Instant(world.now))
    for _ in range(80):
        world.step(10)
        _, mem = turn(world, mem, under, Steady(release_s=0))
        if repeat_s:
            within_limits(world)
    return world.second_lives


def test_while_names_are_kept_no_repeated_create_starts_a_second_pilot() -> None:
    seeds = (0, 2, 5, 6)
    assert {seed: second_lives(seed, REPEAT_S) for seed in seeds} == {seed: [] for seed in seeds}
    assert any(second_lives(seed, 0) for seed in seeds)  # Without the rule it happens.
