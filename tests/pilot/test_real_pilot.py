"""Real pilots in a real pool: they join by tokens, run what fits, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.embedded.world import until

from glidepath.condor import slotad
from pilot.pilot_world import IDENTITY, LINES, RIGHTS, WAIT_S, PilotWorld

pytestmark = pytest.mark.real

# What the door says of a slot that nobody uses yet, and what depends on the version and the user.
OF_THE_MOMENT = frozenset(
    {
        *("State", "Activity", "LoadAvg", "KeyboardIdle", "CondorVersion"),
        *("HasFileTransferPluginMethods", "HasEncryptExecuteDirectory"),
    }
)
DENIED = 'refused: Received "DENIED" from server for user '


def test_jobs_of_several_shapes_run_at_once_and_in_turn_and_the_pilot_leaves_when_idle(
    world: PilotWorld,
) -> None:
    small = world.submit("date +%s.%N; sleep 2; date +%s.%N", count=4)
    by_expression = world.submit("echo large", "request_cpus = 2", memory="450 * RequestCpus")
    folder = world.start("p1", "--idle-s", "12")
    world.joined("p1")
    slot = next(ad for ad in world.slots("p1") if ad["SlotType"] == "Partitionable")
    told = [slot[key] for key in ("TotalCpus", "TotalMemory", "TotalDisk", "GlidepathSite", "GlidepathOffer")]
    assert told == [2.0, 2000, 512000, "here", "here/small"]
    assert slot["AuthenticatedIdentity"] == IDENTITY
    promised = {name: json.loads(text) for name, text in slotad.COMMON.items() if name not in OF_THE_MOMENT}
    assert {name: slot.get(name) for name in promised} == promised, "the door promises what is there"
    ours = ("-master", "-constraint", 'GlidepathIntent == "p1"')
    until("its master is listed too", lambda: len(world.ads(*ours)) == 1, wait_s=WAIT_S)
    world.done(small, by_expression)
    spans = [tuple(map(float, world.output(small, number).split())) for number in range(4)]
    assert any(one[0] < other[0] < one[1] for one in spans for other in spans), "two at once"
    assert world.output(by_expression) == "large\n"
    summary = world.ended("p1")
    assert {key: summary[key] for key in ("why", "ok", "jobs_run", "jobs_failed")} == {
        "why": "idle",
        "ok": True,
        "jobs_run": 5,
        "jobs_failed": 0,
    }
    assert summary["busy_s"] >= 4
    assert world.left("p1") == []
    assert (folder / "condor" / "log" / "StartLog").exists()


def test_a_drain_lets_the_running_job_finish_and_takes_no_other(world: PilotWorld) -> None:
    job = world.submit("sleep 8; echo end")
    world.start("p1")
    world.running(job)
    # The schedd calls a job running before it has begun on the worker; one that has not may be given back.
    until("it has begun", lambda: bool(world.begun("p1")), wait_s=WAIT_S)
    world.send("p1", signal.SIGUSR1)
    world.send("p1", signal.SIGUSR1)
    other = world.submit("echo no")
    summary = world.ended("p1")
    assert (summary["why"], summary["ok"], summary["jobs_run"]) == ("drained", True, 1)
    world.done(job)
    assert world.output(job) == "end\n"
    until("the other waits on", lambda: world.statuses(other) == [1], wait_s=WAIT_S)
    assert world.left("p1") == []


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM twice"])
def test_told_to_stop_at_once_it_is_gone_before_it_would_be_killed_and_the_job_waits_again(
    world: PilotWorld, how: str
) -> None:
    job = world.submit('trap "" TERM; setsid sleep 600 & sleep 600')
    world.start("p1")
    world.running(job)
    if how == "SIGINT":
        world.send("p1", signal.SIGINT)
    else:
        world.send("p1", signal.SIGTERM)
        until("it drains", lambda: "leaving: drained" in world.log("p1"))
        world.send("p1", signal.SIGTERM)
    summary = world.ended("p1", wait_s=9.0)
    assert (summary["why"], summary["ok"], summary["jobs_run"]) == ("stopped", True, 0)
    until("the job waits again", lambda: world.statuses(job) == [1], wait_s=WAIT_S)
    assert world.left("p1") == []


def test_when_its_lifetime_is_over_a_job_has_the_grace_and_no_more(world: PilotWorld) -> None:
    # A process that takes its time to end and outlives its parent: HTCondor must not stumble over it.
    job = world.submit("mkfifo full; exec 3<>full; dd if=/dev/zero of=full bs=200M; true")
    world.start("p1", "--lifetime-s", "15", settings={"GLIDEPATH_GRACE_S": "2"})
    world.running(job)
    summary = world.ended("p1")
    assert (summary["why"], summary["ok"], summary["jobs_run"]) == ("lifetime", True, 0)
    until("the job waits again", lambda: world.statuses(job) == [1], wait_s=WAIT_S)
    assert world.left("p1") == []


@pytest.mark.parametrize(
    ("identity", "rights", "why"),
    [
        ("stranger@bed.example", RIGHTS, DENIED + "stranger@bed.example"),
        (IDENTITY, ("READ",), DENIED + IDENTITY),
        ("", (), "refused: there is no token that could be shown to this pool"),
    ],
    ids=["another identity", "too few rights", "no token"],
)
def test_a_token_that_does_not_fit_is_told_and_nothing_is_started(
    world: PilotWorld, identity: str, rights: tuple[str, ...], why: str
) -> None:
    world.start("p1", token=world.pool.token(identity, rights) if identity else "nonsense")
    summary = world.ended("p1", wait_s=30.0)
    assert summary["ok"] is False
    assert summary["why"].startswith(why)
    assert "HTCondor is started" not in world.log("p1")
    assert world.left("p1") == []


def test_a_pilot_whose_jobs_all_fail_at_once_takes_no_more_and_says_so(world: PilotWorld) -> None:
    bad = world.submit("exit 3", count=30)
    world.start("p1", "--idle-s", "60")
    summary = world.ended("p1")
    assert summary["ok"] is False
    assert summary["why"] == "black hole: the last 5 jobs, of 1 owner, all failed within 10 s"
    assert 5 <= summary["jobs_failed"] == summary["jobs_run"] < 30
    assert len(world.waiting(bad)) == 30 - summary["jobs_run"]
    assert world.left("p1") == []


def test_start_admits_only_what_the_offer_promises(world: PilotWorld) -> None:
    terms = {"community": "physics", "owners": ["an*"], "start": ["TARGET.WantsHere =?= true"]}
    routed, wants = '+RequestK8SNamespace = "physics"', "+WantsHere = true"
    right = world.submit("echo yes", routed, wants)
    refused = {
        "another owner": world.submit("echo no", routed, wants, user="ben"),
        "another community": world.submit("echo no", '+RequestK8SNamespace = "physic.*"', wants),
        "no community": world.submit("echo no", wants),
        "in capitals": world.submit("echo no", '+RequestK8SNamespace = "PHYSICS"', wants),
        "a term of the offer": world.submit("echo no", routed),
        "too long": world.submit("echo no", routed, wants, "+AllowedExecuteDuration = 4000"),
        "too long in minutes": world.submit("echo no", routed, wants, "+MaxWallTimeMins = 70"),
    }
    short = world.submit("echo yes", routed, wants, "+MaxWallTimeMins = 10")
    world.start("p1", "--idle-s", "12", "--lifetime-s", "3600", terms=terms)
    world.done(right, short)
    summary = world.ended("p1")
    assert (summary["why"], summary["jobs_run"]) == ("idle", 2)
    assert {why: world.statuses(job) for why, job in refused.items()} == {why: [1] for why in refused}


@pytest.mark.parametrize("right", [True, False], ids=["right sum", "wrong sum"])
def test_a_tarball_is_used_only_with_the_promised_sum(world: PilotWorld, right: bool) -> None:
    packed = world.pool.home("pilot") / "condor.tar.gz"
    if not packed.exists():
        packed.write_bytes(world.pool.tarball.read_bytes())
    digest = world.pool.tarball_sha256 if right else "0" * 64
    told = {"GLIDEPATH_CONDOR": str(packed), "GLIDEPATH_CONDOR_SHA256": digest}
    job = world.submit("echo hello")
    folder = world.start("p1", "--idle-s", "12", settings=told)
    summary = world.ended("p1")
    if right:
        assert (summary["why"], summary["ok"], world.output(job)) == ("idle", True, "hello\n")
    else:
        assert summary["ok"] is False
        assert f"has the sha256 {world.pool.tarball_sha256}, not {digest}; it is not used" in summary["why"]
    assert not (folder / "condor" / "release").exists()
    assert world.left("p1") == []


def test_a_killed_pilot_takes_everything_with_it(world: PilotWorld) -> None:
    job = world.submit("setsid sleep 600 & sleep 600")
    world.start("p1")
    world.running(job)
    world.send("p1", signal.SIGKILL)
    world.pilots["p1"].wait(WAIT_S)
    secrets = "/tokens.d/"
    until("all are gone", lambda: not [one for one in world.left("p1") if secrets not in one], wait_s=WAIT_S)


def test_a_renewed_token_is_used_from_the_next_handshake_on(world: PilotWorld) -> None:
    """The first one is over when the collector is restarted: only the second can bring the pilot back."""
    lines = {"lines": [*LINES, "UPDATE_INTERVAL = 5"]}  # So that it comes back as soon as the collector does.
    world.start("p1", token=world.pool.token(IDENTITY, RIGHTS, lifetime_s=12), terms=lines)
    world.joined("p1")
    world.give_token("p1")
    until("it is renewed", lambda: "the token was renewed" in world.log("p1"), wait_s=WAIT_S)
    time.sleep(12)  # The life of the first token; nothing else says that it is over.
    world.pool.restart("collector")
    until("the collector lists it again", lambda: world.slots("p1"), wait_s=120.0)


def test_a_worker_that_cannot_do_what_was_promised_takes_nothing_and_says_why(world: PilotWorld) -> None:
    job = world.submit("echo no")
    world.start("p1", "--idle-s", "12", terms={"attributes": [["HasSingularity", "true"]]})
    world.joined("p1")
    until("it is probed", lambda: any("GlidepathWhy" in ad for ad in world.slots("p1")), wait_s=WAIT_S)
    slot = world.slots("p1")[0]
    assert (slot["GlidepathHealthy"], slot["GlidepathWhy"]) == (False, "there is no apptainer or singularity")
    summary = world.ended("p1")
    assert (summary["why"], summary["jobs_run"], world.statuses(job)) == ("idle", 0, [1])


def test_gpus_that_were_told_are_offered_with_their_properties_and_handed_out(world: PilotWorld) -> None:
    wants = ("request_gpus = 1", 'require_gpus = DeviceName == "A100"')
    job = world.submit("echo $CUDA_VISIBLE_DEVICES", *wants, count=2)
    other = world.submit("echo no", "request_gpus = 1", 'require_gpus = DeviceName == "H100"')
    world.start("p1", "--gpus", "2", "--trait", "gpu_type=A100", "--idle-s", "12")
    world.done(job)
    assert sorted([world.output(job, 0), world.output(job, 1)]) == ["0\n", "1\n"]
    assert (world.ended("p1")["why"], world.statuses(other)) == ("idle", [1])


def test_an_offer_adds_lines_attributes_and_a_program_that_runs_first(world: PilotWorld) -> None:
    program = world.pool.home("pilot") / "init.sh"
    program.write_text(
        '#!/bin/sh\necho "FromInit = 5" >> "$PILOT_CONFIG_FILE"\n'
        'echo "STARTD_ATTRS = \\$(STARTD_ATTRS) FromInit" >> "$PILOT_CONFIG_FILE"\n'
    )
    program.chmod(0o755)
    terms = {
        "lines": ["NETWORK_INTERFACE = 127.0.0.1", "MyLine = 7", "STARTD_ATTRS = $(STARTD_ATTRS) MyLine"],
        "attributes": [["HasCvmfs", "true"], ["Site_Word", '"a b"']],
        "init": str(program),
    }
    world.start("p1", "--idle-s", "3", terms=terms)
    world.joined("p1")
    slot = world.slots("p1")[0]
    assert [slot.get(name) for name in ("MyLine", "HasCvmfs", "Site_Word", "FromInit")] == [7, True, "a b", 5]
    # Killed now, it is believed in for five words that do not come, not for HTCondor's fifteen minutes.
    assert slot["ClassAdLifetime"] == 300
    assert world.ended("p1")["why"] == "idle"
    program.write_text("#!/bin/sh\necho no disk; exit 4\n")
    world.start("p2", "--idle-s", "3", terms=terms)
    summary = world.ended("p2")
    assert summary["ok"] is False
    assert summary["why"] == f"could not start: the init program {program} ended with 4: no disk"


def test_as_root_a_job_has_another_user_and_cannot_read_the_token(world: PilotWorld) -> None:
    seek = "id -u; cat $(find / -xdev -name \\*.token 2>/dev/null) /dev/null 2>/dev/null | grep -c ^eyJ"
    job = world.submit(seek)
    world.start("p1", "--idle-s", "12", user="root")
    world.done(job)
    uid, tokens = world.output(job).split()
    assert int(uid) not in (0, os.getuid())
    assert tokens == "0"
    assert (world.ended("p1")["why"], world.left("p1")) == ("idle", [])
