"""HTCondor as a site, as 9.0 and 23 write: words for it, and its answers, whole ones and others."""

from __future__ import annotations

import pytest
from dialect_jobs import FOLDER, a_job, said

from glidepath.batch.dialect import JobSeen, OddAnswer, QueueFacts
from glidepath.batch.dialects import DIALECTS
from glidepath.batch.dialects.htcondor import Htcondor
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran
from glidepath.remote.words import safe_entry

CONDOR = DIALECTS["htcondor"]
BEGIN = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
END = "</classads>\n"
NONE = BEGIN + END
ENDS = "((JobStatus == 2 && time() - JobCurrentStartDate > 5400)) || ((JobStatus == 1 && NumJobStarts > 0))"


def ad(**values: object) -> str:
    told = {"ClusterId": 12, "ProcId": 0, "JobStatus": 1, "GlidepathKey": "gp-1-1.mark", **values}
    lines = []
    for name, value in told.items():
        if isinstance(value, bool):
            lines.append(f'    <a n="{name}"><b v="{"t" if value else "f"}"/></a>')
        elif value is not None:
            kind = "i" if isinstance(value, int) else "s"
            lines.append(f'    <a n="{name}"><{kind}>{value}</{kind}></a>')
    return "<c>\n" + "\n".join(lines) + "\n</c>\n"


def test_a_job_is_described_on_standard_input() -> None:
    words = CONDOR.submit(a_job(files=("/scratch/a", "/scratch/b"), account="group.hep"))
    assert words.argv == ("condor_submit", "-terse", "-")
    assert words.given.split("\n") == [
        "universe = vanilla",
        "notification = never",
        "batch_name = gp-1-1.mark",
        "accounting_group = group.hep",
        f"executable = {FOLDER}/job.sh",
        "transfer_executable = true",
        f"initialdir = {FOLDER}",
        f"output = {FOLDER}/job.out",
        f"error = {FOLDER}/job.out",
        "should_transfer_files = YES",
        "when_to_transfer_output = ON_EXIT",
        "transfer_input_files = /scratch/a,/scratch/b",
        "request_cpus = 8",
        "request_memory = 16000",
        f"periodic_remove = {ENDS}",
        '+GlidepathKey = "gp-1-1.mark"',
        "queue",
        "",
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"disk_mib": 10}, "request_disk = 10240"),
        ({"gpus": 2}, "request_gpus = 2"),
        ({"gpus": 2, "gpu_type": "a100"}, 'require_gpus = regexp("a100", DeviceName, "i")'),
        (
            {"gpus": 2, "gpu_type": "a100", "gpu_form": "CUDADeviceName"},
            'requirements = regexp("a100", TARGET.CUDADeviceName, "i")',
        ),
        (
            {"avoid": ("n1", "n2")},
            'requirements = (TARGET.Machine =!= "n1") && (TARGET.Machine =!= "n2")',
        ),
    ],
)
def test_an_amount_or_a_choice_is_an_entry(more: dict[str, object], expected: str) -> None:
    assert expected in CONDOR.submit(a_job(**more)).given.split("\n")


def test_what_a_person_adds_takes_nothing_away() -> None:
    job = a_job()
    lines = ("rank = Memory", "periodic_remove = Fun > 1", '+GlidepathKey = "other"', "executable = /bin/x")
    theirs = tuple(safe_entry(line, "options") for line in lines)
    given = CONDOR.submit(type(job)(job.key, job.script, job.output, job.walltime_s, options=theirs)).given
    found = given.split("\n")
    assert found.index("rank = Memory") < found.index('+GlidepathKey = "gp-1-1.mark"')
    assert found.index('+GlidepathKey = "other"') < found.index('+GlidepathKey = "gp-1-1.mark"')
    assert found.index("executable = /bin/x") < found.index(f"executable = {FOLDER}/job.sh")
    assert f"periodic_remove = (Fun > 1) || {ENDS}" in found


def test_what_it_has_no_word_for_is_refused() -> None:
    for more in ({"nodes": 2}, {"whole_node": True}, {"queue": "long"}, {"qos": "high"}):
        with pytest.raises(ValueError):
            CONDOR.submit(a_job(**more))


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("12.0 - 12.0\n"), "12.0"),
        (said("Welcome\n12.0 - 12.0\n", "WARNING: the line `x = y` was unused\n"), "12.0"),
        (said("Submitting job(s).\n1 job(s) submitted to cluster 12.\n"), Unsure),
        (said("12.0 - 12.4\n"), Unsure),
        (said(""), Unsure),
        (said("", code=None), Unsure),
        (
            said("", "\nERROR: on Line 2 of submit file: \n\nERROR: Failed to parse it\n", 1),
            Refused,
        ),
        (said("", "\nERROR: Executable file /nope does not exist\n", 1), Refused),
        (said("", "\nERROR: No such directory: /nowhere\n", 1), Refused),
        (said("", "\nERROR: Can't find address of local schedd\n", 1), Failed),
        (said("", "\nERROR: Failed to connect to local queue manager\nSECMAN:2007\n", 1), Failed),
        (said("", "\nERROR: Failed to commit job submission into the queue.\n", 1), Unsure),
        (said("", "Killed", -9), Unsure),
    ],
)
def test_what_submitting_came_to(ran: Ran, expected: object) -> None:
    found = CONDOR.submitted(ran)
    assert found == expected if isinstance(expected, str) else type(found) is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, JobSeen("12.0", "gp-1-1.mark", SiteState.PENDING, "idle")),
        (
            {
                "JobStatus": 2,
                "RemoteHost": "slot1_1@n1.west",
                "JobCurrentStartDate": 100,
                "ServerTime": 160,
                "GlidepathKey": "a,b",
            },
            JobSeen("12.0", "a,b", SiteState.RUNNING, "running", "", ("n1.west",), 60),
        ),
        ({"JobStatus": 3}, JobSeen("12.0", "gp-1-1.mark", SiteState.LEAVING, "removed")),
        (
            {"JobStatus": 4, "ExitCode": 0},
            JobSeen("12.0", "gp-1-1.mark", SiteState.ENDED, "completed", "exit code 0"),
        ),
        (
            {"JobStatus": 4, "ExitCode": 1},
            JobSeen("12.0", "gp-1-1.mark", SiteState.FAILED, "completed", "exit code 1"),
        ),
        (
            {"JobStatus": 4, "ExitBySignal": True},
            JobSeen("12.0", "gp-1-1.mark", SiteState.FAILED, "completed"),
        ),
        (
            {"JobStatus": 5, "HoldReasonCode": 13, "HoldReason": "no such file"},
            JobSeen("12.0", "gp-1-1.mark", SiteState.FAILED, "held", "no such file"),
        ),
        (
            {"JobStatus": 5, "HoldReasonCode": 16},
            JobSeen("12.0", "gp-1-1.mark", SiteState.PENDING, "held"),
        ),
        ({"JobStatus": 6}, JobSeen("12.0", "gp-1-1.mark", SiteState.LEAVING, "transferring output")),
        ({"JobStatus": 7}, JobSeen("12.0", "gp-1-1.mark", SiteState.RUNNING, "suspended")),
        ({"JobStatus": 8}, JobSeen("12.0", "gp-1-1.mark", SiteState.UNKNOWN, "8")),
    ],
)
def test_an_ad_of_the_queue_is_a_job(values: dict[str, object], expected: JobSeen) -> None:
    assert CONDOR.jobs_queued(said(BEGIN + ad(**values) + END)) == (expected,)
    assert CONDOR.jobs_queued(said("Hello <all>\n" + BEGIN + ad(**values) + END)) == (expected,)


def test_an_empty_queue_is_a_document() -> None:
    assert CONDOR.jobs_queued(said(NONE)) == ()


@pytest.mark.parametrize(
    "ran",
    [
        said(""),
        said("[\n]\n"),
        said(BEGIN),
        said(BEGIN + ad()),
        said("<html></html>\n"),
        said(BEGIN + ad(JobStatus=None) + END),
        said(BEGIN + ad(JobStatus="1,0") + END),
        said(BEGIN + ad(ClusterId="9" * 40) + END),
        said(BEGIN + ad(ClusterId="1.234") + END),
        said(BEGIN + ad() + ad(JobStatus=2) + END),
        said(BEGIN + ad(GlidepathKey="<!ENTITY a 'b'>") + END),
        said(NONE, "Error: Collector has no record of schedd/submitter\n", 1),
        said(NONE, code=None),
        Ran(0, NONE, "", True),
    ],
)
def test_nothing_is_concluded_from_an_answer_that_is_not_whole(ran: Ran) -> None:
    with pytest.raises(OddAnswer):
        CONDOR.jobs_queued(ran)


def test_history_tells_what_became_of_a_job() -> None:
    removed = {"JobStatus": 3, "RemoveReason": "via condor_rm (by user ann)"}
    late = {"JobStatus": 3, "RemoveReason": "PeriodicRemove evaluated to TRUE", "ClusterId": 13}
    text = BEGIN + ad(**removed) + ad(**late) + END
    assert [job.state for job in CONDOR.jobs_past(said(text))] == [SiteState.ENDED, SiteState.FAILED]
    assert CONDOR.jobs_past(said(NONE)) == ()
    with pytest.raises(OddAnswer):
        CONDOR.jobs_past(said(""))
    words = CONDOR.past(("12.0", "13.0"), since_s=1)
    assert words is not None
    assert words.argv[-6:] == ("-limit", "2", "-scanlimit", "100000", "12.0", "13.0")


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("Job 12.0 marked for removal\n"), None),
        (said("", "\nJob 12.0 not found\n", 1), None),
        (said("Job 12.0 marked for removal\n", "Job 13.0 not found\n"), None),
        (said("", "\nPermission denied to remove job 12.0\n", 1), Refused),
        (said("", "Can't find address of local schedd\n", 1), Failed),
        (said("", code=None), Unsure),
    ],
)
def test_a_job_that_is_gone_is_cancelled(ran: Ran, expected: type | None) -> None:
    found = CONDOR.cancelled(ran)
    assert found is None if expected is None else type(found) is expected


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("All jobs matching constraint (...) have been marked for removal\n"), None),
        (said("", "\nCouldn't find/remove all jobs matching constraint (...)\n", 1), Refused),
        (said("", "condor_rm:0:There are no jobs in the queue\n"), Refused),
        (said("", "Can't find address of local schedd\n", 1), Failed),
        (said("", code=1), Failed),
        (said("", code=None), Unsure),
    ],
)
def test_a_job_is_withdrawn_only_where_it_has_not_begun(ran: Ran, expected: type | None) -> None:
    found = CONDOR.withdrawn(ran)
    assert found is None if expected is None else type(found) is expected
    words = CONDOR.withdraw("12.0")
    assert words is not None
    assert words.argv[2].startswith("ClusterId == 12 && ProcId == 0 && (JobStatus == 1 || ")
    for bad in ("12", "0.0", "-all", "12.0 13.0", "12.0 || true"):
        with pytest.raises(ValueError):
            CONDOR.withdraw(bad)


def test_kinds_of_slots_stand_for_queues() -> None:
    slot = {"ClusterId": None, "ProcId": None, "JobStatus": None, "GlidepathKey": None}
    whole = {"TotalSlotCpus": 64, "TotalSlotMemory": 256000, "TotalSlotGPUs": 4}
    big = ad(**slot, **whole, Machine="n1", Cpus=2, Memory=1)
    small = ad(**slot, Machine="n2", Cpus=1, Memory=4000)
    assert Htcondor().facts((said(BEGIN + big + small + small + END),)) == (
        QueueFacts("cores-1-memory-4000", None, 1, 2, 1, 4000, 0, "", False, True, ("2 slots of this kind",)),
        QueueFacts(
            *("cores-64-memory-256000-gpus-4", None, 1, 1, 64, 256000, 4, "", False, True),
            ("1 slots of this kind",),
        ),
    )
