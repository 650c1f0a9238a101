"""A journal of two real cycles, decided by the real core, for the verbs that read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from glidepath.core.cycle import Did, Done, Seen, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import DemandSight, JobAd, grouped
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.picture import look
from glidepath.core.provision.pilot import SitePilot, SiteState, Slot, Submit
from glidepath.core.provision.policies.steady import policy
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import (
    Instant,
    NodeName,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SiteName,
    SourceName,
)
from glidepath.journal.entry import Moment
from glidepath.journal.journal import Journal
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

from .conftest import WALL

POOL, HERE, WEST = PoolName("local"), SiteName("here"), SiteName("west")
CPU = Offer(HERE, "cpu", Resources(2000, 4096), limits=Limits(live_max=2))
BIG = Offer(WEST, "big", Resources(64_000, 262_144, gpus=1), traits=(("arch", "arm64"),))
RULES = Rules(
    pools=(PoolRules(POOL),),
    sites=(SiteRules(HERE, (CPU,)), SiteRules(WEST, (BIG,))),
)
SMALL = Shape(Resources(1000, 512))
HUGE = Shape(Resources(128_000, 512))
HOSTILE = "\x1b[2Jslurm \u202esaid\nno"


def snapshot(now: int, listing: SiteListing, slots: PoolSlots) -> Snapshot:
    jobs = [JobAd(SMALL, Owner("ann"), False, Instant(now - 60), 3600)] * 3
    jobs += [JobAd(SMALL, Owner("bob\x1b"), False, Instant(now - 5), 3600)]
    jobs += [JobAd(HUGE, Owner("ann"), False, Instant(now - 10))]
    demand = DemandSight(grouped(POOL, jobs, (CPU, BIG)))
    return Snapshot(
        now=Instant(now),
        demand=((POOL, SourceName("embedded"), Seen(Instant(now), demand)),),
        slots=((POOL, Seen(Instant(now), slots)),),
        sites=((HERE, Seen(Instant(now), listing)), (WEST, Unseen(Instant(now - 40), HOSTILE))),
    )


def write(home: Path) -> None:
    """Cycle 1 asks for pilots; in cycle 2 one is busy, one pending, and the site speaks strangely."""
    home.mkdir(parents=True)
    start = int(WALL) - 100
    memory = Memory("inc", Instant(start))
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        migrate(store)
        journal = Journal(store)
        memory, names = cycle(journal, memory, snapshot(start, SiteListing(()), PoolSlots(())))
        later = start + 60
        pilots = tuple(
            SitePilot(
                name,
                CPU.key,
                POOL,
                CPU.size,
                state,
                Instant(start + 10),
                Instant(start),
                node=NodeName("n1"),
                note=note,
            )
            for name, state, note in zip(
                names, (SiteState.RUNNING, SiteState.PENDING), ("", HOSTILE), strict=True
            )
        )
        slots = (Slot(names[0], Resources(1000, 3584), claims=1, jobs_run=4),)
        cycle(journal, memory, snapshot(later, SiteListing(pilots), PoolSlots(slots)))


def cycle(journal: Journal, memory: Memory, seen: Snapshot) -> tuple[Memory, tuple[PilotName, ...]]:
    picture = look(seen, memory, RULES)
    plan = decide(picture, RULES, policy({}))
    moment = Moment(float(seen.now), seen.now, "boot", 0.0)
    journal.planned(moment, seen, memory, rules=RULES, plan=plan)
    names = tuple(name for action in plan.actions if isinstance(action, Submit) for name in action.names)
    outcomes = tuple(Did("submit", name, Done()) for name in names)
    journal.acted(plan.cycle, outcomes)
    return remember(picture, plan, outcomes, RULES), names


def ended(home: Path) -> None:
    """A third cycle ten seconds after the second: one pilot has failed, and its name is still kept."""
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        journal = Journal(store)
        last = journal.latest()
        assert last is not None
        before = look(last.snapshot, last.memory, RULES)
        memory = remember(before, last.plan, last.outcomes or (), RULES)
        now = Instant(last.snapshot.now + 10)
        ((_, listing), _) = last.snapshot.sites
        assert isinstance(listing, Seen)
        busy, pending = listing.value.pilots
        failed = replace(pending, state=SiteState.FAILED, since=now, note="no such image")
        cycle(journal, memory, snapshot(now, SiteListing((busy, failed)), PoolSlots(())))


def broken(home: Path) -> None:
    """A third cycle whose plan says something that the core would not decide."""
    with open_store(f"sqlite:///{home / 'glidepath.db'}") as store:
        journal = Journal(store)
        last = journal.latest()
        assert last is not None
        plan = replace(last.plan, cycle=3, wake_after_s=77)
        moment = replace(last.moment, wall_s=last.moment.wall_s + 10)
        memory = replace(last.memory, cycle=2)
        journal.planned(moment, last.snapshot, memory, rules=RULES, plan=plan)
