"""Keys of clients: the same word twice from one owner gives one job, so that a submission may be repeated.

A key comes in with what was asked, the job that had it goes out. It refuses to know what kind of job that is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select, update

from glidepath.store.engine import insert
from glidepath.store.placed_rows import client_keys

TRIES_MAX = 3


class KeyTaken(ValueError):
    """The client key was used for another job."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: int
    new: bool  # false where the client key had it already


def had(conn: Connection, of: tuple[str, str], same: object, *, wall: float) -> Submitted | None:
    """The job that the key of an owner has already; none where it is for the job that is made next.

    `same` is what makes two submissions one: the key of anything else is taken.
    """
    owner, key = of
    digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
    mine = {"owner": owner, "key": key, "job": 0, "digest": digest, "wall_s": wall}
    fresh = insert(conn, client_keys).values(mine).on_conflict_do_nothing()
    query = select(client_keys.c.job, client_keys.c.digest).where(_row(of))
    for _ in range(TRIES_MAX):
        # The row is taken before the job is made: whoever comes at the same time waits for us here.
        if conn.execute(fresh.returning(client_keys.c.job)).first() is not None:
            return None
        found = conn.execute(query).one_or_none()
        if found is None:
            continue  # Its time was over, and it was removed in this very moment.
        if found.digest != digest:
            raise KeyTaken(f"the client key was used for another job, {found.job}; choose a new one")
        return Submitted(found.job, new=False)
    raise KeyTaken("the client key is being used by others at this moment; choose a new one")


def keep(conn: Connection, of: tuple[str, str], job: int) -> None:
    """In the transaction in which the job was made."""
    conn.execute(update(client_keys).where(_row(of)).values(job=job))


def _row(of: tuple[str, str]) -> ColumnElement[bool]:
    owner, key = of
    return (client_keys.c.owner == owner) & (client_keys.c.key == key)
