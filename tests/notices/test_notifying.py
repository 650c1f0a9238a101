"""Who is told what, in which order, how often, and what becomes of those who take nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from glidepath.clock import iso
from glidepath.core.place.rank import Cause
from glidepath.notices.sending import Fault, Undone
from glidepath.store.notices import Way
from glidepath.store.people import PeopleStore, Person
from notices.notice_world import NoticeWorld
from notices.receivers import WAIT_S
from store.conftest import store_url
from whole.running import until

__all__ = ["store_url"]


@pytest.fixture
def world(tmp_path: Path, store_url: str) -> Iterator[NoticeWorld]:
    """On SQLite and on PostgreSQL."""
    made = NoticeWorld(tmp_path, url=store_url)
    yield made
    made.close()


def test_a_job_is_told_of_in_the_order_of_its_events_and_once(world: NoticeWorld) -> None:
    world.way()
    world.look()
    job = world.placing.submit(name="train")
    world.placing.cluster.runs_s[job] = 30
    world.placing.turns(3)
    world.looks()
    world.placing.until_over(job)
    world.looks()
    assert world.post.told() == [[f"job {job} `train` runs"], [f"job {job} `train` is done"]]
    newest = world.store.newest()
    assert [letter.id for _, letter in world.post.letters][-1] == f"ada-mail-{world.kept().event}"
    world.live()
    world.looks()
    assert len(world.post.letters) == 2
    assert world.kept().event == newest, "what was no news is not read again"


def test_what_happens_together_comes_as_one_letter_and_only_to_whose_it_is(world: NoticeWorld) -> None:
    world.way()
    world.way("mail", person="ben")
    world.way("mail", person="cleo", on=("moved",))
    world.look()
    jobs = [
        world.ran(),
        world.ran(owner="ben"),
        world.ran(name="=?utf-8?q?x?="),
        world.ran(owner="dan"),
    ]
    world.looks()
    of = {letter.id.split("-")[0]: letter for _, letter in world.post.letters}
    assert sorted(of) == ["ada", "ben"]
    assert [notice.sentence for notice in of["ada"].notices] == [
        f"job {jobs[0]} runs",
        f"job {jobs[0]} is done",
        f"job {jobs[2]} `=?utf-8?q?x?=` runs",
        f"job {jobs[2]} `=?utf-8?q?x?=` is done",
    ]
    assert of["ada"].subject == "4 notices of your jobs: 2 start, 2 end"
    assert {notice.job for notice in of["ben"].notices} == {jobs[1]}


def test_what_a_way_wants_and_what_was_before_it(world: NoticeWorld) -> None:
    world.ran()
    world.way(on=("end",))
    world.look()
    job = world.ran()
    world.looks()
    assert world.post.told() == [[f"job {job} is done"]]


def test_ends_of_each_kind_are_told_once(world: NoticeWorld) -> None:
    world.way(on=("again", "end"))
    world.look()
    waits = world.placing.submit(nodes=9)
    runs, fails, lost = (world.placing.submit() for _ in range(3))
    world.placing.turns(3)
    cluster = world.placing.cluster
    keys = {job: world.placing.job(job).record.key for job in (fails, lost)}
    cluster.end(keys[fails], Cause.EXITED, code=3)
    cluster.end(keys[lost], Cause.NODE_LOST)
    for job in (waits, runs):
        world.placing.jobs.cancel(job, by="ada")
        world.look()
    world.placing.turns(6)
    world.looks()
    said = [sentence for letter in world.post.told() for sentence in letter]
    assert sorted(said) == sorted({*said}), "nothing twice"
    assert [one for one in said if one.startswith(f"job {runs} was cancelled")]
    assert sum(one.startswith(f"job {waits} ") for one in said) == 1
    assert sum(one.startswith(f"job {runs} ") for one in said) == 1
    assert sum(one.startswith(f"job {fails} failed: ") for one in said) == 1
    assert sum(one.startswith(f"job {lost} waits again") for one in said) == 1


def test_time_that_is_almost_out_is_told_once_for_each_end(world: NoticeWorld) -> None:
    world.way(on=("limit",))
    long, short, own = (
        world.placing.submit(run_s_max=limit_s, **more)
        for limit_s, more in ((7200, {}), (600, {}), (7200, {"notice_s": 60}))
    )
    for job in (long, short, own):
        world.placing.cluster.runs_s[job] = 100_000
    world.placing.turns(3)
    began = world.placing.job(long).record.began_at
    assert began is not None
    world.placing.time.at = began + 7200 - 550
    world.looks(5)
    assert world.post.told() == [[f"job {long}: its time is almost out: it ends at {iso(began + 7200)}"]]
    world.live()
    world.looks(3)
    assert len(world.post.letters) == 1, "another life does not tell it again"


def test_after_the_limit_of_an_hour_the_rest_is_one_letter(tmp_path: Path) -> None:
    world = NoticeWorld(tmp_path, per_hour=2)
    world.way(on=("end",))
    world.look()
    for _ in range(2):
        world.ran()
        world.looks(2)
    assert len(world.post.letters) == 2
    rest_until_s = world.post.letters[1][1].rest_until_s
    assert rest_until_s is not None
    assert "This was the last one for now: what happens until 2027-01-15T" in world.post.letters[1][1].text
    jobs = [world.ran(seconds=1) for _ in range(67)]
    world.live()  # What waits is known to the next life, too.
    world.looks(3, after_s=1)
    assert world.placing.time.at < rest_until_s
    assert len(world.post.letters) == 2
    world.placing.time.at = int(rest_until_s) + 1
    world.looks(2)
    assert len(world.post.letters) == 3
    last = world.post.letters[2][1]
    assert [notice.job for notice in last.notices] == jobs[:50]
    assert (last.more_count, last.subject) == (17, "67 notices of your jobs: 67 end")
    assert last.text.splitlines()[-1] == "and 17 more"
    world.close()


class Killed(BaseException):
    """kill -9, as far as a thread can have it."""


def test_whoever_dies_while_a_letter_is_under_way_sends_the_same_again_and_no_other(
    world: NoticeWorld,
) -> None:
    world.way(on=("end",))
    world.look()
    first = world.ran()
    deaths = threading.Event()

    def die(way: Way) -> None:
        deaths.set()
        raise Killed

    world.post.before = die
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        world.looks(2)
        assert deaths.wait(WAIT_S)
    finally:
        threading.excepthook = hook
    second = world.ran()
    world.post.before = lambda way: None
    world.live()
    world.looks(3)
    of_first, of_second = [f"job {first} is done"], [f"job {second} is done"]
    assert world.post.told() == [of_first, of_first, of_second]
    ids = [letter.id for _, letter in world.post.letters]
    assert ids[0] == ids[1] != ids[2]


def test_who_takes_nothing_is_tried_ever_less_often_and_switched_off(world: NoticeWorld) -> None:
    world.way("dead", target="https://dead.example.org/x", on=("end",))
    world.way("mail", on=("end",))
    world.post.answers["dead"] = [Undone("`dead.example.org:443` answers HTTP 500")]
    world.look()
    job = world.ran()
    tries = []
    for _ in range(4 * 24 * 4):
        before = len(world.post.told("dead"))
        world.look(after_s=900)
        if len(world.post.told("dead")) > before:
            tries.append(world.placing.time.at)
        if world.kept("dead").off_wall_s is not None:
            break
    assert 60 < len(tries) < 100, "after the first minutes, about once an hour for three days"
    gaps = [after - before for before, after in pairwise(tries)]
    assert gaps[-1] >= 3600 > gaps[0]
    assert {letter.id for name, letter in world.post.letters if name == "dead"} == {
        world.post.letters[0][1].id.replace("mail", "dead")
    }
    why = world.kept("dead").why
    assert why.startswith("nothing was taken for 3d")
    assert "`glidepath notice test dead` switches it on again" in why
    world.looks(2)
    said = f"job {job}: notices to `dead` are switched off: {why}"
    assert world.post.told("mail") == [[f"job {job} is done"], [said]]
    assert world.placing.said(job)[-1] == "notices off"
    # Mended: what came meanwhile is not told, what comes then is.
    world.ran()
    world.post.answers["dead"] = [None]
    assert world.store.ask_test("ada", "dead")
    world.looks(3)
    assert (world.kept("dead").off_wall_s, world.kept("dead").test) == (None, False)
    assert world.kept("dead").tested.startswith("taken at ")
    fresh = world.ran()
    world.looks(3)
    assert world.post.told("dead")[-1] == [f"job {fresh} is done"]


def test_a_receiver_that_asks_for_no_more_gets_no_more(world: NoticeWorld) -> None:
    world.way(target="https://gone.example.org/x", on=("end",))
    world.post.answers["mail"] = [Undone("`gone.example.org:443` answers HTTP 410", Fault.GONE)]
    world.look()
    world.ran()
    world.looks(2)
    world.ran()
    world.looks(5)
    assert len(world.post.letters) == 1
    assert world.kept().off_wall_s is not None


def test_a_mail_server_that_is_away_switches_nobody_off(world: NoticeWorld) -> None:
    world.way(on=("end",))
    why = "the mail server `mail.example.org:587`: Connection refused"
    world.post.answers["mail"] = [Undone(why, Fault.OURS)]
    world.look()
    job = world.ran()
    world.looks(200, after_s=3600)
    assert (world.kept().off_wall_s, world.kept().failing_wall_s, world.kept().why) == (None, None, why)
    assert world.notifying._mail == why, "operators are told"
    world.post.answers["mail"] = [None]
    world.looks(2, after_s=3600)
    assert world.post.told()[-1] == [f"job {job} is done"]
    assert (world.kept().tries, world.kept().why) == (0, "")


def test_slow_ones_hold_up_nobody_else(tmp_path: Path) -> None:
    world = NoticeWorld(tmp_path)
    slow = [world.way("slow", person=f"slow{at}", on=("end",)) for at in range(10)]
    for way in slow:
        world.store.failed(way, "slow", next_wall_s=0.0, failing_wall_s=None)
    world.way(on=("end",))
    world.look()
    for way in slow:
        world.ran(seconds=1, owner=way.person)
    go = threading.Event()
    world.post.before = lambda way: None if way.person == "ada" else go.wait(WAIT_S) and None
    for _ in range(3):
        world.notifying.look()
        world.steady_s += 20
    until(lambda: len(world.post.told("slow")) == 4, "half of the carriers wait for those who failed")
    world.ran(seconds=1)
    for _ in range(3):
        world.notifying.look()
        world.steady_s += 20
    until(lambda: len(world.post.told()) == 1, "everybody else is told meanwhile")
    assert len(world.post.told("slow")) == 4
    go.set()
    world.idle()
    world.looks(5)
    assert len(world.post.told("slow")) == 10
    world.close()


def test_whoever_left_is_told_nothing(world: NoticeWorld) -> None:
    people = PeopleStore(world.placing.store)
    people.add(Person("ada", "user", "root", 0.0))
    world.way(on=("end",))
    world.look()
    people.leave("ada", wall=1.0)
    world.ran()
    world.looks(3)
    assert world.post.letters == []


def test_what_operators_close_is_not_told_later(world: NoticeWorld) -> None:
    world.way(on=("end",))
    world.look()
    world.closed.add("mail")
    world.ran()
    world.looks(3)
    world.closed.clear()
    job = world.ran()
    world.looks(3)
    assert world.post.told() == [[f"job {job} is done"]]


def test_a_test_counts_in_the_hour(tmp_path: Path) -> None:
    world = NoticeWorld(tmp_path, per_hour=1)
    world.way()
    for _ in range(2):
        world.store.ask_test("ada", "mail")
        world.looks(1)
    assert [letter.test for _, letter in world.post.letters] == [True]
    assert world.kept().tested.startswith(
        "not sent: this hour had as many messages as may be; try again after"
    )
    world.close()
