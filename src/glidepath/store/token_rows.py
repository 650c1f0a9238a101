"""What all tokens have in common, whoever shows them: how they are drawn, kept, compared, noted and revoked.

An id says which row is meant; the secret is 256 bits of chance, so a plain digest tells nobody anything. It
refuses to know what a token is good for.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Any, Protocol

from sqlalchemy import Connection, Row, Table, select, update

from glidepath.store.engine import Store

ID, SECRET = "[a-z2-9]{8}", "[a-z2-7]{52}"  # as patterns
SECRET_BYTES = 32
ID_LETTERS = 8
NOTE_LETTERS_MAX = 200
TOKENS_MAX = 10_000
# A poll every half minute must not be a write of its own every time.
USED_EVERY_S = 60.0
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def drawn() -> tuple[str, str]:
    """A new id and a new secret."""
    id = "".join(secrets.choice(_LETTERS) for _ in range(ID_LETTERS))
    return id, base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=").lower()


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def row_shown(conn: Connection, table: Table, id: str, digest: str) -> Row[Any] | None:
    """The row of a token whose secret is the right one, be it in force or not."""
    row = conn.execute(select(table).where(table.c.id == id)).first()
    # Compared in all cases, so that the time it takes does not tell which ids exist.
    same = hmac.compare_digest(row.digest if row is not None else "", digest)
    return row if same else None


def row_revoked(conn: Connection, table: Table, id: str, *, wall: float) -> Row[Any] | None:
    """The row as it was before; None where there is none of this id."""
    mine = table.c.id == id
    row = conn.execute(select(table).where(mine)).first()
    if row is not None and row.revoked_wall_s is None:
        conn.execute(update(table).where(mine).values(revoked_wall_s=wall))
    return row


class Used(Protocol):
    """A token as it was read: its id, and when it was last used."""

    @property
    def id(self) -> str: ...

    @property
    def used_wall_s(self) -> float | None: ...


def note_use(store: Store, table: Table, token: Used, *, wall: float) -> None:
    """When it was last used, to the minute."""
    if token.used_wall_s is None or abs(wall - token.used_wall_s) > USED_EVERY_S:
        with store.write() as conn:
            conn.execute(update(table).where(table.c.id == token.id).values(used_wall_s=wall))
