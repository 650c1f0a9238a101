"""The tables, in one place for one `MetaData`, so that a migration sees the whole store at once.

A table names the version of the store in which it arrived as `info={"since": n}`; without it, the first.
Times that end in `wall_s` are seconds of the wall clock, for people; `at` is the steady timeline.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()

# SQLite makes only an INTEGER key the row's own address; any other would cost a second tree.
Whole = BigInteger().with_variant(Integer, "sqlite")

schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Whole, primary_key=True, autoincrement=False),
    Column("wall_s", Double, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),  # empty while nobody holds it
    Column("epoch", Whole, nullable=False),
    Column("taken_at", Double, nullable=False),  # by the clock of the database
    Column("renewed_at", Double, nullable=False),
    Column("ttl_s", Double, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
)

# What is the same for all cycles from one keyframe to the next: the program, the machine's boot, the rules.
cycle_groups = Table(
    "cycle_groups",
    metadata,
    Column("first_cycle", Whole, primary_key=True, autoincrement=False),
    Column("wall_s", Double, nullable=False),
    Column("version", Text, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("rules_id", Whole, nullable=False),
)

cycles = Table(
    "cycles",
    metadata,
    Column("cycle", Whole, primary_key=True, autoincrement=False),
    Column("first_cycle", Whole, nullable=False),  # of its group
    Column("wall_s", Double, nullable=False),
    Column("at", Whole, nullable=False),
    Column("monotonic_s", Double, nullable=False),
    Column("actions", Whole, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("outcomes", LargeBinary),  # absent until they are known
)

notes = Table(
    "notes",
    metadata,
    Column("id", Whole, primary_key=True),
    Column("wall_s", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("by", Text, nullable=False),
)

pauses = Table(
    "pauses",
    metadata,
    Column("about", Text, primary_key=True),
    Column("by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("wall_s", Double, nullable=False),
    Column("drain", Whole, nullable=False, server_default="0"),  # 1 where pilots are to leave too
)

pilots_ended = Table(
    "pilots_ended",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cycle", Whole, nullable=False),
    Column("ended_wall_s", Double, nullable=False),
    Column("site", Text, nullable=False),
    Column("offer", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("asked_at", Whole, nullable=False),
    Column("ended_at", Whole, nullable=False),
    Column("pending_s", Whole, nullable=False),
    Column("starting_s", Whole, nullable=False),
    Column("busy_s", Whole, nullable=False),
    Column("idle_s", Whole, nullable=False),
    Column("failed_s", Whole, nullable=False),
    Column("jobs_run", Whole, nullable=False),
    Column("cpu_milli", Whole, nullable=False),
    Column("node", Text, nullable=False),
)
Index("pilots_ended_newest", pilots_ended.c.ended_wall_s)

rollups = Table(
    "rollups",
    metadata,
    Column("span_s", Whole, primary_key=True, autoincrement=False),
    Column("start_s", Whole, primary_key=True, autoincrement=False),
    Column("about", Text, primary_key=True),
    Column("samples", Whole, nullable=False),
    Column("body", Text, nullable=False),  # {measure: [low, high, total]}
    sqlite_with_rowid=False,
    info={"since": 2},
)
