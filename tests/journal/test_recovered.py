"""A crash between the plan and its outcomes loses no statistics of pilots that the plan wrote off."""

from __future__ import annotations

from glidepath.clock import Moment
from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Plan, Reason
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import PoolRules, Rules
from glidepath.core.provision.pilot import Clear, Ended, PilotAction, PilotPhase, WriteOff
from glidepath.core.provision.sight import Snapshot
from glidepath.core.quantity import Instant, OfferKey, Owner, PilotName, PoolName, SiteName
from glidepath.journal.journal import Journal
from glidepath.store.engine import Store

WEST = SiteName("west")


def ended(name: str) -> Ended:
    return Ended(
        name=PilotName(name),
        site=WEST,
        offer=OfferKey("west/one"),
        pool=PoolName("pool"),
        owner=Owner("ann"),
        phase=PilotPhase.GONE,
        why="it never appeared",
        asked_at=Instant(100),
        ended_at=Instant(700),
        pending_s=600,
        starting_s=0,
        busy_s=0,
        idle_s=0,
        failed_s=0,
        jobs_run=0,
    )


def a_plan() -> Plan[PilotAction]:
    because = Reason(Because.NEVER_APPEARED)
    decisions: tuple[Decision[PilotAction], ...] = (
        Decision("site:west", because, WriteOff(WEST, (ended("gone"),))),
        Decision("site:west", because, Clear(WEST, (ended("listed"),), ("7",))),
    )
    return Plan(1, Instant(700), decisions, 10)


def test_what_was_written_off_is_recorded_by_the_next_life_and_only_once(store: Store) -> None:
    moment = Moment(1700.0, Instant(700), "boot", 700.0)
    rules = Rules(pools=(PoolRules(PoolName("pool")),), sites=())
    snapshot = Snapshot(Instant(700), (), (), ())
    Journal(store).planned(moment, snapshot, Memory("a", Instant(0)), rules=rules, plan=a_plan())
    next_life = Journal(store)
    last = next_life.latest()
    assert last is not None
    assert next_life.ended() == ()
    for _ in range(2):
        next_life.recover(last)
    # Whether the site was cleared of the other one is not known: it is cleared again, and recorded then.
    assert [row.ended.name for row in next_life.ended()] == ["gone"]
