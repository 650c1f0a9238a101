"""`glidepath site drain`: what it writes down, what it waits for, and how it ends when that does not come."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from glidepath.cli.drain import ABSENT_S_MAX, LOOK_S
from glidepath.cli.main import main
from glidepath.cli.verb import Caller
from glidepath.core.cycle import Did, Done, Plan, Seen, Sighting, Unseen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Offer, PoolRules, Rules, SiteRules
from glidepath.core.provision.picture import look
from glidepath.core.provision.pilot import Clear, Drain, PilotAction, SitePilot, SiteState, Slot, Withdraw
from glidepath.core.provision.policies.steady import policy
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import Instant, PilotName, PoolName, Resources, SiteName, SourceName
from glidepath.journal.entry import Moment
from glidepath.journal.journal import Journal
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

from .conftest import WALL, Cli, Ran

POOL, SITE = PoolName("local"), SiteName("here")
OFFER = Offer(SITE, "worker", Resources(1000, 1024))
RULES = Rules(pools=(PoolRules(POOL),), sites=(SiteRules(SITE, (OFFER,), repeat_s=0),))
UNSEEN = Unseen(Instant(0), "timed out")
PENDING, RUNNING, ENDED = SiteState.PENDING, SiteState.RUNNING, SiteState.ENDED


class Controllers:
    """They look, decide and record as the real ones do; what the world has to say is scripted."""

    def __init__(self, home: Path) -> None:
        self.url = f"sqlite:///{home / 'glidepath.db'}"
        self.now = int(WALL)
        self.memory = Memory("inc", Instant(self.now))
        self.did: list[str] = []
        home.mkdir(parents=True)
        with self.journal():
            pass

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        with open_store(self.url) as store:
            migrate(store)
            yield Journal(store)

    def cycle(self, *pilots: tuple[str, SiteState], busy: str = "", site: Unseen | None = None) -> None:
        listed = tuple(
            SitePilot(
                PilotName(name),
                OFFER.key,
                POOL,
                OFFER.size,
                state,
                Instant(self.now - 90),
                Instant(self.now - 99),
            )
            for name, state in pilots
        )
        claims = [Slot(PilotName(name), Resources(), claims=1) for name in busy.split()]
        now = Instant(self.now)
        here: Sighting[SiteListing] = site or Seen(now, SiteListing(listed))
        with self.journal() as journal:
            seen = Snapshot(
                now=now,
                demand=((POOL, SourceName("embedded"), Seen(now, DemandSight(()))),),
                slots=((POOL, Seen(now, PoolSlots(tuple(claims)))),),
                sites=((SITE, here),),
                pauses=journal.pauses(),
            )
            picture = look(seen, self.memory, RULES)
            plan = decide(picture, RULES, policy({}))
            moment = Moment(float(self.now), now, "boot", 0.0)
            journal.planned(moment, seen, self.memory, rules=RULES, plan=plan)
            outcomes = tuple(Did(verb, name, Done()) for verb, name in acts(plan))
            journal.acted(plan.cycle, outcomes)
            self.did += [f"{verb} {name}" for verb, name in acts(plan)]
            self.memory = remember(picture, plan, outcomes, RULES)


def acts(plan: Plan[PilotAction]) -> Iterator[tuple[str, str]]:
    for action in plan.actions:
        match action:
            case Withdraw(_, pilots):
                yield from (("withdraw", target.name) for target in pilots)
            case Drain(_, pilots):
                yield from (("drain", target.name) for target in pilots)
            case Clear(_, over, _):
                yield from (("clear", each.name) for each in over)


@pytest.fixture
def controllers(home: Path) -> Controllers:
    made = Controllers(home)
    made.cycle(("a", PENDING), ("b", RUNNING), busy="b")
    return made


def waiting(home: Path, controllers: Controllers, *words: str, looks: Iterator[Callable[[], None]]) -> Ran:
    """`site drain --wait` in a world whose time passes, and changes, only while it sleeps."""
    out, err = io.StringIO(), io.StringIO()

    def sleep(seconds: float) -> None:
        controllers.now += int(seconds)
        next(looks, lambda: None)()

    environ = {"HOME": str(home.parent), "GLIDEPATH_HOME": str(home)}
    caller = Caller(out, err, environ, sleep, lambda: float(controllers.now))
    code = main(["site", "drain", "--wait", *words], caller=caller)
    return Ran(int(code), out.getvalue(), err.getvalue())


def test_the_word_is_kept_and_said_and_taken_back(cli: Cli, controllers: Controllers) -> None:
    ran = cli("site", "drain", "here", "--why", "new disks")
    assert (ran.code, ran.err) == (0, "site `here` is drained\n")
    assert ran.out.split()[10:14] == ["here", "unheard", "2", "1"]
    with controllers.journal() as journal:
        (pause,) = journal.pauses()
    assert (pause.about, pause.why, pause.drain) == ("site:here", "new disks", True)
    assert "already; the words are renewed" in cli("site", "drain", "--all").err
    controllers.cycle(("a", PENDING), ("b", RUNNING), busy="b")
    assert "DRAINED by " in cli("site", "list").out
    assert controllers.did == ["withdraw a", "drain b"]
    assert "drained no more" in cli("site", "pause", "here").err
    assert cli("site", "resume", "here").err == "site `here` is resumed\n"


def test_nothing_is_changed_by_a_dry_run(cli: Cli, controllers: Controllers) -> None:
    ran = cli("site", "drain", "here/worker", "--dry-run", "--wait", "-o", "json")
    assert (ran.code, ran.err) == (
        0,
        "would drain `here/worker` with 2 pilots; nothing was changed\n",
    )
    (item,) = json.loads(ran.out)["items"]
    assert (item["name"], item["left"], item["pending"], item["busy"]) == ("here/worker", 2, 1, 1)
    with controllers.journal() as journal:
        assert journal.pauses() == ()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name what to drain"),
        (["here", "--all"], "`--all` is every site; leave the names out"),
        (["hre"], "no site or offer is named `hre`; did you mean `here`?"),
        (["here", "--wait", "--timeout", "soon"], "soon"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    words: list[str], told: str, cli: Cli, controllers: Controllers
) -> None:
    ran = cli("site", "drain", *words)
    assert ran.code in (2, 4)
    assert told in ran.err
    with controllers.journal() as journal:
        assert journal.pauses() == ()


def test_it_waits_until_the_last_trace_is_cleared_away(home: Path, controllers: Controllers) -> None:
    c = controllers
    looks: list[Callable[[], None]] = [
        lambda: c.cycle(("a", PENDING), ("b", RUNNING), busy="b"),
        # It left the queue; the other works on although it was told to leave.
        lambda: c.cycle(("b", RUNNING), busy="b"),
        lambda: c.cycle(("b", RUNNING), site=UNSEEN),
        # Nothing is listed and nothing may be believed: unseen is not empty.
        lambda: c.cycle(("b", ENDED)),
        lambda: c.cycle(),
    ]
    ran = waiting(home, controllers, "--all", "-o", "json", looks=iter(looks))
    assert ran.code == 0, ran.err
    assert ran.err.splitlines() == [
        "site `here` is drained",
        "here: the next cycle hears it",
        "here: 1 pending, 1 busy",
        "here: 1 busy",
        "here: the site cannot be seen, so nothing is done there",
        "here: nothing is left",
    ]
    assert controllers.did == ["withdraw a", "drain b", "clear b"]
    (item,) = json.loads(ran.out)["items"]
    assert (item["state"], item["left"]) == ("gone", 0)


def test_a_pilot_that_stays_ends_the_wait_and_not_the_draining(home: Path, controllers: Controllers) -> None:
    def again() -> Iterator[Callable[[], None]]:
        for _ in range(100):
            yield lambda: controllers.cycle(("b", RUNNING), busy="b")

    ran = waiting(home, controllers, "here", "--timeout", "30s", looks=again())
    assert ran.code == 3
    assert ran.err.endswith(
        "`here` not empty in time; draining goes on, `glidepath site resume NAME` ends it\n"
    )
    with controllers.journal() as journal:
        assert [pause.drain for pause in journal.pauses()] == [True]


def test_where_nobody_acts_it_says_so_and_does_not_wait_for_ever(
    home: Path, controllers: Controllers
) -> None:
    began = controllers.now
    ran = waiting(home, controllers, "--all", "--timeout", "9h", looks=iter(()))
    assert ran.code == 3
    assert "nobody acts on it: no cycle for " in ran.err
    assert controllers.now - began < 3600 + ABSENT_S_MAX + LOOK_S


def test_without_a_wait_it_says_that_nobody_acts(cli: Cli, controllers: Controllers) -> None:
    ran = cli("site", "drain", "--all", wall=WALL + 3600)
    assert ran.code == 3
    assert "nobody acts on it: no cycle for 3600 s; is `glidepath up` running?" in ran.err


def test_before_the_first_cycle_there_is_nobody(cli: Cli, home: Path) -> None:
    assert cli("site", "drain", "--all").code == 4
    Controllers(home)
    ran = cli("site", "drain", "--all")
    assert (ran.code, "the journal is empty" in ran.err) == (3, True)


def test_outcomes_that_were_not_heard_are_not_taken_for_done(home: Path, controllers: Controllers) -> None:
    """A plan is recorded before it is carried out: what it would clear away is still there then."""
    with controllers.journal() as journal:
        journal.pause("site:here", "ann", "", drain=True)
    controllers.cycle(("a", ENDED), ("b", ENDED))
    with open_store(controllers.url) as store, store.write() as connection:
        connection.exec_driver_sql("UPDATE cycles SET outcomes = NULL WHERE cycle = 2")
    ran = waiting(home, controllers, "--all", "--timeout", "1s", looks=iter(()))
    assert (ran.code, "traces are cleared away" in ran.err) == (3, True)
