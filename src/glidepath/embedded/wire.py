"""The words of pilots: lines of JSON come in, checked values go out, and answers as lines.

A pilot is a process of the same user and still not trusted: a line that is too long, not JSON or not as
described here raises ValueError, and its sentence goes back to the pilot. It refuses to know sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glidepath.core.quantity import Resources, Traits
from glidepath.core.text import one_line
from glidepath.core.units import DURATION_S_MAX
from glidepath.store.job import REASON_CHARS_MAX, TRAITS_MAX, ExitRecord, How, Job

REQUEST_BYTES_MAX = 1 << 20
RECORDS_MAX = 200
HOLDS_MAX = 10_000
COUNT_MAX = 1 << 40
WHY_CHARS_MAX = 200
# What a pilot says that serves jobs with GPUs alone, or those without; no trait of an offer has such a name.
JOBS_TRAIT = "glidepath.jobs"
PILOT_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,118}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Beat:
    """What every message but the shortest carries: how long the pilot stays and what it has done."""

    left_s: int
    draining: bool
    jobs_run: int
    jobs_failed: int


@dataclass(frozen=True, slots=True)
class Hello:
    pilot: str
    pool: str
    size: Resources
    traits: Traits
    holds: frozenset[tuple[int, int]]  # job and attempt of all that it runs or has not yet reported
    beat: Beat


@dataclass(frozen=True, slots=True)
class Pull:
    left_s: int


@dataclass(frozen=True, slots=True)
class Ends:
    records: tuple[ExitRecord, ...]
    beat: Beat


@dataclass(frozen=True, slots=True)
class Bye:
    why: str


Message = Hello | Pull | Ends | Beat | Bye


def read_message(line: bytes, pilot: str) -> Message:
    """The message in the line; `pilot` is who has said hello on this connection."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("a line is not JSON") from None
    if not isinstance(said, dict):
        raise ValueError("a message is not an object")
    match said.get("op"):
        case "hello":
            return _hello(said)
        case "pull":
            return Pull(_whole(said, "left_s", DURATION_S_MAX))
        case "done":
            records = _list(said, "records", RECORDS_MAX)
            return Ends(tuple(read_record(record, pilot) for record in records), _beat(said))
        case "beat":
            return _beat(said)
        case "bye":
            return Bye(_text(said, "why", WHY_CHARS_MAX))
        case _:
            raise ValueError("the `op` of a message is not known; it is one of hello, pull, done, beat, bye")


def _hello(said: Mapping[str, Any]) -> Hello:
    name = said.get("pilot")
    if not isinstance(name, str) or not PILOT_NAME.fullmatch(name):
        raise ValueError("the name of a pilot must be small letters, digits, `-` and `.`")
    size = _list(said, "size", 4)
    if len(size) != 4 or not all(type(part) is int and 0 <= part <= COUNT_MAX for part in size):
        raise ValueError("`size` must be four whole numbers")
    traits = [_pair(item, str, "traits") for item in _list(said, "traits", TRAITS_MAX)]
    holds = [_pair(item, int, "holds") for item in _list(said, "holds", HOLDS_MAX)]
    return Hello(
        pilot=name,
        pool=_text(said, "pool", 100),
        size=Resources(*size),
        traits=tuple(sorted(dict(traits).items())),
        holds=frozenset(holds),
        beat=_beat(said),
    )


def _beat(said: Mapping[str, Any]) -> Beat:
    if not isinstance(said.get("draining"), bool):
        raise ValueError("`draining` must be true or false")
    return Beat(
        left_s=_whole(said, "left_s", DURATION_S_MAX),
        draining=said["draining"],
        jobs_run=_whole(said, "jobs_run", COUNT_MAX),
        jobs_failed=_whole(said, "jobs_failed", COUNT_MAX),
    )


def read_record(said: object, pilot: str) -> ExitRecord:
    """An exit record from the wire or from the disk; it must be the pilot's own."""
    if not isinstance(said, dict) or said.get("pilot") != pilot:
        raise ValueError("an exit record is not of this pilot")
    try:
        how = How(str(said.get("how")))
    except ValueError:
        raise ValueError("an exit record does not say how the job ended") from None
    if how is How.LOST:
        raise ValueError("a pilot cannot say of itself that it lost a job")
    return ExitRecord(
        job=_whole(said, "job", COUNT_MAX),
        attempt=_whole(said, "attempt", COUNT_MAX),
        pilot=pilot,
        how=how,
        exit_code=None if said.get("exit_code") is None else _whole(said, "exit_code", 255),
        signal=None if said.get("signal") is None else _whole(said, "signal", 255),
        reason=one_line(_text(said, "reason", REASON_CHARS_MAX), letters_max=REASON_CHARS_MAX),
        started_wall=_wall(said, "started_wall"),
        ended_wall=_wall(said, "ended_wall"),
    )


def told(job: Job) -> dict[str, object]:
    """All that a pilot needs to run the job; names and owners stay here."""
    return {
        "id": job.id,
        "attempt": job.attempt,
        "command": job.spec.command,
        "env": job.spec.env,
        "request": job.spec.request.as_tuple(),
        "run_s_max": job.spec.run_s_max,
    }


def line_of(answer: Mapping[str, object]) -> bytes:
    return json.dumps(answer).encode() + b"\n"


def _whole(said: Mapping[str, Any], key: str, most: int) -> int:
    value = said.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"`{key}` must be a whole number from 0 to {most}")
    return value


def _wall(said: Mapping[str, Any], key: str) -> float:
    value = said.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e11:
        raise ValueError(f"`{key}` must be seconds of the wall clock")
    return float(value)


def _text(said: Mapping[str, Any], key: str, chars_max: int) -> str:
    value = said.get(key)
    if not isinstance(value, str) or len(value) > chars_max:
        raise ValueError(f"`{key}` must be text of at most {chars_max} characters")
    return value


def _list(said: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = said.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"`{key}` must be a list of at most {most}")
    return value


def _pair(item: Any, kind: type, key: str) -> tuple[Any, Any]:
    if not isinstance(item, list) or len(item) != 2 or not all(type(part) is kind for part in item):
        raise ValueError(f"each of `{key}` must be a pair")
    return item[0], item[1]
