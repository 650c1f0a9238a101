"""LSF 9.1.3 and 10.1 in the forms that their documents record: no server of it is had for these tests. Words
for it, and its answers, whole ones and others.
"""

from __future__ import annotations

import pytest
from dialect_jobs import FOLDER, a_job, said

from glidepath.batch.dialect import JobSeen, OddAnswer
from glidepath.batch.dialects import DIALECTS
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

LSF = DIALECTS["lsf"]
HEADER = "JOBID|STAT|EXIT_CODE|RUN_TIME|EXEC_HOST|JOB_NAME|EXIT_REASON\n"
USUAL = (
    *("bsub", "-J", "gp-1-1.mark", "-o", f"{FOLDER}/job.out", "-cwd", FOLDER, "-rn"),
    *("-W", "1:30", "-n", "8", "-R", "span[hosts=1]"),
)
SCRIPT = ("/bin/sh", f"{FOLDER}/job.sh")
NOTE = "Accounting information about jobs that are: \n  - submitted by users ann, \n"
RULE = "-" * 78 + "\n"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("-R", "rusage[mem=16000MB]")),
        ({"memory_by": "core"}, ("-R", "rusage[mem=2000MB]")),
        ({"memory_form": "plain"}, ("-R", "rusage[mem=16000]")),
        ({"memory_mib": 0, "disk_mib": 100}, ("-R", "rusage[tmp=100]")),
        ({"memory_mib": 0, "gpus": 2}, ("-gpu", "num=2")),
        ({"memory_mib": 0, "gpus": 2, "gpu_type": "TeslaV100"}, ("-gpu", "num=2:gmodel=TeslaV100")),
        (
            {"memory_mib": 0, "gpus": 2, "gpu_type": "V100", "gpu_form": "ngpus_physical"},
            ("-R", "select[gpu_model0==V100]", "-R", "rusage[ngpus_physical=2]"),
        ),
        (
            {"memory_mib": 0, "whole_node": True, "queue": "normal", "account": "abc", "qos": "gold"},
            ("-x", "-q", "normal", "-P", "abc", "-sla", "gold"),
        ),
        ({"memory_mib": 0, "avoid": ("n1", "n2")}, ("-R", "select[hname!=n1&&hname!=n2]")),
        ({"memory_mib": 0, "options": ("-R select[avx512]",)}, ("-R", "select[avx512]")),
    ],
)
def test_a_job_is_asked_for_with_these_words(more: dict[str, object], expected: tuple[str, ...]) -> None:
    assert LSF.submit(a_job(**more)).argv == (*USUAL, *expected, *SCRIPT)


def test_a_job_of_several_nodes_has_its_cores_on_each() -> None:
    argv = LSF.submit(a_job(nodes=3, walltime_s=61)).argv
    assert argv[9:15] == ("0:02", "-n", "24", "-R", "span[ptile=8]", "-R")


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("Job <12> is submitted to queue <normal>.\n"), "12"),
        (said("Job <12> is submitted to default queue <normal>.\n"), "12"),
        (said("Welcome!\nJob <12> is submitted to queue <normal>.\n", "esub: using project abc\n"), "12"),
        (said("Job <12> is submitted to queue <a>.\nJob <13> is submitted to queue <a>.\n"), Unsure),
        (said("Job <1,234> is submitted to queue <normal>.\n"), Unsure),
        (said("12\n"), Unsure),
        (said(""), Unsure),
        (said("", code=None), Unsure),
        (said("", code=255), Unsure),
        (said("", "nope: No such queue. Job not submitted.\n", 255), Refused),
        (said("", "User cannot use the queue. Job not submitted.\n", 255), Refused),
        (said("", "RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.\n", 255), Refused),
        (said("", "User's job limit is reached. Job not submitted.\n", 255), Failed),
        (said("", "Request aborted by esub. Job not submitted.\n", 255), Failed),
        (
            said("", "Failed in an LSF library call: Slave LIM configuration is not ready yet\n", 255),
            Failed,
        ),
        (said("", "A connect sys call failed: Connection timed out. Job not submitted.\n", 255), Unsure),
        (said("", "Killed\n", 137), Unsure),
    ],
)
def test_what_submitting_came_to(ran: Ran, expected: object) -> None:
    found = LSF.submitted(ran)
    assert found == expected if isinstance(expected, str) else type(found) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "12|PEND|-|0 second(s)|-|gp-1-1.mark|-",
            JobSeen("12", "gp-1-1.mark", SiteState.PENDING, "PEND"),
        ),
        (
            "12|RUN|-|75 second(s)|8*n1:8*n2|x,y|-",
            JobSeen("12", "x,y", SiteState.RUNNING, "RUN", nodes=("n1", "n2"), started_s_ago=75),
        ),
        ("12|DONE|-|75 second(s)|n1|x|-", JobSeen("12", "x", SiteState.ENDED, "DONE", nodes=("n1",))),
        (
            "12|EXIT|1|75 second(s)|n1:n1|x|-",
            JobSeen("12", "x", SiteState.FAILED, "EXIT", "exit code 1", ("n1",)),
        ),
        (
            "12|EXIT|140|75 second(s)|n1|x|TERM_RUNLIMIT: job killed after reaching LSF run time limit",
            JobSeen(
                "12",
                "x",
                SiteState.FAILED,
                "EXIT",
                "exit code 140; TERM_RUNLIMIT: job killed after reaching LSF run time limit",
                ("n1",),
            ),
        ),
        (
            "12|EXIT|130|75 second(s)|n1|x|TERM_OWNER: job killed by owner",
            JobSeen(
                "12", "x", SiteState.ENDED, "EXIT", "exit code 130; TERM_OWNER: job killed by owner", ("n1",)
            ),
        ),
        ("12|UNKWN|-|-|n1|x|-", JobSeen("12", "x", SiteState.UNKNOWN, "UNKWN", nodes=("n1",))),
        ("12|ZOMBI|-|-|n1|x|-", JobSeen("12", "x", SiteState.UNKNOWN, "ZOMBI", nodes=("n1",))),
        ("12|PSUSP|-|-|-|x[3]|-", JobSeen("12[3]", "x[3]", SiteState.PENDING, "PSUSP")),
        ("12|SSUSP|-|-|n1|a|b|-", JobSeen("12", "", SiteState.RUNNING, "SSUSP", nodes=("n1",))),
    ],
)
def test_a_line_of_the_queue_is_a_job(line: str, expected: JobSeen) -> None:
    assert LSF.jobs_queued(said(f"{HEADER}{line}\n")) == (expected,)
    assert LSF.jobs_queued(said(f"** a | greeting **\n{HEADER}{line}\n")) == (expected,)
    padded = f"{HEADER}{line}\n".replace("|", " |  ")
    if line.count("|") == 6:
        assert LSF.jobs_queued(said(padded)) == (expected,)


def test_an_empty_queue_says_so() -> None:
    for ran in (
        said("", "No job found\n", 255),
        said("", "No unfinished job found\n"),
        said("", "No job found in queue <normal>\n", 255),
        said(HEADER),
    ):
        assert LSF.jobs_queued(ran) == ()


@pytest.mark.parametrize(
    "ran",
    [
        said(""),
        said("", code=255),
        said("Welcome!\n"),
        said("<html></html>\n"),
        said(f"{HEADER}12|PEND|-|0 second(s)|-|x|-"),
        said(f"{HEADER}12|PEND\n"),
        said(f"{HEADER}12,PEND,-,0,-,x,-\n"),
        said(f"{HEADER}1,2|PEND|-|-|-|x|-\n"),
        said(f"{HEADER}{'9' * 40}|PEND|-|-|-|x|-\n"),
        said(f"{HEADER}12|PEND|-|-|-|x|-\n12|RUN|-|-|n1|x|-\n"),
        said("", "LSF is down. Please wait ...\n", 255),
        said("", "No job found\nbatch daemon not responding\n", 255),
        said(HEADER, code=None),
        Ran(0, HEADER, "", True),
    ],
)
def test_nothing_is_concluded_from_an_answer_that_is_not_whole(ran: Ran) -> None:
    with pytest.raises(OddAnswer):
        LSF.jobs_queued(ran)


def test_jobs_that_ended_are_looked_up_where_lines_are_broken() -> None:
    words = LSF.past(("12", "13"), since_s=1)
    assert words is not None
    assert words.argv == ("bacct", "-l", "12", "13")
    pad = "\n" + " " * 21
    done = f"""
Job <12>, Job Name <gp-1-{pad}1.mark>, User <ann>, Project <default>, Status <DO{pad}NE>, Queue <normal>
Sun Mar 31 02:30:00: Submitted from host <login>;
Sun Mar 31 02:31:00: Completed <done>.
"""
    killed = f"""
Job <13>,{pad}Job Name <x>, User <ann>, Project <default>,{pad}Status <EXIT>, Queue <no{pad}rmal>, Command <x>
Sun Mar 31 02:31:00: Completed <exit>; TERM_OWNER: job killed by owner.
"""
    late = killed.replace("<13>", "<14>").replace(
        "TERM_OWNER: job killed by owner", "TERM_RUNLIMIT: too long"
    )
    text = (
        NOTE + RULE + done + RULE + killed + RULE + late + RULE + "SUMMARY:\n Total number of done jobs: 1\n"
    )
    assert LSF.jobs_past(said(text)) == (
        JobSeen("12", "gp-1-1.mark", SiteState.ENDED, "DONE"),
        JobSeen("13", "x", SiteState.ENDED, "EXIT", "TERM_OWNER: job killed by owner."),
        JobSeen("14", "x", SiteState.FAILED, "EXIT", "TERM_RUNLIMIT: too long."),
    )
    assert LSF.jobs_past(said("", "No matching job found\n", 255)) == ()
    assert LSF.jobs_past(said(NOTE + RULE)) == ()
    for ran in (
        said(""),
        said("Welcome\n"),
        said(NOTE + RULE + done.replace("Status <DO", "State <DO")),
        said(text, code=None),
        said(text, code=1),
    ):
        with pytest.raises(OddAnswer):
            LSF.jobs_past(ran)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("Job <12> is being terminated\n"), None),
        (said("", "Job <12>: No matching job found\n", 255), None),
        (said("Job <13> is being terminated\n", "Job <12>: Job has already finished\n", 255), None),
        (said("", "Job <12>: User permission denied\n", 255), Refused),
        (said("", "LSF is down. Please wait ...\n", 255), Failed),
        (said("", code=None), Unsure),
    ],
)
def test_a_job_that_is_gone_is_cancelled(ran: Ran, expected: type | None) -> None:
    found = LSF.cancelled(ran)
    assert found is None if expected is None else type(found) is expected


def test_zero_which_means_all_jobs_is_never_cancelled() -> None:
    assert LSF.cancel(("12", "13[4]")).argv == ("bkill", "12", "13[4]")
    for bad in ("0", "", "-u", "all", "12 0", "12\n"):
        with pytest.raises(ValueError):
            LSF.cancel((bad,))
