"""Another pool of HTCondor as a site, 9.0 and later: `condor_submit`, `condor_q`, `condor_history`,
`condor_rm`, and `condor_status` for what it has.

A job is described on standard input, its files travel with it, and it is found by an attribute of its own.
Answers are read as XML, which is whole also where there is nothing: as JSON, nothing is an empty output.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from glidepath.batch.dialect import BatchJob, JobSeen, QueueFacts, Words
from glidepath.batch.dialects.answers import (
    document,
    ended,
    holds,
    ids_of,
    judged,
    named_once,
    number,
    number_in,
    odd,
    whole,
)
from glidepath.core.cycle import Failed, Refused, Unsure
from glidepath.core.provision.pilot import SiteState
from glidepath.core.text import one_line
from glidepath.remote.runner import Ran
from glidepath.remote.words import SafeLine, SafeWord

KEY = "GlidepathKey"
# How many old jobs are looked through: a history can hold a year of them.
SCAN_MAX = 100_000
# Held while its files are brought to the queue: it waits like any other.
SPOOLING = "16"
STATES: dict[str, SiteState] = {
    "1": SiteState.PENDING,
    "2": SiteState.RUNNING,
    "3": SiteState.LEAVING,
    "4": SiteState.ENDED,
    "5": SiteState.FAILED,
    "6": SiteState.LEAVING,
    "7": SiteState.RUNNING,
}
WORDS = ("", "idle", "running", "removed", "completed", "held", "transferring output", "suspended")
BY_HAND = "condor_rm"
REFUSALS = (
    *(
        "failed to parse",
        "does not exist",
        "no such file",
        "no such directory",
        "is not a valid",
        "invalid",
        "unknown",
    ),
    *("permission denied", "not authorized", "cannot be used", "can't open", "must be specified"),
)
DOUBTS = (
    *("failed to commit", "timed out", "timeout", "connection reset", "broken pipe", "lost connection"),
    *("failed to end", "qmgmt"),
)
NOTHING = ("can't find address of local schedd", "failed to connect to", "can't find address of schedd")
GONE = ("not found", "couldn't find/remove all jobs")
DENIED = ("permission denied", "not authorized")
UNBEGUN = "(JobStatus == 1 || JobStatus == 5) && (NumShadowStarts =?= undefined || NumShadowStarts == 0)"
# The second it says with exit code 0.
BEGUN = ("couldn't find/remove all jobs matching", "there are no jobs in the queue")
QUEUED = (
    *("ClusterId", "ProcId", "JobStatus", KEY, "HoldReasonCode", "HoldReason", "RemoteHost", "ExitCode"),
    *("ExitBySignal", "JobCurrentStartDate", "ServerTime", "RemoveReason"),
)
PAST = (
    *("ClusterId", "ProcId", "JobStatus", KEY, "LastRemoteHost", "ExitCode", "ExitBySignal", "RemoveReason"),
    *("HoldReason", "CompletionDate"),
)
SLOTS = ("Machine", "SlotType", "TotalSlotCpus", "TotalSlotMemory", "TotalSlotGPUs", "Cpus", "Memory", "GPUs")
BEGIN = "<classads>"
KINDS_MAX = 8
JOB_ID = re.compile(r"[1-9][0-9]{0,11}\.[0-9]{1,10}")
_SUBMITTED = re.compile(r"([1-9][0-9]{0,11}\.0) - [1-9][0-9]{0,11}\.0")


class Htcondor:
    """How HTCondor is spoken to."""

    name = "htcondor"
    shares_folder = False
    multi_node = False
    avoids_nodes = True

    def submit(self, job: BatchJob) -> Words:
        if job.nodes != 1 or job.whole_node:
            raise ValueError("a job of HTCondor is a part of one machine: no `nodes`, no `whole_node`")
        if job.queue is not None or job.qos is not None:
            raise ValueError("HTCondor has no queues for jobs to choose, and no qos; use `options`")
        return Words(("condor_submit", "-terse", "-"), "\n".join((*_entries(job), "queue", "")))

    def submitted(self, ran: Ran) -> str | Refused | Failed | Unsure:
        if ran.code != 0:
            return judged(ran, "condor_submit", refusals=REFUSALS, doubts=DOUBTS, nothing=NOTHING)
        return number_in(ran, "condor_submit", _SUBMITTED)

    def queued(self, user: SafeWord | None) -> Words:
        whose = (user,) if user is not None else ()
        return Words(("condor_q", *whose, "-xml", *_asked(QUEUED), "-constraint", f"{KEY} =!= undefined"))

    def jobs_queued(self, ran: Ran) -> tuple[JobSeen, ...]:
        ads = _ads(whole(ran, "condor_q"), "condor_q")
        return named_once([_job(ad, "condor_q", past=False) for ad in ads], "condor_q")

    def past(self, native_ids: tuple[str, ...], *, since_s: int) -> Words | None:
        ids = ids_of(native_ids, JOB_ID) if native_ids else ()
        if not ids:
            return None
        limits = ("-limit", str(len(ids)), "-scanlimit", str(SCAN_MAX))
        return Words(("condor_history", "-xml", *_asked(PAST), *limits, *ids))

    def jobs_past(self, ran: Ran) -> tuple[JobSeen, ...]:
        ads = _ads(whole(ran, "condor_history"), "condor_history")
        return named_once([_job(ad, "condor_history", past=True) for ad in ads], "condor_history")

    def cancel(self, native_ids: tuple[str, ...]) -> Words:
        return Words(("condor_rm", *ids_of(native_ids, JOB_ID)))

    def cancelled(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return ended(ran, "condor_rm", gone=GONE, refusals=DENIED)

    def withdraw(self, native_id: str) -> Words | None:
        cluster, _, proc = ids_of((native_id,), JOB_ID)[0].partition(".")
        # The queue itself looks at this as it removes: nothing can begin in between.
        which = f"ClusterId == {cluster} && ProcId == {proc}"
        return Words(("condor_rm", "-constraint", f"{which} && {UNBEGUN}"))

    def withdrawn(self, ran: Ran) -> Failed | Refused | Unsure | None:
        if ran.code is not None and holds(ran.err, BEGUN):
            return Refused("it has begun, or is no longer in the queue")
        return ended(ran, "condor_rm", gone=(), refusals=DENIED)

    def drain(self, native_id: str) -> Words | None:
        # A job is only told by being vacated, and that has a limit of the machine's own, after which it dies.
        return None

    def drained(self, ran: Ran) -> Failed | Refused | Unsure | None:
        return self.cancelled(ran)

    def probe(self) -> tuple[Words, ...]:
        return (Words(("condor_status", "-xml", *_asked(SLOTS), "-constraint", 'SlotType =!= "Dynamic"')),)

    def facts(self, answers: tuple[Ran, ...]) -> tuple[QueueFacts, ...]:
        """A pool has no queues: kinds of slots stand for them, the most frequent first."""
        kinds: Counter[tuple[int, int, int]] = Counter()
        for ad in _ads(whole(answers[0], "condor_status"), "condor_status"):
            kinds[_amount(ad, "Cpus"), _amount(ad, "Memory"), _amount(ad, "GPUs")] += 1
        ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))[:KINDS_MAX]
        return tuple(
            QueueFacts(
                name=f"cores-{cpus}-memory-{memory}" + (f"-gpus-{gpus}" if gpus else ""),
                nodes_max=1,
                nodes=count,
                cpus_per_node=cpus or None,
                memory_mib_per_node=memory or None,
                gpus_per_node=gpus,
                whole_node=False,
                notes=(f"{count} slots of this kind",),
            )
            for (cpus, memory, gpus), count in ordered
        )


def _asked(names: tuple[str, ...]) -> tuple[str, str]:
    return "-attributes", ",".join(names)


def _entries(job: BatchJob) -> list[str]:
    entries = ["universe = vanilla", "notification = never", f"batch_name = {job.key}"]
    entries += [f"accounting_group = {job.account}"] if job.account is not None else []
    # A person's own come before what must hold, for the last of a name counts.
    theirs = [line for line in job.options if _name(line) != "periodic_remove"]
    ends = [line.partition("=")[2].strip() for line in job.options if _name(line) == "periodic_remove"]
    entries += theirs
    entries += [f"executable = {job.script}", "transfer_executable = true"]
    # What it leaves beside itself comes back to its own folder.
    entries += [f"initialdir = {job.folder}", f"output = {job.output}", f"error = {job.output}"]
    entries += ["should_transfer_files = YES", "when_to_transfer_output = ON_EXIT"]
    entries += [f"transfer_input_files = {','.join(job.files)}"] if job.files else []
    entries += [f"request_cpus = {job.cpus}"]
    entries += [f"request_memory = {job.memory_mib}"] if job.memory_mib else []
    entries += [f"request_disk = {job.disk_mib * 1024}"] if job.disk_mib else []
    chosen = [f'(TARGET.Machine =!= "{node}")' for node in job.avoid]
    if job.gpus:
        entries += [f"request_gpus = {job.gpus}"]
        if job.gpu_type and job.gpu_form:
            chosen += [f'regexp("{job.gpu_type}", TARGET.{job.gpu_form}, "i")']
        elif job.gpu_type:
            entries += [f'require_gpus = regexp("{job.gpu_type}", DeviceName, "i")']
    entries += [f"requirements = {' && '.join(chosen)}"] if chosen else []
    # Over its time; or back in the queue after its machine was lost: another pilot is asked for then.
    ends += [f"(JobStatus == 2 && time() - JobCurrentStartDate > {job.walltime_s})"]
    ends += ["(JobStatus == 1 && NumJobStarts > 0)"]
    entries += [f"periodic_remove = {' || '.join(f'({end})' for end in ends)}"]
    return [*entries, f'+{KEY} = "{job.key}"']


def _name(line: SafeLine) -> str:
    return line.partition("=")[0].strip().lower()


def _ads(text: str, program: str) -> list[dict[str, str]]:
    """Values as texts; of numbers and strings alone, for nothing else is asked for."""
    root = document(text, program, BEGIN)
    return [{a.get("n", "").lower(): _value(a) for a in ad if a.tag == "a"} for ad in root if ad.tag == "c"]


def _value(attribute: ElementTree.Element) -> str:
    for value in attribute:
        if value.tag == "b":
            return "true" if value.get("v") == "t" else "false"
        if value.tag in ("i", "s", "r"):
            return (value.text or "").strip()
    return ""


def _job(ad: dict[str, str], program: str, *, past: bool) -> JobSeen:
    status, ident = ad.get("jobstatus", ""), f"{ad.get('clusterid', '')}.{ad.get('procid', '')}"
    if not JOB_ID.fullmatch(ident) or number(status) is None:
        raise odd(program, f"job {ident} {status}")
    state = STATES.get(status, SiteState.UNKNOWN)
    if past and status == "3":
        state = SiteState.ENDED if BY_HAND in ad.get("removereason", "") else SiteState.FAILED
    if status == "4" and (ad.get("exitcode") != "0" or ad.get("exitbysignal") == "true"):
        state = SiteState.FAILED
    if status == "5" and ad.get("holdreasoncode") == SPOOLING:
        state = SiteState.PENDING
    why = [ad[name] for name in ("removereason", "holdreason") if ad.get(name)]
    why += [f"exit code {ad['exitcode']}"] if ad.get("exitcode") else []
    host = ad.get("remotehost") or ad.get("lastremotehost") or ""
    running = state in (SiteState.RUNNING, SiteState.LEAVING)
    started, now = number(ad.get("jobcurrentstartdate", "")), number(ad.get("servertime", ""))
    return JobSeen(
        native_id=ident,
        key=ad.get(KEY.lower(), ""),
        state=state,
        word=WORDS[int(status)] if 0 < int(status) < len(WORDS) else status,
        why=one_line("; ".join(why)),
        nodes=(one_line(host.rpartition("@")[2]),) if host else (),
        started_s_ago=max(0, now - started) if running and started and now else None,
    )


def _amount(ad: dict[str, str], name: str) -> int:
    """Of a slot that is divided, the whole of it."""
    low = name.lower()
    return number(ad.get(f"totalslot{low}", "")) or number(ad.get(low, "")) or 0
