"""The jobs of a log as columns, in order of arrival; read from the Standard Workload Format or made."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from glidepath.core.quantity import PoolName
from glidepath.core.schedule.compiled import Ints
from glidepath.sim.swf import NO_PROCS, NO_RUN_TIME, SwfOptions, SwfTrace

# How a log is read. `asked`: processors as requested, else as allocated; rows without run time or processors
# are left out. `largest`: the larger of both, as RLScheduler reads it; a run time that is not known counts as
# ten seconds, a limit that is not known stays -1, and rows that took no time are left out.
Reading = Literal["asked", "largest"]
UNKNOWN_RUN_S = 10

_NUMBER, _SUBMIT, _RUN, _PROCS, _PROCS_ASKED, _RUN_ASKED, _USER = (0, 1, 3, 4, 7, 8, 11)


@dataclass(frozen=True)
class Trace:
    """Jobs by (submit, number in the log); times in whole seconds."""

    submit: Ints
    run: Ints
    limit: Ints  # what the user asked for
    procs: Ints
    user: Ints

    def __len__(self) -> int:
        return len(self.submit)

    def part(self, first: int, count: int) -> Trace:
        cut = slice(first, first + count)
        return Trace(self.submit[cut], self.run[cut], self.limit[cut], self.procs[cut], self.user[cut])

    def groups(self) -> Ints:
        """For each job: everybody, its user, user and limit, user and limit and size; each group a number."""
        levels, first = [np.zeros(len(self), np.int64)], 1
        found = self.user
        for column in (self.user, self.limit, self.procs):
            # Pairs of numbers as one: quicker by far than to compare rows.
            _, second = np.unique(column, return_inverse=True)
            _, found = np.unique(found * (int(second.max()) + 1) + second.reshape(-1), return_inverse=True)
            found = found.reshape(-1).astype(np.int64)
            levels.append(found + first)
            first += int(found.max()) + 1
        return np.stack(levels)


@dataclass(frozen=True)
class Logged:
    """A log as it was read."""

    trace: Trace
    number: Ints  # of each job in the log
    processors: int | None  # of the machine, as the header says
    left_out: Mapping[str, int]  # rows by reason


def trace_of(path: Path, reading: Reading = "asked") -> Trace:
    """A log of the Standard Workload Format; raises SwfError with file and line."""
    return logged(path, reading).trace


def logged(path: Path, reading: Reading = "asked") -> Logged:
    """The same with what the log says beside its jobs; raises SwfError also where there is no job."""
    columns = [array("q") for _ in range(6)]
    swf = SwfTrace(path, SwfOptions(pool=PoolName("log"), first_s=0))
    for row in swf.checked():
        run, asked = row[_RUN], row[_RUN_ASKED]
        if reading == "asked":
            procs = row[_PROCS_ASKED] if row[_PROCS_ASKED] > 0 else row[_PROCS]
            limit = max(1, asked if asked > 0 else run)
            missing = NO_RUN_TIME if run < 0 else NO_PROCS if procs <= 0 else ""
        else:
            procs = max(row[_PROCS], row[_PROCS_ASKED])
            limit = run if asked == -1 else asked
            missing = "" if run else NO_RUN_TIME
            run = UNKNOWN_RUN_S if run < 0 else run
        if missing:
            swf.leave_out(missing)
            continue
        values = (row[_SUBMIT], run, limit, procs, row[_USER], row[_NUMBER])
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    if not columns[0]:
        swf.refuse_nothing()
    *kept, number = (np.frombuffer(column, np.int64) for column in columns)
    order = np.lexsort((number, kept[0]) if reading == "asked" else (number,))
    processors = swf.machine.get("MaxProcs") or swf.machine.get("MaxNodes") or None
    return Logged(Trace(*(column[order] for column in kept)), number[order], processors, swf.left_out)
