"""LSF, 9.1.3 and 10.1: `bsub`, `bjobs`, `bacct`, `bkill`.

`bjobs` is asked for columns of its own with a header, so that names are whole and nothing at all is no empty
queue. Jobs that it has forgotten are read from `bacct`, which breaks its lines wherever they are long.
"""

from __future__ import annotations

import re

from glidepath.batch.dialect import BatchJob, JobSeen, Words
from glidepath.batch.dialects.answers import (
    both,
    ended,
    holds,
    ids_of,
    judged,
    named_once,
    number,
    number_in,
    odd,
    options_of,
    table,
    whole,
    whole_but,
)
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeWord

PLAIN = "plain"  # as `memory_form`: an amount without its unit, as before 10.1
STATES: dict[str, SiteState] = {
    "PEND": SiteState.PENDING,
    "PSUSP": SiteState.PENDING,
    "WAIT": SiteState.PENDING,
    "PROV": SiteState.PENDING,
    "RUN": SiteState.RUNNING,
    "USUSP": SiteState.RUNNING,
    "SSUSP": SiteState.RUNNING,
    "DONE": SiteState.ENDED,
    "EXIT": SiteState.FAILED,
}
# Somebody wanted it to go: no fault of the site.
WANTED = (
    *("term_owner", "term_admin", "term_force_owner", "term_force_admin", "term_preempt"),
    "term_bucket_kill",
)
REFUSALS = (
    *("no such queue", "cannot use the queue", "bad resource requirement", "user permission denied"),
    *("no such project", "not a member of", "is not defined", "unknown resource", "invalid option"),
    *("illegal option", "cannot exceed queue", "exceeds the queue", "bad host name", "no such application"),
    *("invalid service class", "no such sla", "resource requirement syntax", "is not a valid"),
    *("cannot use the project", "invalid value", "job cannot be accepted", "rejected by esub", "runlimit"),
)
DOUBTS = (
    *("timed out", "time out", "timeout", "communication", "connection reset", "broken pipe"),
    *("end of file", "lost connection"),
)
NOTHING = ("job not submitted", "request aborted", "lsf is down", "failed in an lsf library call")
NONE_THERE = ("no job found", "no unfinished job found", "no matching job", "is not found")
GONE = ("no matching job found", "job has already finished", "is being terminated", "is not found")
DENIED = ("permission denied",)
COLUMNS = "jobid stat exit_code run_time exec_host job_name exit_reason delimiter='|'"
HEADER = "JOBID|STAT|EXIT_CODE|RUN_TIME|EXEC_HOST|JOB_NAME|EXIT_REASON"
JOB_ID = re.compile(r"[1-9][0-9]{0,11}(?:\[[0-9]{1,10}\])?")
_SUBMITTED = re.compile(r"Job <([1-9][0-9]{0,11})> is submitted to (?:default )?queue <[^<>]{1,200}>\.")
_ELEMENT = re.compile(r".*(\[[0-9]{1,10}\])")
_STATE = re.compile(r"[A-Z]{2,20}")
_SPAN = re.compile(r"([0-9]{1,12}) second\(?s?\)?")
_ENDED = re.compile(
    r"Job <([^<>]{1,40})>(?:, ?Job Name <([^<>]{0,4000})>)?[^\n]{0,20000}?, ?Status <([A-Z]{2,20})>"
)
_RULE = re.compile(r"^-{20,}\s*$", re.MULTILINE)
# A blank at the end of a line is lost with the break.
_WRAPPED = re.compile(r"\n {10,}")
_WHY = re.compile(r"TERM_[A-Z_]{3,40}: [^\n]{0,200}")


class Lsf:
    """How LSF is spoken to."""

    name = "lsf"
    shares_folder = True
    multi_node = True
    avoids_nodes = True

    def submit(self, job: BatchJob) -> Words:
        argv = ["bsub", "-J", job.key, "-o", job.output, "-cwd", job.folder, "-rn"]
        # It knows no seconds; a minute more is asked for, rather than that a pilot has one less.
        minutes = -(-job.walltime_s // 60)
        argv += ["-W", f"{minutes // 60}:{minutes % 60:02d}", "-n", str(job.nodes * job.cpus)]
        argv += ["-R", f"span[ptile={job.cpus}]" if job.nodes > 1 else "span[hosts=1]"]
        argv += _memory(job)
        argv += ["-R", f"rusage[tmp={job.disk_mib}]"] if job.disk_mib else []
        argv += _gpus(job)
        argv += ["-x"] if job.whole_node else []
        named = (("-q", job.queue), ("-P", job.account), ("-sla", job.qos))
        argv += [word for name, value in named if value is not None for word in (name, str(value))]
        argv += ["-R", f"select[{'&&'.join(f'hname!={host}' for host in job.avoid)}]"] if job.avoid else []
        return Words((*argv, *options_of(job.options), "/bin/sh", job.script))

    def submitted(self, ran: Ran) -> str | Refused | Failed | Unsure:
        if ran.code != 0:
            return judged(ran, "bsub", refusals=REFUSALS, doubts=DOUBTS, nothing=NOTHING)
        return number_in(ran, "bsub", _SUBMITTED)

    def queued(self, user: SafeWord | None) -> Words:
        return Words(("bjobs", "-a", *(("-u", user) if user is not None else ()), "-o", COLUMNS))

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        return _listed(ran)

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        return Words(("bacct", "-l", *ids_of(native_ids, JOB_ID))) if native_ids else None

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        text = whole_but(ran, "bacct", NONE_THERE)
        if not text.strip() and holds(ran.err, NONE_THERE):
            return ()
        found = [_past(block) for block in _RULE.split(text)[1:] if "Job <" in block]
        if not found and not holds(text, ("accounting information", *NONE_THERE)):
            raise odd("bacct", text)
        return tuple({job.native_id: job for job in found}.values())

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        return Words(("bkill", *ids_of(native_ids, JOB_ID)))

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return ended(both(ran), "bkill", gone=GONE, refusals=DENIED)

    def withdraw(self, native_id: str) -> Words | None:
        return None

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def drain(self, native_id: str) -> Words | None:
        return None

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)


def _memory(job: BatchJob) -> list[str]:
    """By node it is that of the job on one host; whether a site reads it so is a setting of the site."""
    if not job.memory_mib:
        return []
    amount = -(-job.memory_mib // job.cpus) if job.memory_by == "core" else job.memory_mib
    return ["-R", f"rusage[mem={amount}{'' if job.memory_form == PLAIN else 'MB'}]"]


def _gpus(job: BatchJob) -> list[str]:
    if not job.gpus:
        return []
    if job.gpu_form is not None:
        chosen = ["-R", f"select[gpu_model0=={job.gpu_type}]"] if job.gpu_type else []
        return [*chosen, "-R", f"rusage[{job.gpu_form}={job.gpus}]"]
    return ["-gpu", f"num={job.gpus}" + (f":gmodel={job.gpu_type}" if job.gpu_type else "")]


def _listed(ran: Ran) -> tuple[JobSeen, ...]:
    # It fails where there is none, and says so.
    complaints = [line for line in ran.err.splitlines() if line.strip()]
    nothing = ran.code in (0, 255) and not ran.out.strip() and complaints
    if nothing and all(holds(line, NONE_THERE) for line in complaints):
        return ()
    return named_once([_queued(line) for line in table(whole(ran, "bjobs"), HEADER, "bjobs")], "bjobs")


def _queued(line: str) -> JobSeen:
    parts = [part.strip() for part in line.strip().split("|")]
    if len(parts) < 7 or not JOB_ID.fullmatch(parts[0]) or not _STATE.fullmatch(parts[1]):
        raise odd("bjobs", line)
    ident, word, code, lasted, hosts = parts[:5]
    # With more columns than asked for, a name holds the separator: whose job it is, is not known.
    key, reason = (parts[5], parts[6]) if len(parts) == 7 else ("", "")
    element = _ELEMENT.fullmatch(key)
    state = STATES.get(word, SiteState.UNKNOWN)
    if state is SiteState.FAILED and holds(reason, WANTED):
        state = SiteState.ENDED
    span = _SPAN.fullmatch(lasted)
    why = ([f"exit code {code}"] if number(code) else []) + ([reason] if reason not in ("", "-") else [])
    return JobSeen(
        native_id=f"{ident}{element[1]}" if element else ident,
        key=key,
        state=state,
        word=word,
        why=one_line("; ".join(why)),
        nodes=_nodes(hosts),
        started_s_ago=number(span[1]) if span and state is SiteState.RUNNING else None,
    )


def _past(block: str) -> JobSeen:
    text = _WRAPPED.sub("", block)
    found = _ENDED.search(text)
    if found is None or not JOB_ID.fullmatch(found[1]):
        raise odd("bacct", block.strip())
    state = STATES.get(found[3], SiteState.UNKNOWN)
    why = _WHY.search(text)
    if state is SiteState.FAILED and why is not None and holds(why[0], WANTED):
        state = SiteState.ENDED
    return JobSeen(found[1], found[2] or "", state, found[3], one_line(why[0].strip()) if why else "")


def _nodes(text: str) -> tuple[str, ...]:
    """`8*n1:8*n2`, or `n1:n1`."""
    names = [each.rpartition("*")[2] for each in text[:100_000].split(":")]
    return tuple(one_line(name) for name in dict.fromkeys(names) if name not in ("", "-"))
