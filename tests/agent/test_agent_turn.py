"""An agent's turn: what it reports, what it does, and that it does nothing of its own accord."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.agent_builders import Served, pilot, served, spec, until
from glidepath.agent.downtime import downtimes_of
from glidepath.agent.exchange import CutOff, HttpExchange, NotHeard
from glidepath.agent.keep import Closed, Keep, Kept
from glidepath.agent.run import once
from glidepath.agent.turn import ACTS_S_MAX, Agent, room
from glidepath.called.backend import CalledBackend
from glidepath.called.late import LateAnswer
from glidepath.called.settings import CalledSettings
from glidepath.called.words import Answer, Downtime, Orders, Report, Start, Wish
from glidepath.core.cycle import Done, Failed, NotTried, Outcome, Refused
from glidepath.core.provision.offer import Limits
from glidepath.core.provision.pilot import PilotSpec, SitePilot, SiteState, Target
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import Instant, PilotName, SiteName
from glidepath.ports import Place
from glidepath.straight import read_token

WEST = SiteName("west")


class Clock:
    def __init__(self, at: int = 1000) -> None:
        self.at = at

    def now(self) -> Instant:
        return Instant(self.at)

    def wall(self) -> float:
        return float(self.at)


class Queue:
    """A site that starts what it is asked for, except what it refuses."""

    def __init__(self, *, refuses: str = "") -> None:
        self.site, self.limit_s = WEST, 1.0
        self.pilots: dict[str, SitePilot] = {}
        self.acts: list[tuple[str, str]] = []
        self.broken = ""
        self.busy = ""
        self.refuses = refuses

    def list(self, *, now: Instant) -> SiteListing:
        if self.broken:
            raise RuntimeError(self.broken)
        return SiteListing(tuple(self.pilots.values()))

    def submit(self, spec: PilotSpec) -> Outcome:
        if self.busy:
            return NotTried(self.busy)
        self.acts.append(("submit", spec.name))
        if self.refuses:
            return Refused(self.refuses)
        self.pilots[spec.name] = SitePilot(
            spec.name, spec.offer, spec.pool, spec.size, SiteState.PENDING, spec.asked_at, spec.asked_at
        )
        return Done()

    def withdraw(self, target: Target) -> Outcome:
        self.acts.append(("withdraw", target.name))
        self.pilots.pop(target.name, None)
        return Done()

    def remove(self, target: Target) -> Outcome:
        if self.busy:
            return NotTried(self.busy)
        self.acts.append(("remove", target.name))
        self.pilots.pop(target.name, None)
        return Done()

    def drain(self, target: Target) -> Outcome:
        self.acts.append(("drain", target.name))
        return Failed("qdel: no answer")

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        raise LookupError


class Server:
    """Answers as it was told to; keeps what it heard."""

    def __init__(self, *answers: Callable[[Report], Orders | LateAnswer | None]) -> None:
        self.answers = list(answers)
        self.heard: list[Report] = []

    def call(self, report: Report) -> Orders | LateAnswer | None:
        self.heard.append(report)
        return self.answers.pop(0)(report) if self.answers else orders()(report)


def orders(
    *names: str, wishes: tuple[tuple[str, str], ...] = (), ticket: str = "t"
) -> Callable[[Report], Orders]:
    def answer(report: Report) -> Orders:
        starts = [
            Start(
                name=n, offer="west/a", pool="p", size=[1000, 512, 0, 0], lifetime_s=60, idle_s=9, asked_s=5
            )
            for n in names
        ]
        wished = [Wish.model_validate({"verb": verb, "name": name}) for verb, name in wishes]
        return Orders(ticket=ticket, nonce=report.nonce, starts=starts, wishes=wished)

    return answer


def agent_of(home: Path, queue: Queue, server: object, **limits: int) -> Agent:
    return Agent(queue, server, Keep(home), Clock(), limits=Limits(**limits))  # type: ignore[arg-type]


def test_what_was_done_is_told_with_the_next_call_and_only_then_forgotten(tmp_path: Path) -> None:
    queue, server = Queue(), Server(orders("p1", ticket="one"), orders(ticket="two"), orders())
    turned = [agent_of(tmp_path, queue, server).turn() for _ in range(3)]
    assert [each.acted for each in turned] == [1, 0, 0]
    assert [[(a.verb, a.name, a.outcome) for a in each.answers] for each in server.heard] == [
        [],
        [("start", "p1", "done")],
        [],
    ]
    assert [each.ticket for each in server.heard] == ["", "one", "two"]
    assert [(p.name, p.asked_s) for p in server.heard[1].pilots] == [("p1", 5)]


def test_answers_that_did_not_get_through_are_told_again(tmp_path: Path) -> None:
    def silent(report: Report) -> Orders:
        raise NotHeard("nobody there")

    queue, server = Queue(), Server(orders("p1"), silent, orders())
    agent = agent_of(tmp_path, queue, server)
    agent.turn()
    with pytest.raises(NotHeard):
        agent.turn()
    agent.turn()
    assert [each.name for each in server.heard[2].answers] == ["p1"]
    assert queue.acts == [("submit", "p1")]


def test_a_server_that_is_away_means_that_nothing_is_started_however_often_it_is_asked(
    tmp_path: Path,
) -> None:
    def silent(report: Report) -> Orders:
        raise NotHeard("nobody there")

    queue = Queue()
    agent = agent_of(tmp_path, queue, Server(orders("p1"), *[silent] * 50))
    agent.turn()
    for _ in range(50):
        with pytest.raises(NotHeard):
            agent.turn()
    assert queue.acts == [("submit", "p1")]


def test_a_late_report_is_made_again_with_the_right_ticket_and_twice_is_told(tmp_path: Path) -> None:
    def late(report: Report) -> LateAnswer:
        return LateAnswer(ticket="right", nonce=report.nonce)

    server = Server(late, orders())
    agent_of(tmp_path, Queue(), server).turn()
    assert [each.ticket for each in server.heard] == ["", "right"]
    assert server.heard[0].nonce != server.heard[1].nonce
    with pytest.raises(NotHeard, match="do two agents run"):
        agent_of(tmp_path, Queue(), Server(late, late)).turn()


def test_a_site_that_cannot_be_seen_says_so_and_still_takes_back(tmp_path: Path) -> None:
    queue, server = Queue(), Server(orders(wishes=(("withdraw", "p1"), ("drain", "p2"))), orders())
    queue.broken = "squeue: error\n\x1b[31m"
    agent = agent_of(tmp_path, queue, server)
    agent.turn()
    assert (server.heard[0].seen, server.heard[0].why) == (False, "squeue: error\\n\\x1b[31m")
    agent.turn()
    told = [(a.verb, a.name, a.outcome, a.why) for a in server.heard[1].answers]
    assert told == [("withdraw", "p1", "done", ""), ("drain", "p2", "failed", "qdel: no answer")]


def test_the_sites_own_limit_holds_whatever_the_server_asks_for(tmp_path: Path) -> None:
    queue, server = Queue(), Server(orders(*(f"p{n}" for n in range(5))), orders())
    agent = agent_of(tmp_path, queue, server, live_max=2)
    agent.turn()
    agent.turn()
    assert sorted(queue.pilots) == ["p0", "p1"]
    assert [a.outcome for a in server.heard[1].answers] == ["done", "done", "refused", "refused", "refused"]
    assert [each.room for each in server.heard] == [2, 0]


def test_what_the_site_has_not_tried_is_not_answered_and_comes_again(tmp_path: Path) -> None:
    queue, server = Queue(), Server(orders("p1", wishes=(("remove", "p0"),)), orders("p1"), orders())
    queue.busy = "asked to wait 5 s"
    agent = agent_of(tmp_path, queue, server)
    assert agent.turn().acted == 0
    queue.busy = ""
    assert agent.turn().acted == 1
    agent.turn()
    told = [[(a.verb, a.name, a.outcome) for a in each.answers] for each in server.heard]
    assert told == [[], [], [("start", "p1", "done")]]


def test_pilots_that_a_slow_listing_does_not_show_yet_count_at_the_site(tmp_path: Path) -> None:
    queue, server = Queue(), Server(orders("p0", "p1"), orders("p2", "p3"), orders())
    agent = agent_of(tmp_path, queue, server, live_max=3)
    agent.turn()
    hidden, queue.pilots = queue.pilots, {}
    agent.turn()
    queue.pilots |= hidden
    agent.turn()
    assert [each.room for each in server.heard] == [3, 1, 0]
    assert sorted(queue.pilots) == ["p0", "p1", "p2"]


def test_no_more_is_asked_of_the_site_in_a_second_than_it_allows(tmp_path: Path) -> None:
    waits: list[float] = []
    agent = agent_of(tmp_path, Queue(), Server(orders(*(f"p{n}" for n in range(4)))), per_s_max=2)
    agent.pause = waits.append
    agent.turn()
    assert [round(2 * wait) for wait in waits] == [0, 1, 2, 3]


def test_whoever_is_starting_pilots_is_heard_before_the_server_takes_the_site_for_silent() -> None:
    assert CalledSettings().silent_after > 2 * ACTS_S_MAX


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), None),
        (Limits(live_max=5), 2),
        (Limits(pending_max=1), 0),
        (Limits(live_max=5, per_cycle_max=1), 1),
        (Limits(live_max=1), 0),
    ],
)
def test_room_is_what_every_limit_leaves(limits: Limits, expected: int | None) -> None:
    there = [pilot("a", "pending"), pilot("b", "running"), pilot("c", "unknown"), pilot("d", "ended")]
    assert room(limits, there) == expected


def test_room_is_no_more_than_the_site_itself_tells() -> None:
    there = [pilot("a", "running")]
    asked = [room(Limits(live_max=4), there, told=told) for told in (None, 9, 2, 0)]
    assert (asked, room(Limits(), there, told=7)) == ([3, 3, 2, 0], 7)


def test_a_round_of_cron_tells_what_came_of_its_orders_and_ends(tmp_path: Path) -> None:
    said: list[str] = []
    server = Server(orders("p1"), orders())
    assert once(agent_of(tmp_path, Queue(refuses="no such account"), server), said.append) == 0
    assert [a.why for a in server.heard[1].answers] == ["no such account"]
    assert said == ["start p1: refused no such account"]


def test_a_round_of_cron_is_bounded_though_the_server_always_has_more(tmp_path: Path) -> None:
    endless = [orders(f"p{n}") for n in range(100)]
    queue = Queue()
    assert once(agent_of(tmp_path, queue, Server(*endless)), lambda line: None) == 0
    assert len(queue.acts) == 3


@pytest.mark.parametrize("wall", [0.0, 3600.0, -3600.0])
def test_downtimes_are_spans_from_now_so_that_a_wrong_clock_stays_at_the_site(wall: float) -> None:
    closed = Closed(start_wall_s=wall + 10_060, end_wall_s=wall + 10_660, why="new switches")
    assert downtimes_of((), closed, wall=wall + 10_000) == (Downtime(in_s=60, for_s=600, why="new switches"),)
    assert downtimes_of((), closed, wall=wall + 10_360) == (Downtime(in_s=0, for_s=300, why="new switches"),)
    assert downtimes_of((), closed, wall=wall + 10_660) == ()


def test_what_is_kept_survives_and_what_is_damaged_is_begun_anew(tmp_path: Path) -> None:
    keep = Keep(tmp_path)
    kept = Kept("ticket", (Answer(verb="start", name="p1", outcome="done"),))
    keep.save(kept)
    assert (Keep(tmp_path).load(), (tmp_path / "agent.json").stat().st_mode & 0o077) == (kept, 0)
    (tmp_path / "agent.json").write_text('{"ticket": 5')
    assert Keep(tmp_path).load() == Kept()


def test_two_agents_of_one_home_do_not_meet(tmp_path: Path) -> None:
    with Keep(tmp_path).alone() as first, Keep(tmp_path).alone() as second:
        assert (first, second) == (True, False)


@pytest.mark.parametrize(
    ("mode", "text", "error"), [(0o644, "gps.x", PermissionError), (0o600, "a b", ValueError)]
)
def test_a_token_that_others_can_read_or_that_is_none_is_not_used(
    tmp_path: Path, mode: int, text: str, error: type[Exception]
) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(error):
        read_token(path)


def exchange(world: Served, token: str, *, site: str = "west") -> HttpExchange:
    path = world.home / "token"
    path.touch(mode=0o600)
    path.write_text(token)
    return HttpExchange(world.url, site, path, ca_file="", timeout_s=30.0)


def test_over_http_a_pilot_comes_runs_and_goes_and_the_tray_is_empty(tmp_path: Path) -> None:
    with served(tmp_path / "home") as world:
        site = CalledBackend(WEST, CalledSettings(), Place(world.home, world.url_of_store))
        queue = Queue()
        agent = agent_of(tmp_path / "agent", queue, exchange(world, world.token()))
        agent.turn()
        site.submit(spec(asked_at=world.desk.clock().now()))
        agent.turn()
        assert queue.acts == [("submit", "p1")]
        agent.turn()
        now = world.desk.clock().now()
        assert [(p.name, p.state) for p in site.list(now=now).pilots] == [("p1", SiteState.PENDING)]
        site.remove(Target(PilotName("p1")))
        for _ in range(2):
            agent.turn()
        assert world.desk.post.tray(WEST).requests == ()
        site.close()


def test_a_revoked_or_foreign_token_and_a_server_that_is_away_are_told_apart(tmp_path: Path) -> None:
    with served(tmp_path / "home") as world:
        for token in ("gps.west.aaaaaaaa." + "a" * 52, world.token("east")):
            with pytest.raises(CutOff, match="HTTP 401"):
                agent_of(tmp_path / "agent", Queue(), exchange(world, token)).turn()
        way = exchange(world, world.token())
        agent_of(tmp_path / "agent", Queue(), way).turn()
    until("the server is gone", lambda: not world.thread.is_alive())
    with pytest.raises(NotHeard, match="does not answer"):
        agent_of(tmp_path / "agent", Queue(), way).turn()


def test_turns_are_bounded_in_number_of_calls(tmp_path: Path) -> None:
    """One call, or two where the first was late: never a storm."""
    counts = []
    for lates in range(3):
        late: list[Callable[[Report], Orders | LateAnswer | None]] = [
            lambda report: LateAnswer(ticket="x", nonce=report.nonce) for _ in range(lates)
        ]
        server = Server(*late)
        try:
            agent_of(tmp_path / str(lates), Queue(), server).turn()
        except NotHeard:
            pass
        counts.append(len(server.heard))
    assert counts == [1, 2, 2]
