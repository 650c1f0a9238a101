"""Grid Engine as it writes, 8.1.9 and UGE 8.6: words for it, and its answers, whole ones and others."""

from __future__ import annotations

import pytest
from dialect_jobs import FOLDER, a_job, said

from glidepath.batch.dialect import JobSeen, OddAnswer, QueueFacts
from glidepath.batch.dialects import DIALECTS
from glidepath.batch.dialects.sge import GridEngine
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.remote.runner import Ran

SGE = DIALECTS["sge"]
USUAL = (
    *("qsub", "-terse", "-N", "gp-1-1.mark", "-wd", FOLDER, "-o", f"{FOLDER}/job.out", "-j", "y"),
    *("-S", "/bin/sh", "-r", "n", "-l", "h_rt=5400"),
)
NO_SUCH = 'job rejected: the requested parallel environment "smp" does not exist.'
AWAY = 'Unable to run job: unable to contact qmaster using port 6444 on host "m".'
LOST = "failed receiving gdi request response for mid=1 (got syncron message receive timeout error)."
SCRIPT = f"{FOLDER}/job.sh"
BEGIN = """<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/source/dist/util/resources/schemas/qstat/qstat.xsd">
  <queue_info>
"""
END = """  </queue_info>
  <job_info>
  </job_info>
</job_info>
"""


def listed(state: str, *, number: str = "7", name: str = "gp-1-1.mark", more: str = "") -> str:
    return f"""    <job_list state="running">
      <JB_job_number>{number}</JB_job_number>
      <JAT_prio>0.55500</JAT_prio>
      <JB_name>{name}</JB_name>
      <JB_owner>ann</JB_owner>
      <state>{state}</state>
      <JAT_start_time>2024-03-31T02:30:00</JAT_start_time>
      {more}
      <slots>1</slots>
    </job_list>
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, ("-pe", "smp", "8", "-l", "mem_free=16000M")),
        ({"cpus": 1}, ("-l", "mem_free=16000M")),
        ({"cpus": 1, "memory_mib": 0, "parallel": "threads"}, ("-pe", "threads", "1")),
        (
            {"parallel": "mpi-8", "nodes": 2, "memory_by": "core", "memory_form": "h_vmem"},
            ("-pe", "mpi-8", "16", "-l", "h_vmem=2000M"),
        ),
        (
            {"gpus": 2, "gpu_type": "a100", "memory_mib": 0},
            ("-pe", "smp", "8", "-l", "gpu=2", "-l", "gpu_type=a100"),
        ),
        ({"gpus": 2, "gpu_form": "ngpus", "memory_mib": 0}, ("-pe", "smp", "8", "-l", "ngpus=2")),
        ({"whole_node": True, "memory_mib": 0}, ("-pe", "smp", "8", "-l", "exclusive=true")),
        (
            {"whole_node": True, "memory_mib": 0, "nodes_form": "excl"},
            ("-pe", "smp", "8", "-l", "excl=true"),
        ),
        (
            {"queue": "long.q", "account": "abc", "avoid": ("n1", "n2"), "memory_mib": 0},
            ("-pe", "smp", "8", "-q", "long.q", "-P", "abc", "-l", "hostname=!(n1|n2)"),
        ),
        (
            {"memory_mib": 0, "options": ("-l scratch=10gb",)},
            ("-pe", "smp", "8", "-l", "scratch=10gb"),
        ),
    ],
)
def test_a_job_is_asked_for_with_these_words(more: dict[str, object], expected: tuple[str, ...]) -> None:
    assert SGE.submit(a_job(**more)).argv == (*USUAL, *expected, SCRIPT)


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("7\n"), "7"),
        (said("7.1-10:1\n"), "7"),
        (said("Welcome\n7\n"), "7"),
        (said('Your job 7 ("x") has been submitted\n'), Unsure),
        (said(""), Unsure),
        (said("", code=None), Unsure),
        (said("", 'Unable to run job: unknown resource "gpu".\nExiting.\n', 1), Refused),
        (said("", f"Unable to run job: {NO_SUCH}\n", 1), Refused),
        (said("", "error: commlib error: got select error (Connection refused)\n" + AWAY, 1), Failed),
        (said("", f"Unable to run job: {LOST}\n", 1), Unsure),
        (said("", 'error: commlib error: got read error (closing "m/qmaster/1")\n', 1), Unsure),
        (said("", "", 1), Unsure),
        (said("", "Killed", -9), Unsure),
    ],
)
def test_what_submitting_came_to(ran: Ran, expected: object) -> None:
    found = SGE.submitted(ran)
    assert found == expected if isinstance(expected, str) else type(found) is expected


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        *(("qw", SiteState.PENDING), ("hqw", SiteState.PENDING), ("hRwq", SiteState.PENDING)),
        *(("t", SiteState.RUNNING), ("r", SiteState.RUNNING), ("Rr", SiteState.RUNNING)),
        *(("s", SiteState.RUNNING), ("tS", SiteState.RUNNING), ("T", SiteState.RUNNING)),
        *(("dr", SiteState.LEAVING), ("dt", SiteState.LEAVING), ("dRr", SiteState.LEAVING)),
        *(("Eqw", SiteState.FAILED), ("Ehqw", SiteState.FAILED), ("dEqw", SiteState.LEAVING)),
        *(("z", SiteState.ENDED), ("X", SiteState.UNKNOWN), ("running", SiteState.UNKNOWN)),
        ("R", SiteState.UNKNOWN),
    ],
)
def test_letters_of_a_state_are_read(letters: str, state: SiteState) -> None:
    (found,) = SGE.jobs_queued(said(BEGIN + listed(letters) + END))
    assert (found.native_id, found.key, found.state, found.word) == ("7", "gp-1-1.mark", state, letters)


def test_a_listing_is_read_with_hosts_and_arrays() -> None:
    text = BEGIN + listed("r", more="<queue_name>all.q@n1.west</queue_name>")
    array = listed("qw", number="8", name="a,b", more="<tasks>3-9:1</tasks>")
    text += END.replace("<job_info>", f"<job_info>{array}", 1)
    greeted = "Hello & welcome < to >\n" + text
    for each in (text, greeted):
        assert SGE.jobs_queued(said(each)) == (
            JobSeen("7", "gp-1-1.mark", SiteState.RUNNING, "r", nodes=("n1.west",)),
            JobSeen("8.3-9:1", "a,b", SiteState.PENDING, "qw"),
        )
    assert SGE.jobs_queued(said(BEGIN + END)) == ()


@pytest.mark.parametrize(
    "ran",
    [
        said(""),
        said("job-ID  prior   name       user         state\n"),
        said(BEGIN),
        said(BEGIN + listed("r")),
        said(BEGIN + listed("r") + listed("qw") + END),
        said(BEGIN + listed("") + END),
        said(BEGIN + listed("r", number="1,234") + END),
        said(BEGIN + listed("r", number="9" * 40) + END),
        said(BEGIN + listed("r", name="\x01") + END),
        said("<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><job_info>&a;</job_info>"),
        said("<?xml version='1.0'?><html><body/></html>"),
        said(BEGIN + END, code=None),
        said("", "error: commlib error: got select error (Connection refused)\n", 1),
        Ran(0, BEGIN + END, "", True),
    ],
)
def test_nothing_is_concluded_from_an_answer_that_is_not_whole(ran: Ran) -> None:
    with pytest.raises(OddAnswer):
        SGE.jobs_queued(ran)


def block(number: int, *, failed: str = "0", code: int = 0, name: str = "x", host: str = "n1") -> str:
    return f"""==============================================================
qname        all.q
hostname     {host}
group        users
owner        ann
jobname      {name}
jobnumber    {number}
taskid       undefined
qsub_time    Sun Mar 31 02:30:00 2024
failed       {failed}
exit_status  {code}
ru_wallclock 61s
cpu          0.1s
"""


TOTALS = """Total System Usage
    WALLCLOCK         UTIME         STIME           CPU             MEMORY                 IO
{}
           10         0.010         0.000         0.010              0.000              0.000
""".format("=" * 112)


def test_accounting_tells_what_became_of_a_job() -> None:
    assert SGE.jobs_past(said(block(7))) == (
        JobSeen("7", "x", SiteState.ENDED, "0", "exit code 0 after 61s; failed 0", ("n1",)),
    )
    text = "Welcome\n" + block(7) + block(7, failed="100 : assumedly after job", code=137)
    assert SGE.jobs_past(said(text)) == (
        JobSeen(
            "7",
            "x",
            SiteState.FAILED,
            "100 : assumedly after job",
            "exit code 137 after 61s; failed 100 : assumedly after job",
            ("n1",),
        ),
    )
    assert SGE.jobs_past(said(block(7) + TOTALS)) == SGE.jobs_past(said(block(7)))
    assert SGE.jobs_past(said(TOTALS)) == ()
    before = block(7, failed="26  : opening input/output file", host="unknown")
    assert SGE.jobs_past(said(before))[0].state is SiteState.FAILED


def test_accounting_that_does_not_know_a_job_says_nothing_of_it() -> None:
    assert SGE.jobs_past(said("", "error: job id 7 not found\n", 1)) == ()
    for ran in (
        said(""),
        said("Welcome\n"),
        # Its file is not there: no job has ended yet, or a file system is away.
        said("no jobs running since startup\n", "/sge/accounting: No such file or directory\n", 1),
        said("", "error: commlib error: got select error\n", 1),
        said(block(7).replace("exit_status  0", "exit_status  0,5")),
        said(block(7).replace("jobnumber    7", "jobnumber")),
        said("", code=None),
    ):
        with pytest.raises(OddAnswer):
            SGE.jobs_past(ran)


def test_jobs_are_looked_up_and_ended_one_word_each() -> None:
    one, several = SGE.past(("7",), since_s=1), SGE.past(("7", "8.1"), since_s=90000)
    assert one is not None
    assert one.argv == ("qacct", "-j", "7")
    assert several is not None
    assert several.argv == ("qacct", "-d", "2", "-j")
    assert SGE.past((), since_s=1) is None
    with pytest.raises(ValueError, match="no `qos`"):
        SGE.submit(a_job(qos="high"))
    assert SGE.cancel(("7", "8.1")).argv == ("qdel", "7", "8.1")
    for bad in ("", "0", "-u", "*", "7 8", "7\n"):
        with pytest.raises(ValueError):
            SGE.cancel((bad,))


@pytest.mark.parametrize(
    ("ran", "expected"),
    [
        (said("ann has registered the job 7 for deletion\n"), None),
        (said('denied: job "7" does not exist\n', code=1), None),
        (said('ann has registered the job 7 for deletion\ndenied: job "8" does not exist\n', code=1), None),
        (said("job 7 is already in deletion\n", code=1), None),
        (said('ben - you do not have the necessary privileges to delete the job "7"\n', code=1), Refused),
        (said("", "error: commlib error: got select error (Connection refused)\n", 1), Failed),
        (said("", code=None), Unsure),
    ],
)
def test_a_job_that_is_gone_is_cancelled(ran: Ran, expected: type | None) -> None:
    found = SGE.cancelled(ran)
    assert found is None if expected is None else type(found) is expected


QUEUES = """qname                 all.q
hostlist              @allhosts
seq_no                0
pe_list               make smp \\
                      mpi-8
slots                 1,[n1=8],[n2=16]
s_rt                  INFINITY
h_rt                  24:00:00,[n2=12:00:00]
qname                 old.q
hostlist              NONE
pe_list               NONE
s_rt                  INFINITY
h_rt                  INFINITY
"""
HOSTS = """<?xml version='1.0'?>
<qhost xmlns:xsd="x">
 <host name='global'>
   <hostvalue name='num_proc'>-</hostvalue>
 </host>
 <host name='n1'>
   <hostvalue name='num_proc'>8</hostvalue>
   <hostvalue name='mem_total'>31.3G</hostvalue>
   <queue name='all.q'>
     <queuevalue qname='all.q' name='slots'>8</queuevalue>
     <queuevalue qname='all.q' name='state_string'>au</queuevalue>
   </queue>
 </host>
 <host name='n2'>
   <hostvalue name='mem_total'>62.5G</hostvalue>
   <resourcevalue name='gpu' dominance='hc'>4.000000</resourcevalue>
   <queue name='all.q'>
     <queuevalue qname='all.q' name='slots'>16</queuevalue>
     <queuevalue qname='all.q' name='state_string'></queuevalue>
   </queue>
 </host>
</qhost>
"""


def test_limits_of_a_site_are_read() -> None:
    assert GridEngine().facts((said(QUEUES), said(HOSTS))) == (
        QueueFacts(
            *("all.q", 43200, None, 2, 8, 32051, 0, "", False, True),
            notes=(
                *("hosts with 8 slots, 32051 MiB, 0 GPUs", "hosts with 16 slots, 64000 MiB, 4 GPUs"),
                "parallel environments: make, smp, mpi-8",
            ),
            parallel="smp",
        ),
        QueueFacts("old.q", None, 1, 0, None, None, None, "", False, False),
    )
