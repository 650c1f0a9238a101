"""The table of the calendar: windows of clusters that operators made, by whom, and how often they moved."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Double, Index, Integer, Table, Text, inspect

from glidepath.store.placed_rows import placed
from glidepath.store.schema import Whole, metadata

windows = Table(
    "cluster_windows",
    metadata,
    Column("id", Whole, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    # On the clock of people: a plan is made with the instants at which it will show this.
    Column("opens_wall", Double, nullable=False),
    Column("closes_wall", Double, nullable=False),
    Column("nodes", Text, nullable=False),  # lists in JSON
    Column("projects", Text, nullable=False),
    Column("people", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_wall", Double, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("changed_wall", Double, nullable=False),
    Column("version", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    # Numbers are told to people, and must never mean another window.
    sqlite_autoincrement=True,
    info={"since": 14},
)
Index("cluster_windows_of", windows.c.cluster, windows.c.closes_wall)


def ends_that_were_told(connection: Connection) -> None:
    """What this step adds to placed jobs: the end by a window that the owner was told of."""
    if "cut_at" not in {column["name"] for column in inspect(connection).get_columns(placed.name)}:
        connection.exec_driver_sql(f"ALTER TABLE {placed.name} ADD COLUMN cut_at BIGINT")
