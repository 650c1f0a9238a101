"""Traces in the Standard Workload Format: a file comes in, arrivals go out, one line at a time.

A bad row is an error with its line number, a row that only lacks a number is left out and counted.
It keeps nothing but the line that it reads, and knows nothing of pilots or of the waits in the trace.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Literal, NoReturn

from glidepath.core.quantity import Owner, PoolName, Resources, Shape
from glidepath.core.text import one_line
from glidepath.sim.arrival import Arrival

FIELDS = 18
# Rows have about a hundred bytes and headers fewer than a thousand. A line is never read beyond this, so
# that a file without line ends, or one that unpacks to zeros without end, costs no memory.
LINE_BYTES_MAX = 4096
# Ten times the ten million rows that must be readable. A pipe that never ends, or a small file that unpacks
# to rows for days, ends here with an error.
LINES_MAX = 100_000_000
# Headers and empty lines; long lists of queues have thousands. They say nothing, so they may not cost much.
IDLE_LINES_MAX = 1_000_000
# No number that means something is longer, and Python refuses thousands of digits with another error.
NUMBER_LETTERS_MAX = 40
QUOTED_LETTERS_MAX = 40
SHOWN_MAX = 10**30  # The same for a number that was read.

# Beyond these a column was mixed up, or a unit: no queue lets a job run for ten years, no machine has ten
# million processors or an exbibyte for one job, and no log covers a century (Unix times fit below that).
RUN_S_MAX = 10 * 366 * 86400
SUBMIT_S_MAX = 100 * 366 * 86400
PROCS_MAX = 10_000_000
MEMORY_KIB_MAX = 1024**5
USER_MAX = 2**32 - 1  # The largest number of a user that Unix knows.
JOB_MAX = 2**62  # Numbers of jobs are kept in columns of 64 bits.
SPEED_MAX = 1_000_000  # Ten thousand times as fast: a year in less than an hour.

# Where the log tells nothing, one GiB for each processor keeps jobs of a grid about as large as they were.
MEMORY_MIB_PER_PROC = 1024
UNKNOWN = -1
UNKNOWN_OWNER = Owner("unknown")
# A job that was swapped out has one row for the whole, and these statuses for its parts, which are the same
# work told again.
PART_STATUSES = frozenset({2, 3, 4})
# Traces have few shapes and few users; sharing them keeps a workload that is held whole small.
SHARED_MAX = 1024

# Why a row is not in the workload: the keys of `SwfTrace.left_out`.
NO_RUN_TIME = "no run time"
NO_PROCS = "no processors"
TOO_LARGE = "more processors than cpus_max"
TOO_EARLY = "before first_s"
PART = "part of a job that has its own row"

_JOB, _SUBMIT, _RUN, _PROCS, _MEMORY, _PROCS_ASKED, _RUN_ASKED, _MEMORY_ASKED, _STATUS, _USER = (
    *(0, 1, 3, 4, 6, 7, 8, 9, 10, 11),
)
# Place in the row, name, and the most that is believed; all of these may be unknown.
_BOUNDS = (
    (_RUN, "the run time", RUN_S_MAX, "ten years"),
    (_PROCS, "the number of allocated processors", PROCS_MAX, "ten million"),
    (_MEMORY, "the used memory", MEMORY_KIB_MAX, "1 EiB"),
    (_PROCS_ASKED, "the number of requested processors", PROCS_MAX, "ten million"),
    (_RUN_ASKED, "the requested time", RUN_S_MAX, "ten years"),
    (_MEMORY_ASKED, "the requested memory", MEMORY_KIB_MAX, "1 EiB"),
    (_USER, "the number of the user", USER_MAX, f"{USER_MAX}"),
)
_NUMBER = re.compile(rb"(?P<whole>[+-]?[0-9]+)|[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_MACHINE = re.compile(rb";\s*(?P<name>MaxProcs|MaxNodes):\s*(?P<count>[0-9]{1,8})\b")
_GZIP_START = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"

Opened = IO[bytes] | gzip.GzipFile


class SwfError(ValueError):
    """What is wrong with a trace, in one sentence that begins with the file and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwfOptions:
    """Which part of a trace is wanted, and what its jobs look like here."""

    pool: PoolName
    shape: Shape | None = None  # of every job; none: from the processors and the memory of its row
    cpus_max: int | None = None  # rows with more processors are left out; none: there is no bound
    limits: bool = False  # whether owners say the requested time of the row
    jobs_max: int | None = None
    first_s: int | None = None  # submit time of the trace at which the run begins; none: its first row
    span_s: int | None = None  # of the trace, from there on
    speed: int = 100  # percent: at 200 jobs come twice as fast; how long they run stays
    on_missing: Literal["leave out", "error"] = "leave out"

    def __post_init__(self) -> None:
        if not self.pool:
            raise ValueError("`pool` must be the name of a pool")
        if self.shape is not None and not self.shape.request:
            raise ValueError("`shape` must ask for something; a job of nothing fits any number of times")
        bounds = (
            ("cpus_max", self.cpus_max, 1, PROCS_MAX),
            ("jobs_max", self.jobs_max, 1, LINES_MAX),
            ("first_s", self.first_s, 0, SUBMIT_S_MAX),
            ("span_s", self.span_s, 1, SUBMIT_S_MAX),
            ("speed", self.speed, 1, SPEED_MAX),
        )
        for name, value, low, high in bounds:
            if value is None and name != "speed":
                continue
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"`{name}` must be a whole number from {low} to {high}, not {_said(value)}")
        if type(self.limits) is not bool:
            raise ValueError(f"`limits` must be true or false, not {_said(self.limits)}")
        if self.on_missing not in ("leave out", "error"):
            raise ValueError(f"`on_missing` must be `leave out` or `error`, not {_said(self.on_missing)}")


class SwfTrace:
    """The jobs of one file. Each iteration reads it from the start; the counts are those of the last one."""

    def __init__(self, path: Path, options: SwfOptions) -> None:
        self.path = path
        self.options = options
        self.rows = 0  # read so far, those left out included
        self.jobs = 0
        self.left_out: dict[str, int] = {}  # rows by reason
        self.machine: dict[str, int] = {}  # what the header says of its size, by the header's own words

    def __iter__(self) -> Iterator[Arrival]:
        self.rows, self.jobs, self.left_out, self.machine = 0, 0, {}, {}
        jobs_max = self.options.jobs_max or LINES_MAX
        with self._opened() as file:
            for line, row in self._rows(file):
                arrival = self._arrival(row, line)
                if arrival is None:
                    continue
                self.jobs += 1
                yield arrival
                if self.jobs >= jobs_max:
                    return
        if not self.jobs:
            self.refuse_nothing()

    def checked(self) -> Iterator[list[int]]:
        """Every row with its 18 fields, checked; whoever asks makes of them what they need."""
        self.rows, self.jobs, self.left_out, self.machine = 0, 0, {}, {}
        with self._opened() as file:
            for line, row in self._rows(file):
                if abs(row[_JOB]) > JOB_MAX:
                    self._refuse(line, f"the number of the job is too large: {_short(row[_JOB])}")
                yield row

    def _rows(self, file: Opened) -> Iterator[tuple[int, list[int]]]:
        """Line numbers and fields of every row up to the end of the wanted span, checked and in order."""
        before = 0
        first_s = self.options.first_s
        for line, text in self._lines(file):
            row = self._fields(text, line)
            self.rows += 1
            if row[_STATUS] in PART_STATUSES:
                self.leave_out(PART)
                continue
            submit = row[_SUBMIT]
            self._check(row, line, before)
            before = submit
            if first_s is None:
                first_s = submit
            if submit < first_s:
                self.leave_out(TOO_EARLY)
                continue
            row[_SUBMIT] = submit - first_s
            if self.options.span_s is not None and row[_SUBMIT] >= self.options.span_s:
                return
            yield line, row

    def _lines(self, file: Opened) -> Iterator[tuple[int, bytes]]:
        idle = 0
        for line in range(1, LINES_MAX + 1):
            try:
                text = file.readline(LINE_BYTES_MAX + 1)
            except (OSError, EOFError, zlib.error) as error:
                self._refuse(line, _broken(error, line))
            if not text:
                return
            if len(text) > LINE_BYTES_MAX:
                self._refuse(line, f"the line is longer than {LINE_BYTES_MAX} bytes")
            if line == 1:
                if text.startswith(_GZIP_START):
                    self._refuse(line, "this is gzip; the name of a compressed trace ends in `.gz`")
                text = text.removeprefix(_UTF8_MARK)
            text = text.strip()
            if text and not text.startswith(b";"):
                yield line, text
                continue
            # Of headers no more is read, so they may be in any encoding: real ones have names in Latin-1.
            if found := _MACHINE.match(text):
                self.machine.setdefault(found["name"].decode("ascii"), int(found["count"]))
            idle += 1
            if idle > IDLE_LINES_MAX:
                self._refuse(line, f"more than {IDLE_LINES_MAX} header or empty lines")
        self._refuse(LINES_MAX, f"the trace goes on after {LINES_MAX} lines")

    def _opened(self) -> Opened:
        try:
            if self.path.suffix.lower() == ".gz":
                # The reader for lines ends at its bound and unpacks no more than it was asked for.
                return gzip.open(self.path, "rb")
            return self.path.open("rb")
        except FileNotFoundError:
            self._refuse(None, "there is no such file")
        except IsADirectoryError:
            self._refuse(None, "this is a folder, not a trace")
        except OSError as error:
            self._refuse(None, f"it cannot be read: {error.strerror or error}")
        except ValueError as error:  # A name with a zero byte.
            self._refuse(None, f"it cannot be read: {error}")

    def _fields(self, text: bytes, line: int) -> list[int]:
        words = text.split()
        if text.isascii() and b"_" not in text and len(words) == FIELDS:
            try:
                return list(map(int, words))
            except ValueError:
                pass  # Some fields have a point; they are read one by one.
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            self._refuse(line, "the row is not UTF-8 text")
        if len(words) != FIELDS:
            many = "1 field" if len(words) == 1 else f"{len(words)} fields"
            self._refuse(line, f"{many}; a row has {FIELDS}")
        return [self._number(word, place, line) for place, word in enumerate(words, start=1)]

    def _number(self, word: bytes, place: int, line: int) -> int:
        found = _NUMBER.fullmatch(word) if len(word) <= NUMBER_LETTERS_MAX else None
        if found and found["whole"]:
            return int(word)
        number = float(word) if found else math.nan
        if _NOT_FINITE.fullmatch(word) or math.isinf(number):
            self._refuse(line, f"field {place} is {_quoted(word)}, which is not finite")
        if not found:
            self._refuse(line, f"field {place} is {_quoted(word)}, which is not a number")
        if number < 0 and not number.is_integer():
            # Rounded down it would be -1, and an odd number would pass for an unknown one.
            self._refuse(line, f"field {place} is {_quoted(word)}, a fraction below zero")
        return math.floor(number)

    def _check(self, row: list[int], line: int, before: int) -> None:
        submit = row[_SUBMIT]
        if submit < 0:
            self._refuse(line, f"the submit time is negative: {_short(submit)}")
        if submit > SUBMIT_S_MAX:
            self._refuse(line, f"the submit time is more than 100 years: {_short(submit)}")
        if submit < before:
            self._refuse(line, f"not sorted: submitted at {submit}, the row before at {before}")
        for place, name, most, words in _BOUNDS:
            value = row[place]
            if value < UNKNOWN:
                self._refuse(line, f"{name} is negative: {_short(value)}")
            if value > most:
                self._refuse(line, f"{name} is more than {words}: {_short(value)}")

    def _arrival(self, row: list[int], line: int) -> Arrival | None:
        options = self.options
        procs = row[_PROCS_ASKED] if row[_PROCS_ASKED] > 0 else row[_PROCS]
        if missing := NO_RUN_TIME if row[_RUN] == UNKNOWN else NO_PROCS if procs <= 0 else "":
            if options.on_missing == "error":
                self._refuse(line, f"the row has {missing}")
            self.leave_out(missing)
            return None
        if options.cpus_max is not None and procs > options.cpus_max:
            self.leave_out(TOO_LARGE)
            return None
        return Arrival(
            at=row[_SUBMIT] * 100 // options.speed,
            pool=options.pool,
            shape=options.shape or self._shape(row, procs, line),
            owner=_owner(row[_USER]),
            run_s=row[_RUN],
            run_s_max=row[_RUN_ASKED] if options.limits and row[_RUN_ASKED] > 0 else None,
        )

    def _shape(self, row: list[int], procs: int, line: int) -> Shape:
        each_kib = row[_MEMORY_ASKED] if row[_MEMORY_ASKED] > 0 else row[_MEMORY]
        if each_kib <= 0:
            return _shape_of(procs, procs * MEMORY_MIB_PER_PROC)
        all_kib = each_kib * procs
        if all_kib > MEMORY_KIB_MAX:
            self._refuse(line, f"the memory of all processors is more than 1 EiB: {all_kib} KiB")
        return _shape_of(procs, -(-all_kib // 1024))

    def leave_out(self, reason: str) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + 1

    def refuse_nothing(self) -> NoReturn:
        """A run without jobs scores well and means nothing, so it is not begun."""
        if not self.rows:
            self._refuse(None, "the trace has no rows")
        why = "".join(f"; {count} {reason}" for reason, count in self.left_out.items())
        self._refuse(None, f"no job is left of {self.rows} rows read{why}")

    def _refuse(self, line: int | None, what: str) -> NoReturn:
        where = one_line(str(self.path)) + ("" if line is None else f":{line}")
        raise SwfError(f"{where}: {what}")


@lru_cache(maxsize=SHARED_MAX)
def _shape_of(procs: int, memory_mib: int) -> Shape:
    return Shape(Resources(cpu_milli=procs * 1000, memory_mib=memory_mib))


@lru_cache(maxsize=SHARED_MAX)
def _owner(user: int) -> Owner:
    return UNKNOWN_OWNER if user == UNKNOWN else Owner(f"user{user}")


def _broken(error: Exception, line: int) -> str:
    if isinstance(error, gzip.BadGzipFile) and line == 1:
        return "this is not gzip although its name ends in `.gz`"
    if isinstance(error, EOFError):
        return "the compressed file is cut off here"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"the compressed file is broken here: {one_line(str(error))}"
    return f"it cannot be read any further: {one_line(str(error))}"


def _quoted(word: bytes) -> str:
    return f"`{one_line(word.decode('utf-8', 'replace'), letters_max=QUOTED_LETTERS_MAX)}`"


def _said(value: object) -> str:
    return f"`{one_line(str(value), letters_max=QUOTED_LETTERS_MAX)}`"


def _short(value: int) -> str:
    """A row can hold thousands of digits, which nobody reads and Python may refuse to write."""
    if abs(value) < SHOWN_MAX:
        return str(value)
    return f"beyond {'-' if value < 0 else ''}10^30"
