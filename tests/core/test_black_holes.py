"""Nodes on which pilots join and jobs fail: avoided by name, unless jobs fail everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.builders import (
    NOW,
    after,
    demand,
    later,
    listed,
    memory,
    offer,
    plan_of,
    rules,
    site,
    slot,
    snapshot,
)
from core.test_look import JOINED, track
from glidepath.core.cycle import Seen
from glidepath.core.provision.memory import Memory, NodeHealth
from glidepath.core.provision.pilot import PilotPhase as P
from glidepath.core.provision.pilot import SiteState, Submit
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, NodeName, OfferKey, SiteName

UNDER = rules(site("west", node_failures_max=3, quarantine_s=600))
EATEN = "black hole: 6 jobs failed within 5 s"
# As sites tell the pilot's own word.
TOLD = [EATEN, f"{EATEN}, 6 jobs run, 6 failed", f"exit code 1: {EATEN}"]
GOOD = track("good", P.BUSY, node=NodeName("n1"), jobs_run=4, **JOINED)
WORKS = (listed("good", node=NodeName("n1")), slot("good", 1, jobs_run=4))


def one_more(mem: Memory, number: int, note: str, *, where: str = "n7", works: bool = True) -> Memory:
    """A pilot joins there, beside one that works elsewhere, and ends with these words."""
    name = f"p{number}"
    mem = replace(mem, tracks=(*((GOOD,) if works else ()), track(name, P.STARTING, node=NodeName(where))))
    others, slots = ((WORKS[0],), (WORKS[1],)) if works else ((), ())
    joins = snapshot(pilots={"west": (*others, listed(name, node=where))}, slots=(*slots, slot(name)))
    _, mem = after(joins, mem, UNDER)
    ends = snapshot(
        pilots={"west": (*others, listed(name, SiteState.FAILED, node=where, note=note))}, slots=slots
    )
    return after(ends, mem, UNDER)[1]


def known(mem: Memory) -> dict[str, Instant | None]:
    return {node.node: node.until for node in mem.nodes}


@pytest.mark.parametrize("note", TOLD)
def test_a_node_whose_pilots_lose_all_their_jobs_is_avoided_though_they_join(note: str) -> None:
    mem = memory()
    for number in range(3):
        mem = one_more(mem, number, note)
        assert known(mem) == {"n7": Instant(NOW + 600) if number == 2 else None}
    plan = plan_of(snapshot((demand(idle=1),)), mem, UNDER)
    assert [each.avoid for each in plan.actions if isinstance(each, Submit)] == [("n7",)]
    _, mem = after(later(snapshot(), 601), mem, UNDER)
    assert mem.nodes == ()


def test_pilots_that_were_killed_at_work_do_not_add_up_as_long_as_others_join() -> None:
    mem = memory()
    for number in range(5):
        mem = one_more(mem, number, "preempted")
    assert [(node.failures, node.until) for node in mem.nodes] == [(1, None)]


def test_jobs_that_fail_on_every_node_are_the_fault_of_none() -> None:
    mem = memory()
    for number in range(8):
        mem = one_more(mem, number, EATEN, where=f"n{number % 2 + 7}")
    assert known(mem) == {"n7": None, "n8": None}


def test_where_no_other_node_has_work_that_goes_on_the_jobs_may_be_bad_and_no_node_is_to_blame() -> None:
    mem = memory()
    for number in range(5):
        mem = one_more(mem, number, EATEN, works=False)
    assert known(mem) == {"n7": None}


def node(name: str, failures: int, *, site: str = "west", eats: bool = True, **more: Any) -> NodeHealth:
    return NodeHealth(
        SiteName(site), NodeName(name), failures, why=EATEN, at=Instant(NOW - 9), eats=eats, **more
    )


AWAY = {"site": SiteName("east"), "offer": OfferKey("east/a")}


@pytest.mark.parametrize(
    ("other", "also", "guilty"),
    [
        ({}, (), True),
        ({"jobs_run": 0}, (), False),
        ({"node": NodeName("n7")}, (), False),
        ({"node": NodeName("")}, (), False),
        (AWAY, (), False),
        ({}, (node("n8", 1),), True),
        ({}, (node("n8", 2),), False),
        ({}, (node("n8", 1), node("n9", 1)), False),
        ({}, (node("n8", 9, eats=False),), True),
        ({}, (node("n8", 9, site="east"),), True),
        ({}, (node("n7", 9, site="east"),), True),
    ],
)
def test_a_node_is_to_blame_for_eaten_jobs_where_others_of_its_site_fare_better(
    other: dict[str, Any], also: tuple[NodeHealth, ...], guilty: bool
) -> None:
    under = rules(site("east", offer("east")), *UNDER.sites)
    old = track("p1", P.BUSY, node=NodeName("n7"), jobs_run=1, **JOINED)
    tracks = (old, replace(GOOD, **other))
    ends = listed("p1", SiteState.FAILED, node="n7", note=EATEN)
    snap = snapshot(pilots={"west": (ends,), "east": ()})
    _, mem = after(snap, memory(tracks=tracks, nodes=(node("n7", 2), *also)), under)
    [found] = [each for each in mem.nodes if (each.site, each.node) == ("west", "n7")]
    assert (found.failures, found.until) == (3, Instant(NOW + 600) if guilty else None)


@pytest.mark.parametrize(
    ("until", "jobs_run", "cleared"), [(None, 3, True), (None, 0, False), (Instant(NOW + 60), 3, False)]
)
def test_a_pilot_that_worked_there_to_a_good_end_clears_the_node_unless_it_is_quarantined(
    until: Instant | None, jobs_run: int, cleared: bool
) -> None:
    bad = node("n7", 2, until=until)
    old = track("p1", P.IDLE, node=NodeName("n7"), jobs_run=jobs_run, **JOINED)
    snap = snapshot(pilots={"west": (listed("p1", SiteState.ENDED, node="n7"),)})
    _, mem = after(snap, memory(tracks=(old,), nodes=(bad,)), UNDER)
    assert mem.nodes == (() if cleared else (bad,))


@pytest.mark.parametrize("avoids", [True, False])
def test_a_site_that_cannot_be_told_which_nodes_to_avoid_is_said_to_be_so(avoids: bool) -> None:
    bad = NodeHealth(SiteName("west"), NodeName("n7"), 3, Instant(NOW + 60))
    listing = Seen(Instant(NOW), SiteListing((), avoids_nodes=avoids))
    plan = plan_of(snapshot((), {"west": listing}), memory(nodes=(bad,)), UNDER)
    [told] = [str(each.reason) for each in plan.decisions if each.about == "site:west"]
    but = "" if avoids else ", but: the site cannot be told which nodes to avoid"
    assert told == f"the site is seen and open (live=0, quarantined=n7{but})"
