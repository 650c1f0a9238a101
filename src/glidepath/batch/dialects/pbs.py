"""PBS: PBS Pro and OpenPBS, and Torque, which asks for nodes otherwise: `qsub`, `qstat`, `qdel`.

Jobs are read from `qstat -f` as both print it: names are whole there, and what is printed as JSON is not JSON
in every version. Times of day are left alone, for nobody says in which zone they are.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from glidepath.batch.dialect import BatchJob, JobSeen, Words
from glidepath.batch.dialects.answers import (
    clock,
    document,
    ended,
    ids_of,
    judged,
    named_once,
    number_in,
    odd,
    options_of,
    seconds,
    whole,
    whole_but,
)
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeWord

TORQUE = "nodes"  # as `nodes_form`: how Torque is asked for nodes
STATES: dict[str, SiteState] = {
    "Q": SiteState.PENDING,
    "H": SiteState.PENDING,
    "W": SiteState.PENDING,
    "T": SiteState.PENDING,
    "R": SiteState.RUNNING,
    "B": SiteState.RUNNING,
    "S": SiteState.RUNNING,
    "U": SiteState.RUNNING,
    "E": SiteState.LEAVING,
    "X": SiteState.ENDED,
    "F": SiteState.ENDED,
    "C": SiteState.ENDED,
}
# Ended by a signal that somebody sent with `qdel`: 256 and the number of it, as both have it.
ENDED_BY_HAND = frozenset({"0", "271", "265"})
REFUSALS = (
    *("unknown queue", "unauthorized request", "illegal attribute or resource value", "unknown resource"),
    *("violates queue and/or server resource limits", "exceeds queue resource limits", "bad uid for job"),
    *("bad gid for job", "invalid account", "access from host not allowed", "illegal -", "invalid option"),
    *("usage: qsub", "script file", "cannot be requested", "invalid project", "not permitted"),
    *("group is not", "unknown option", "no permission", "invalid credential", "invalid resource"),
    "queue is not enabled",
)
DOUBTS = (
    *("end of file", "premature end", "timed out", "timeout", "communication failure", "broken pipe"),
    *("connection reset", "no reply", "protocol (asn.1) error", "system error occurred"),
)
NOTHING = ("qsub:", "cannot connect to server", "no_default_server", "job rejected")
GONE = ("unknown job id", "job has finished", "request invalid for state of job", "invalid state for job")
DENIED = ("unauthorized request",)
JOB_ID = re.compile(r"[1-9][0-9]{0,11}(?:\[[0-9]{0,10}\])?(?:\.[A-Za-z0-9][A-Za-z0-9_.-]{0,250})?")
_SUBMITTED = re.compile(r"([1-9][0-9]{0,11}(?:\[\])?\.[A-Za-z0-9][A-Za-z0-9_.-]{0,250})")
_BEGIN = re.compile(r"^Job Id: (\S{1,300})[ \t]*$", re.MULTILINE)
_ATTRIBUTE = re.compile(r" {4}([A-Za-z_][A-Za-z0-9_.]*) = (.*)")


class Pbs:
    """How PBS is spoken to."""

    name = "pbs"
    shares_folder = True
    multi_node = True
    avoids_nodes = False

    def submit(self, job: BatchJob) -> Words:
        argv = ["qsub", "-N", job.key, "-o", job.output, "-j", "oe", "-S", "/bin/sh", "-r", "n", "-m", "n"]
        argv += ["-l", f"walltime={clock(job.walltime_s)}"]
        argv += _torque(job) if job.nodes_form == TORQUE else _select(job)
        argv += ["-q", job.queue] if job.queue is not None else []
        argv += ["-A", job.account] if job.account is not None else []
        argv += ["-l", f"qos={job.qos}"] if job.qos is not None else []
        return Words((*argv, *options_of(job.options), job.script))

    def submitted(self, ran: Ran) -> str | Refused | Failed | Unsure:
        if ran.code != 0:
            return judged(ran, "qsub", refusals=REFUSALS, doubts=DOUBTS, nothing=NOTHING)
        return number_in(ran, "qsub", _SUBMITTED)

    def queued(self, user: SafeWord | None) -> Words:
        # Of all users: neither of them can be asked for those of one and for whole names at once.
        return Words(("qstat", "-f"))

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        return _listed(whole(ran, "qstat"))

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        # For Torque `-x` means another form of the answer; it knows its jobs for a while after they ended.
        return Words(("qstat", "-x", "-f", *ids_of(native_ids, JOB_ID))) if native_ids else None

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        text = whole_but(ran, "qstat", GONE)
        return _of_torque(text) if "<Data>" in text else _listed(text)

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        return Words(("qdel", *ids_of(native_ids, JOB_ID)))

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return ended(ran, "qdel", gone=GONE, refusals=DENIED)

    def withdraw(self, native_id: str) -> Words | None:
        return None

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def drain(self, native_id: str) -> Words | None:
        return None

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)


def _select(job: BatchJob) -> list[str]:
    """A chunk is a node: what a chunk asks for is by node, whatever memory is told by."""
    chunk = [f"{job.nodes}:ncpus={job.cpus}:mpiprocs=1"]
    chunk += [f"{job.memory_form or 'mem'}={job.memory_mib}mb"] if job.memory_mib else []
    if job.gpus:
        chunk += [f"{job.gpu_form or 'ngpus'}={job.gpus}"]
        chunk += [f"gpu_type={job.gpu_type}"] if job.gpu_type else []
    argv = ["-l", f"select={':'.join(chunk)}"]
    # Chunks of one job could come to lie on one node.
    place = (["scatter"] if job.nodes > 1 else []) + (["excl"] if job.whole_node else [])
    return [*argv, "-l", f"place={':'.join(place)}"] if place else argv


def _torque(job: BatchJob) -> list[str]:
    node = [f"nodes={job.nodes}", f"ppn={job.cpus}"]
    node += [f"{job.gpu_form or 'gpus'}={job.gpus}"] if job.gpus else []
    node += [job.gpu_type] if job.gpus and job.gpu_type else []
    argv = ["-l", ":".join(node)]
    if job.memory_mib and job.memory_by == "core":
        argv += ["-l", f"{job.memory_form or 'pmem'}={-(-job.memory_mib // job.cpus)}mb"]
    elif job.memory_mib:
        # Of all nodes together.
        argv += ["-l", f"{job.memory_form or 'mem'}={job.memory_mib * job.nodes}mb"]
    argv += ["-l", f"file={job.disk_mib}mb"] if job.disk_mib else []
    return [*argv, "-l", "naccesspolicy=singlejob"] if job.whole_node else argv


def _listed(text: str) -> tuple[JobSeen, ...]:
    """Jobs of `qstat -f`. Where there is none, nothing is printed, and that cannot be told from no answer:
    the jobs that we know are looked up before anything is concluded."""
    if not text.strip():
        return ()
    found = _BEGIN.split(text)
    if len(found) < 3 or not text.endswith("\n"):
        raise odd("qstat", text.strip().split("\n")[-1])
    return named_once(
        [_job(ident, _attributes(block)) for ident, block in zip(found[1::2], found[2::2], strict=True)],
        "qstat",
    )


def _attributes(block: str) -> dict[str, str]:
    """The first of each name, for what a user wrote into variables comes after what PBS says."""
    told: dict[str, str] = {}
    name = ""
    for line in block.split("\n"):
        if line.startswith("\t") and name:
            told[name] += line[1:]
        elif begun := _ATTRIBUTE.match(line):
            name = begun[1] if begun[1] not in told else ""
            told.setdefault(begun[1], begun[2])
        else:
            name = ""
    return told


def _of_torque(text: str) -> tuple[JobSeen, ...]:
    root = document(text, "qstat", "<Data>")
    return named_once(
        [_job((job.findtext("Job_Id") or "").strip(), _texts(job)) for job in root.iter("Job")], "qstat"
    )


def _texts(job: ElementTree.Element) -> dict[str, str]:
    return {each.tag: (each.text or "").strip() for each in job}


def _job(ident: str, told: dict[str, str]) -> JobSeen:
    word = told.get("job_state", "").strip()
    if not JOB_ID.fullmatch(ident) or "Job_Name" not in told or not word:
        raise odd("qstat", f"Job Id: {ident}")
    state = STATES.get(word, SiteState.UNKNOWN)
    code = told.get("Exit_status", told.get("exit_status", "")).strip()
    if state is SiteState.ENDED and code and code not in ENDED_BY_HAND:
        state = SiteState.FAILED
    why = [told.get("comment", "").strip()] + ([f"exit code {code}"] if code else [])
    used = told.get("resources_used.walltime", "").strip()
    return JobSeen(
        native_id=ident,
        key=told["Job_Name"].strip(),
        state=state,
        word=one_line(word),
        why=one_line("; ".join(each for each in why if each)),
        nodes=_nodes(told.get("exec_host", "")),
        started_s_ago=seconds(used) if state in (SiteState.RUNNING, SiteState.LEAVING) else None,
    )


def _nodes(text: str) -> tuple[str, ...]:
    """`n1/0*8+n2/0*8`, or a slot each in `n1/0+n1/1`."""
    names = [each.partition("/")[0].strip() for each in text[:100_000].split("+")]
    return tuple(one_line(name) for name in dict.fromkeys(names) if name)
