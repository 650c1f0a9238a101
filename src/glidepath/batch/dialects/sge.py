"""Grid Engine, 8.1.9 and its kin: `qsub`, `qstat`, `qacct`, `qdel`, and `qconf` and `qhost` for what a site
has.

Answers are read as XML where there is such: the columns for people cut names. Times of day are left
alone, for nobody says in which zone they are.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from glidepath.batch.dialect import BatchJob, JobSeen, QueueFacts, Words
from glidepath.batch.dialects.answers import (
    both,
    document,
    ended,
    holds,
    ids_of,
    judged,
    named_once,
    number,
    number_in,
    odd,
    options_of,
    whole,
    whole_but,
)
from glidepath.batch.dialects.sge_facts import facts
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeWord

MEMORY, GPU, GPU_TYPE, EXCLUSIVE, PARALLEL = "mem_free", "gpu", "gpu_type", "exclusive", "smp"
REFUSALS = (
    *("unknown resource", "unknown queue", "unknown project", "unknown option", "job rejected", "denied:"),
    *("no suitable queues", "invalid option", "does not exist", "requires the attribute", "no access"),
    *("is not a valid", "not allowed", "not permitted", "unknown file", "parallel environment"),
    *("rejected due", "exceeds limit", "can't resolve", "wrong argument"),
)
DOUBTS = (
    *("failed receiving gdi request", "got read error", "broken pipe", "timeout", "timed out"),
    *("connection reset", "got no response from jsv", "got select timeout", "communication error"),
)
NOTHING = ("unable to contact qmaster", "got select error (connection refused)", "unable to send message to")
# What it says of each job where it complains of one.
GONE = ("does not exist", "already in deletion", "for deletion", "has deleted job")
DENIED = ("privileges", "not the owner", "is not owner")
NOT_FOUND = ("not found",)
BEGIN, DAY_S = "<?xml", 86400
JOB_ID = re.compile(r"[1-9][0-9]{0,11}(?:\.[0-9]{1,10})?")
_SUBMITTED = re.compile(r"([1-9][0-9]{0,11})(?:\.[0-9]{1,10}-[0-9]{1,10}:[0-9]{1,10})?")
_LISTED_ID = re.compile(r"[0-9]{1,12}")
_TASKS = re.compile(r"[0-9,:-]{1,200}")
# Letters of a state: deletion, error, hold, queued, waiting, running, transferred, restarted, three ways of
# being suspended, ended a moment ago, and preempted.
_STATE = re.compile(r"[dEhqwrtRsSTzP]{1,8}")
# That above the totals, which come after the jobs where all are asked for, is longer.
_RULE = re.compile(r"^={50,80}\s*$", re.MULTILINE)
TOTALS = "total system usage"
_FAILED = re.compile(r"([0-9]{1,4})\b")


class GridEngine:
    """How Grid Engine is spoken to."""

    name = "sge"
    shares_folder = True
    multi_node = True
    avoids_nodes = True

    def submit(self, job: BatchJob) -> Words:
        if job.qos is not None:
            raise ValueError("Grid Engine has no `qos`; take it out of the settings")
        argv = ["qsub", "-terse", "-N", job.key, "-wd", job.folder, "-o", job.output, "-j", "y"]
        # Not started again where a node dies, and no shell of the user's own choice.
        argv += ["-S", "/bin/sh", "-r", "n", "-l", f"h_rt={job.walltime_s}"]
        argv += _slots(job)
        memory_mib = -(-job.memory_mib // job.cpus) if job.memory_by == "core" else job.memory_mib
        argv += ["-l", f"{job.memory_form or MEMORY}={memory_mib}M"] if memory_mib else []
        if job.gpus:
            argv += ["-l", f"{job.gpu_form or GPU}={job.gpus}"]
            argv += ["-l", f"{GPU_TYPE}={job.gpu_type}"] if job.gpu_type else []
        argv += ["-l", f"{job.nodes_form or EXCLUSIVE}=true"] if job.whole_node else []
        argv += ["-q", job.queue] if job.queue is not None else []
        argv += ["-P", job.account] if job.account is not None else []
        argv += ["-l", f"hostname=!({'|'.join(job.avoid)})"] if job.avoid else []
        return Words((*argv, *options_of(job.options), job.script))

    def submitted(self, ran: Ran) -> str | Refused | Failed | Unsure:
        if ran.code != 0:
            return judged(ran, "qsub", refusals=REFUSALS, doubts=DOUBTS, nothing=NOTHING)
        return number_in(ran, "qsub", _SUBMITTED)

    def queued(self, user: SafeWord | None) -> Words:
        return Words(("qstat", "-xml", *(("-u", user) if user is not None else ())))

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        root = document(whole(ran, "qstat"), "qstat", BEGIN)
        if root.tag != "job_info":
            raise odd("qstat", root.tag)
        return named_once([_queued(each) for each in root.iter("job_list")], "qstat")

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        if not native_ids:
            return None
        ids = [each.split(".")[0] for each in ids_of(native_ids, JOB_ID)]
        # It takes one number or none. A day is the least that can be said without a zone of time.
        which = ("-j", ids[0]) if len(ids) == 1 else ("-d", str(-(-since_s // DAY_S)), "-j")
        return Words(("qacct", *which))

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        text = whole_but(ran, "qacct", NOT_FOUND)
        blocks = [block for block in _RULE.split(text)[1:] if block.strip()]
        if not blocks and not holds(f"{ran.err}{text}", (*NOT_FOUND, TOTALS)):
            raise odd("qacct", text)
        # Numbers come again, after a restart of a job or when all were used; the last is what it came to.
        return tuple({job.native_id: job for job in map(_past, blocks)}.values())

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        return Words(("qdel", *ids_of(native_ids, JOB_ID)))

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return ended(both(ran), "qdel", gone=GONE, refusals=DENIED)

    def withdraw(self, native_id: str) -> Words | None:
        return None

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def drain(self, native_id: str) -> Words | None:
        return None

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def probe(self) -> tuple[Words, ...]:
        return Words(("qconf", "-sq", "*")), Words(("qhost", "-q", "-F", "-xml"))

    def facts(self, answers: tuple[Ran, ...]) -> tuple[QueueFacts, ...]:
        queues, hosts = answers
        return facts(whole(queues, "qconf"), document(whole(hosts, "qhost"), "qhost", BEGIN))


def _slots(job: BatchJob) -> list[str]:
    slots = job.cpus * job.nodes
    if slots == 1 and job.parallel is None:
        return []
    return ["-pe", job.parallel or PARALLEL, str(slots)]


def state_of(letters: str) -> SiteState:
    if not _STATE.fullmatch(letters):
        return SiteState.UNKNOWN
    if "d" in letters:
        return SiteState.LEAVING
    if "z" in letters:
        return SiteState.ENDED
    if "E" in letters:
        # It could not be started, and nothing happens before somebody clears that.
        return SiteState.FAILED
    if "q" in letters or "w" in letters:
        return SiteState.PENDING
    return SiteState.RUNNING if set(letters) & set("rtsST") else SiteState.UNKNOWN


def _queued(job: ElementTree.Element) -> JobSeen:
    ident, name, word, tasks, queue = (
        (job.findtext(tag) or "").strip()
        for tag in ("JB_job_number", "JB_name", "state", "tasks", "queue_name")
    )
    if not _LISTED_ID.fullmatch(ident) or not word or (tasks and not _TASKS.fullmatch(tasks)):
        raise odd("qstat", f"job {ident} {name} {word} {tasks}")
    state, host = state_of(word), queue.partition("@")[2]
    failed = state is SiteState.FAILED
    return JobSeen(
        native_id=f"{ident}.{tasks}" if tasks else ident,
        key=name,
        state=state,
        word=one_line(word),
        why="it could not be started; `qstat -j` tells why" if failed else "",
        nodes=(one_line(host),) if host else (),
    )


def _past(block: str) -> JobSeen:
    told: dict[str, str] = {}
    for line in block.split("\n"):
        name, _, value = line.strip().partition(" ")
        told.setdefault(name, value.strip())
    ident, code = told.get("jobnumber", ""), told.get("exit_status", "").split(" ")[0]
    failed = _FAILED.match(told.get("failed", ""))
    if not _LISTED_ID.fullmatch(ident) or "jobname" not in told or failed is None or number(code) is None:
        raise odd("qacct", block.strip())
    well = failed[1] == "0" and number(code) == 0
    task, host = told.get("taskid", "undefined"), told.get("hostname", "unknown")
    return JobSeen(
        native_id=f"{ident}.{task}" if number(task) else ident,
        key=told["jobname"],
        state=SiteState.ENDED if well else SiteState.FAILED,
        word=one_line(told["failed"]),
        why=one_line(
            f"exit code {code} after {told.get('ru_wallclock', 'some time')}; failed {told['failed']}"
        ),
        nodes=(one_line(host),) if host != "unknown" else (),
    )
