"""Nodes on which pilots join and jobs fail: avoided by name, unless jobs fail everywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.builders import NOW, after, demand, later, listed, memory, plan_of, rules, site, slot, snapshot
from core.test_look import JOINED, track
from glidepath.core.cycle import Seen
from glidepath.core.provision.memory import Memory, NodeHealth
from glidepath.core.provision.pilot import PilotPhase as P
from glidepath.core.provision.pilot import SiteState, Submit
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, NodeName, SiteName

UNDER = rules(site("west", node_failures_max=3, quarantine_s=600))
EATEN = "black hole: 6 jobs failed within 5 s"
# As sites tell the pilot's own word.
TOLD = [EATEN, f"{EATEN}, 6 jobs run, 6 failed", f"exit code 1: {EATEN}"]
GOOD = track("good", P.BUSY, node=NodeName("n1"), jobs_run=4, **JOINED)
WORKS = (listed("good", node=NodeName("n1")), slot("good", 1, jobs_run=4))


def one_more(mem: Memory, number: int, note: str, *, node: str = "n7", works: bool = True) -> Memory:
    """A pilot joins there, beside one that works elsewhere, and ends with these words."""
    name = f"p{number}"
    mem = replace(mem, tracks=(*((GOOD,) if works else ()), track(name, P.STARTING, node=NodeName(node))))
    others, slots = ((WORKS[0],), (WORKS[1],)) if works else ((), ())
    joins = snapshot(pilots={"west": (*others, listed(name, node=node))}, slots=(*slots, slot(name)))
    _, mem = after(joins, mem, UNDER)
    ends = snapshot(
        pilots={"west": (*others, listed(name, SiteState.FAILED, node=node, note=note))}, slots=slots
    )
    return after(ends, mem, UNDER)[1]


def until(mem: Memory) -> dict[str, Instant | None]:
    return {node.node: node.until for node in mem.nodes}


@pytest.mark.parametrize("note", TOLD)
def test_a_node_whose_pilots_lose_all_their_jobs_is_avoided_though_they_join(note: str) -> None:
    mem = memory()
    for number in range(3):
        mem = one_more(mem, number, note)
        assert until(mem) == {"n7": Instant(NOW + 600) if number == 2 else None}
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
        mem = one_more(mem, number, EATEN, node=f"n{number % 2 + 7}")
    assert until(mem) == {"n7": None, "n8": None}


def test_where_no_other_node_has_work_that_goes_on_the_jobs_may_be_bad_and_no_node_is_to_blame() -> None:
    mem = memory()
    for number in range(5):
        mem = one_more(mem, number, EATEN, works=False)
    assert until(mem) == {"n7": None}


def test_a_pilot_that_worked_there_to_a_good_end_clears_the_node_unless_it_is_quarantined() -> None:
    for known in (None, Instant(NOW + 60)):
        bad = NodeHealth(SiteName("west"), NodeName("n7"), 2, known, EATEN, Instant(NOW - 9), eats=True)
        old = track("p1", P.IDLE, node=NodeName("n7"), jobs_run=3, **JOINED)
        snap = snapshot(pilots={"west": (listed("p1", SiteState.ENDED, node="n7"),)})
        _, mem = after(snap, memory(tracks=(old,), nodes=(bad,)), UNDER)
        assert mem.nodes == (() if known is None else (bad,))


@pytest.mark.parametrize("avoids", [True, False])
def test_a_site_that_cannot_be_told_which_nodes_to_avoid_is_said_to_be_so(avoids: bool) -> None:
    bad = NodeHealth(SiteName("west"), NodeName("n7"), 3, Instant(NOW + 60))
    listing = Seen(Instant(NOW), SiteListing((), avoids_nodes=avoids))
    plan = plan_of(snapshot((), {"west": listing}), memory(nodes=(bad,)), UNDER)
    [told] = [str(each.reason) for each in plan.decisions if each.about == "site:west"]
    but = "" if avoids else ", but: the site cannot be told which nodes to avoid"
    assert told == f"the site is seen and open (live=0, quarantined=n7{but})"
