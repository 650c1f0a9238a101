"""Slurm as it writes, 20.11 to 24.11: words for it, and its answers, whole ones and others."""

from __future__ import annotations

import pytest
from dialect_jobs import FOLDER, a_job, said

from glidepath.batch.dialect import JobSeen, OddAnswer, QueueFacts
from glidepath.batch.dialects import DIALECTS
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

SLURM = DIALECTS["slurm"]
HEADER = "JOBID|STATE|TIME|NODES|NODELIST|NAME|REASON\n"
PAST = "JobIDRaw|State|ExitCode|ElapsedRaw|NodeList|JobName\n"
USUAL = (
    *("sbatch", "--parsable", "--job-name=gp-1-1.mark", "--comment=glidepath:gp-1-1.mark", "--export=NONE"),
    *("--no-requeue", f"--chdir={FOLDER}", f"--output={FOLDER}/job.out", "--open-mode=append"),
    *("--time=1:30:00", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=8"),
)
LOST = "Batch job submission failed: Socket timed out on send/recv operation"
AWAY = "scancel: error: Unable to contact slurm controller"
SCRIPT = f"{FOLDER}/job.sh"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("--mem=16000M",)),
        ({"memory_mib": 0}, ()),
        ({"memory_by": "core"}, ("--mem-per-cpu=2000M",)),
        ({"memory_by": "core", "memory_mib": 16001}, ("--mem-per-cpu=2001M",)),
        ({"disk_mib": 5000}, ("--mem=16000M", "--tmp=5000M")),
        ({"gpus": 2}, ("--mem=16000M", "--gpus-per-node=2")),
        ({"gpus": 2, "gpu_type": "a100"}, ("--mem=16000M", "--gpus-per-node=a100:2")),
        ({"gpus": 2, "gpu_type": "a100", "gpu_form": "gres"}, ("--mem=16000M", "--gres=gpu:a100:2")),
        (
            {"queue": "long", "account": "abc123", "qos": "high", "whole_node": True},
            ("--mem=16000M", "--exclusive", "--partition=long", "--account=abc123", "--qos=high"),
        ),
        ({"avoid": ("node1", "node2")}, ("--mem=16000M", "--exclude=node1,node2")),
        (
            {"options": ("--constraint=haswell&nvme", "-L matlab:1")},
            ("--mem=16000M", "--constraint=haswell&nvme", "-L", "matlab:1"),
        ),
    ],
)
def test_a_job_is_asked_for_with_these_words(more: dict[str, object], expected: tuple[str, ...]) -> None:
    assert SLURM.submit(a_job(**more)).argv == (*USUAL, *expected, SCRIPT)


def test_a_job_of_several_nodes_has_one_task_on_each() -> None:
    argv = SLURM.submit(a_job(nodes=3)).argv
    assert "--nodes=3" in argv
    assert "--ntasks-per-node=1" in argv


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("123\n"), "123"),
        (said("123;cluster1\n"), "123"),
        # Sites greet, and plug-ins of a site speak on either output.
        (said("Welcome to west!\n  \n123\n", "sbatch: lua: job routed to partition short\n"), "123"),
        (said(""), Unsure("`sbatch` printed no number: nothing; the job may be queued")),
        (
            said("<html>login required</html>\n"),
            Unsure("`sbatch` printed no number: <html>login required</html>; the job may be queued"),
        ),
        (said("123\n124\n"), Unsure("`sbatch` printed no number: 123\\n124; the job may be queued")),
        (
            said("1" * 30 + "\n"),
            Unsure(f"`sbatch` printed no number: {'1' * 30}; the job may be queued"),
        ),
        (Ran(0, "123\n", "", True), Unsure("`sbatch` printed no number: 123; the job may be queued")),
        (said("", code=None), Unsure("`sbatch` gave no answer in time; the job may be queued")),
        (said("", code=-9), Unsure("`sbatch` exit -9: no message; the job may be queued")),
        (said("", "Killed\n", code=137), Unsure("`sbatch` exit 137: Killed; the job may be queued")),
        (
            said("", f"sbatch: error: {LOST}\n", 1),
            Unsure(f"`sbatch` exit 1: sbatch: error: {LOST}; the job may be queued"),
        ),
        (
            said("", "sbatch: error: Unable to contact slurm controller (connect failure)\n", 1),
            Failed("`sbatch` exit 1: sbatch: error: Unable to contact slurm controller (connect failure)"),
        ),
        (
            said(
                "",
                "sbatch: error: Batch job submission failed: Invalid account or account/partition "
                "combination specified\n",
                1,
            ),
            Refused(
                "`sbatch` exit 1: sbatch: error: Batch job submission failed: Invalid account or "
                "account/partition combination specified"
            ),
        ),
        (
            said("", "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job ...\n", 1),
            Refused("`sbatch` exit 1: sbatch: error: Batch job ..."),
        ),
        (
            said("", "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n", 1),
            Refused(
                "`sbatch` exit 1: sbatch: error: Batch job submission failed: Job violates accounting/QOS "
                "policy"
            ),
        ),
    ],
)
def test_what_submitting_came_to(ran: Ran, expected: object) -> None:
    assert SLURM.submitted(ran) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "12|PENDING|0:00|1||gp-1-1.mark|Resources",
            JobSeen("12", "gp-1-1.mark", SiteState.PENDING, "PENDING", "Resources"),
        ),
        (
            "12|PENDING|0:00|1||gp-1-1.mark|(ReqNodeNotAvail, UnavailableNodes:n[1-2])",
            JobSeen(
                "12",
                "gp-1-1.mark",
                SiteState.PENDING,
                "PENDING",
                "(ReqNodeNotAvail, UnavailableNodes:n[1-2])",
            ),
        ),
        (
            "12|RUNNING|1-02:03:04|2|n[01-02]|gp-1-1.mark|None",
            JobSeen(
                "12",
                "gp-1-1.mark",
                SiteState.RUNNING,
                "RUNNING",
                nodes=("n01", "n02"),
                started_s_ago=93784,
            ),
        ),
        (
            "12|COMPLETING|2:05|1|n1|x,y|None",
            JobSeen("12", "x,y", SiteState.LEAVING, "COMPLETING", nodes=("n1",), started_s_ago=125),
        ),
        (
            "12|TIMEOUT|2:05|1|n1|x|TimeLimit",
            JobSeen("12", "x", SiteState.FAILED, "TIMEOUT", "TimeLimit", nodes=("n1",)),
        ),
        # A state of some later version: told as it is, and nothing is concluded.
        (
            "12|EXPEDITING|0:00|1||x|None",
            JobSeen("12", "x", SiteState.UNKNOWN, "EXPEDITING"),
        ),
        # A name with the separator could be anybody's; whose job it is, is not known.
        (
            "12|RUNNING|0:01|1|n1|gp-1-1.mark|x|None",
            JobSeen("12", "", SiteState.RUNNING, "RUNNING", "", ("n1",), 1),
        ),
        ("12_[1-9%2]|PENDING|0:00|1||x|None", JobSeen("12_[1-9%2]", "x", SiteState.PENDING, "PENDING")),
        ("12_7|PENDING|0:00|1||x|None", JobSeen("12_7", "x", SiteState.PENDING, "PENDING")),
        ("12+1|PENDING|0:00|1||x|None", JobSeen("12+1", "x", SiteState.PENDING, "PENDING")),
        ("12|RUNNING|INVALID|1|n1|x|None", JobSeen("12", "x", SiteState.RUNNING, "RUNNING", nodes=("n1",))),
    ],
)
def test_a_line_of_the_queue_is_a_job(line: str, expected: JobSeen) -> None:
    assert SLURM.jobs_queued(said(f"{HEADER}{line}\n")) == (expected,)
    # What greets before the table is no job and hides none.
    greeted = said(f"** maintenance on Monday | be warned **\n\n{HEADER}{line}\n")
    assert SLURM.jobs_queued(greeted) == (expected,)


def test_an_empty_queue_has_a_header() -> None:
    assert SLURM.jobs_queued(said(HEADER)) == ()


@pytest.mark.parametrize(
    "ran",
    [
        said(""),
        said("\n"),
        said("Welcome to west!\n"),
        said("<html><body>proxy error</body></html>\n"),
        said(HEADER.rstrip()),
        said(f"{HEADER}12|PENDING|0:00|1||x|None"),
        said(f"{HEADER}12|PEND\n"),
        said(f"{HEADER}12,PENDING,0:00,1,,x,None\n"),
        said(f"{HEADER}1.234|PENDING|0:00|1||x|None\n"),
        said(f"{HEADER}12|PENDING|0:00|1,0||x|None\n"),
        said(f"{HEADER}{'9' * 40}|PENDING|0:00|1||x|None\n"),
        said(f"{HEADER}12|PENDING|0:00|{'9' * 40}||x|None\n"),
        said(f"{HEADER}12|pending|0:00|1||x|None\n"),
        said(f"{HEADER}12|PENDING|0:00|1||x|None\n12|RUNNING|0:01|1|n1|x|None\n"),
        said(HEADER, "squeue: error: Invalid user: ann\n"),
        said(HEADER, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1),
        said(HEADER, code=None),
        said(HEADER, code=-9),
        Ran(0, HEADER, "", True),
        said(f"{HEADER}12|PENDING|0:00|1||x|None\nslurm_load_jobs error\n"),
    ],
)
def test_nothing_is_concluded_from_an_answer_that_is_not_whole(ran: Ran) -> None:
    with pytest.raises(OddAnswer):
        SLURM.jobs_queued(ran)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ()),
        (
            "12|COMPLETED|0:0|61|n1|x\n",
            (JobSeen("12", "x", SiteState.ENDED, "COMPLETED", "exit code 0:0 after 61 s", ("n1",)),),
        ),
        (
            "12|CANCELLED by 1000|0:15|5|None assigned|x\n",
            (JobSeen("12", "x", SiteState.ENDED, "CANCELLED by 1000", "exit code 0:15 after 5 s"),),
        ),
        (
            "12|CANCELLED+|0:15|5|None assigned|x\n",
            (JobSeen("12", "x", SiteState.ENDED, "CANCELLED+", "exit code 0:15 after 5 s"),),
        ),
        (
            "12|NODE_FAIL|0:0|5|n[1-2]|x\n12|FAILED|1:0|7|n3|x\n",
            (JobSeen("12", "x", SiteState.FAILED, "FAILED", "exit code 1:0 after 7 s", ("n3",)),),
        ),
        (
            "12|COMPLETED|0:0|61|n1|allocation\n",
            (JobSeen("12", "", SiteState.ENDED, "COMPLETED", "exit code 0:0 after 61 s", ("n1",)),),
        ),
        (
            "12|RUNNING|0:0|7|n3|x\n",
            (JobSeen("12", "x", SiteState.RUNNING, "RUNNING", "exit code 0:0 after 7 s", ("n3",), 7),),
        ),
    ],
)
def test_accounting_tells_what_became_of_a_job(lines: str, expected: tuple[JobSeen, ...]) -> None:
    assert SLURM.jobs_past(said(PAST + lines)) == expected


def test_accounting_that_is_off_or_odd_tells_nothing() -> None:
    for ran in (
        said("", "Slurm accounting storage is disabled\n", 1),
        said("", "sacct: error: Problem talking to the database: Connection refused\n", 1),
        said(PAST, "sacct: error: slurm_persist_conn_open: failed\n"),
        said(""),
    ):
        with pytest.raises(OddAnswer):
            SLURM.jobs_past(ran)


def test_jobs_are_looked_up_and_ended_by_number() -> None:
    looked = SLURM.past(("12", "13_4"), since_s=7200)
    assert looked is not None
    assert looked.argv == (
        *("sacct", "--parsable2", "--allocations", "--jobs=12,13_4", "--starttime=now-7200seconds"),
        "--format=JobIDRaw,State,ExitCode,ElapsedRaw,NodeList,JobName",
    )
    assert SLURM.past((), since_s=1) is None
    assert SLURM.cancel(("12", "13")).argv == ("scancel", "--quiet", "12", "13")
    for bad in ("", "0", "all", "-1", "12 13", "12\n", "--me", "1" * 40):
        with pytest.raises(ValueError):
            SLURM.cancel((bad,))


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said(""), None),
        (said("", "scancel: error: Kill job error on job id 12: Invalid job id specified\n", 1), None),
        (
            said("", "scancel: error: Kill job error on job id 12: Access/permission denied\n", 1),
            Refused(
                "`scancel` exit 1: scancel: error: Kill job error on job id 12: Access/permission denied"
            ),
        ),
        (
            said("", f"{AWAY}\n", 1),
            Failed(f"`scancel` exit 1: {AWAY}"),
        ),
        (said("", code=None), Unsure("`scancel` gave no answer in time")),
    ],
)
def test_a_job_that_is_gone_is_cancelled(ran: Ran, expected: object) -> None:
    assert SLURM.cancelled(ran) == expected


PARTITIONS = (
    "PartitionName=short AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "MaxNodes=4 MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-4] OverSubscribe=NO "
    "State=UP TotalCPUs=64 TotalNodes=4 DefMemPerCPU=2000 MaxMemPerNode=UNLIMITED\n"
    "PartitionName=big AllowGroups=ALL AllowAccounts=abc,def Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED "
    "Nodes=g[1-2],n[1-2] OverSubscribe=EXCLUSIVE State=DOWN TotalCPUs=96 TotalNodes=4\n"
)
NODES = (
    "PARTITION|NODES|CPUS|MEMORY|GRES\n"
    "short|4|16|64000|(null)\n"
    "big|2|16|64000|(null)\n"
    "big|2|32|128000|gpu:a100:4(S:0-1),lustre:1\n"
)


def test_limits_of_a_site_are_read() -> None:
    from glidepath.batch.dialects.slurm import Slurm

    assert Slurm().facts((said(PARTITIONS), said(NODES))) == (
        QueueFacts("short", 86400, 4, 4, 16, 64000, 0, "", False, True),
        QueueFacts(
            "big",
            None,
            None,
            4,
            16,
            64000,
            0,
            "a100",
            True,
            False,
            (
                "2 nodes: 16 CPUs, 64000 MiB, 0 GPUs",
                "2 nodes: 32 CPUs, 128000 MiB, 4 GPUs a100",
                "accounts: abc,def",
            ),
        ),
    )
