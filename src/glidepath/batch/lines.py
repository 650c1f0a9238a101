"""Lines that people write for the jobs of a batch system: which of them are taken, and why others are not.

A line and the name of a dialect come in, the same line goes out, or a sentence. A list of what is taken is
shorter than one of what could go wrong; what glidepath says itself is on none.
"""

from __future__ import annotations

import re

from glidepath.core.text import nearest, one_line
from glidepath.remote.words import SafeLine, safe_entry, safe_line

# Options of the submit commands. Whatever would change where a job's files, name, output or environment are,
# how long it runs or which cluster has it, is glidepath's own and not here.
OPTIONS: dict[str, frozenset[str]] = {
    "slurm": frozenset(
        {
            *("--constraint", "--reservation", "--licenses", "--nice", "--mail-user", "--mail-type"),
            *("--signal", "--hint", "--switches", "--prefer", "--wckey", "--gres-flags", "--gres"),
            *("--cores-per-socket", "--sockets-per-node", "--threads-per-core", "--distribution"),
            *("--contiguous", "--oversubscribe", "--network", "--nodelist", "--priority", "--spread-job"),
            *("--use-min-nodes", "--cpu-freq", "--thread-spec", "--core-spec", "--acctg-freq", "--deadline"),
            *("--mcs-label", "--tres-per-task", "--gpu-bind", "--gpu-freq", "--mem-bind", "-C", "-L"),
        }
    ),
    "pbs": frozenset({"-l", "-W", "-p", "-m", "-M", "-P", "-r"}),
    "sge": frozenset({"-l", "-P", "-p", "-m", "-M", "-R", "-ac", "-binding"}),
    "lsf": frozenset({"-R", "-sla", "-app", "-U", "-sp", "-u", "-m", "-G", "-Lp", "-hl", "-network"}),
}
# Entries of a submit file of HTCondor, in small letters, besides attributes of the job itself.
ENTRIES = frozenset(
    {
        *("rank", "accounting_group", "accounting_group_user", "concurrency_limits", "priority", "nice_user"),
        *("notification", "notify_user", "batch_name", "want_graceful_removal", "container_image"),
        *("docker_image", "require_gpus", "gpus_minimum_memory", "gpus_minimum_capability"),
        *("gpus_minimum_runtime", "gpus_maximum_capability", "cuda_version", "allowed_job_duration"),
        *("periodic_remove", "use_x509userproxy", "x509userproxy", "use_oauth_services"),
    }
)
# Resources behind `-l` and subjects behind `-W` that glidepath asks for itself or that are none of a site.
REFUSED_VALUES: dict[str, frozenset[str]] = {
    "pbs": frozenset(
        {
            *("walltime", "select", "nodes", "ncpus", "mpiprocs", "mem", "pmem", "vmem", "pvmem", "ngpus"),
            *("procs", "stagein", "stageout", "sandbox", "depend", "block", "umask", "run_count"),
        }
    ),
    "sge": frozenset({"h_rt", "s_rt", "hostname", "h", "q", "qname"}),
}
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:+@/-]{0,199}"
_PATH = r"/[A-Za-z0-9_.+@/-]{1,500}"
_VALUE = r"[A-Za-z0-9_.:,+@/=%-]{0,400}"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"module (?:load|add|unload|use|swap|switch)(?: (?:{_WORD}|{_PATH})){{1,20}}",
        r"module purge",
        rf"ml(?: {_WORD}){{1,20}}",
        rf"(?:source|\.) {_PATH}",
        rf"export [A-Za-z_][A-Za-z0-9_]{{0,100}}={_VALUE}",
        r"ulimit -[cnsu] (?:[0-9]{1,12}|unlimited)",
    )
)
# A line that would take away what the pilot itself is told by.
_OURS = re.compile(r"export (?:GLIDEPATH_|_?CONDOR_|LD_PRELOAD|BASH_ENV|ENV=|IFS=|PYTHON)")


def setup_line(text: str) -> str:
    """One line of a job's script before the pilot, as it was written."""
    if (
        not any(form.fullmatch(text) for form in _FORMS)
        or _OURS.match(text)
        or ".." in re.split("[ /=:]", text)
    ):
        raise ValueError(
            f"`{one_line(text)}` is refused; write `module load NAME`, `module use PATH`, `source PATH`, "
            "`export NAME=VALUE` or `ulimit -n NUMBER`, in which nothing is filled in"
        )
    return text


def option_line(dialect: str, text: str) -> SafeLine:
    """The same line, or ValueError with a sentence that says what would be taken."""
    if why := option_refusal(dialect, text):
        raise ValueError(why)
    return SafeLine(text)


def option_refusal(dialect: str, text: str) -> str:
    try:
        if dialect == "htcondor":
            return _entry_refusal(safe_entry(text, "an entry"))
        safe_line(text, "an option")
    except ValueError as error:
        return str(error)
    name, value = _apart(text)
    known = OPTIONS[dialect]
    if name not in known:
        near = nearest(name, known) if name.startswith("--") else ""
        hint = f"did you mean `{near}`?" if near else f"taken are {', '.join(sorted(known))}"
        return f"`{one_line(name)}` is not taken; {hint}"
    for piece in value.split(",") if name in ("-l", "-W") else ():
        asked = re.split(r"[=:<>!]", piece, maxsplit=1)[0].strip().lower()
        if asked in REFUSED_VALUES.get(dialect, ()):
            return f"`{one_line(asked)}` of `{name}` is asked for by glidepath itself"
    return ""


def _apart(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=") if text.startswith("--") else text.partition(" ")
    return name, value


def _entry_refusal(text: str) -> str:
    name = text.partition("=")[0].strip()
    low = name.lower()
    if name.startswith("+") or low.startswith("my."):
        return ""
    if low not in ENTRIES:
        near = nearest(low, ENTRIES)
        hint = f"did you mean `{near}`?" if near else f"taken are {', '.join(sorted(ENTRIES))} and `+NAME`"
        return f"`{one_line(name)}` is not taken; {hint}"
    return ""
