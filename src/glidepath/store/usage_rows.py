"""The tables of accounting: what ran and held what, what that came to by the hour, and what was granted.

A run is written with the plan that saw it begin or end. Hours are sums of runs and never written otherwise,
so that what is charged can be told from what ran, long after the runs are swept away.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Double, Index, Integer, Table, Text, func, inspect, select

from glidepath.store.people_rows import projects
from glidepath.store.schema import Whole, metadata

SINCE = {"since": 8}

usage_runs = Table(
    "usage_runs",
    metadata,
    Column("id", Whole, primary_key=True, autoincrement=True),
    Column("job", Whole, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("partition", Text, nullable=False),
    Column("cpu_milli", Whole, nullable=False),
    Column("memory_mib", Whole, nullable=False),
    Column("disk_mib", Whole, nullable=False),
    Column("gpu_milli", Whole, nullable=False),
    Column("rate", Whole, nullable=False),  # millionths of a credit an hour
    Column("began_at", Whole, nullable=False),
    Column("ended_at", Whole),
    Column("counted", Integer, nullable=False),  # 0 not yet, 1 up to the meter's last look, 2 for good
    Column("refund", Integer, nullable=False),  # 1 due, for an attempt lost to the platform; 2 given
    info=SINCE,
)
Index("usage_runs_refund", usage_runs.c.refund)
Index("usage_runs_open", usage_runs.c.counted, usage_runs.c.id)
Index("usage_runs_of", usage_runs.c.job, usage_runs.c.attempt)


def _sums() -> list[Column[Any]]:
    """Whose, where, and what it came to."""
    return [
        Column("owner", Text, primary_key=True),
        Column("project", Text, primary_key=True),
        Column("partition", Text, primary_key=True),
        Column("seconds", Whole, nullable=False),
        Column("cpu_milli_s", Whole, nullable=False),
        Column("memory_mib_s", Whole, nullable=False),
        Column("disk_mib_s", Whole, nullable=False),
        Column("gpu_milli_s", Whole, nullable=False),
        Column("charge", Whole, nullable=False),  # millionths of a credit, refunds not taken off
        Column("refund", Whole, nullable=False),
        Column("runs", Whole, nullable=False),  # that began in this time
    ]


usage_hours = Table(
    "usage_hours",
    metadata,
    Column("hour", Whole, primary_key=True, autoincrement=False),  # hours since the epoch
    *_sums(),
    info=SINCE,
    # Kept in the order of their keys: a span is read as it lies, not row by row by way of an index.
    sqlite_with_rowid=False,
)

# The same by the day: a question about a year reads a twentieth of the rows.
usage_days = Table(
    "usage_days",
    metadata,
    Column("day", Whole, primary_key=True, autoincrement=False),  # days since the epoch
    *_sums(),
    info={"since": 10},
    sqlite_with_rowid=False,
)
KEYS = ("owner", "project", "partition")
SUMS = tuple(column.name for column in usage_hours.c if column.name not in (*KEYS, "hour"))
DAY_HOURS = 24

allocations = Table(
    "allocations",
    metadata,
    Column("id", Whole, primary_key=True, autoincrement=True),
    Column("project", Text, nullable=False),
    Column("granted", Whole, nullable=False),
    Column("starts_at", Whole, nullable=False),
    Column("ends_at", Whole, nullable=False),
    Column("drawn", Whole, nullable=False),
    Column("note", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("made_wall_s", Double, nullable=False),
    info=SINCE,
)
Index("allocations_of", allocations.c.project)

# One row: how far all open runs are counted. A row for each would be written at each look.
usage_meter = Table(
    "usage_meter",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Whole, nullable=False),
    Column("wall_s", Double, nullable=False),
    info=SINCE,
)


def projects_in_a_tree(connection: Connection) -> None:
    """What step 8 adds to the projects of step 7."""
    had = {column["name"] for column in inspect(connection).get_columns(projects.name)}
    for name, kind in (("parent", "TEXT NOT NULL DEFAULT ''"), ("weight", "BIGINT NOT NULL DEFAULT 1")):
        if name not in had:
            connection.exec_driver_sql(f"ALTER TABLE projects ADD COLUMN {name} {kind}")
    if "dry_at" not in had:
        connection.exec_driver_sql("ALTER TABLE projects ADD COLUMN dry_at BIGINT")


def days_of_hours(connection: Connection) -> None:
    """What step 10 adds: the days of all hours that there are."""
    day = usage_hours.c.hour // DAY_HOURS
    keys = [usage_hours.c[name] for name in KEYS]
    query = select(day, *keys, *(func.sum(usage_hours.c[name]) for name in SUMS)).group_by(day, *keys)
    connection.execute(usage_days.insert().from_select(["day", *KEYS, *SUMS], query))


def sums_in_the_order_of_their_keys(connection: Connection) -> None:
    """What step 12 changes in a store of one file; a server keeps rows as it likes."""
    if connection.dialect.name != "sqlite":
        return
    for table in (usage_hours, usage_days):
        made = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
        text = str(connection.exec_driver_sql(made, (table.name,)).scalar())
        if "WITHOUT ROWID" not in text.upper():
            connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {table.name}_before")
            table.create(connection)
            names = ", ".join(column.name for column in table.c)
            copied = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {table.name}_before"
            connection.exec_driver_sql(copied)
            connection.exec_driver_sql(f"DROP TABLE {table.name}_before")
