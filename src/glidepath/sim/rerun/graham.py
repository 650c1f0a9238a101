"""Waits of a real cluster, as they were asked about: a queue of Slurm at noon of each day (Mila's extract).

A file with a row for each waiting job and day comes in. Each job goes out once, as it was on the first day it
was seen, with what was known of it and of the queue at that noon, and how long it then waited. Columns that
tell how it went are read for the target and for what was over by then, and for nothing else.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glidepath.core.schedule.compiled import Bools, Floats, Ints
from glidepath.core.schedule.eta import Asked

DAY_S = 86400.0
_ZERO = datetime(2021, 1, 1)

# Known at the noon of the row, with why.
KNOWN = {
    "submit_time": "in the past, as the job is in the queue",
    "poll_time": "the moment of asking",
    "time_limit_sec": "asked for by the user",
    "req_cpus": "asked for by the user",
    "req_mem_total": "asked for by the user",
    "req_tres": "asked for by the user: nodes and GPUs",
    "account_id": "who pays",
    "q_jobs_above": "counted in the queue of that noon",
    "q_cores_above": "counted in the queue of that noon",
    "q_core_hours_above": "counted in the queue of that noon, by limits",
    "r_jobs_above": "counted of the running at that noon",
    "r_cores_above": "counted of the running at that noon",
    "r_core_hours_above": "counted of the running at that noon, by limits",
}
# How it went. Of another job they may be used once they are in the past.
TELLING = {
    "start_time": "the target itself; of other jobs, whether they run by that noon",
    "end_time": "of other jobs, whether they have ended by that noon",
    "run_time_sec": "of other jobs that have ended by that noon",
    "poll_wait_sec": "the target",
}
# Never read: `submit_wait_sec`, `state` and `alloc_nodes` are outcomes; `priority_x` is the priority at the
# start and grows with the wait (one number on all days of a job); `partition_id_x` is where the job ran, of
# several it could have run in; `eligible_time` may be after the noon, and is then a part of the wait.
_PLAIN = tuple(name for name in KNOWN if name not in ("submit_time", "poll_time", "req_tres"))
_TIMES = ("submit_time", "poll_time", "start_time", "end_time")
_GPUS, _NODES = re.compile(r"gpu[^=,]*=(\d+)"), re.compile(r"node=(\d+)")
# Limits up to which Graham has queues of their own, and the cores of most of its nodes.
_LIMITS_S = np.array([3, 12, 24, 72, 168]) * 3600.0
_NODE_CORES = 32


class GrahamError(ValueError):
    """A row that cannot be read, with file and line."""


class Waits(NamedTuple):
    asked: Asked  # at the first noon that saw the job
    wait_s: Floats  # from that noon on
    submit: Floats


class _Rows(NamedTuple):
    """Every row of the file, by noon and place in the queue."""

    number: Ints
    at: Floats
    submit: Floats
    start: Floats
    end: Floats
    limit: Floats
    cpus: Floats
    run: Floats
    wait: Floats
    plain: Floats  # [row, column] what the row itself says
    account: Ints
    alike: Ints  # the same account, request and limit
    sort: Ints  # the same kind of queue: by limit, GPUs, whole nodes

    def rows(self, kept: Bools | Ints) -> _Rows:
        columns: list[Any] = [column[kept] for column in self]
        return _Rows(*columns)


def waits_of(path: Path) -> Waits:
    """Raises GrahamError with file and line."""
    rows = _read(path)
    _, first = np.unique(rows.number, return_index=True)  # By noon already: the first is the earliest.
    jobs = rows.rows(np.sort(first))
    parts, batches = [], 0
    for noon in np.unique(rows.at):
        queue = rows.rows(rows.at == noon)
        fresh = np.isin(queue.number, jobs.number[jobs.at == noon])
        past = jobs.rows((jobs.at < noon) & (jobs.start < noon))
        features = np.column_stack((_queue_features(queue, noon), _past_features(queue, past, noon)))
        _, batch = np.unique(queue.alike, return_inverse=True)
        batch = batch.reshape(-1) + batches
        batches = int(batch.max()) + 1
        columns = (queue.at, features, batch, queue.wait, queue.submit)
        parts.append(tuple(column[fresh] for column in columns))
    at, features, batch, wait, submit = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Waits(Asked.of(at, features, batch), wait, submit)


def split_of(waits: Waits, share: float) -> float:
    """The moment from which on the last of the days, so large a share of them, are kept for the test."""
    days = np.unique(waits.asked.at)
    return float(days[len(days) - round(len(days) * share)])


def _queue_features(queue: _Rows, noon: float) -> Floats:
    """What the row says, and the job's place among those of its account and those like it."""
    age = noon - queue.submit
    work = queue.cpus * queue.limit
    count = len(age)
    found = [queue.plain, age, np.full(count, count), queue.plain[:, -6] / count]
    for group in (queue.account, queue.alike):
        _, group = np.unique(group, return_inverse=True)
        group = group.reshape(-1)
        jobs = np.bincount(group)
        order = np.argsort(group, kind="stable")
        firsts = np.cumsum(jobs) - jobs
        place, before = np.zeros(count), np.zeros(count)
        place[order] = np.arange(count) - np.repeat(firsts, jobs)
        running = np.cumsum(work[order]) - work[order]
        before[order] = running - np.repeat(running[firsts], jobs)
        oldest = np.zeros(len(jobs))
        np.maximum.at(oldest, group, age)
        mean = np.bincount(group, age) / jobs
        fresh = np.bincount(group, age < DAY_S)
        found += [jobs[group], place, before, oldest[group], mean[group], fresh[group]]
    return np.column_stack(found)


def _past_features(queue: _Rows, past: _Rows, noon: float) -> Floats:
    """For its account, for jobs like it and of its sort: what runs, and what the ended used of limits."""
    running, ended = past.rows(past.end > noon), past.rows(past.end <= noon)
    found = []
    for name in ("account", "alike", "sort"):
        group = getattr(queue, name)
        most = 1 + max(int(getattr(part, name).max()) if len(part.at) else 0 for part in (queue, past))
        of_running, of_ended = getattr(running, name), getattr(ended, name)
        count = np.bincount(of_ended, minlength=most)
        used = np.bincount(of_ended, ended.run / ended.limit, most)
        share = np.where(count > 0, used / np.maximum(count, 1), np.nan)
        found += [np.bincount(of_running, running.cpus, most)[group]]
        found += [np.bincount(of_running, minlength=most)[group], share[group]]
    return np.column_stack(found)


def _read(path: Path) -> _Rows:
    numbers, texts = [], []
    alike_of: dict[tuple[str, str, str], int] = {}
    for line, row in _lines(path):
        try:
            gpus, nodes = _GPUS.search(row["req_tres"]), _NODES.search(row["req_tres"])
            plain = [float(row[name]) for name in _PLAIN]
            times = [(datetime.fromisoformat(row[name]) - _ZERO).total_seconds() for name in _TIMES]
            rest = [float(gpus[1]) if gpus else 0.0, float(nodes[1]) if nodes else 1.0]
            rest += [float(row["run_time_sec"]), float(row["poll_wait_sec"]), float(row["job_unique_id"])]
        except (KeyError, TypeError, ValueError) as error:
            raise GrahamError(f"{path}:{line}: cannot read the row: {error}") from error
        values = (*times, *plain, *rest)
        if not np.isfinite(values).all() or rest[3] < 0 or plain[0] <= 0:
            raise GrahamError(f"{path}:{line}: a number is infinite, a wait negative or a limit zero")
        numbers.append(values)
        texts.append((row["account_id"], row["req_tres"], row["time_limit_sec"]))
    if not numbers:
        raise GrahamError(f"{path}:1: there are no rows")
    alike = np.array([alike_of.setdefault(text, len(alike_of)) for text in texts])
    return _sorted(np.array(numbers), alike)


def _sorted(table: Floats, alike: Ints) -> _Rows:
    submit, at, start, end = table[:, :4].T
    plain = table[:, 4 : 4 + len(_PLAIN)]
    gpus, nodes, run, wait, number = table[:, 4 + len(_PLAIN) :].T
    column = dict(zip(_PLAIN, plain.T, strict=True))
    limit, cpus = column["time_limit_sec"], column["req_cpus"]
    _, account = np.unique(column["account_id"], return_inverse=True)
    whole = cpus / np.maximum(nodes, 1) >= _NODE_CORES
    sort = np.searchsorted(_LIMITS_S, limit) * 4 + (gpus > 0) * 2 + whole
    # The account is a name and no number to be compared; the place in the queue comes sixth from the end.
    shown = [column[name] for name in _PLAIN[:3]] + [gpus, nodes] + [column[name] for name in _PLAIN[4:]]
    rows = _Rows(
        number.astype(np.int64),
        at,
        submit,
        start,
        end,
        limit,
        cpus,
        run,
        wait,
        np.column_stack(shown),
        account.reshape(-1).astype(np.int64),
        alike,
        sort.astype(np.int64),
    )
    return rows.rows(np.lexsort((number, column["q_jobs_above"], at)))


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        for row in rows:
            yield rows.line_num, row
