"""The loop: written down before it is done, nothing done that could not be written down, and the same core
for a shadow."""

from __future__ import annotations

from typing import Any

from core.builders import NOW, demand, listed, memory, rules, slot, snapshot
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Did, Done, Plan, Reason
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.picture import Picture
from glidepath.core.provision.pilot import PilotAction, PilotName, Submit
from glidepath.core.provision.policies.seed import Seed
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import OfferKey, Resources, SiteName
from glidepath.loop import run_cycle
from glidepath.provisioner import Doors, Provisioner
from glidepath.shadow import Difference


class Told(Provisioner):
    """The real shell with a snapshot handed in, that notes what was done in which order."""

    seen: Snapshot
    story: list[str]

    def observe(self, memory: Memory) -> Snapshot:
        self.story.append("observe")
        return self.seen

    def act(self, plan: Plan[PilotAction]) -> tuple[Did, ...]:
        self.story.append("act")
        return tuple(
            Did("submit", name, Done()) for a in plan.actions if isinstance(a, Submit) for name in a.names
        )


class Book:
    """A journal that notes the order, and fails where it is told to."""

    def __init__(self, story: list[str], *, fails: str = "") -> None:
        self.story = story
        self.fails = fails

    def planned(self, snapshot: Snapshot, memory: Memory, plan: Plan[PilotAction]) -> None:
        self.story.append("planned")
        if self.fails == "planned":
            raise OSError("no space left on device")

    def acted(self, plan: Plan[PilotAction], outcomes: tuple[Did, ...]) -> None:
        self.story.append("acted")
        if self.fails == "acted":
            raise OSError("no space left on device")


def shell(**more: Any) -> Told:
    found = Told(Doors({}, {}, None, None), rules(), Seed(), **more)  # type: ignore[arg-type]
    found.seen, found.story = snapshot((demand(idle=2),)), []
    return found


def test_the_plan_is_written_before_anything_is_done_and_the_outcomes_after() -> None:
    told = shell()
    cycle = run_cycle(told, Book(told.story), memory())
    assert told.story == ["observe", "planned", "act", "acted"]
    assert (cycle.memory.cycle, len(cycle.memory.tracks), cycle.unrecorded) == (1, 2, "")


def test_nothing_is_done_or_remembered_when_the_plan_cannot_be_written() -> None:
    told, before = shell(), memory()
    cycle = run_cycle(told, Book(told.story, fails="planned"), before)
    assert told.story == ["observe", "planned"]
    assert (cycle.memory, cycle.outcomes, cycle.unrecorded) == (before, (), "no space left on device")


def test_what_was_done_is_remembered_also_when_its_outcomes_cannot_be_written() -> None:
    told = shell()
    cycle = run_cycle(told, Book(told.story, fails="acted"), memory())
    assert (len(cycle.memory.tracks), cycle.unrecorded) == (2, "no space left on device")


class Broken(Told):
    def decide(self, picture: Picture) -> Plan[PilotAction]:
        names = (PilotName("p1"),)
        action = Submit(
            SiteName("west"), OfferKey("west/a"), picture.wanted[0].demand.pool, Resources(1), (), 1, 1, names
        )
        plan = super().decide(picture)
        planted = Decision("offer:west/a", Reason(Because.ASKED_HERE), action)
        return Plan(plan.cycle, plan.at, (*plan.decisions, planted), plan.wake_after_s, plan.marks)


def test_a_plan_that_breaks_an_invariant_is_recorded_with_the_breach_and_not_carried_out() -> None:
    told = Broken(Doors({}, {}, None, None), rules(), Seed())  # type: ignore[arg-type]
    told.seen = snapshot((demand(idle=1),), pilots={"west": (listed("p1"),)}, slots=(slot("p1", 1),))
    told.story = []
    cycle = run_cycle(told, Book(told.story), memory())
    first = cycle.plan.decisions[0]
    assert (first.about, first.reason.because, cycle.plan.actions) == ("plan", Because.BREACH, ())
    assert first.reason.facts == (("once", "the name `p1` is used twice"),)


def test_a_shadow_expects_nothing_of_what_it_would_have_asked_for() -> None:
    told = shell(shadow=True)
    cycle = run_cycle(told, Book(told.story), memory())
    assert len(cycle.plan.actions) == 1
    assert cycle.memory.tracks == ()


def test_the_difference_counts_what_we_would_have_asked_for_beside_what_appeared() -> None:
    told, difference = shell(shadow=True), Difference()
    first = run_cycle(told, Book(told.story), memory())
    assert difference.lines(first.snapshot, first.plan) == [
        "shadow west/a: would have asked for 2, 0 appeared, difference +2"
    ]
    told.seen = snapshot((demand(idle=0),), pilots={"west": (listed("x1"), listed("x2"), listed("x3"))})
    second = run_cycle(told, Book(told.story), first.memory)
    assert difference.lines(second.snapshot, second.plan) == [
        "shadow west/a: would have asked for 2, 3 appeared, difference -1"
    ]
    assert difference.summary() == ["shadow west/a: would have asked for 2, 3 appeared, difference -1"]
    assert Difference().summary() == ["shadow: nothing was asked for and nothing appeared"]
    assert second.plan.at == NOW
