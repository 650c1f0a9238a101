"""Slurm, 20.11 and later: `sbatch`, `squeue`, `sacct`, `scancel`, and `scontrol` for what a site has.

Everything is told by options and asked with fixed columns; no time of day is read, only spans, so neither
locale nor time zone of the site changes an answer.
"""

from __future__ import annotations

import re

from glidepath.batch.dialect import BatchJob, JobSeen, OddAnswer, QueueFacts, Words
from glidepath.batch.dialects.answers import (
    clock,
    ended,
    hosts,
    ids_of,
    judged,
    named_once,
    number,
    number_in,
    odd,
    options_of,
    rows,
    seconds,
    table,
    whole,
)
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeWord

STATES: dict[str, SiteState] = {
    "PENDING": SiteState.PENDING,
    "CONFIGURING": SiteState.PENDING,
    "REQUEUED": SiteState.PENDING,
    "REQUEUE_FED": SiteState.PENDING,
    "REQUEUE_HOLD": SiteState.PENDING,
    "RESV_DEL_HOLD": SiteState.PENDING,
    "SPECIAL_EXIT": SiteState.PENDING,
    "RUNNING": SiteState.RUNNING,
    "RESIZING": SiteState.RUNNING,
    "SIGNALING": SiteState.RUNNING,
    "STOPPED": SiteState.RUNNING,
    "SUSPENDED": SiteState.RUNNING,
    "COMPLETING": SiteState.LEAVING,
    "STAGE_OUT": SiteState.LEAVING,
    "COMPLETED": SiteState.ENDED,
    # Somebody wanted it to go: no fault of the site.
    "CANCELLED": SiteState.ENDED,
    "PREEMPTED": SiteState.ENDED,
    "REVOKED": SiteState.ENDED,
    "BOOT_FAIL": SiteState.FAILED,
    "DEADLINE": SiteState.FAILED,
    "FAILED": SiteState.FAILED,
    "LAUNCH_FAILED": SiteState.FAILED,
    "NODE_FAIL": SiteState.FAILED,
    "OUT_OF_MEMORY": SiteState.FAILED,
    "RECONFIG_FAIL": SiteState.FAILED,
    "TIMEOUT": SiteState.FAILED,
}
# What the controller says when it will say the same again, in small letters.
REFUSALS = (
    *("invalid account or account/partition", "invalid partition", "invalid qos", "invalid reservation"),
    *("requested time limit is invalid", "requested node configuration is not available"),
    *("node count specification invalid", "cpu count specification invalid", "invalid feature"),
    *("memory specification can not be satisfied", "memory required by task is not available"),
    *("job violates accounting/qos policy", "user's group not permitted", "access/permission denied"),
    *("access denied to requested reservation", "requested reservation is invalid", "reservation access"),
    *("invalid generic resource (gres)", "invalid gres", "requested gres option unsupported"),
    *("invalid license specification", "invalid trackable resource", "invalid node name"),
    *("invalid --", "invalid job credential", "unrecognized option", "invalid option", "unable to open file"),
    *(
        "required partition not available",
        "batch script is empty",
        "more processors requested than permitted",
    ),
    *("invalid wckey", "invalid user id", "user not found on host", "invalid cluster name"),
)
# After these the controller may have it: the request was under way when the line broke.
DOUBTS = (
    *("socket timed out on send/recv", "zero bytes were transmitted or received", "message receive failure"),
    *("unexpected message received", "connection reset by peer", "transport endpoint is not connected"),
    *("message send failure", "connection timed out", "communication shutdown failure", "broken pipe"),
)
GONE = ("invalid job id specified", "already completing or completed", "job/step already completing")
DENIED = ("access/permission denied",)
COMPLAINTS = re.compile(r"^(?:squeue|sacct|scontrol|slurm_\w+)(?:: | )error", re.MULTILINE)
# The name comes last but one and the reason last, so that all before them have letters of their own. The
# header is asked for: without it, nothing at all would look like a queue without jobs.
COLUMNS = "%i|%T|%M|%D|%N|%j|%r"
HEADER = "JOBID|STATE|TIME|NODES|NODELIST|NAME|REASON"
PAST_COLUMNS = "JobIDRaw,State,ExitCode,ElapsedRaw,NodeList,JobName"
PAST_HEADER = PAST_COLUMNS.replace(",", "|")
NODE_COLUMNS, NODE_HEADER = "%R|%D|%c|%m|%G", "PARTITION|NODES|CPUS|MEMORY|GRES"
# The name that a job has in accounting where its start came there late, or never.
NAMELESS = "allocation"
JOB_ID = re.compile(r"[1-9][0-9]{0,11}(?:_[0-9]{1,10}|\+[0-9]{1,4})?")
_LISTED_ID = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,10}|_\[[0-9,:%.-]{1,200}\]|\+[0-9]{1,4})?")
_SUBMITTED = re.compile(r"([0-9]{1,12})(?:;[A-Za-z0-9_.-]{1,100})?")
_STATE = re.compile(r"[A-Z][A-Z_+]{0,40}")
_PAIR = re.compile(r"(?<!\S)([A-Za-z][A-Za-z0-9_/]*)=(\S*)")
_FEW = frozenset({"", "None", "(null)", "N/A", "UNLIMITED", "INFINITE"})


class Slurm:
    """How Slurm is spoken to."""

    name = "slurm"
    shares_folder = True
    multi_node = True
    avoids_nodes = True

    def submit(self, job: BatchJob) -> Words:
        argv = ["sbatch", "--parsable", f"--job-name={job.key}", f"--comment=glidepath:{job.key}"]
        # Nothing of the login's environment reaches the job, and a node that dies does not start it again.
        argv += ["--export=NONE", "--no-requeue", f"--chdir={job.folder}", f"--output={job.output}"]
        argv += ["--open-mode=append", f"--time={clock(job.walltime_s)}", f"--nodes={job.nodes}"]
        argv += ["--ntasks-per-node=1", f"--cpus-per-task={job.cpus}"]
        if job.memory_mib and job.memory_by == "core":
            argv += [f"--mem-per-cpu={-(-job.memory_mib // job.cpus)}M"]
        elif job.memory_mib:
            argv += [f"--mem={job.memory_mib}M"]
        argv += [f"--tmp={job.disk_mib}M"] if job.disk_mib else []
        argv += _gpus(job)
        argv += ["--exclusive"] if job.whole_node else []
        named = (("partition", job.queue), ("account", job.account), ("qos", job.qos))
        argv += [f"--{name}={value}" for name, value in named if value is not None]
        argv += [f"--exclude={','.join(job.avoid)}"] if job.avoid else []
        return Words((*argv, *options_of(job.options), job.script))

    def submitted(self, ran: Ran) -> str | Refused | Failed | Unsure:
        if ran.code != 0:
            return judged(ran, "sbatch", refusals=REFUSALS, doubts=DOUBTS)
        return number_in(ran, "sbatch", _SUBMITTED)

    def queued(self, user: SafeWord | None) -> Words:
        whose = f"--user={user}" if user is not None else "--me"
        return Words(("squeue", "--states=all", whose, f"--format={COLUMNS}"))

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        _uncomplaining(ran, "squeue")
        seen = [_queued(line) for line in table(whole(ran, "squeue"), HEADER, "squeue")]
        return named_once(seen, "squeue")

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        if not native_ids:
            return None
        which = f"--jobs={','.join(ids_of(native_ids, JOB_ID))}"
        argv = ("sacct", "--parsable2", "--allocations", which, f"--starttime=now-{since_s}seconds")
        return Words((*argv, f"--format={PAST_COLUMNS}"))

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        _uncomplaining(ran, "sacct")
        seen = [_past(line) for line in table(whole(ran, "sacct"), PAST_HEADER, "sacct")]
        # A number can come twice where a job was requeued; the last line is what it came to.
        return tuple({job.native_id: job for job in seen}.values())

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        return Words(("scancel", "--quiet", *ids_of(native_ids, JOB_ID)))

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return ended(ran, "scancel", gone=GONE, refusals=DENIED)

    def withdraw(self, native_id: str) -> Words | None:
        return None

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def drain(self, native_id: str) -> Words | None:
        return None

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def probe(self) -> tuple[Words, ...]:
        return (
            Words(("scontrol", "show", "partition", "--oneliner")),
            Words(("sinfo", "--exact", f"--format={NODE_COLUMNS}")),
        )

    def facts(self, answers: tuple[Ran, ...]) -> tuple[QueueFacts, ...]:
        partitions, nodes = answers
        kinds = _kinds(table(whole(nodes, "sinfo"), NODE_HEADER, "sinfo"))
        lines = rows(whole(partitions, "scontrol"), "scontrol")
        if [line.strip() for line in lines] == ["No partitions in the system"]:
            return ()
        return tuple(_facts(line, kinds) for line in lines)


def _gpus(job: BatchJob) -> list[str]:
    if not job.gpus:
        return []
    wanted = f"{job.gpu_type}:{job.gpus}" if job.gpu_type else str(job.gpus)
    return [f"--gres=gpu:{wanted}" if job.gpu_form == "gres" else f"--gpus-per-node={wanted}"]


def _uncomplaining(ran: Ran, program: str) -> None:
    """An error with exit code 0 happens: an unknown user gives an empty list and a complaint."""
    if found := COMPLAINTS.search(ran.err):
        raise odd(program, ran.err[found.start() :].split("\n")[0])


def _queued(line: str) -> JobSeen:
    parts = line.strip().split("|")
    if len(parts) < 7 or not _LISTED_ID.fullmatch(parts[0]) or not _STATE.fullmatch(parts[1]):
        raise odd("squeue", line)
    ident, word, used, count, nodes = parts[:5]
    if number(count) is None:
        raise odd("squeue", line)
    state = STATES.get(word, SiteState.UNKNOWN)
    # With more columns than asked for, a name or a reason holds the separator: whose job it is, is not known.
    key, why = (parts[5], parts[6]) if len(parts) == 7 else ("", "")
    return JobSeen(
        native_id=ident,
        key=key,
        state=state,
        word=word,
        why="" if why in _FEW else one_line(why),
        nodes=hosts(nodes) if nodes not in _FEW else (),
        started_s_ago=seconds(used) if state in (SiteState.RUNNING, SiteState.LEAVING) else None,
    )


def _past(line: str) -> JobSeen:
    parts = line.strip().split("|")
    words = parts[1].split() if len(parts) >= 6 else []
    if not words or not _LISTED_ID.fullmatch(parts[0]) or not _STATE.fullmatch(words[0]):
        raise odd("sacct", line)
    ident, told, code, lasted, nodes = parts[:5]
    if number(lasted) is None:
        raise odd("sacct", line)
    # `CANCELLED by 1000`, and `CANCELLED+` where a column was too narrow.
    state = STATES.get(words[0].rstrip("+"), SiteState.UNKNOWN)
    return JobSeen(
        native_id=ident,
        key=parts[5] if len(parts) == 6 and parts[5] != NAMELESS else "",
        state=state,
        word=one_line(told),
        why=one_line(f"exit code {code} after {lasted} s"),
        nodes=hosts(nodes) if nodes not in (*_FEW, "None assigned") else (),
        started_s_ago=number(lasted) if state is SiteState.RUNNING else None,
    )


def _kinds(lines: list[str]) -> dict[str, list[tuple[int, int, int, int, str]]]:
    """Kinds of nodes by partition: how many, CPUs, MiB, GPUs and their type."""
    found: dict[str, list[tuple[int, int, int, int, str]]] = {}
    for line in lines:
        parts = line.strip().split("|")
        amounts = [number(part.rstrip("+")) for part in parts[1:4]]
        if len(parts) != 5 or None in amounts:
            raise odd("sinfo", line)
        gpus, gpu_type = _gres(parts[4])
        count, cpus, memory = (amount or 0 for amount in amounts)
        found.setdefault(parts[0], []).append((count, cpus, memory, gpus, gpu_type))
    return found


def _gres(text: str) -> tuple[int, str]:
    """`gpu:a100:4(S:0-1)` in a list of such things; other things than GPUs are left out."""
    for piece in re.sub(r"\([^)]*\)", "", text).split(","):
        parts = piece.split(":")
        if parts[0] == "gpu" and (count := number(parts[-1])) is not None:
            return count, parts[1] if len(parts) == 3 else ""
    return 0, ""


def _facts(line: str, kinds: dict[str, list[tuple[int, int, int, int, str]]]) -> QueueFacts:
    told = dict(_PAIR.findall(line))
    name, state = told.get("PartitionName", ""), told.get("State", "")
    if not name or not state:
        raise odd("scontrol", line)
    nodes = kinds.get(name, [])
    # The smallest of each, so that a job of this size fits on every node; what differs is told besides.
    least_cpus = min((kind[1] for kind in nodes), default=0)
    least_memory_mib = min((kind[2] for kind in nodes), default=0)
    least_gpus = min((kind[3] for kind in nodes), default=0)
    notes = [f"{n} nodes: {c} CPUs, {m} MiB, {g} GPUs {t}".rstrip() for n, c, m, g, t in nodes]
    groups = told.get("AllowAccounts", "ALL")
    notes = notes if len(nodes) > 1 else []
    notes += [f"accounts: {one_line(groups)}"] if groups != "ALL" else []
    longest = told.get("MaxTime", "")
    if longest not in _FEW and seconds(longest) is None:
        raise OddAnswer(f"`scontrol` says MaxTime={one_line(longest)} for `{one_line(name)}`")
    return QueueFacts(
        name=name,
        walltime_s_max=seconds(longest),
        nodes_max=number(told.get("MaxNodes", "")),
        nodes=number(told.get("TotalNodes", "")),
        cpus_per_node=least_cpus or None,
        memory_mib_per_node=least_memory_mib or None,
        gpus_per_node=least_gpus if nodes else None,
        gpu_type=next((kind[4] for kind in nodes if kind[4]), ""),
        whole_node=told.get("OverSubscribe", "NO").startswith("EXCLUSIVE"),
        open=state == "UP",
        notes=tuple(notes),
    )
