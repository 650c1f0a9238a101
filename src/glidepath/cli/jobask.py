"""What a job that is placed can be asked: options and a file come in, one checked `PlacedSpec` goes out.

It refuses to know how jobs are kept and planned. Every mistake is told in the words of whoever made it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glidepath.cli import argument
from glidepath.cli.output import need
from glidepath.cli.session import login
from glidepath.cli.text import did_you_mean
from glidepath.cli.verb import Exit, Options, Stop
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glidepath.cli.session import Located
    from glidepath.config.cluster import PartitionSettings
    from glidepath.core.place.rank import File
    from glidepath.core.quantity import Instant
    from glidepath.core.schedule.cluster import Queue
    from glidepath.store.placed_spec import PlacedSpec

SUBMIT_FILE_BYTES_MAX = 1 << 20
ENDLESS = -1
LOSSES = ("end", "requeue", "go-on")


def limit(text: str) -> int:
    """A duration, or `none` for a job that is to run without a limit."""
    return ENDLESS if text == "none" else argument.duration(text)


def _flag(text: str) -> dict[str, Any]:
    return {"action": "store_true", "default": False, "help": text}


# Each of these makes a job one that is placed; a job for a pool's pilots knows none of them.
PLACED: Options = {
    "queue": {
        "args": ("--queue",),
        "choices": ("interactive", "batch"),
        "help": "placed on a cluster: in strict order with a promised start, or reordered (default: "
        "interactive with a port, else batch)",
    },
    "ranks": {
        "args": ("--ranks",),
        "type": argument.count,
        "default": 1,
        "metavar": "N",
        "help": "placed: nodes at once, all or none; the command runs on each (default: 1)",
    },
    "image": {"args": ("--image",), "default": "", "metavar": "NAME", "help": "placed: its container image"},
    "workdir": {"args": ("--workdir",), "default": "", "metavar": "DIR", "help": "placed: where it begins"},
    "put": {
        "args": ("--put",),
        "action": "append",
        "default": [],
        "metavar": "FILE[:PATH]",
        "help": "placed: a file that is there before the command begins; may be repeated",
    },
    "port": {
        "args": ("--port",),
        "type": argument.count,
        "action": "append",
        "default": [],
        "metavar": "N",
        "help": "placed: a port that it serves at; may be repeated",
    },
    "shm": {
        "args": ("--shm",),
        "type": argument.size,
        "default": 64,
        "metavar": "SIZE",
        "help": "placed: /dev/shm",
    },
    "gpu_share": {
        "args": ("--gpu-share",),
        "type": argument.count,
        "default": 0,
        "metavar": "N",
        "help": "placed: thousandths of one GPU",
    },
    "gpu_kind": {
        "args": ("--gpu-kind",),
        "action": "append",
        "default": [],
        "metavar": "KIND",
        "help": "placed: only GPUs of this kind; may be repeated",
    },
    "runtime": {"args": ("--runtime",), "default": "", "metavar": "NAME", "help": "placed: runtime class"},
    "exclusive": {"args": ("--exclusive",), **_flag("placed: nobody else on its nodes")},
    "project": {"args": ("--project",), "default": "", "metavar": "NAME", "help": "placed: who pays"},
    "start_after": {
        "args": ("--start-after",),
        "default": "",
        "metavar": "WHEN",
        "help": "placed: not before, `2030-01-31T08:00:00Z` or `+2h` from now",
    },
    "start_before": {
        "args": ("--start-before",),
        "default": "",
        "metavar": "WHEN",
        "help": "placed: by then, or not at all",
    },
    "deadline": {"args": ("--deadline",), "default": "", "metavar": "WHEN", "help": "placed: over by then"},
    "beside": {
        "args": ("--beside",),
        "type": argument.count,
        "metavar": "ID",
        "help": "placed: starts with that job, or while it runs",
    },
    "same_node": {"args": ("--same-node",), **_flag("placed: on the nodes of the job that it is beside")},
    "on_loss": {
        "args": ("--on-loss",),
        "choices": LOSSES,
        "default": "requeue",
        "help": "placed: when it loses a node (default: requeue, as often as --retries says)",
    },
    "stoppable": {"args": ("--stoppable",), **_flag("placed: may be ended for others, and waits again")},
    "warn": {
        "args": ("--warn",),
        "type": argument.duration,
        "default": 0,
        "metavar": "SPAN",
        "help": "placed: SIGUSR1 so long before its limit (default: none)",
    },
    "client_key": {
        "args": ("--client-key",),
        "default": "",
        "metavar": "WORD",
        "help": "placed: the same word twice gives the same job, so that a submission may be repeated",
    },
    "test_only": {"args": ("--test-only",), **_flag("placed: say when it would start, and submit nothing")},
}
# In a file these say the same as on the command line, and `command`, `env` and `files` are said in full.
NOT_IN_FILES = frozenset({"test_only", "client_key", "dry_run", "output", "count", "file", "put"})


def is_placed(given: Mapping[str, Any], place: Located) -> str | None:
    """The placed partition that is meant, or none where the job goes to a pool."""
    placed = list(place.placed)
    if given["partition"] is not None:
        return given["partition"] if given["partition"] in placed else None
    asked = [name for name, option in PLACED.items() if given[name] != option.get("default")]
    if not asked and place.partitions:
        return None
    need(placed, "no partition of a cluster is configured, so no job can be placed")
    return placed[0]


def refuse_placed_options(given: Mapping[str, Any], partition: str) -> None:
    for name, option in PLACED.items():
        if given[name] != option.get("default"):
            flag = option["args"][0]
            raise Stop(
                f"`{flag}` is for jobs that are placed, and pilots take those of `{partition}`",
                code=Exit.USAGE,
            )


def spec_of(given: Mapping[str, Any], partition: str, place: Located, *, at_wall: Any) -> PlacedSpec:
    """The job; `at_wall` turns a time on the clock into an instant."""
    from glidepath.core.quantity import Resources
    from glidepath.core.schedule.job import OnLoss
    from glidepath.store.job import JobSpec
    from glidepath.store.placed_spec import PlacedSpec

    rules = place.settings.partitions[partition]
    limit_s = rules.limit_default if given["time"] is None else given["time"]
    try:
        job = JobSpec(
            partition=partition,
            owner=login(),
            command=tuple(given["command"]),
            name=given["name"],
            env=tuple(given["env"]),
            request=Resources(given["cpus"], given["mem"], given["disk"], given["gpus"]),
            traits=tuple(sorted(given["trait"])),
            run_s_max=None if limit_s == ENDLESS else limit_s,
            retries_max=given["retries"],
        )
        return PlacedSpec(
            job=job,
            queue=queue_of(given, rules),
            project=given["project"],
            nodes=given["ranks"],
            gpu_milli=given["gpu_share"],
            gpu_kinds=tuple(given["gpu_kind"]),
            runtime=given["runtime"],
            exclusive=given["exclusive"],
            image=given["image"],
            workdir=given["workdir"],
            files=(*(file_put(word) for word in given["put"]), *given.get("files", ())),
            shm_mib=given["shm"],
            ports=tuple(given["port"]),
            first_at=moment("--start-after", given["start_after"], at_wall),
            latest_at=moment("--start-before", given["start_before"], at_wall),
            deadline_at=moment("--deadline", given["deadline"], at_wall),
            beside=given["beside"],
            same_node=given["same_node"],
            on_loss=OnLoss(given["on_loss"].replace("-", " ")),
            stoppable=given["stoppable"],
            warn_s=given["warn"],
        )
    except ValueError as error:
        raise Stop(f"the job is not submitted: {error}", code=Exit.USAGE) from None


def queue_of(given: Mapping[str, Any], rules: PartitionSettings) -> Queue:
    """As it is said; else interactive for what people look at, and batch for the rest."""
    from glidepath.core.schedule.cluster import Queue

    if given["queue"]:
        return Queue(given["queue"])
    if given["port"] and "interactive" in rules.queues:
        return Queue.INTERACTIVE
    return Queue.BATCH if "batch" in rules.queues else Queue.INTERACTIVE


def moment(flag: str, text: str, at_wall: Any) -> Instant | None:
    """`+2h`, or a date and time with its offset."""
    from datetime import datetime

    from glidepath.core.quantity import Instant
    from glidepath.core.units import duration_s

    if not text:
        return None
    try:
        if text.startswith("+"):
            return Instant(at_wall(time.time() + duration_s(text[1:])))
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        message = f"`{flag}`: `{one_line(text)}` is no time; write `2030-01-31T08:00:00Z`, or `+2h` from now"
        raise Stop(message, code=Exit.USAGE)
    return Instant(at_wall(found.timestamp()))


def file_put(word: str) -> File:
    """A file of the caller, as text; by default under its own name."""
    from glidepath.core.place.rank import File
    from glidepath.store.placed_spec import FILE_BYTES_MAX

    source, _, path = word.partition(":")
    try:
        file = Path(source)
        if file.stat().st_size > FILE_BYTES_MAX:
            raise Stop(f"`{one_line(source)}` is too large to go with a job: put it on a shared disk")
        content = file.read_text(encoding="utf-8")
        mode = file.stat().st_mode & 0o755
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"`{one_line(source)}` cannot be put beside the job: {one_line(str(error))}") from None
    return File(path or file.name, content, mode)


def from_file(path: str, given: dict[str, Any], options: Options) -> dict[str, Any]:
    """What a submit file says, under what the command line says."""
    read = _read_file(path)
    found = dict(given)
    known = [name for name in options if name not in NOT_IN_FILES] + ["command", "files"]
    for key, value in read.items():
        name = key.replace("-", "_")
        if name not in known:
            raise _wrong(path, key, f"unknown key{did_you_mean(name, known)}")
        # What the command line overrides must be sound all the same: the file is used again without it.
        if name == "command":
            read_command = _command(path, value)
            found["command"] = given["command"] or read_command
        elif name == "files":
            found["files"] = tuple(_file(path, each) for each in _listed(value))
        else:
            said = _value(path, key, value, options[name])
            if given[name] == options[name].get("default", False if "action" in options[name] else None):
                found[name] = said
    return found


def _read_file(path: str) -> dict[str, Any]:
    file = Path(path)
    try:
        if file.stat().st_size > SUBMIT_FILE_BYTES_MAX:
            raise Stop(f"the submit file `{one_line(path)}` has more than {SUBMIT_FILE_BYTES_MAX} bytes")
        text = file.read_text(encoding="utf-8")
        if file.suffix in (".yaml", ".yml"):
            import yaml

            read = yaml.safe_load(text)
        else:
            import tomllib

            read = tomllib.loads(text)
    except ImportError:
        raise Stop(
            "YAML needs the package `pyyaml`; write the submit file in TOML", code=Exit.USAGE
        ) from None
    except (OSError, ValueError) as error:
        raise Stop(f"`{one_line(path)}` is not read: {one_line(str(error))}", code=Exit.USAGE) from None
    except Exception as error:  # noqa: BLE001 (the parser of YAML has errors of its own kind)
        raise Stop(f"`{one_line(path)}` is not read: {one_line(str(error))}", code=Exit.USAGE) from None
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise Stop(f"`{one_line(path)}` is not a table of keys and values", code=Exit.USAGE)
    return read


def _wrong(path: str, key: str, why: str) -> Stop:
    return Stop(f"`{one_line(path)}`: `{one_line(key)}`: {why}", code=Exit.USAGE)


def _command(path: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise _wrong(path, "command", "is not a list of texts")
    return value


def _file(path: str, value: object) -> File:
    from glidepath.core.place.rank import File

    if not isinstance(value, dict) or set(value) - {"path", "content", "mode"} or not value.get("path"):
        raise _wrong(path, "files", "each is a table of `path`, `content` and perhaps `mode`")
    content, mode = value.get("content", ""), value.get("mode", 0o644)
    if not isinstance(content, str) or not isinstance(value["path"], str) or type(mode) is not int:
        raise _wrong(path, "files", "`path` and `content` are texts, `mode` is a number such as 0o755")
    return File(value["path"], content, mode)


def _value(path: str, key: str, value: object, option: Mapping[str, Any]) -> Any:
    """As if it had been written on the command line, so that there is one meaning of each word."""
    from argparse import ArgumentTypeError

    if option.get("action") == "store_true":
        if not isinstance(value, bool):
            raise _wrong(path, key, "is `true` or `false`")
        return value
    words: list[object]
    if option.get("action") == "append":
        words = [f"{k}={v}" for k, v in value.items()] if isinstance(value, dict) else _listed(value)
    else:
        words = [value]
    kind = option.get("type", str)
    if "choices" in option:
        kind = argument.one_of(option["choices"])
    if any(isinstance(word, (bool, dict, list)) or word is None for word in words):
        raise _wrong(path, key, "is not a text or a number")
    try:
        read = [kind(str(word)) for word in words]
    except ArgumentTypeError as error:
        raise _wrong(path, key, str(error)) from None
    return read if option.get("action") == "append" else read[0]


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]
