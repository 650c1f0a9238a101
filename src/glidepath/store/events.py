"""Events of jobs as rows: what happened to one job, for people and for whoever follows it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from glidepath.store.engine import storable
from glidepath.store.job import REASON_CHARS_MAX


def numbered(conn: Connection) -> None:
    """First in a transaction that tells events: their numbers are then given in the order of the commits.

    Whoever reads what came behind the last number would else miss, for good, an event whose transaction took
    longer than that of the next. SQLite has one writer at a time by itself.
    """
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql("SELECT pg_advisory_xact_lock(7237107)")


def event_row(job: int, attempt: int, wall_s: float, words: tuple[str, str]) -> dict[str, Any]:
    """`words` are the kind and the sentence."""
    kind, text = words
    text = storable(text, letters_max=REASON_CHARS_MAX)
    return {"job": job, "attempt": attempt, "wall_s": wall_s, "kind": kind, "text": text}
