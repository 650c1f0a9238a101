"""`glidepath config import pyglidein`: the `cluster.config` of a client comes in, an agent's file goes out,
with what the server needs for that site as comments.

Every key that is not carried over is named with the reason. Secrets are never repeated.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from glidepath.core.text import nearest, one_line

NAME_LETTERS_MAX = 40
KINDS = {"slurm": "slurm", "pbs": "pbs", "uge": "sge", "sge": "sge", "lsf": "lsf", "htcondor": "htcondor"}
# What the client's own defaults say.
DEFAULTS: dict[str, Any] = {
    "max_total_jobs": 1000,
    "max_idle_jobs": 1000,
    "limit_per_submit": 50,
    "walltime_hrs": 20,
    "prioritize_jobs": ["gpu", "memory"],
    "whole_node": False,
    "max_cpus_per_job": 12,
    "max_gpus_per_job": 8,
    "max_memory_per_job": 24000,
    "max_disk_per_job": 100000,
}
# The glidein itself ended so much before its job, and left so long after its last one.
SPARE_S, IDLE = 300, "20m"
MEMORY_PERCENT = {"htcondor": 110}
FIRST = {"gpu": "gpus", "gpus": "gpus", "cpus": "cpus", "memory": "memory", "disk": "disk", "count": "jobs"}
FORMS = {"pmem_only": "pmem", "vmem_only": "vmem", "mem_only": "mem"}
_HERE = "glidepath asks the batch system itself"
LEFT_OUT = {
    **dict.fromkeys(("submit_command", "running_cmd", "idle_cmd", "mma_cmd", "user"), _HERE),
    **dict.fromkeys(("cleanup", "dir_cleanup"), "a pilot clears up after itself"),
    "group_jobs": "each pilot is asked for by itself; `per_node` and `nodes` group them",
    "cvmfs": "say `HasCvmfs = true` in `condor.attributes` of the offer",
    "os": "say it as a trait of the offer, where jobs ask for it",
    "set_gpu_req": "GPUs are asked for where the offer has some",
    "pvmem": "memory is asked for in one form; choose it as `memory_form`",
    "node_property": "add it to `options`",
}
SUBMIT_LEFT_OUT = {
    **dict.fromkeys(("filename", "env_wrapper_name", "executable", "log"), "there is no such file here"),
    "local_dir": "pilots use the scratch folder that the site gives their job",
    "gpu_submit": "choose it as `gpu_form`",
    "ref_host": "it is of one site alone",
    "mem_scale": "memory is asked for as `memory_percent` says",
    "cvmfs_job_wrapper": "a wrapper of jobs is set in the pool or in `condor.lines` of the offer",
    "requirements": "add it to `options`",
}
KNOWN: dict[str, tuple[str, ...]] = {
    "Mode": ("debug", "dryrun"),
    "Glidein": (
        *("address", "uuid", "site", "resourcename", "cluster", "delay", "ssh_state", "tarball", "loc"),
        "glidein_script",
    ),
    "Cluster": (
        *("scheduler", "partitions", "partition", "mem_per_core", "cpu_only", "gpu_only", *LEFT_OUT, *FORMS),
        *(f"whole_node_{what}" for what in ("cpus", "gpus", "memory", "disk")),
        *(f"min_{what}_per_job" for what in ("cpus", "gpus", "memory", "disk")),
        *DEFAULTS,
    ),
    "SubmitFile": (
        *("custom_header", "custom_middle", "custom_end", "custom_footer", "mem_safety_scale"),
        *SUBMIT_LEFT_OUT,
    ),
    "StartdChecks": ("enable_startd_checks",),
    "StartdLogging": ("send_startd_logs", "url", "bucket", "access_key", "secret_key"),
}
_OPTION = re.compile(r"#(?:SBATCH|PBS|BSUB|\$)\s+(\S.*)")
_ACCOUNT = re.compile(r"(?:--account[= ]|-A ?|-P ?)(\S+)")
_QOS = re.compile(r"--qos[= ](\S+)")
_SETUP = re.compile(r"module (load|use) \S+|(source|\.) /\S+|export [A-Za-z_]\w*=\S*|ulimit -n \d+")


class PyglideinError(ValueError):
    """What is wrong with a file, with its name."""


@dataclass(frozen=True, slots=True)
class Imported:
    text: str  # TOML
    notes: tuple[str, ...]


Rows = list[tuple[str, str]]


@dataclass(slots=True)
class _Client:
    sections: dict[str, dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def of(self, section: str, key: str, default: Any = None) -> Any:
        return self.sections.get(section, {}).get(key, default)

    def partitions(self) -> dict[str, dict[str, Any]]:
        """Each with what it inherits from the cluster."""
        cluster = {**DEFAULTS, **self.sections.get("Cluster", {})}
        names = [name.strip() for name in str(cluster.get("partitions", "")).split(",") if name.strip()]
        if not names:
            return {"glidein": cluster}
        return {name: {**cluster, **self.sections.get(name, {})} for name in names}

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def imported(name: str, content: str) -> Imported:
    """The name of the file and what stands in it."""
    client = _Client(_read(name, content))
    scheduler = str(client.of("Cluster", "scheduler", "")).lower()
    if scheduler not in KINDS:
        known = ", ".join(f"`{word}`" for word in KINDS)
        raise PyglideinError(f"{name}: `scheduler` is `{one_line(scheduler)}`, and none of {known}")
    kind = KINDS[scheduler]
    site = _name(str(client.of("Glidein", "site") or client.of("Glidein", "cluster") or "site"))
    folder = str(PurePosixPath(name).parent / "glidepath")
    _left_out(client)
    offers = {_name(each): table for each, table in client.partitions().items()}
    agent: list[tuple[str, Rows]] = [
        ("", _head(client, site, kind)),
        ("limits", _limits(client.sections.get("Cluster", {}))),
        (kind, _job(client, kind, folder)),
        *((f"{kind}.offers.{each}", _own_job(table)) for each, table in offers.items()),
    ]
    server: list[tuple[str, Rows]] = [
        (f"sites.{site}", [("kind", '"called"')]),
        *((f"sites.{site}.offers.{each}", _offer(client, table)) for each, table in offers.items()),
    ]
    lines = ["# Made from the configuration of a client of pyglidein, for an agent at the same site."]
    lines += [f"# {note}." for note in client.notes]
    lines += _toml(agent)
    lines += ["", "# For `glidepath.toml` at the server:", "#", f"# first = {_first(client)}"]
    lines += [f"# {line}".rstrip() for line in _toml(server)]
    return Imported("\n".join(lines) + "\n", tuple(client.notes))


def _read(name: str, content: str) -> dict[str, dict[str, Any]]:
    parser = configparser.ConfigParser(interpolation=None, default_section="\0", strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(content, source=name)
    except configparser.Error as error:
        raise PyglideinError(f"{name}: {one_line(str(error))}") from None
    named = parser.get("Cluster", "partitions", fallback="")
    partitions = {part.strip() for part in named.split(",") if part.strip()}
    found: dict[str, dict[str, Any]] = {}
    wrong = []
    for section in parser.sections():
        known = KNOWN["Cluster"] if section in partitions else KNOWN.get(section)
        if known is None and section != "CustomEnv":
            near = nearest(section, [*KNOWN, "CustomEnv"])
            wrong.append(f"{name}: `[{one_line(section)}]` is no section" + _meant(near))
            continue
        for key, text in parser.items(section):
            if known is not None and key not in known:
                wrong.append(
                    f"{name}: `{one_line(key)}` is no key of `[{section}]`" + _meant(nearest(key, known))
                )
            found.setdefault(section, {})[key] = _literal(text)
    wrong += [
        f"{name}: there is no section `[{one_line(each)}]`"
        for each in sorted(partitions - {*parser.sections()})
    ]
    if wrong:
        raise PyglideinError("\n".join(wrong))
    return found


def _meant(near: str) -> str:
    return f"; did you mean `{near}`?" if near else ""


def _literal(text: str) -> Any:
    """As the client reads it: a literal of Python where it is one."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def _left_out(client: _Client) -> None:
    for section, table in client.sections.items():
        reasons = SUBMIT_LEFT_OUT if section == "SubmitFile" else LEFT_OUT
        for key in table:
            if key in reasons:
                client.note(f"`{key}` is left out: {reasons[key]}")
    if client.of("Glidein", "ssh_state"):
        client.note("`ssh_state`: exchange files with `drop` instead of calling `server`")
    if client.of("Glidein", "glidein_script"):
        client.note("`glidein_script` is left out: glidepath's own pilot is started")
    if client.of("StartdLogging", "send_startd_logs"):
        client.note("`[StartdLogging]` is left out: what pilots wrote stays in the folder of the site")
    if client.of("Mode", "dryrun"):
        client.note("`dryrun` is left out: `glidepath up --shadow` at the server does nothing and tells")


def _head(client: _Client, site: str, kind: str) -> Rows:
    client.note("`server` and the token come from whoever runs the server")
    address = '"https://glidepath.example.org"'
    rows: Rows = [("site", _text(site)), ("server", address), ("token_file", _text(f"{site}.token"))]
    delay = client.of("Glidein", "delay")
    if isinstance(delay, int) and delay >= 1:
        rows.append(("poll", _text(f"{delay}s")))
    return [*rows, ("kind", _text(kind))]


def _limits(cluster: Mapping[str, Any]) -> Rows:
    table = {**DEFAULTS, **cluster}
    keys = {"live_max": "max_total_jobs", "pending_max": "max_idle_jobs", "per_cycle_max": "limit_per_submit"}
    return [(key, str(_whole(table, theirs))) for key, theirs in keys.items()]


def _job(client: _Client, kind: str, folder: str) -> Rows:
    client.note(f"`folder`: nodes must see `{one_line(folder)}`; choose another where they do not")
    cluster = client.sections.get("Cluster", {})
    scale = client.of("SubmitFile", "mem_safety_scale", 1)
    scale = scale if isinstance(scale, int | float) and not isinstance(scale, bool) and scale > 0 else 1
    rows: Rows = [("folder", _text(folder))]
    rows.append(("memory_percent", str(max(100, round(MEMORY_PERCENT.get(kind, 105) * scale)))))
    if kind in ("pbs", "slurm") and not cluster.get("whole_node"):
        per_core = cluster.get("mem_per_core", 2000)
        rows.append(("memory_per_core", _text(f"{_whole({'mem_per_core': per_core}, 'mem_per_core')}MiB")))
    rows += [("memory_form", _text(form)) for key, form in FORMS.items() if cluster.get(key)][:1]
    if client.of("Glidein", "tarball"):
        loc, tarball = client.of("Glidein", "loc"), str(client.of("Glidein", "tarball"))
        rows.append(("htcondor", _text(str(PurePosixPath(str(loc or "/"), tarball)))))
    return [*rows, *_header(client), *_setup(client)]


def _header(client: _Client) -> Rows:
    rows: Rows = []
    options: list[str] = []
    for line in str(client.of("SubmitFile", "custom_header", "")).splitlines():
        found = _OPTION.fullmatch(line.strip())
        if found is None:
            if line.strip():
                client.note(f"`{one_line(line.strip())}` of `custom_header` is left out: it is no option")
        elif account := _ACCOUNT.fullmatch(found[1]):
            rows.append(("account", _text(account[1])))
        elif qos := _QOS.fullmatch(found[1]):
            rows.append(("qos", _text(qos[1])))
        else:
            options.append(found[1])
    return [*rows, *([("options", json.dumps(options))] if options else [])]


def _setup(client: _Client) -> Rows:
    lines: list[str] = []
    for key in ("custom_middle", "custom_end", "custom_footer"):
        for line in str(client.of("SubmitFile", key, "")).splitlines():
            if key == "custom_middle" and _SETUP.fullmatch(line.strip()):
                lines.append(line.strip())
            elif line.strip():
                client.note(
                    f"`{one_line(line.strip())}` of `{key}` is left out: it is no setup that is known"
                )
    for name, value in client.sections.get("CustomEnv", {}).items():
        line = f"export {name}={value}"
        if _SETUP.fullmatch(line):
            lines.append(line)
        else:
            client.note(f"`{one_line(name)}` of `[CustomEnv]` is left out: its value has blanks in it")
    return [("setup", json.dumps(lines))] if lines else []


def _own_job(table: Mapping[str, Any]) -> Rows:
    rows: Rows = [("walltime", _text(f"{_whole(table, 'walltime_hrs')}h"))]
    if table.get("partition"):
        rows.append(("queue", _text(str(table["partition"]))))
    if table.get("whole_node"):
        rows.append(("whole_node", "true"))
    return rows


def _offer(client: _Client, table: Mapping[str, Any]) -> Rows:
    """The largest pilot that the client would have launched there."""
    whole = bool(table.get("whole_node"))
    prefix, suffix = ("whole_node_", "") if whole else ("max_", "_per_job")

    def most(what: str) -> int:
        return _whole(table, f"{prefix}{what}{suffix}", least=0)

    gpus = 0 if table.get("cpu_only") or (whole and "whole_node_gpus" not in table) else most("gpus")
    rows: Rows = [
        ("cpus", str(max(1, most("cpus")))),
        ("memory", _text(f"{most('memory')}MiB")),
        ("disk", _text(f"{most('disk') * 1000 // 1024}MiB")),
    ]
    rows += [("gpus", str(gpus))] if gpus else []
    rows += [("jobs", '"gpu"' if table.get("gpu_only") else '"cpu"')] * bool(
        table.get("gpu_only") or table.get("cpu_only")
    )
    if not whole:
        rows.append(("fitted", "true"))
        least = {
            what: _whole(table, f"min_{what}_per_job", least=0)
            for what in ("cpus", "memory", "disk", "gpus")
            if f"min_{what}_per_job" in table
        }
        if least:
            units = {"memory": "MiB", "disk": "MB"}
            parts = [
                f"{what} = " + (_text(f"{n}{units[what]}") if what in units else str(n))
                for what, n in least.items()
            ]
            rows.append(("min", "{ " + ", ".join(parts) + " }"))
    lifetime_s = _whole(table, "walltime_hrs") * 3600 - SPARE_S
    rows += [("lifetime", _text(f"{lifetime_s}s")), ("idle", _text(IDLE))]
    return rows


def _first(client: _Client) -> str:
    words = client.of("Cluster", "prioritize_jobs", DEFAULTS["prioritize_jobs"])
    found = []
    for word in words if isinstance(words, list | tuple) else []:
        bare = str(word).removeprefix("-")
        if bare not in FIRST:
            client.note(f"`{one_line(bare)}` of `prioritize_jobs` is left out: jobs do not have it")
            continue
        found.append(("-" if str(word).startswith("-") else "") + FIRST[bare])
    return json.dumps(found)


def _whole(table: Mapping[str, Any], key: str, *, least: int = 1) -> int:
    value: Any = table.get(key)
    if type(value) not in (int, float) or value != value or not least <= value <= 10**9:
        raise PyglideinError(
            f"`{key}`: `{one_line(str(value))}` is no number from {least} to a thousand million"
        )
    return int(value)


def _name(text: str) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower())[:NAME_LETTERS_MAX].strip("-")
    return plain or "site"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _toml(sections: Iterable[tuple[str, Rows]]) -> list[str]:
    lines: list[str] = []
    for name, rows in sections:
        if rows:
            lines += ["", *([f"[{name}]"] if name else []), *(f"{key} = {value}" for key, value in rows)]
    return lines
