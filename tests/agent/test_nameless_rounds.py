"""Rounds of clients that name no pilots, one within another and all within one second: nothing is launched
twice, and what runs does not wait for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from agent.agent_builders import NOW, TERMS, renamed, spec, tray_with
from glidepath.called.nameless import Counted, counted, shown
from glidepath.called.post import digest_of
from glidepath.called.tray import Tray, asked, listing_of
from glidepath.core.provision.pilot import SiteState
from glidepath.core.quantity import Instant

HISTORIES = 2_000
STEPS = 40


@dataclass
class Client:
    """One client of pyglidein: it looks, counts its queue if shown something, launches, reports."""

    name: str
    address: str
    limit: int = 5
    waiting: int = 0
    running: int = 0
    launched: int = 0
    ready: Counted | None = None

    def look(self, tray: Tray, now: int) -> Tray:
        tray, rows = shown(tray, Instant(now), terms=TERMS, client="c", address=self.address)
        wanted = sum(rows.values())
        if not wanted:
            self.ready = Counted(0, 0, 0)
            return tray
        new = min(wanted, self.limit)
        self.ready = Counted(new, self.waiting, self.running)
        self.waiting += new
        self.launched += new
        return tray

    def report(self, tray: Tray, now: int) -> Tray:
        assert self.ready is not None
        said, self.ready = self.ready, None
        return counted(tray, said, Instant(now), client=self.name, address=self.address)

    def start(self, count: int) -> None:
        self.waiting, self.running = self.waiting - count, self.running + count


@dataclass
class Rounds:
    clients: tuple[Client, ...]
    tray: Tray = field(default_factory=tray_with)
    put: int = 0

    def want(self, count: int, *, now: int = NOW) -> None:
        for _ in range(count):
            self.put += 1
            one = renamed(spec(asked_at=now), f"p{self.put:04}")
            self.tray, _ = asked(self.tray, one, digest_of(one))

    def look(self, at: int = 0, *, now: int = NOW) -> None:
        self.tray = self.clients[at].look(self.tray, now)

    def report(self, at: int = 0, *, now: int = NOW) -> None:
        self.tray = self.clients[at].report(self.tray, now)

    def round(self, at: int = 0, *, now: int = NOW) -> None:
        self.look(at, now=now)
        self.report(at, now=now)

    @property
    def steps(self) -> str:
        """Where all requests are: asked, shown, launched, started (`r`), served (`.`), lapsed (`x`)."""
        letters = {"asked": "a", "shown": "s", "launched": "l", "started": "r", "served": ".", "lapsed": "x"}
        return "".join(sorted(letters[request.step.value] for request in self.tray.requests))

    @property
    def launched(self) -> int:
        return sum(client.launched for client in self.clients)


def alone(limit: int = 5) -> Rounds:
    return Rounds((Client("ann", "1", limit),))


def two(*, address: str) -> Rounds:
    return Rounds((Client("ann", "1", limit=5), Client("bob", address, limit=5)))


def test_within_one_second_a_client_may_be_told_launch_report_and_be_told_more() -> None:
    rounds = alone()
    rounds.want(3)
    rounds.round()
    assert (rounds.steps, rounds.launched) == ("lll", 3)
    rounds.round()
    assert (rounds.steps, rounds.launched) == ("lll", 3)
    rounds.clients[0].start(3)
    rounds.want(1)
    rounds.round()
    assert (rounds.steps, rounds.launched) == ("lrrr", 4), "in one second, and three do not wait"


def test_a_report_that_is_lost_has_nothing_launched_twice() -> None:
    rounds = alone()
    rounds.want(3)
    rounds.look()
    rounds.clients[0].ready = None
    rounds.round()
    assert (rounds.steps, rounds.launched) == ("sss", 3)
    rounds.want(2)
    rounds.round()
    assert (rounds.steps, rounds.launched) == ("llsss", 5)
    rounds.round(now=NOW + TERMS.lapse_s + 1)
    assert rounds.steps.count("s") == 0, "they are not counted on for ever"


@pytest.mark.parametrize("address", ["1", "2"], ids=["shared", "own"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_clients_at_the_same_time_launch_what_is_wanted_once(
    address: str, order: tuple[int, int]
) -> None:
    rounds = two(address=address)
    rounds.want(8)
    rounds.look(0)
    rounds.want(1)
    rounds.look(1)
    for each in order:
        rounds.report(each)
    for _ in range(3):
        rounds.round(0)
        rounds.round(1)
    assert (rounds.launched, rounds.steps) == (9, "l" * 9)


def test_what_a_client_does_not_wait_for_is_said_of_its_own_glideins_alone() -> None:
    rounds = two(address="1")
    rounds.want(3)
    rounds.round(0)
    rounds.want(1)
    rounds.round(1)
    assert rounds.steps == "llll", "another queue is empty, and nothing in this one has started"


def test_work_that_waits_is_served_where_a_client_was_shown_nothing_and_so_did_not_count() -> None:
    """What it launched has started; it would never say so, and nothing would be asked for instead."""
    rounds = alone()
    rounds.want(4)
    rounds.round()
    rounds.clients[0].start(4)
    now = NOW
    for _ in range(3):
        now += TERMS.lapse_s // 2
        rounds.round(now=now)
    assert rounds.steps == ".lll", "one makes room for another"
    rounds.want(1, now=now)
    rounds.round(now=now)
    assert rounds.steps == ".lrrr", "and then it has counted"


def test_what_has_started_and_has_not_joined_yet_is_not_asked_for_again() -> None:
    """Or as many again would be launched while the first ones unpack, join and wait for a job."""
    rounds = alone()
    rounds.want(3)
    rounds.round()
    rounds.clients[0].start(3)
    rounds.want(1)
    rounds.round()
    states = [pilot.state for pilot in listing_of(rounds.tray, NOW, lapse_s=TERMS.lapse_s).pilots]
    assert states == [SiteState.PENDING] * 4
    assert "ann: 1 wait there and 3 run" in listing_of(rounds.tray, NOW, lapse_s=TERMS.lapse_s).notes[-1]


def test_what_waits_long_in_the_queue_of_a_site_makes_room_one_by_one() -> None:
    rounds = alone(limit=100)
    rounds.want(20)
    rounds.round()
    for n in range(1, 4):
        now = NOW + n * (TERMS.lapse_s + 1)
        rounds.round(now=now)
        assert rounds.steps == "." * n + "l" * 19
        rounds.want(1, now=now)
        rounds.round(now=now)
        assert (rounds.steps, rounds.launched) == ("." * n + "l" * 20, 20 + n)


def history(seed: int, clients: tuple[Client, ...]) -> Rounds:
    """Looks, reports, losses and starts in any order, all in one second."""
    chance, rounds = random.Random(seed), Rounds(clients)
    for _ in range(STEPS):
        at = chance.randrange(len(clients))
        client = clients[at]
        match chance.randrange(6):
            case 0:
                rounds.want(chance.randint(1, 4))
            case 1:
                client.start(chance.randint(0, client.waiting))
            case 2 if client.ready is not None:
                client.ready = None
            case _ if client.ready is not None:
                rounds.report(at)
            case _:
                rounds.look(at)
        assert rounds.launched <= rounds.put, f"history {seed}: {rounds.launched} for {rounds.put}"
    return rounds


@pytest.mark.parametrize("addresses", ["1", "123", "11"], ids=["one", "three", "two of one address"])
def test_whatever_is_lost_and_in_any_order_nothing_is_launched_twice(addresses: str) -> None:
    launched = 0
    for seed in range(HISTORIES):
        clients = tuple(Client(f"c{n}", address, 1 + seed % 5) for n, address in enumerate(addresses))
        launched += history(seed, clients).launched
    assert launched > HISTORIES * 3, "histories in which nothing happens would prove nothing"
