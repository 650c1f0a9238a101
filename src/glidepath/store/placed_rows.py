"""The tables of placed jobs: what each asked for and where it stands, ranks, events, keys of clients, plans.

Number, owner, command, state and end of a placed job are a row of the table of all jobs; this has the rest.
"""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Integer, LargeBinary, Table, Text

from glidepath.store.schema import Whole, metadata

SINCE = {"since": 6}

placed = Table(
    "placed",
    metadata,
    Column("job", Whole, primary_key=True, autoincrement=False),
    Column("queue", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("limit_s", Whole),  # as it is by now
    Column("places", Text, nullable=False),  # [[node, [device, ...]], ...] of the latest attempt
    Column("gone", Text, nullable=False),  # ranks that it goes on without
    Column("asked_at", Whole),
    Column("began_at", Whole),
    Column("wish", Text),  # {"limit_s", "forced", "by"}
    Column("after", Text, nullable=False),  # what comes when all ranks are over
    Column("after_why", Text, nullable=False),
    Column("promise_at", Whole),
    Column("promise_places", Text, nullable=False),
    Column("promise_told", Whole),
    Column("promise_first", Whole),
    Column("promise_moved", Integer, nullable=False),
    # Since 14: when a window ends the attempt before its limit, as its owner was told.
    Column("cut_at", Whole),
    info=SINCE,
)
Index("placed_live", placed.c.phase, placed.c.job)
Index("placed_project", placed.c.project, placed.c.job)  # since 11

ranks = Table(
    "ranks",
    metadata,
    Column("job", Whole, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("node", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("exit_code", Integer),
    Column("signal", Integer),
    Column("why", Text, nullable=False),
    Column("began_at", Whole),
    Column("ended_at", Whole),
    info=SINCE,
)

events = Table(
    "job_events",
    metadata,
    Column("id", Whole, primary_key=True, autoincrement=True),
    Column("job", Whole, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("wall_s", Double, nullable=False),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    # Whoever follows the stream goes on from the last number, which must never come again.
    sqlite_autoincrement=True,
    info=SINCE,
)
Index("job_events_of", events.c.job, events.c.id)

client_keys = Table(
    "client_keys",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("job", Whole, nullable=False),
    Column("digest", Text, nullable=False),
    Column("wall_s", Double, nullable=False),
    info=SINCE,
)

schedule_cycles = Table(
    "schedule_cycles",
    metadata,
    Column("cycle", Whole, primary_key=True, autoincrement=False),
    Column("wall_s", Double, nullable=False),
    Column("at", Whole, nullable=False),
    Column("actions", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("outcomes", LargeBinary),
    info=SINCE,
)

schedule_state = Table(
    "schedule_state",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cycle", Whole, nullable=False),
    Column("wall_s", Double, nullable=False),
    Column("at", Whole, nullable=False),
    Column("monotonic_s", Double, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("memory", LargeBinary, nullable=False),  # lessons, who was passed, the tally
    Column("cluster", LargeBinary, nullable=False),  # nodes and partitions as they were planned with
    # The newest that was planned with: what came before it has its answer.
    Column("event", Whole, nullable=False, server_default="0"),
    info=SINCE,
)
