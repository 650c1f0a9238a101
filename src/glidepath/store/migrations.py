"""Brings an older store up to the version that this program knows, one transaction per step.

Every table says in which version it arrived (`info={"since": n}` in `schema` and `jobs`, else the first),
and step n creates the tables of version n and no others, so that none is ever created twice. A step that
changes an older table names a function that adds what is missing and leaves what is there: step 1 creates
tables in today's form, so on a new store that function finds its work done. Steps are never edited later.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, inspect, select

from glidepath.store.engine import Store, StoreError, insert
from glidepath.store.placed_rows import schedule_state
from glidepath.store.schema import metadata, pauses, schema_version
from glidepath.store.usage_rows import (
    days_of_hours,
    projects_in_a_tree,
    sums_in_the_order_of_their_keys,
)
from glidepath.store.window_rows import ends_that_were_told


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    why: str
    also: Callable[[Connection], None] | None = None


def _pauses_that_drain(connection: Connection) -> None:
    if "drain" not in {column["name"] for column in inspect(connection).get_columns(pauses.name)}:
        connection.exec_driver_sql("ALTER TABLE pauses ADD COLUMN drain BIGINT NOT NULL DEFAULT 0")


def _plans_that_say_what_they_saw(connection: Connection) -> None:
    table = schedule_state.name
    if "event" not in {column["name"] for column in inspect(connection).get_columns(table)}:
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN event BIGINT NOT NULL DEFAULT 0")


def _jobs_by_owner_and_project(connection: Connection) -> None:
    """In a store that began with fewer; one that is new has them with its tables."""
    for table, column, key in (("jobs", "owner", "id"), ("placed", "project", "job")):
        made = f"CREATE INDEX IF NOT EXISTS {table}_{column} ON {table} ({column}, {key})"
        connection.exec_driver_sql(made)


MIGRATIONS = (
    Migration(1, "the journal, the lease, the operators' words and the job store"),
    Migration(2, "roll-ups for charts"),
    Migration(3, "pauses that drain", _pauses_that_drain),
    Migration(4, "sites that call, and their tokens"),
    Migration(5, "clients that name no pilots"),
    Migration(6, "placed jobs: what they ask for, ranks, events, plans"),
    Migration(7, "people, projects and their tokens"),
    Migration(8, "usage, allocations, projects in a tree", projects_in_a_tree),
    Migration(9, "plans of placed jobs say up to which event they saw", _plans_that_say_what_they_saw),
    Migration(10, "usage by the day", days_of_hours),
    Migration(11, "jobs are found by owner and by project", _jobs_by_owner_and_project),
    Migration(12, "sums of usage lie in the order of their keys", sums_in_the_order_of_their_keys),
    Migration(13, "notices: where people want them, and how far each was told"),
    Migration(14, "a calendar of windows", ends_that_were_told),
)
KNOWN = MIGRATIONS[-1].number


class StoreWrongVersion(StoreError):
    """The store was made for another version of the program."""


def version(store: Store) -> int:
    """The version of the store; 0 when it is empty."""
    with store.read() as connection:
        return _version(connection)


def migrate(store: Store, *, upto: int = KNOWN) -> int:
    """Bring the store to the version `upto` and return it. A store opened for reading is only checked."""
    found = version(store)
    _refuse_newer(store, found)
    if store.read_only:
        if found < upto:
            raise StoreWrongVersion(
                f"the store `{store.shown}` is of version {found} and this glidepath reads version {upto}; "
                "start `glidepath up` once to bring it up to date"
            )
        return found
    for migration in MIGRATIONS:
        if found < migration.number <= upto:
            found = _step(store, migration)
    return found


def _step(store: Store, migration: Migration) -> int:
    with store.write() as connection:
        if connection.dialect.name == "postgresql":
            # Two programs may start at once; the second waits here and finds the work done.
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7237106)")
        found = _version(connection)
        _refuse_newer(store, found)
        if found >= migration.number:
            return found
        metadata.create_all(connection, tables=tables_since(migration.number), checkfirst=False)
        if migration.also is not None:
            migration.also(connection)
        row = {"version": migration.number, "wall_s": time.time()}
        connection.execute(insert(connection, schema_version).values(row))
        return migration.number


def tables_since(number: int) -> list[Table]:
    """The tables that arrived in this version of the store."""
    names = (
        "job_rows",
        "placed_rows",
        "call_rows",
        "people_rows",
        "usage_rows",
        "notice_rows",
        "window_rows",
    )
    for rows in names:
        importlib.import_module(f"glidepath.store.{rows}")  # Registers the tables of each.
    return [table for table in metadata.sorted_tables if table.info.get("since", 1) == number]


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table(schema_version.name):
        return 0
    return int(connection.execute(select(func.max(schema_version.c.version))).scalar() or 0)


def _refuse_newer(store: Store, found: int) -> None:
    if found > KNOWN:
        raise StoreWrongVersion(
            f"the store `{store.shown}` is of version {found} and this glidepath knows version {KNOWN}; "
            "upgrade glidepath, nothing was changed"
        )
