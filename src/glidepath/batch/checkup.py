"""A batch site looked over for `glidepath doctor`: commands, folder, queues, and what offers ask of them.

Settings and a runner come in, findings go out; a mark is written into the folder and removed, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from glidepath.batch import programs
from glidepath.batch.dialect import Dialect, QueueFacts
from glidepath.batch.dialects.answers import said
from glidepath.batch.script import top_of
from glidepath.batch.settings import BatchSettings, JobSettings, cores_of, memory_of, needed_s
from glidepath.core.provision.offer import Offer
from glidepath.core.provision.sight import SiteListing
from glidepath.core.quantity import SiteName
from glidepath.core.text import nearest, one_line
from glidepath.core.units import shown_duration
from glidepath.ports import Finding
from glidepath.remote.runner import Runner

COMMANDS: dict[str, tuple[str, ...]] = {
    "slurm": ("sbatch", "squeue", "scancel"),
    "pbs": ("qsub", "qstat", "qdel"),
    "sge": ("qsub", "qstat", "qdel"),
    "lsf": ("bsub", "bjobs", "bkill"),
    "htcondor": ("condor_submit", "condor_q", "condor_rm"),
}
ACCOUNTING: dict[str, str] = {
    "slurm": "sacct",
    "pbs": "qstat",
    "sge": "qacct",
    "lsf": "bacct",
    "htcondor": "condor_history",
}
NEEDED = ("tar", "awk", "xargs", "grep", "mktemp")
CHECK_S = 20.0
QUEUES_SHOWN_MAX = 8


def findings(
    site: SiteName,
    settings: BatchSettings,
    dialect: Dialect,
    offers: tuple[Offer, ...],
    *,
    runner: Runner,
    look: Callable[[], SiteListing],
) -> tuple[Finding, ...]:
    """In the order in which one depends on the other; what cannot be looked at any more is left out."""
    name, where = f"site {site}", settings.ssh.host or "this machine"
    top = top_of(settings, site)
    commands = COMMANDS.get(dialect.name, ())
    ran = runner.run(programs.argv(programs.CHECK, top, *commands, *NEEDED), limit_s=CHECK_S)
    found = programs.words_in(ran)
    if ran.code is None or not found:
        return (Finding(name, "fail", f"commands cannot be run on {where}: {said(ran)}", LOGIN_FIX),)
    told = [*_of_commands(name, where, found), *_of_folder(name, where, settings, found)]
    if any(each.verdict == "fail" for each in told):
        return tuple(told)
    try:
        listing = look()
        told.append(Finding(name, "ok", f"the queue and the folder list {len(listing.pilots)} pilots"))
        told += [Finding(name, "warn", note) for note in listing.notes]
    except (OSError, ValueError) as error:
        told.append(Finding(name, "fail", one_line(str(error)), f"run `{commands[1]}` on {where} by hand"))
        return tuple(told)
    return (*told, *_of_queues(settings, dialect, offers, runner))


LOGIN_FIX = "try `ssh` to that host by hand; `glidepath site login` opens the connection where a person must"


def _of_commands(name: str, where: str, found: Sequence[str]) -> Iterator[Finding]:
    lacking = [word.removeprefix("lacks ") for word in found if word.startswith("lacks ")]
    if lacking:
        fix = "set `path` of the `ssh` table to the folder with the commands of the batch system"
        yield Finding(name, "fail", f"{where} lacks {', '.join(f'`{each}`' for each in lacking)}", fix)
    else:
        yield Finding(name, "ok", f"the commands are there on {where}")


def _of_folder(name: str, where: str, settings: BatchSettings, found: Sequence[str]) -> Iterator[Finding]:
    if "nofolder" in found:
        yield Finding(
            name, "fail", f"there is no folder {settings.folder} on {where}", f"mkdir {settings.folder}"
        )
    elif "writable" not in found:
        yield Finding(
            name, "fail", f"the folder {settings.folder} cannot be written", "give the user the right to"
        )
    else:
        yield Finding(name, "ok", f"the folder {settings.folder} can be written")


def _of_queues(
    settings: BatchSettings, dialect: Dialect, offers: tuple[Offer, ...], runner: Runner
) -> Iterator[Finding]:
    """What the site says of its queues, against what offers ask of them; not every system can be asked."""
    probes: Any = dialect
    if not (hasattr(dialect, "probe") and hasattr(dialect, "facts")):
        return
    try:
        answers = tuple(
            runner.run(words.argv, given=words.given.encode(), limit_s=CHECK_S) for words in probes.probe()
        )
        queues = {queue.name: queue for queue in probes.facts(answers)}
    except (OSError, ValueError) as error:
        yield Finding("queues", "warn", f"the limits of the site cannot be read: {one_line(str(error))}")
        return
    for offer in offers:
        job = settings.job(offer.name)
        for queue in job.queue.split(",") if job.queue else ():
            yield from _of_offer(offer, job, queue, queues)


def _of_offer(offer: Offer, job: JobSettings, queue: str, queues: dict[str, QueueFacts]) -> Iterator[Finding]:
    name, facts = f"offer {offer.key}", queues.get(queue)
    if facts is None:
        near = nearest(queue, queues)
        known = ", ".join(sorted(queues)[:QUEUES_SHOWN_MAX])
        fix = f"did you mean `{near}`?" if near else f"there are: {known}"
        yield Finding(name, "fail", f"the site has no queue `{queue}`", fix)
        return
    wanted_s = job.walltime or needed_s(job, offer.lifetime_s)
    cores = cores_of(job, offer.size) * job.per_node
    memory_mib = memory_of(job, offer.size) * job.per_node
    over = [
        f"it asks for {what}, and `{queue}` has at most {most}"
        for what, wanted, limit, most in (
            (shown_duration(wanted_s), wanted_s, facts.walltime_s_max, _span(facts.walltime_s_max)),
            (f"{job.nodes} nodes", job.nodes, facts.nodes_max, facts.nodes_max),
            (f"{cores} cores", cores, facts.cpus_per_node, facts.cpus_per_node),
            (f"{memory_mib} MiB", memory_mib, facts.memory_mib_per_node, facts.memory_mib_per_node),
            (f"{offer.size.gpus} GPUs", offer.size.gpus, facts.gpus_per_node, facts.gpus_per_node),
        )
        if limit is not None and wanted > limit
    ]
    if over:
        yield Finding(name, "fail", "; ".join(over), "lower the offer, or choose another queue")
    elif not facts.open:
        yield Finding(name, "warn", f"the queue `{queue}` is closed")
    else:
        yield Finding(name, "ok", f"fits the queue `{queue}`")


def _span(seconds: int | None) -> str:
    return shown_duration(seconds) if seconds is not None else ""
