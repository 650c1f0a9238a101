"""What goes wrong between glidepath and a cloud: nothing is concluded from what was not understood."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

import pytest

from cloud.cloud_builders import backend_of, by_rest, names, spec
from cloud.cloud_world import NOW, World
from glidepath.cloud.label import folded
from glidepath.core.cycle import Done, Failed, NotTried, Refused, Unsure
from glidepath.core.provision.pilot import SiteState, Target
from glidepath.core.quantity import PilotName, Resources
from glidepath.ports import WORLD_ERRORS
from whole.running import until


def test_a_submit_whose_answer_was_lost_is_found_by_its_name(world: World) -> None:
    world.service.fails("POST", "/jobs", "lost")
    assert world.cloud.submit(spec()) == Done("it was started before")
    assert (names(world.seen().values()), len(world.service.queue.jobs)) == (["gp-1"], 1)


def test_where_it_cannot_be_looked_for_it_is_unsure_and_a_repeat_looks_first(world: World) -> None:
    world.seen()
    world.service.fails("POST", "/jobs", "lost")
    world.service.fails("GET", "/jobs", "half")
    told = world.cloud.submit(spec())
    assert isinstance(told, Unsure)
    assert "it could not be looked for" in told.why
    assert world.cloud.submit(spec()) == Done("it was started before")
    assert (world.posts(), len(world.service.queue.jobs)) == (1, 1)


def test_a_look_that_failed_before_anything_was_sent_is_a_failure_and_no_doubt(world: World) -> None:
    world.service.fails("GET", "/jobs", "half")
    assert isinstance(world.cloud.submit(spec()), Failed)
    assert world.posts() == 0


def test_a_request_that_was_dropped_is_unsure_and_a_repeat_makes_one(world: World) -> None:
    world.service.fails("POST", "/jobs", "drop")
    assert isinstance(world.cloud.submit(spec()), Unsure)
    assert world.cloud.submit(spec()) == Done()
    assert len(world.service.queue.jobs) == 1


def test_the_waiting_one_of_two_jobs_for_one_pilot_is_taken_out_with_the_next_change(world: World) -> None:
    world.service.queue.room = 1
    world.service.fails("POST", "/jobs", "twice")
    assert world.cloud.submit(spec()) == Done()
    listing = world.cloud.list(now=NOW)
    assert [(pilot.name, pilot.state) for pilot in listing.pilots] == [("gp-1", SiteState.RUNNING)]
    assert "`gp-1` has 2 jobs" in listing.notes[0]
    assert world.cloud.submit(spec("gp-2")) == Done()
    over = [job.id for job in world.service.queue.jobs.values() if job.over]
    assert over == ["J2"]
    assert world.seen()["gp-1"].native_id == "J1"


def test_a_second_job_that_does_not_go_keeps_nobody_from_what_is_to_be_done(world: World) -> None:
    world.service.queue.room = 1
    world.service.fails("POST", "/jobs", "twice")
    world.cloud.submit(spec())
    world.seen()
    world.service.fails("POST", "/jobs/J2/cancel", status=500)
    assert world.cloud.submit(spec("gp-2")) == Done()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"how": "half"}, "ended before it was whole"),
        ({"how": "html"}, "text/html: <html><body>Please log in"),
        ({"how": "drop"}, "closed connection without response"),
        ({"status": 500, "body": b'{"error": "oops"}'}, "was answered with 500"),
        ({"status": 502, "body": b"<html>"}, "was answered with 502"),
        ({"status": 429, "headers": {"Retry-After": "7"}}, "it asks for 7 s of patience"),
        ({"status": 503, "headers": {"Retry-After": "7"}}, "it asks for 7 s of patience"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/"}}, "was answered with 302"),
        ({"body": b""}, "this is no JSON"),
        ({"body": b'{"jobs": [{"id": "J1"'}, "this is no JSON"),
        ({"body": b"[" * 100_000}, "this is no JSON"),
        ({"body": b'{"items": []}'}, "there is no list at `jobs[]`"),
        ({"body": b'{"jobs": {}}'}, "there is no list at `jobs[]`"),
        ({"body": b'{"jobs": [{"id": "J1", "name": "x"}]}'}, "a job has no `status.phase`"),
        ({"body": b'{"jobs": [{"name": "x", "status": {"phase": "running"}}]}'}, "a job has no `id`"),
        ({"body": b'{"jobs": [1]}'}, "a job has no `id`"),
        ({"body": b'{"jobs": [{"id": "1", "name": ["x"], "status": 1}]}'}, "`name` of a job is no text"),
        ({"body": b'{"jobs": [], "next": "x", "more": ""}', "times": 9}, "go round in a circle"),
        ({"body": b'{"jobs": [], "next": {}}'}, "no mark of a page"),
    ],
)
def test_what_is_no_listing_is_an_error_and_never_a_shorter_one(
    world: World, fault: dict[str, Any], words: str
) -> None:
    world.cloud.submit(spec())
    world.service.fails("GET", "/jobs", **fault)
    with pytest.raises(WORLD_ERRORS, match=words.replace("[", r"\[").replace("]", r"\]")) as caught:
        world.cloud.list(now=NOW)
    assert str(caught.value).isprintable()


def test_a_listing_that_never_ends_or_goes_to_another_server_is_none(world: World) -> None:
    world.service.edit = lambda listing: {"jobs": [], "next": time.monotonic_ns()}
    short = World(world.service, world.home)
    short.cloud = backend_of(_with_rest(by_rest(world.service.url), pages_max=5), world.home)
    with pytest.raises(ValueError, match="did not end within 5 pages"):
        short.cloud.list(now=NOW)
    world.service.edit = lambda listing: {"jobs": [], "next": "http://127.0.0.2:1/v1/jobs"}
    short.cloud = backend_of(_with_rest(by_rest(world.service.url), next_param=""), world.home)
    with pytest.raises(ValueError, match="the next page is at another server"):
        short.cloud.list(now=NOW)


def _with_rest(table: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**table, "rest": {**table["rest"], **more}}


def test_jobs_on_several_pages_are_all_seen_also_where_one_moves_to_the_next_page(world: World) -> None:
    world.service.queue.room = 1
    for number in range(7):
        world.cloud.submit(spec(f"gp-{number}"))
    world.service.page = 2
    assert len(world.seen()) == 7


def test_while_the_cloud_asks_for_patience_nothing_is_sent(world: World) -> None:
    world.seen()
    world.service.fails("POST", "/jobs", status=429, headers={"Retry-After": "60"})
    assert isinstance(world.cloud.submit(spec()), Failed)
    before = len(world.service.asked)
    assert isinstance(world.cloud.submit(spec("gp-2")), NotTried)
    with pytest.raises(OSError, match="asked for patience"):
        world.cloud.list(now=NOW)
    assert len(world.service.asked) == before


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (408, Failed),
        (422, Refused),
        (500, Unsure),
        (503, Unsure),
    ],
)
def test_an_answer_to_a_submit_says_whether_to_ask_again(world: World, status: int, kind: type) -> None:
    world.seen()
    world.service.fails("POST", "/jobs", status=status, body=b'{"error": "the quota is used up"}')
    told = world.cloud.submit(spec())
    assert isinstance(told, kind)
    assert "the quota is used up" in told.why  # type: ignore[attr-defined]
    assert world.seen() == {}


def test_a_key_that_the_cloud_repeats_is_not_shown(world: World) -> None:
    world.cloud = backend_of(by_rest(world.service.url), world.home, key="k-wrong-and-secret")
    with pytest.raises(OSError, match="<hidden>") as caught:
        world.cloud.list(now=NOW)
    assert "k-wrong-and-secret" not in str(caught.value)
    missing = backend_of(by_rest(world.service.url), world.home, key="")
    with pytest.raises(ValueError, match="the variable `CLOUD_KEY` is not set"):
        missing.list(now=NOW)
    assert isinstance(missing.submit(spec()), Refused)


def test_a_server_that_says_nothing_is_left_in_time(world: World) -> None:
    world.cloud = backend_of(by_rest(world.service.url, timeout="1s"), world.home)
    world.seen()
    world.service.fails("GET", "/jobs", "silent")
    world.service.fails("POST", "/jobs", "silent")
    began = time.monotonic()
    with pytest.raises(OSError, match="no answer in time"):
        world.cloud.list(now=NOW)
    told = world.cloud.submit(spec())
    assert isinstance(told, Failed | Unsure)  # It is looked for in what is left of the time.
    assert time.monotonic() - began < 2 * world.cloud.limit_s
    nobody = backend_of(by_rest("http://127.0.0.1:1/v1", timeout="1s"), world.home)
    with pytest.raises(OSError, match="cannot be reached"):
        nobody.list(now=NOW)
    assert isinstance(nobody.submit(spec()), Failed)


def test_states_that_nobody_told_us_of_are_shown_as_they_are_and_may_live(world: World) -> None:
    world.service.queue.alien(folded(spec("gp-a"), letters_max=400), "Frobnicating \x1b[2J, später")
    world.service.queue.alien(folded(spec("gp-b"), letters_max=400), " RUNNING ")
    seen = world.seen()
    assert (seen["gp-a"].state, seen["gp-a"].note) == (
        SiteState.UNKNOWN,
        "Frobnicating \\x1b[2J, später",
    )
    assert seen["gp-b"].state is SiteState.RUNNING
    assert isinstance(world.cloud.withdraw(Target(PilotName("gp-a"), seen["gp-a"].native_id)), Refused)


STRANGERS = [
    "a,b",
    'quo"te',
    "two words",
    "new\nline",
    "",
    " ",
    "-rf",
    "$(reboot)",
    "gp-1",
    "my_g1_job",
    "x_g1interactive",
    "_g1",
    "\u202egnp",
    "x" * 3000,
    "lancium-app:a lancium-job:b",
]


def test_jobs_of_others_are_not_ours_whatever_they_are_called(world: World) -> None:
    for name in STRANGERS:
        if name.strip():
            world.service.queue.alien(name, "running")
    world.cloud.submit(spec())
    listing = world.cloud.list(now=NOW)
    assert (names(listing.pilots), listing.complete, listing.notes) == (["gp-1"], True, ())


def test_a_job_that_looks_ours_and_does_not_check_is_named_and_the_listing_lacks_it(world: World) -> None:
    whole = folded(spec("gp-1"), letters_max=400)
    broken = [whole[:60], whole[:-1], whole[:-1] + ("a" if whole[-1] != "a" else "b"), "gp-1_g1"]
    for name in broken:
        world.service.queue.alien(name, "running")
    listing = world.cloud.list(now=NOW)
    assert (listing.pilots, listing.complete, len(listing.notes)) == ((), False, len(broken))
    assert all("is left alone" in note for note in listing.notes)
    # What is over may be lacking: it is no pilot any more.
    for job in world.service.queue.jobs.values():
        job.state = "finished"
    assert world.cloud.list(now=NOW).complete


def test_a_job_of_another_site_in_the_same_account_is_left_alone(world: World) -> None:
    other = backend_of(by_rest(world.service.url), world.home, site="east")
    other.submit(spec(site="east"))
    assert world.seen() == {}
    assert world.cloud.remove(Target(PilotName("gp-1"))) == Done("it is gone")
    assert len(other.list(now=NOW).pilots) == 1


def test_a_number_that_could_not_be_sent_back_is_not_believed(world: World) -> None:
    job = world.service.queue.alien(folded(spec(), letters_max=400), "running")
    job.id = "../jobs/J1?x=1"
    listing = world.cloud.list(now=NOW)
    assert (listing.pilots, listing.complete) == ((), False)
    assert "none that could be sent back" in listing.notes[0]


def test_what_ended_tells_why_and_is_cleared_away(world: World) -> None:
    world.cloud.submit(spec())
    pilot = world.seen()["gp-1"]
    assert pilot.state is SiteState.RUNNING
    until(lambda: "is here" in world.cloud.logs(PilotName("gp-1"), bytes_max=1000), "it has written")
    target = Target(pilot.name, pilot.native_id)
    assert world.cloud.drain(target) == Done()
    until(lambda: world.seen()["gp-1"].state is SiteState.ENDED, "it has ended")
    assert "was told to leave" in world.seen()["gp-1"].note
    assert world.cloud.remove(target) == Done()
    assert (world.seen(), world.service.queue.jobs) == ({}, {})


def test_a_pilot_that_failed_is_a_failure_with_its_exit_code(world: World) -> None:
    world.service.queue.images = {"sleeper:1": ["/bin/sh", "-c", "echo out of luck; exit 3"]}
    world.cloud.submit(spec())
    until(lambda: world.seen()["gp-1"].state is SiteState.FAILED, "it has failed")
    assert world.seen()["gp-1"].note == "error, exit code 3; its last line: out of luck"


def test_only_one_that_waits_is_withdrawn(world: World) -> None:
    world.service.queue.room = 1
    world.cloud.submit(spec("gp-1"))
    world.cloud.submit(spec("gp-2"))
    first, second = world.seen().values()
    assert (first.state, second.state) == (SiteState.RUNNING, SiteState.PENDING)
    assert world.cloud.withdraw(Target(first.name, first.native_id)) == Refused("`gp-1` is running")
    assert world.cloud.withdraw(Target(second.name, second.native_id)) == Done()
    assert {job.id: job.state for job in world.service.queue.jobs.values()} == {
        "J1": "running",
        "J2": "canceled",
    }


def test_an_act_about_another_job_of_the_same_name_is_refused(world: World) -> None:
    world.cloud.submit(spec())
    for act in (world.cloud.remove, world.cloud.drain):
        told = act(Target(PilotName("gp-1"), "J99"))
        assert isinstance(told, Refused | Done), told
    assert world.seen()["gp-1"].state is SiteState.RUNNING


def test_whoever_lost_the_store_sends_nothing(world: World) -> None:
    world.cloud._place = replace(world.cloud._place, ours=lambda: False)
    assert isinstance(world.cloud.submit(spec()), NotTried)
    assert isinstance(world.cloud.remove(Target(PilotName("gp-1"))), NotTried)
    assert world.service.asked == []


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"join": ()}, "cannot be joined from a cloud"),
        ({"secrets": ()}, "there is no token"),
        ({"mates": (PilotName("gp-2"),)}, "holds one pilot"),
        ({"traits": tuple((f"t{n}", "v" * 50) for n in range(20))}, "`name_letters_max` is 128"),
    ],
)
def test_what_a_cloud_cannot_start_is_refused_before_anything_is_sent(
    world: World, more: dict[str, Any], words: str
) -> None:
    told = world.cloud.submit(spec(**more))
    assert isinstance(told, Refused)
    assert words in told.why
    assert world.posts() == 0


def test_a_request_that_a_killed_life_was_making_is_not_made_again_at_once(world: World) -> None:
    folder = world.home / "cloud" / "west"
    for name in ("ask-gp-1-abcdefgh", "ask-gp-3-abcdefgh"):
        (folder / name).mkdir(parents=True)
    (folder / "ask-gp-3-abcdefgh" / "gp-3.token").write_text("secret")
    os.utime(folder / "ask-gp-3-abcdefgh", (1, 1))
    told = world.cloud.submit(spec())
    assert isinstance(told, Unsure)
    assert "when an earlier life ended" in told.why
    assert world.cloud.submit(spec("gp-2")) == Done()
    # One that is old enough is over, and so is its token.
    assert sorted(each.name for each in folder.iterdir() if each.is_dir()) == ["ask-gp-1-abcdefgh"]
    assert world.cloud.submit(spec("gp-3")) == Done()


def test_the_box_is_the_smallest_that_holds_the_pilot_and_the_pilot_takes_all_of_it(world: World) -> None:
    sizes = {"memory_per_cpu": "2GiB", "cpu_sizes": [16, 48]}
    world.cloud = backend_of(by_rest(world.service.url, **sizes), world.home)
    assert world.cloud.submit(spec(size=Resources(4000, 40 << 10, 0))) == Done()
    (job,) = world.service.queue.jobs.values()
    assert (job.asked["cpus"], job.asked["memory_gb"], job.asked["minutes"]) == (48, 96, 745)
    assert "--cpus-milli=48000 --memory-mib=98304" in world.cloud.render(spec(size=Resources(4000, 40 << 10)))
    told = world.cloud.submit(spec("gp-2", size=Resources(64_000, 1, 0)))
    assert isinstance(told, Refused)
    assert "its largest has 48 CPUs" in told.why
