"""Tokens of sites: issued and shown once, kept as digests, listed, and revoked one by one.

A token is `gps.SITE.ID.SECRET`. One for use in an address is `SITE-ID-SECRET`, for clients that can be told
nothing but an address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select

from glidepath.store.call_rows import site_tokens
from glidepath.store.engine import Store, insert, storable
from glidepath.store.token_rows import (
    ID,
    NOTE_LETTERS_MAX,
    SECRET,
    TOKENS_MAX,
    digest_of,
    drawn,
    note_use,
    row_revoked,
    row_shown,
)

AGENT, ADDRESS = "agent", "address"
USES = (AGENT, ADDRESS)
PREFIX = "gps"
_TOKEN = re.compile(rf"gps\.([a-z0-9-]{{1,40}})\.({ID})\.({SECRET})")
_ADDRESS = re.compile(rf"([a-z0-9-]{{1,40}})-({ID})-({SECRET})")


@dataclass(frozen=True, slots=True)
class SiteToken:
    """All that is kept of one token."""

    id: str
    site: str
    use: str
    note: str
    by: str
    issued_wall_s: float
    used_wall_s: float | None = None
    revoked_wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spelled:
    """A token as somebody shows it: whose it says it is, and its secret."""

    site: str
    id: str
    secret: str
    use: str

    @property
    def digest(self) -> str:
        return digest_of(self.secret)


def spelled(text: str) -> Spelled | None:
    """The parts of what was shown; None where it is no token of ours at all."""
    for pattern, use in ((_TOKEN, AGENT), (_ADDRESS, ADDRESS)):
        found = pattern.fullmatch(text)
        if found is not None:
            return Spelled(found[1], found[2], found[3], use)
    return None


class SiteTokens:
    """The tokens of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def issue(self, site: str, *, use: str, by: str, note: str, wall: float) -> tuple[SiteToken, str]:
        """A new token and its text, which is nowhere else and cannot be had again."""
        assert use in USES
        id, secret = drawn()
        text = f"{PREFIX}.{site}.{id}.{secret}" if use == AGENT else f"{site}-{id}-{secret}"
        parts = spelled(text)
        assert parts is not None, f"a token for `{site}` cannot be spelled"
        kept = SiteToken(id, site, use, storable(note, letters_max=NOTE_LETTERS_MAX), by, wall)
        row = {
            "id": kept.id,
            "site": site,
            "use": use,
            "digest": parts.digest,
            "note": kept.note,
            "by": by,
            "issued_wall_s": wall,
        }
        with self._store.write() as conn:
            conn.execute(insert(conn, site_tokens).values(row))
        return kept, text

    def list(self) -> list[SiteToken]:
        query = (
            select(site_tokens).order_by(site_tokens.c.site, site_tokens.c.issued_wall_s).limit(TOKENS_MAX)
        )
        with self._store.read() as conn:
            return [_token(row) for row in conn.execute(query)]

    def revoke(self, id: str, *, wall: float) -> SiteToken | None:
        """The token as it was before; None where there is none of this id."""
        with self._store.write() as conn:
            row = row_revoked(conn, site_tokens, id, wall=wall)
        return None if row is None else _token(row)

    def bearer(self, text: str, *, use: str, wall: float) -> tuple[SiteToken, str] | None:
        """Whose token this is, with its digest; None for what is not one, is of another use or is revoked."""
        shown = spelled(text)
        if shown is None or shown.use != use:
            return None
        with self._store.read() as conn:
            row = row_shown(conn, site_tokens, shown.id, shown.digest)
        if row is None or row.site != shown.site or row.use != use or row.revoked_wall_s is not None:
            return None
        token = _token(row)
        note_use(self._store, site_tokens, token, wall=wall)
        return token, row.digest

    def digests(self, site: str, *, use: str) -> dict[str, str]:
        """By id, of all that are in force: what signs files on both sides."""
        mine = (site_tokens.c.site == site, site_tokens.c.use == use, site_tokens.c.revoked_wall_s.is_(None))
        with self._store.read() as conn:
            rows = conn.execute(select(site_tokens.c.id, site_tokens.c.digest).where(*mine).limit(TOKENS_MAX))
            return {row.id: row.digest for row in rows}


def _token(row: Row[Any]) -> SiteToken:
    return SiteToken(
        id=row.id,
        site=row.site,
        use=row.use,
        note=row.note,
        by=row.by,
        issued_wall_s=row.issued_wall_s,
        used_wall_s=row.used_wall_s,
        revoked_wall_s=row.revoked_wall_s,
    )
