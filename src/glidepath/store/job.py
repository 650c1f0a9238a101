"""Jobs as values: what a user may ask for, the states a job goes through, and how an attempt ends.

Text of users comes in and is checked once, here; what passes is kept verbatim. It refuses to know tables,
sockets and folders: only the number of a job, never its name, may become part of a path.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from glidepath.core.quantity import Instant, Resources, Shape, Traits
from glidepath.core.units import CPU_MILLI_MAX, DURATION_S_MAX, SIZE_MIB_MAX

NAME_CHARS_MAX = 200
OWNER_CHARS_MAX = 100
# The kernel takes no single argument longer than this, and a longer list is better kept in a file.
ARGV_BYTES_MAX = 128 * 1024
ENV_BYTES_MAX = 128 * 1024
GPUS_MAX = 1024
RETRIES_MAX = 100
TRAITS_MAX = 32
REASON_CHARS_MAX = 500
CLIENT_KEY_CHARS_MAX = 200
# What a job may ask for: what people call it, the least and the most of it.
AMOUNTS = {
    "cpu_milli": ("CPU", 1, CPU_MILLI_MAX),
    "memory_mib": ("memory", 0, SIZE_MIB_MAX),
    "disk_mib": ("disk", 0, SIZE_MIB_MAX),
    "gpus": ("GPUs", 0, GPUS_MAX),
}

PARTITION = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?")
ENV_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
TRAIT_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
TRAIT_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,126}")

# Control, format (right-to-left among them) and line characters, and halves of characters: each can make a
# terminal or a log show something else than what is there.
_DECEIVING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = JobState
OVER = frozenset({_S.DONE, _S.FAILED, _S.CANCELLED})
LIVE = frozenset(_S) - OVER

# A queued job may be over at once: the record of its last attempt can turn up after it was given back.
NEXT: dict[JobState, frozenset[JobState]] = {
    _S.QUEUED: frozenset({_S.RUNNING, *OVER}),
    _S.RUNNING: frozenset({_S.QUEUED, _S.CANCELLING, *OVER}),
    _S.CANCELLING: OVER,
    _S.DONE: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}


class How(StrEnum):
    """How one attempt ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"
    GIVEN_BACK = "given_back"
    OUTLIVED = "outlived"  # the pilot's lifetime ended first; counts as a loss, or it could go on for ever
    LOST = "lost"


def checked_text(what: str, text: str, *, chars_max: int, empty: bool = False) -> str:
    """The text itself, or a ValueError whose sentence is safe to print."""
    if not isinstance(text, str):
        raise ValueError(f"the {what} is not text")
    if not text and not empty:
        raise ValueError(f"the {what} is empty")
    if len(text) > chars_max:
        raise ValueError(f"the {what} has {len(text)} characters; at most {chars_max} are kept")
    for place, char in enumerate(text):
        if unicodedata.category(char) in _DECEIVING:
            raise ValueError(
                f"the {what} has the control character U+{ord(char):04X} at place {place + 1}; leave it out"
            )
    return text


def checked_client_key(key: str) -> str:
    return checked_text("client key", key, chars_max=CLIENT_KEY_CHARS_MAX)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What a user wants run. `retries_max` counts lost attempts only: an exit code is an answer."""

    partition: str
    owner: str
    command: tuple[str, ...]
    name: str = ""
    env: tuple[tuple[str, str], ...] = ()
    request: Resources = Resources(cpu_milli=1000, memory_mib=512)
    traits: Traits = ()
    run_s_max: int | None = None
    retries_max: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.partition, str) or not PARTITION.fullmatch(self.partition):
            raise ValueError("the partition is not a name of small letters, digits, `-`, `_` and `.`")
        checked_text("owner", self.owner, chars_max=OWNER_CHARS_MAX)
        checked_text("name", self.name, chars_max=NAME_CHARS_MAX, empty=True)
        checked_command(self.command)
        checked_env(self.env)
        for what in AMOUNTS:
            checked_amount(what, getattr(self.request, what))
        checked_traits(self.traits)
        checked_limit(self.run_s_max)
        checked_retries(self.retries_max)

    @property
    def shape(self) -> Shape:
        return Shape(self.request, self.traits)


def _bytes_of(what: str, text: object) -> int:
    if not isinstance(text, str):
        raise ValueError(f"{what} is not text")
    if "\0" in text:
        raise ValueError(f"{what} has a NUL character, which no program can be given")
    try:
        return len(text.encode()) + 1
    except UnicodeEncodeError:
        raise ValueError(f"{what} is not valid text; write it in UTF-8") from None


def checked_command(command: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(command, tuple) or not command:
        raise ValueError("the command is empty")
    size = sum(_bytes_of(f"argument {place} of the command", arg) for place, arg in enumerate(command))
    if not command[0]:
        raise ValueError("the command names no program")
    if size > ARGV_BYTES_MAX:
        raise ValueError(f"the command has {size} bytes; at most {ARGV_BYTES_MAX} can be passed, use a file")
    return command


def checked_env(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    size = 0
    for key, value in env:
        if not isinstance(key, str) or not ENV_KEY.fullmatch(key):
            raise ValueError("the name of a variable must be letters, digits and `_`, no digit first")
        if key.startswith("GLIDEPATH_"):
            raise ValueError(f"the variable `{key}` is set by glidepath; choose another name")
        size += len(key) + 1 + _bytes_of(f"the variable `{key}`", value)
    if len(dict(env)) != len(env):
        raise ValueError("a variable is set twice")
    if size > ENV_BYTES_MAX:
        raise ValueError(f"the variables have {size} bytes; at most {ENV_BYTES_MAX} can be passed")
    return env


def checked_amount(what: str, amount: int) -> int:
    """`what` is a field of `Resources`."""
    word, least, most = AMOUNTS[what]
    if not least <= amount <= most:
        raise ValueError(f"the request for {word} is {amount}; it must be from {least} to {most}")
    return amount


def checked_limit(run_s_max: int | None) -> int | None:
    if run_s_max is not None and not 1 <= run_s_max <= DURATION_S_MAX:
        raise ValueError(f"the run time limit is {run_s_max} s; it must be from 1 s to ten years")
    return run_s_max


def checked_retries(retries_max: int) -> int:
    if not 0 <= retries_max <= RETRIES_MAX:
        raise ValueError(f"retries_max is {retries_max}; it must be from 0 to {RETRIES_MAX}")
    return retries_max


def checked_traits(traits: Traits) -> Traits:
    if len(traits) > TRAITS_MAX:
        raise ValueError(f"{len(traits)} traits are asked for; at most {TRAITS_MAX} are kept")
    for key, value in traits:
        if not TRAIT_KEY.fullmatch(key) or not TRAIT_VALUE.fullmatch(value):
            raise ValueError("a trait must be `name=value` of letters, digits, `.`, `_`, `+` and `-`")
    if tuple(sorted(dict(traits).items())) != traits:
        raise ValueError("traits must be sorted and each named once")
    return traits


@dataclass(frozen=True, slots=True)
class Job:
    """One job as the store knows it. `attempt` names the folder of its latest run."""

    id: int
    spec: JobSpec
    state: JobState
    attempt: int
    losses: int
    submitted_at: Instant
    submitted_wall: float
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    pilot: str = ""
    started_wall: float | None = None
    ended_wall: float | None = None


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How one attempt ended, as the pilot wrote it down before telling anyone."""

    job: int
    attempt: int
    pilot: str
    how: How
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    started_wall: float | None = None
    ended_wall: float | None = None

    @property
    def state(self) -> JobState:
        """The state that this end leads to, for a job that was not being cancelled."""
        if self.how in (How.GIVEN_BACK, How.OUTLIVED, How.LOST):
            return JobState.QUEUED
        if self.how is How.CANCELLED:
            return JobState.CANCELLED
        done = self.how is How.EXITED and self.exit_code == 0
        return JobState.DONE if done else JobState.FAILED


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, ended or not."""

    job: int
    attempt: int
    pilot: str
    started_wall: float
    ended_wall: float | None = None
    how: How | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Jobs of one partition that need the same, belong to one owner and are in one state."""

    request: Resources
    traits: Traits
    run_s_max: int | None
    owner: str
    running: bool
    count: int
    oldest_at: Instant


@dataclass(frozen=True, slots=True)
class Ask:
    """What a pilot can take now: the room it has, its traits, and how long it will stay."""

    pilot: str
    partitions: tuple[str, ...]  # those of its pool
    free: Resources
    left_s: int
    count_max: int
    traits: Traits = ()
    jobs: str = "any"  # or `cpu`, `gpu`: only those without GPUs, or with
