"""OpenPBS 20 and 22, PBS Pro 19 and Torque 6 in the forms that their documents record: no server of theirs is
had for these tests. Words for them, and their answers, whole ones and others.
"""

from __future__ import annotations

import pytest
from dialect_jobs import FOLDER, a_job, said

from glidepath.batch.dialect import JobSeen, OddAnswer
from glidepath.batch.dialects import DIALECTS
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

PBS = DIALECTS["pbs"]
USUAL = (
    *("qsub", "-N", "gp-1-1.mark", "-o", f"{FOLDER}/job.out", "-j", "oe", "-S", "/bin/sh", "-r", "n"),
    *("-m", "n", "-l", "walltime=1:30:00"),
)
SCRIPT = f"{FOLDER}/job.sh"
TORQUE = {"nodes_form": "nodes"}

OPENPBS = """Job Id: 12.pbs.west
    Job_Name = gp-1-1.mark
    Job_Owner = ann@login.west
    resources_used.cput = 00:00:12
    resources_used.walltime = 01:02:03
    job_state = R
    queue = workq
    exec_host = n1/0*8+n2/0*8
    exec_vnode = (n1:ncpus=8:mem=16384000kb)+(n2:ncpus=8:mem=16384000kb)
    Resource_List.select = 2:ncpus=8:mem=16000mb:mpiprocs=1
    stime = Sun Mar 31 02:30:00 2024
    substate = 42
    Variable_List = PBS_O_HOME=/home/ann,PBS_O_PATH=/usr/bin:/bin:/usr/games:/usr/l
\tocal/bin,PBS_O_SHELL=/bin/bash,BASH_FUNC_module()=() { eval;
    job_state = F
}
    comment = Job run at Sun Mar 31 at 02:30 on (n1:ncpus=8)+(n2:ncpus=8:mem=16
\t384000kb)

Job Id: 13[].pbs.west
    Job_Name = a,b
    job_state = B
    array = True

"""
TORQUE_6 = """Job Id: 12.torque
    Job_Name = gp-1-1.mark
    Job_Owner = ann@login
    job_state = C
    exec_host = n1/0-7
    exit_status = 271

Job Id: 13.torque
    Job_Name = x
    job_state = C
    exec_host = n1/0+n1/1+n2/0
    exit_status = 1

"""
TORQUE_XML = (
    "<Data><Job><Job_Id>12.torque</Job_Id><Job_Name>gp-1-1.mark</Job_Name><job_state>C</job_state>"
    "<Resource_List><walltime>01:00:00</walltime></Resource_List><exit_status>0</exit_status></Job></Data>"
)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("-l", "select=1:ncpus=8:mpiprocs=1:mem=16000mb")),
        ({"memory_mib": 0}, ("-l", "select=1:ncpus=8:mpiprocs=1")),
        (
            {"nodes": 3, "memory_by": "core", "whole_node": True},
            ("-l", "select=3:ncpus=8:mpiprocs=1:mem=16000mb", "-l", "place=scatter:excl"),
        ),
        (
            {"whole_node": True, "memory_form": "vmem"},
            ("-l", "select=1:ncpus=8:mpiprocs=1:vmem=16000mb", "-l", "place=excl"),
        ),
        (
            {"gpus": 2, "gpu_type": "a100", "memory_mib": 0},
            ("-l", "select=1:ncpus=8:mpiprocs=1:ngpus=2:gpu_type=a100"),
        ),
        (
            {"memory_mib": 0, "queue": "workq", "account": "abc", "options": ("-W group_list=hep", "-p 5")},
            (
                *("-l", "select=1:ncpus=8:mpiprocs=1", "-q", "workq", "-A", "abc"),
                *("-W", "group_list=hep", "-p", "5"),
            ),
        ),
        (TORQUE, ("-l", "nodes=1:ppn=8", "-l", "mem=16000mb")),
        (
            {**TORQUE, "nodes": 2, "disk_mib": 100, "whole_node": True, "qos": "high"},
            (
                *("-l", "nodes=2:ppn=8", "-l", "mem=32000mb", "-l", "file=100mb"),
                *("-l", "naccesspolicy=singlejob", "-l", "qos=high"),
            ),
        ),
        ({**TORQUE, "memory_by": "core", "nodes": 2}, ("-l", "nodes=2:ppn=8", "-l", "pmem=2000mb")),
        (
            {**TORQUE, "gpus": 2, "gpu_type": "v100", "memory_mib": 0},
            ("-l", "nodes=1:ppn=8:gpus=2:v100"),
        ),
    ],
)
def test_a_job_is_asked_for_with_these_words(more: dict[str, object], expected: tuple[str, ...]) -> None:
    assert PBS.submit(a_job(**more)).argv == (*USUAL, *expected, SCRIPT)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("12.pbs.west\n"), "12.pbs.west"),
        (said("12.torque\n", "qsub: waiting is not needed\n"), "12.torque"),
        (said("Welcome to west!\n12.pbs.west\n"), "12.pbs.west"),
        (said("12\n"), Unsure),
        (said("1,234.pbs\n"), Unsure),
        (said(""), Unsure),
        (said("<html>12.pbs</html>\n"), Unsure),
        (said("12.a\n13.a\n"), Unsure),
        (said("", code=None), Unsure),
        (said("", code=170), Unsure),
        (said("", "qsub: Unknown queue\n", 170), Refused),
        (said("", "qsub: Unauthorized Request\n", 159), Refused),
        (said("", "qsub: Job violates queue and/or server resource limits\n", 188), Refused),
        (said("", "qsub: Illegal attribute or resource value Resource_List.select\n", 2), Refused),
        (said("", "qsub: Maximum number of jobs already in queue for user\n", 46), Failed),
        (said("", "Connection refused\nqsub: cannot connect to server pbs (errno=111)\n", 111), Failed),
        (said("", "qsub: End of File\n", 1), Unsure),
        (said("", "qsub: Communication failure\n", 177), Unsure),
        (said("", "Killed\n", 137), Unsure),
    ],
)
def test_what_submitting_came_to(ran: Ran, expected: object) -> None:
    found = PBS.submitted(ran)
    assert found == expected if isinstance(expected, str) else type(found) is expected


def test_a_listing_is_read_whatever_jobs_have_in_their_variables() -> None:
    running = JobSeen(
        "12.pbs.west",
        "gp-1-1.mark",
        SiteState.RUNNING,
        "R",
        "Job run at Sun Mar 31 at 02:30 on (n1:ncpus=8)+(n2:ncpus=8:mem=16384000kb)",
        ("n1", "n2"),
        3723,
    )
    array = JobSeen("13[].pbs.west", "a,b", SiteState.RUNNING, "B")
    for text in (OPENPBS, "Welcome\n\n" + OPENPBS):
        assert PBS.jobs_queued(said(text)) == (running, array)
    assert PBS.jobs_queued(said(TORQUE_6)) == (
        JobSeen("12.torque", "gp-1-1.mark", SiteState.ENDED, "C", "exit code 271", ("n1",)),
        JobSeen("13.torque", "x", SiteState.FAILED, "C", "exit code 1", ("n1", "n2")),
    )
    # Where there is no job nothing is printed.
    assert PBS.jobs_queued(said("")) == ()


@pytest.mark.parametrize(
    ("letter", "state"),
    [
        *(("Q", SiteState.PENDING), ("H", SiteState.PENDING), ("W", SiteState.PENDING)),
        *(("T", SiteState.PENDING), ("R", SiteState.RUNNING), ("S", SiteState.RUNNING)),
        *(("U", SiteState.RUNNING), ("E", SiteState.LEAVING), ("F", SiteState.ENDED)),
        *(("X", SiteState.ENDED), ("M", SiteState.UNKNOWN), ("Z", SiteState.UNKNOWN)),
        ("RUNNING", SiteState.UNKNOWN),
    ],
)
def test_letters_of_a_state_are_read(letter: str, state: SiteState) -> None:
    text = f"Job Id: 12.pbs\n    Job_Name = x\n    job_state = {letter}\n\n"
    (found,) = PBS.jobs_queued(said(text))
    assert (found.state, found.word) == (state, letter)


@pytest.mark.parametrize(
    "ran",
    [
        said("Welcome to west!\n"),
        said("<html></html>\n"),
        said(OPENPBS.rstrip()),
        said("Job Id: 12.pbs\n"),
        said("Job Id: 12.pbs\n    Job_Name = x\n"),
        said("Job Id: 12.pbs\n    Job_Name = x\n    job_state = \n\n"),
        said("Job Id: 1,2.pbs\n    Job_Name = x\n    job_state = R\n\n"),
        said(f"Job Id: {'9' * 40}.pbs\n    Job_Name = x\n    job_state = R\n\n"),
        said(OPENPBS + OPENPBS.replace("job_state = R", "job_state = Q")),
        said("", "qstat: cannot connect to server pbs (errno=111)\n", 111),
        said(OPENPBS, code=None),
        said(OPENPBS, code=1),
        Ran(0, OPENPBS, "", True),
    ],
)
def test_nothing_is_concluded_from_an_answer_that_is_not_whole(ran: Ran) -> None:
    with pytest.raises(OddAnswer):
        PBS.jobs_queued(ran)


def test_jobs_that_ended_are_looked_up() -> None:
    words = PBS.past(("12.pbs.west", "13.pbs.west"), since_s=1)
    assert words is not None
    assert words.argv == ("qstat", "-x", "-f", "12.pbs.west", "13.pbs.west")
    over = "Job Id: 12.pbs.west\n    Job_Name = x\n    job_state = F\n    Exit_status = {}\n\n"
    gone = "qstat: Unknown Job Id 13.pbs.west\n"
    for code, state in (("0", SiteState.ENDED), ("271", SiteState.ENDED), ("-29", SiteState.FAILED)):
        found = PBS.jobs_past(said(over.format(code), gone, 153))
        assert found == (JobSeen("12.pbs.west", "x", state, "F", f"exit code {code}"),)
    assert PBS.jobs_past(said("", gone, 153)) == ()
    assert PBS.jobs_past(said(TORQUE_XML)) == (
        JobSeen("12.torque", "gp-1-1.mark", SiteState.ENDED, "C", "exit code 0"),
    )
    for ran in (
        said("", "qstat: PBS is not configured to maintain job history\n", 1),
        said("", f"{gone}qstat: cannot connect to server\n", 111),
        said(TORQUE_XML[:-10]),
        said("<!DOCTYPE x [<!ENTITY a 'b'>]>" + TORQUE_XML.replace("12.torque", "<!-- -->")),
    ):
        with pytest.raises(OddAnswer):
            PBS.jobs_past(ran)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said(""), None),
        (said("", "qdel: Unknown Job Id 12.pbs\n", 153), None),
        (said("", "qdel: Job has finished 12.pbs\n", 35), None),
        (
            said("", "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 12\n", 1),
            None,
        ),
        (said("", "qdel: Unauthorized Request  12.pbs\n", 159), Refused),
        (said("", "qdel: cannot connect to server pbs (errno=111)\n", 111), Failed),
        (said("", code=None), Unsure),
    ],
)
def test_a_job_that_is_gone_is_cancelled(ran: Ran, expected: type | None) -> None:
    found = PBS.cancelled(ran)
    assert found is None if expected is None else type(found) is expected


def test_only_numbers_of_jobs_are_cancelled() -> None:
    assert PBS.cancel(("12.pbs", "13[4].pbs")).argv == ("qdel", "12.pbs", "13[4].pbs")
    for bad in ("", "all", "0.pbs", "-p", "12 13", "12.pbs\n", "12.-x", "12;id"):
        with pytest.raises(ValueError):
            PBS.cancel((bad,))
