"""What goes wrong between glidepath and a batch system makes no pilot twice and loses none."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from batch_world import SECRETS, World, a_spec, cleared, listed, until

from glidepath.batch.backend import BatchBackend
from glidepath.core.cycle import Done, Failed, NotTried, Refused, Unsure
from glidepath.core.provision.pilot import SiteState, Target
from glidepath.core.quantity import Instant, NodeName, PilotName

OVER = (SiteState.ENDED, SiteState.FAILED)
A = PilotName("gp-a")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path).build()
    yield made
    made.faults(
        sbatch=None,
        squeue=None,
        sacct=None,
        scancel=None,
        states=None,
        held=None,
        unaccounted=None,
        min_age_s=None,
    )
    # A clock of its own: words of those that died will not come, and nobody waits for them.
    hurried = itertools.count(0, 0.5)
    cleared(made.backend(mono=lambda: next(hurried), timeout="5m"))


def started(world: World, backend: BatchBackend, name: str = "gp-a") -> None:
    assert isinstance(backend.submit(a_spec(name)), Done)
    until(f"`{name}` runs", lambda: listed(backend)[name].state is SiteState.RUNNING)
    work = world.folder / "west" / "jobs" / name / name / "work"
    until("it hears signals", lambda: work.exists() and has_words(Path(work.read_text().strip()) / "lock"))


def has_words(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def pilots_of(name: str) -> list[int]:
    """Processes that are this pilot."""
    mark = f"--name={name}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_an_answer_that_does_not_come_is_looked_for_before_anything_is_repeated(world: World) -> None:
    backend = world.backend(timeout="6s")
    assert listed(backend) == {}
    world.faults(sbatch="hang after")
    found = backend.submit(a_spec("gp-a"))
    assert isinstance(found, Done), found
    assert "found in the queue" in found.note
    world.faults(sbatch=None)
    assert isinstance(backend.submit(a_spec("gp-a")), Done)
    assert len(world.jobs()) == 1


def test_a_request_that_was_lost_is_unsure_until_it_cannot_come_any_more(world: World) -> None:
    backend = world.backend(timeout="6s")
    world.faults(sbatch="hang")
    spec = a_spec("gp-a")
    assert isinstance(backend.submit(spec), Unsure)
    pilot = listed(backend)["gp-a"]
    assert (pilot.state, pilot.native_id) == (SiteState.UNKNOWN, "")
    world.faults(sbatch=None)
    assert isinstance(backend.submit(spec), Unsure)
    assert world.jobs() == []
    later = replace(spec, asked_at=Instant(spec.asked_at + 601))
    assert isinstance(backend.submit(later), Done)
    assert len(world.jobs()) == 1


def test_what_the_system_refuses_leaves_nothing_behind(world: World) -> None:
    backend = world.backend(queue="invalid")
    refused = backend.submit(a_spec("gp-a"))
    assert isinstance(refused, Refused)
    assert "Invalid partition name specified" in refused.why
    assert listed(backend) == {}
    assert list((world.folder / "west" / "jobs").iterdir()) == []


def test_a_refusal_whose_traces_stayed_is_asked_again_and_may_then_be_granted(world: World) -> None:
    world.faults(sbatch="says Batch job submission failed: Socket timed out on send/recv operation")
    backend = world.backend()
    assert isinstance(backend.submit(a_spec("gp-a")), Unsure)
    answer = world.folder / "west" / "answers" / "gp-a"
    answer.write_text(
        "1\n:glidepath err\nsbatch: error: Batch job submission failed: Invalid qos specification\n"
    )
    world.faults(sbatch=None)
    failed = listed(world.backend())["gp-a"]
    assert (failed.state, "Invalid qos" in failed.note) == (SiteState.FAILED, True)
    assert isinstance(world.backend().submit(a_spec("gp-a")), Done)
    assert len(world.jobs()) == 1


def test_a_life_that_ended_between_the_request_and_the_record_is_followed_by_one_that_knows(
    world: World,
) -> None:
    spec = a_spec("gp-a")
    assert isinstance(world.backend().submit(spec), Done)
    world.faults(min_age_s=0)
    after = world.backend()
    again = after.submit(spec)
    assert isinstance(again, Done), again
    assert len(world.jobs()) == 1
    assert listed(after)["gp-a"].native_id == world.jobs()[0]["id"]


def test_an_end_that_queue_and_accounting_have_forgotten_is_told_by_the_last_words(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    number = world.jobs()[0]["id"]
    world.faults(min_age_s=0, unaccounted=[number])
    subprocess.run([world.bin / "scancel", number], check=True)
    until("it is over", lambda: listed(backend)["gp-a"].state in OVER)
    # Told to go by the site, and not by us: it says so itself.
    assert listed(backend)["gp-a"].note in ("drained", "stopped")


def test_a_pilot_that_died_without_a_word_is_told_by_accounting_and_its_last_line(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    with (world.folder / "west" / "jobs" / "gp-a" / "gp-a" / "pilot.log").open("a") as log:
        log.write("the last thing it wrote\n")
    number = world.jobs()[0]["id"]
    world.faults(min_age_s=0)
    everything_killed(world)
    until("it is over", lambda: listed(backend)["gp-a"].state is SiteState.FAILED)
    pilot = listed(backend)["gp-a"]
    assert (pilot.native_id, pilot.node) == (number, NodeName("n1"))
    assert pilot.note.startswith("FAILED: exit code 1:0 after")
    assert pilot.note.endswith("its last line: the last thing it wrote")


def everything_killed(world: World) -> None:
    """As when a node loses its power: no script says anything any more."""
    mark = f"STAND_IN_JOB={world.state} {world.jobs()[0]['id']}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                continue


def test_a_job_that_nobody_knows_any_more_is_unknown_and_only_much_later_lost(world: World) -> None:
    clock = [0.0]
    backend = world.backend(mono=lambda: clock[0], gone_after="30m", timeout="60s")
    started(world, backend)
    number = world.jobs()[0]["id"]
    everything_killed(world)
    world.faults(min_age_s=0, sacct="says Unable to contact slurmdbd")
    seen = listed(backend)["gp-a"]
    assert (seen.state, "accounting was not asked" in seen.note) == (SiteState.UNKNOWN, True)
    assert any("slurmdbd" in note for note in backend.list(now=seen.asked_at).notes)
    world.faults(sacct=None, unaccounted=[number])
    listed(backend)
    seen = listed(backend)["gp-a"]
    assert (seen.state, seen.note) == (
        SiteState.UNKNOWN,
        f"neither the queue nor accounting knows job {number}",
    )
    clock[0] += 1801
    assert listed(backend)["gp-a"].state is SiteState.FAILED


def test_a_state_that_nobody_knows_is_shown_as_it_is_and_kept(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    world.faults(states={world.jobs()[0]["id"]: "TELEPORTING"})
    pilot = listed(backend)["gp-a"]
    assert (pilot.state, pilot.note) == (SiteState.UNKNOWN, "TELEPORTING")


def test_a_greeting_before_the_queue_changes_nothing(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    before = listed(backend)
    world.faults(banner="Welcome to the cluster!\nMaintenance on Monday | 1|RUNNING|\n")
    assert listed(backend) == before


@pytest.mark.parametrize("fault", ["says slurm_load_jobs error: Unable to contact slurm controller", "hang"])
def test_a_queue_that_does_not_answer_is_no_empty_one(world: World, fault: str) -> None:
    backend = world.backend(timeout="4s")
    started(world, backend)
    world.faults(squeue=fault)
    with pytest.raises((OSError, ValueError)):
        backend.list(now=Instant(0))


def test_a_job_whose_folder_is_gone_makes_the_listing_incomplete_and_is_not_started_again(
    world: World,
) -> None:
    backend = world.backend()
    world.faults(held=True)
    spec = a_spec("gp-a")
    backend.submit(spec)
    away = world.folder.with_name("away")
    shutil.move(world.folder / "west", away)
    listing = backend.list(now=spec.asked_at)
    assert (listing.pilots, listing.complete) == ((), False)
    assert any("its folder is gone" in note for note in listing.notes)
    assert isinstance(world.backend().submit(spec), Refused)
    shutil.rmtree(world.folder / "west", ignore_errors=True)
    shutil.move(away, world.folder / "west")
    assert "gp-a" in listed(backend)


def test_two_sites_and_two_lives_on_one_queue_see_their_own(world: World) -> None:
    west, east = world.backend(), world.backend(site="east")
    assert isinstance(west.submit(a_spec("gp-a")), Done)
    assert isinstance(east.submit(a_spec("gp-b", site="east")), Done)
    assert (set(listed(west)), set(listed(east))) == ({"gp-a"}, {"gp-b"})
    other = world.backend()
    assert set(listed(other)) == {"gp-a"}
    assert isinstance(other.submit(a_spec("gp-a")), Done)
    assert len(world.jobs()) == 2
    cleared(east)


def test_who_is_no_longer_the_owner_changes_nothing(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    world.owned = False
    target = Target(A)
    acts: tuple[Callable[[], object], ...] = (
        lambda: backend.submit(a_spec("gp-b")),
        lambda: backend.withdraw(target),
        lambda: backend.remove(target),
        lambda: backend.drain(target),
    )
    before = world.runner.count
    assert all(isinstance(act(), NotTried) for act in acts)
    assert world.runner.count == before


def test_the_word_of_the_owner_is_asked_right_before_the_change(world: World) -> None:
    backend = world.backend()
    listed(backend)
    backend.submit(a_spec("gp-a"))
    listed(backend)

    def taken_over(argv: Sequence[str]) -> None:
        world.owned = False

    world.runner.before = taken_over
    # It was asked for before in this life, so that the queue is looked at first; meanwhile another took over.
    assert isinstance(backend.submit(a_spec("gp-a", lifetime_s=599)), NotTried | Refused)
    assert len(world.jobs()) == 1


def test_a_waiting_job_is_taken_back_as_one_act(world: World) -> None:
    world.faults(held=True)
    backend = world.backend()
    backend.submit(a_spec("gp-a"))
    listed(backend)
    # The folder decides before the system is told: what begins now finds that it is not needed.
    world.faults(scancel="says Unable to contact slurm controller")
    assert isinstance(backend.withdraw(Target(A)), Failed)
    world.faults(scancel=None, held=None)
    until("the job has run", lambda: listed(backend)["gp-a"].state in OVER)
    assert pilots_of("gp-a") == []
    assert "not needed" in backend.logs(A, bytes_max=1000)


def test_what_has_begun_is_not_taken_back(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    until("its script runs", lambda: bool(pilots_of("gp-a")))
    assert isinstance(backend.withdraw(Target(A)), Refused)
    assert len(pilots_of("gp-a")) == 1


def test_a_job_that_came_twice_is_one_pilot(world: World) -> None:
    backend = world.backend()
    started(world, backend)
    first = world.jobs()[0]
    words = [f"--job-name={first['name']}", f"--chdir={first['chdir']}", f"--output={first['output']}"]
    script = world.folder / "west" / "jobs" / "gp-a" / "job"
    subprocess.run([world.bin / "sbatch", "--time=0:10:00", *words, script], check=True, capture_output=True)
    until(
        "the second has run", lambda: listed(backend) is not None and world.jobs()[1]["state"] == "COMPLETED"
    )
    assert len(pilots_of("gp-a")) == 1
    assert listed(backend)["gp-a"].native_id == first["id"]


def test_secrets_are_in_files_of_their_own_and_nowhere_else(world: World) -> None:
    world.faults(held=True)
    backend = world.backend()
    listed(backend)
    seen: list[Sequence[str]] = []
    world.runner.before = seen.append
    backend.submit(a_spec("gp-a"))
    secret = SECRETS[0][1]
    assert not any(secret in word for argv in seen for word in argv)
    folder = world.folder / "west"
    holding = [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert [str(path.relative_to(folder)) for path in holding] == ["jobs/gp-a/gp-a/tokens.d/pilot.token"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))
    assert secret not in backend.render(a_spec("gp-a"))
