"""The door on real daemons: jobs of ordinary users counted exactly, read again as they change, and hurt."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed.parts.condor import Pool
from tests.bed_pool import condor_pool, nothing_is_left, pool

from glidepath.condor.halves import HALVED_MIN
from glidepath.condor.pool import CondorPool
from glidepath.condor.pool import pool as condor
from glidepath.config.checks import own_values
from glidepath.core.provision.demand import DemandSight
from glidepath.core.provision.offer import Offer
from glidepath.core.quantity import Instant, OfferKey, PoolName, Resources, SiteName
from glidepath.ports import Place
from glidepath.terms import OfferTerms

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.real

NOW = Instant(1_000_000)
WAIT_S_MAX = 120
POLL_S = 0.2
BIG = Offer(SiteName("a"), "big", Resources(16000, 65536, 102400))
SMALL = Offer(SiteName("a"), "small", Resources(2000, 2048, 10240))
BENS = Offer(SiteName("b"), "ben", Resources(16000, 65536, 102400))
OFFERS = (BIG, SMALL, BENS)
TERMS = {OfferKey("b/ben"): OfferTerms(owners=("ben",))}
SUBMIT = "executable = /bin/sleep\narguments = 600\ntransfer_executable = false\nrequest_disk = 1024\n"


@pytest.fixture
def daemons(request: pytest.FixtureRequest) -> Iterator[Pool]:
    found = condor_pool(request.config)
    yield found
    found.run("condor_rm", "-all")
    until("the queue is empty", lambda: not found.run("condor_q", "-all", "-af", "ProcId").out.strip())


@pytest.fixture
def door(daemons: Pool) -> Iterator[CondorPool]:
    yield from opened(daemons)


def opened(daemons: Pool, **own: object) -> Iterator[CondorPool]:
    table = {"collector": daemons.address, "deadline": "20s", **own}
    made = condor(PoolName("p"), own_values(condor, table), Place(Path("/"), "", terms=TERMS))
    yield made
    made.close()


def submit(daemons: Pool, user: str, lines: str) -> int:
    """The number of the cluster."""
    done = daemons.run("condor_submit", "-terse", "-", user=user, given=SUBMIT + lines)
    assert done.code == 0, done.err
    return int(done.out.split(".")[0])


def demand(door: CondorPool, schedd: str = "") -> DemandSight:
    sources = {source.name: source for source in door.sources()}
    return (sources[schedd] if schedd else next(iter(sources.values()))).demand(OFFERS, now=NOW)  # type: ignore[index]


def counts(sight: DemandSight) -> dict[tuple[int, int, tuple[str, ...]], tuple[int, int]]:
    return {
        (each.shape.request.cpu_milli // 1000, each.shape.request.memory_mib, each.fits): (
            each.idle,
            each.running,
        )
        for each in sight.demands
    }


def until(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(POLL_S)


def full(door: CondorPool) -> bool:
    (known,) = door._known.values()
    return known.heard is not None and known.heard.full


def test_jobs_of_several_shapes_are_counted_exactly(daemons: Pool, door: CondorPool) -> None:
    submit(daemons, "ann", "request_memory = 1024 * RequestCpus\nrequest_cpus = 2\nqueue 7\n")
    submit(daemons, "ann", "request_memory = 2048\nrequest_cpus = 1 + 1\nqueue 3\n")
    submit(daemons, "ben", "+Part = $(Process) % 3\nrequest_memory = 3000 + 1000 * Part\nqueue 10\n")
    submit(daemons, "ben", 'request_memory = 100\nrequirements = OpSysAndVer == "Rocky9"\nqueue 2\n')
    submit(daemons, "ann", "request_memory = 100\n+MaxWallTimeMins = 30\nqueue 4\n")
    sight = demand(door)
    bens, anns = ("a/big", "b/ben"), ("a/big", "a/small")
    assert counts(sight) == {
        (2, 2048, anns): (10, 0),
        (1, 3000, bens): (4, 0),
        (1, 4000, bens): (3, 0),
        (1, 5000, bens): (3, 0),
        (1, 100, ()): (2, 0),
        (1, 100, anns): (4, 0),
    }
    by_hand = Counter()  # type: ignore[var-annotated]
    listed = daemons.run("condor_q", "-all", "-af", "RequestCpus", "RequestMemory").must("no list").out
    for line in listed.splitlines():
        by_hand[tuple(int(word) for word in line.split())] += 1
    ours = Counter()  # type: ignore[var-annotated]
    for (cpus, memory, _), (idle, _) in counts(sight).items():
        ours[(cpus, memory)] += idle
    assert ours == by_hand
    assert {each.run_s_max for each in sight.demands} == {None, 1800}
    assert all(each.oldest_at is not None and NOW - 120 < each.oldest_at <= NOW for each in sight.demands)
    owners = {owner for each in sight.demands for owner, _ in each.owners}
    assert owners == {"ann", "ben"}


def test_changes_are_seen_as_they_come(daemons: Pool, door: CondorPool) -> None:
    lines = "request_memory = 512\nqueue 4\n"
    cluster = submit(daemons, "ann", lines)
    key = (1, 512, ("a/big", "a/small"))
    assert counts(demand(door)) == {key: (4, 0)}
    steps: list[tuple[Callable[[], object], dict[object, tuple[int, int]]]] = [
        (lambda: submit(daemons, "ann", lines), {key: (8, 0)}),
        (lambda: daemons.run("condor_hold", f"{cluster}.0", user="ann").must("hold"), {key: (7, 0)}),
        (lambda: daemons.run("condor_release", f"{cluster}.0", user="ann").must("release"), {key: (8, 0)}),
        (lambda: daemons.run("condor_rm", f"{cluster}.1", user="ann").must("rm"), {key: (7, 0)}),
        (lambda: daemons.run("condor_rm", str(cluster), user="ann").must("rm"), {key: (4, 0)}),
    ]
    for act, expected in steps:
        assert not door.changed()
        act()
        until("the totals change", door.changed)
        until(f"{expected} is counted", lambda expected=expected: counts(demand(door)) == expected)  # type: ignore[misc]
    assert door.troubles() == ()


def test_a_submission_is_seen_without_a_full_read(daemons: Pool, door: CondorPool) -> None:
    submit(daemons, "ann", "request_memory = 512\nqueue 2\n")
    demand(door)
    time.sleep(4)  # Beyond the second in which the full read and the submission could be taken for one.
    submit(daemons, "ben", "request_memory = 600 * RequestCpus\nqueue 3\n")
    found = counts(demand(door))
    assert sum(idle for idle, _ in found.values()) == 5
    assert not full(door)


def test_a_long_queue_is_read_in_halves_and_counted_exactly(daemons: Pool, door: CondorPool) -> None:
    long = submit(daemons, "ann", f"request_memory = 512\nqueue {HALVED_MIN}\n")
    # Their groups have a number of a job each, which the constraint of a half looks at.
    odd = "request_memory = 600 + ProcId % 2 * 100\nrequirements = ClusterId > 0\nqueue 60\n"
    submit(daemons, "ben", odd)
    submit(daemons, "ann", "request_memory = 512\nrequirements = ProcId >= 0\nqueue 60\n")
    found = {key[1]: both for key, both in counts(demand(door)).items()}
    assert found == {512: (HALVED_MIN + 60, 0), 600: (30, 0), 700: (30, 0)}
    asked = (daemons.folder / "log" / "SchedLog").read_text(errors="replace")
    assert asked.count("aggregating on 'JobStatus") >= 2
    _edits_are_seen(daemons, long)


def _edits_are_seen(daemons: Pool, long: int) -> None:
    """By whoever reads the whole queue: of one job, of a whole cluster, and all of it after a restart."""
    edits = (
        (f"{long}.7", "RequestMemory", "800"),
        (f"{long}.19999", "Requirements", "false"),
        (f"{long}.8", "AllowedExecuteDuration", "60"),
    )
    for job, name, value in edits:
        daemons.run("condor_qedit", job, name, value, user="ann").must("edit")
    small = submit(daemons, "ben", "request_memory = 900\nqueue 40\n")
    daemons.run("condor_qedit", str(small), "RequestMemory", "901 * RequestCpus", user="ben").must("edit")
    expected = {
        (512, None, 2): HALVED_MIN + 60 - len(edits),
        (512, None, 0): 1,
        (512, 60, 2): 1,
        (800, None, 2): 1,
        (600, None, 3): 30,
        (700, None, 3): 30,
        (901, None, 3): 40,
    }
    for door in opened(daemons):
        assert shown(demand(door)) == expected
    daemons.restart("schedd")
    for door in opened(daemons):
        # Where the collector still shows the old one's address, asking there fails.
        until("all is counted again", lambda door=door: shown_or_none(door) == expected)  # type: ignore[misc]


def shown(sight: DemandSight) -> dict[tuple[int, int | None, int], int]:
    return {
        (each.shape.request.memory_mib, each.run_s_max, len(each.fits)): each.idle for each in sight.demands
    }


def shown_or_none(door: CondorPool) -> dict[tuple[int, int | None, int], int] | None:
    try:
        return shown(demand(door))
    except OSError:
        return None


@pytest.mark.parametrize(
    "value",
    [
        *("-5", "0", "99999999999999999999999", "9223372036854775807", "1e300", "undefined", "error", "true"),
        *('real("NaN")', '"4 GB"', "{1, 2}", "RequestMemory * 2", "A && B"),
    ],
)
def test_a_job_that_cannot_be_counted_is_named_and_others_are_served(
    daemons: Pool, door: CondorPool, value: str
) -> None:
    bad = submit(daemons, "ann", f"request_memory = 1\n+RequestMemory = {value}\nqueue 2\n")
    submit(daemons, "ben", "request_memory = 512\nqueue 3\n")
    sight = demand(door)
    assert [(key[1], both) for key, both in counts(sight).items()] == [(512, (3, 0))]
    assert sight.set_aside[0].job.startswith(f"{bad}.0")
    assert "`ann`" in sight.set_aside[0].job
    assert "RequestMemory" in sight.set_aside[0].why


def test_ten_megabytes_in_a_job_cost_the_others_nothing(daemons: Pool, door: CondorPool) -> None:
    path = daemons.home("ann") / "huge.sub"
    blob = f'+Blob = "{"x" * 12_000_000}"'
    path.write_text(f'{SUBMIT}request_memory = 64\n{blob}\nrequirements = Blob != ""\nqueue\n')
    done = daemons.run("condor_submit", "-terse", str(path), user="ann")
    assert done.code == 0, done.err
    submit(daemons, "ann", "request_memory = 700\nqueue 2\n")
    submit(daemons, "ben", "request_memory = 512\nqueue 3\n")
    for _ in range(2):
        sight = demand(door)
        assert {key[1]: both for key, both in counts(sight).items()} == {700: (2, 0), 512: (3, 0)}
        # The schedd gets such an ad through at times; it is refused either way.
        (aside,) = sight.set_aside
        assert aside.job == f"{done.out.split()[0]} of `ann`"
        assert aside.why in (
            "its ad is too large to be fetched",
            "Blob has 12000000 letters, more than 65536",
        )


def test_a_job_is_explained_with_the_term_that_fails(daemons: Pool, door: CondorPool) -> None:
    cluster = submit(daemons, "ann", 'request_memory = 4096\nrequirements = OpSysAndVer == "Rocky9"\nqueue\n')
    (story,) = door.explain(f"{cluster}.0", OFFERS)
    assert (story.owner, story.state, story.schedd) == ("ann", "idle", daemons.schedd_name)
    assert story.request == Resources(1000, 4096, 1)
    failed = {each.offer: [(term.whose, term.term) for term in each.failed] for each in story.offers}
    assert ("job", 'OpSysAndVer == "Rocky9"') in failed["a/big"]
    assert ("job", "TARGET.Memory >= RequestMemory") in failed["a/small"]
    assert ("offer", 'TARGET.Owner =?= "ben"') in failed["b/ben"]
    daemons.run("condor_hold", "-reason", "wait for me", f"{cluster}.0", user="ann").must("hold")
    (held,) = door.explain(f"{daemons.schedd_name}#{cluster}.0", OFFERS)
    assert (held.state, held.hold_reason) == ("held", "wait for me (by user ann)")
    assert door.explain("999999.0", OFFERS) == ()


def test_a_silent_schedd_ends_in_its_deadline_and_the_other_is_served(daemons: Pool) -> None:
    with pool("condor@second") as second:
        second.up(tied=True, daemons=("schedd",), collector=daemons)
        submit(daemons, "ann", "request_memory = 512\nqueue 2\n")
        submit(second, "ben", "request_memory = 700\nqueue 3\n")
        for door in opened(daemons, deadline="3s"):
            until("both are listed", lambda door=door: len(door.sources()) == 2)  # type: ignore[misc]
            assert {m for _, m, _ in counts(demand(door, second.schedd_name))} == {700}
            second.pause("schedd")
            try:
                with pytest.raises(TimeoutError, match="no answer within 3 s"):
                    demand(door, second.schedd_name)
                assert {m for _, m, _ in counts(demand(door, daemons.schedd_name))} == {512}
            finally:
                second.resume("schedd")
            until(
                "it answers again",
                lambda door=door: {m for _, m, _ in counts(demand(door, second.schedd_name))} == {700},  # type: ignore[misc]
            )


def test_a_forged_slot_is_ignored_and_counted(daemons: Pool, door: CondorPool) -> None:
    """Those of images that know nothing of us are known by their pod, by their signer too."""
    now = int(time.time())
    common = 'MyType = "Machine"\nState = "Unclaimed"\nPartitionableSlot = true\nCpus = 4\nMemory = 8192\n'
    common += f"Disk = 2048\nMyCurrentTime = {now}\n"
    ours, forged = "glidepath-x@bed.example", "pilot-y@bed.example"
    said = {
        "forged": (forged, f'GlidepathPilot = "gp-ann"\nGlidepathStopTime = {now + 900}\n'),
        "ours": (ours, f'GlidepathPilot = "gp-pilot"\nGlidepathStopTime = {now + 900}\n'),
        "pod": (ours, f'K8SPodName = "gp-pod"\nGLIDEIN_ToRetire = {now + 900}\n'),
        "pod-forged": (forged, 'K8SPodName = "gp-ann"\n'),
        "pod-of-others": (forged, 'K8SPodName = "prp-wn-7"\n'),
    }
    for name, (identity, lines) in said.items():
        folder = daemons.home("pilot") / name
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(daemons.token(identity, ("ADVERTISE_STARTD",)))
        (folder / "token").chmod(0o600)
        (folder / "ad").write_text(f'{common}Name = "slot1@{name}"\n{lines}')
        daemons.run("chown", "-R", "pilot:pilot", str(folder)).must("chown")
        done = daemons.run(
            *(
                "env",
                f"_CONDOR_SEC_TOKEN_DIRECTORY={folder}",
                "_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS=IDTOKENS",
            ),
            *("condor_advertise", "-tcp", "UPDATE_STARTD_AD", str(folder / "ad")),
            user="pilot",
        )
        assert done.code == 0, done.err + done.out
    seen = door.slots(now=NOW)
    assert [(slot.pilot, slot.free, slot.claims) for slot in seen.slots] == [
        ("gp-pilot", Resources(4000, 8192, 2), 0),
        ("gp-pod", Resources(4000, 8192, 2), 0),
    ]
    for slot in seen.slots:
        assert NOW + 800 < (slot.ends_at or 0) <= NOW + 900
    assert seen.foreign == 2
