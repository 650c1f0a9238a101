"""The tables of jobs, attempts and workers, and the way from a row to a value and back.

Lists and pairs are kept as one canonical text, so that any database can group and compare by it.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Column, Double, Index, Integer, Row, Table, Text

from glidepath.core.quantity import Instant, Resources, Traits
from glidepath.store.job import Job, JobSpec, JobState
from glidepath.store.schema import Whole, metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", Whole, primary_key=True, autoincrement=True),
    Column("partition", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("env", Text, nullable=False),
    Column("cpu_milli", Whole, nullable=False),
    Column("memory_mib", Whole, nullable=False),
    Column("disk_mib", Whole, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("traits", Text, nullable=False),
    Column("run_s_max", Whole),
    Column("retries_max", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("submitted_at", Whole, nullable=False),
    Column("submitted_wall", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("pilot", Text, nullable=False),
    Column("started_wall", Double),
    Column("ended_wall", Double),
    # The number of a job names its folder, so a number must never be given out twice.
    sqlite_autoincrement=True,
)
Index("jobs_queue", jobs.c.partition, jobs.c.state, jobs.c.traits, jobs.c.id)
Index("jobs_pilot", jobs.c.state, jobs.c.pilot)
Index("jobs_owner", jobs.c.owner, jobs.c.id)  # since 11

attempts = Table(
    "job_attempts",
    metadata,
    Column("job", Whole, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("pilot", Text, nullable=False),
    Column("started_wall", Double, nullable=False),
    Column("ended_wall", Double),
    Column("how", Text),
    Column("exit_code", Integer),
    Column("signal", Integer),
)

workers = Table(
    "workers",
    metadata,
    Column("pilot", Text, primary_key=True),
    Column("pool", Text, nullable=False),
    Column("size", Text, nullable=False),
    Column("free", Text, nullable=False),
    Column("traits", Text, nullable=False),
    Column("claims", Integer, nullable=False),
    Column("draining", Integer, nullable=False),
    Column("ends_at", Whole, nullable=False),
    Column("heard_at", Whole, nullable=False),
    Column("jobs_run", Integer, nullable=False),
    Column("jobs_failed", Integer, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("pid_start", Text, nullable=False),
    Column("machine", Text, nullable=False),
)


def text_of(value: object) -> str:
    """One text for one value, so that the database can group by it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def traits_of(text: str) -> Traits:
    return tuple((str(key), str(value)) for key, value in json.loads(text))


def row_of(spec: JobSpec, at: Instant, wall: float) -> dict[str, Any]:
    return {
        "partition": spec.partition,
        "owner": spec.owner,
        "name": spec.name,
        "command": text_of(spec.command),
        "env": text_of(spec.env),
        "cpu_milli": spec.request.cpu_milli,
        "memory_mib": spec.request.memory_mib,
        "disk_mib": spec.request.disk_mib,
        "gpus": spec.request.gpus,
        "traits": text_of(spec.traits),
        "run_s_max": spec.run_s_max,
        "retries_max": spec.retries_max,
        "state": JobState.QUEUED.value,
        "attempt": 0,
        "losses": 0,
        "submitted_at": at,
        "submitted_wall": wall,
        "reason": "",
        "pilot": "",
    }


def job_of(row: Row[Any]) -> Job:
    spec = JobSpec(
        partition=row.partition,
        owner=row.owner,
        command=tuple(json.loads(row.command)),
        name=row.name,
        env=tuple((key, value) for key, value in json.loads(row.env)),
        request=Resources(row.cpu_milli, row.memory_mib, row.disk_mib, row.gpus),
        traits=traits_of(row.traits),
        run_s_max=row.run_s_max,
        retries_max=row.retries_max,
    )
    return Job(
        id=row.id,
        spec=spec,
        state=JobState(row.state),
        attempt=row.attempt,
        losses=row.losses,
        submitted_at=Instant(row.submitted_at),
        submitted_wall=row.submitted_wall,
        reason=row.reason,
        exit_code=row.exit_code,
        signal=row.signal,
        pilot=row.pilot,
        started_wall=row.started_wall,
        ended_wall=row.ended_wall,
    )
