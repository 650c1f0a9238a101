"""Alibaba's public trace of shared GPUs (v2023): two files come in, a cluster and its jobs go out.

The trace has no limits. A pod's limit is what it ran rounded up to whole hours, or what it waited for in vain
where it never ran: people who ask for a span ask for a round one that is enough. A bad row is an error with
the file and the line; nothing is guessed.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from glidepath.core.quantity import Instant, NodeName, Owner, Resources
from glidepath.core.schedule.cluster import (
    DEVICE_MILLI,
    DEVICES_MAX,
    Cluster,
    Node,
    Partition,
    PartitionName,
    Queue,
)
from glidepath.core.schedule.job import Ask, Job, JobName

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
PARTITION = PartitionName("all")
HOUR_S = 3600
# Some pods run for all of the five months.
LIMIT_S_MAX = 366 * 86400
# Ten times the rows of the largest file of the trace; beyond it is another file.
ROWS_MAX = 100_000
NUMBER_LETTERS_MAX = 18


class GpuTraceError(ValueError):
    """What is wrong with a file of the trace, in one sentence that begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Pod:
    job: Job
    run_s: int | None  # none: it never ran


@dataclass(frozen=True)
class Row:
    where: str
    fields: dict[str, str]

    def number(self, name: str) -> int:
        text = self.fields[name]
        if not text.isascii() or not text.isdigit() or len(text) > NUMBER_LETTERS_MAX:
            raise GpuTraceError(f"{self.where}: `{name}` is `{text[:40]}`; a whole number is expected")
        return int(text)


def cluster_of(path: Path) -> Cluster:
    nodes = tuple(_node(row) for row in _rows(path, NODE_COLUMNS))
    part = Partition(PARTITION, tuple(node.name for node in nodes), limit_s_max=LIMIT_S_MAX)
    return Cluster(nodes, (part,))


def pods_of(path: Path) -> tuple[Pod, ...]:
    """In order of arrival."""
    found = [_pod(row) for row in _rows(path, POD_COLUMNS)]
    return tuple(sorted(found, key=lambda pod: pod.job.came_at))


def _node(row: Row) -> Node:
    gpus = row.number("gpu")
    if gpus > DEVICES_MAX:
        raise GpuTraceError(f"{row.where}: `gpu` is {gpus}; at most {DEVICES_MAX} are expected")
    size = Resources(row.number("cpu_milli"), row.number("memory_mib"), 0, gpus)
    return Node(NodeName(row.fields["sn"]), size, gpu_kind=row.fields["model"])


def _pod(row: Row) -> Pod:
    gpus, milli = row.number("num_gpu"), row.number("gpu_milli")
    if milli > DEVICE_MILLI or (gpus != 1 and 0 < milli < DEVICE_MILLI):
        raise GpuTraceError(f"{row.where}: `gpu_milli` is {milli} with {gpus} GPUs; a share is of one GPU")
    share = milli if gpus == 1 and milli < DEVICE_MILLI else 0
    came, gone = row.number("creation_time"), row.number("deletion_time")
    began = row.number("scheduled_time") if row.fields["scheduled_time"] else None
    if gone < (came if began is None else began) or (began is not None and began < came):
        raise GpuTraceError(
            f"{row.where}: its times go backwards; creation, scheduled, deletion is the order"
        )
    span = gone - (came if began is None else began)
    size = Resources(row.number("cpu_milli"), row.number("memory_mib"), 0, 0 if share else gpus)
    kinds = tuple(kind for kind in row.fields["gpu_spec"].split("|") if kind)
    job = Job(
        name=JobName(row.fields["name"]),
        owner=Owner(row.fields["qos"]),  # The trace names no users.
        partition=PARTITION,
        queue=Queue.BATCH,
        ask=Ask(size, gpu_milli=share, gpu_kinds=kinds),
        came_at=Instant(came),
        limit_s=max(1, -(-span // HOUR_S)) * HOUR_S,
    )
    return Pod(job, None if began is None else span)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            found = tuple(next(reader, ()))
            if found != columns:
                raise GpuTraceError(
                    f"{path}:1: the columns are {','.join(found)[:200]}; not {','.join(columns)}"
                )
            for count, fields in enumerate(reader):
                where = f"{path}:{reader.line_num}"
                if count >= ROWS_MAX:
                    raise GpuTraceError(f"{where}: more than {ROWS_MAX:,} rows")
                if len(fields) != len(columns):
                    raise GpuTraceError(f"{where}: {len(fields)} fields; {len(columns)} are expected")
                yield Row(where, dict(zip(columns, fields, strict=True)))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise GpuTraceError(f"{path}: it cannot be read: {error}") from error
