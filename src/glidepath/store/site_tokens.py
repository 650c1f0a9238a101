"""Tokens of sites: issued and shown once, kept as digests, listed, and revoked one by one.

A token is `gps.SITE.ID.SECRET`; its secret is 256 bits of chance, so a plain digest tells nobody anything.
One for use in an address is `SITE-ID-SECRET`, for clients that can be told nothing but an address.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, update

from glidepath.store.call_rows import site_tokens
from glidepath.store.engine import Store, insert, storable

AGENT, ADDRESS = "agent", "address"
USES = (AGENT, ADDRESS)
PREFIX = "gps"
SECRET_BYTES = 32
ID_LETTERS = 8
NOTE_LETTERS_MAX = 200
TOKENS_MAX = 10_000
# A poll every half minute must not be a write of its own every time.
USED_EVERY_S = 60.0
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_TOKEN = re.compile(r"gps\.([a-z0-9-]{1,40})\.([a-z2-9]{8})\.([a-z2-7]{52})")
_ADDRESS = re.compile(r"([a-z0-9-]{1,40})-([a-z2-9]{8})-([a-z2-7]{52})")


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
        return hashlib.sha256(self.secret.encode()).hexdigest()


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
        drawn = "".join(secrets.choice(_LETTERS) for _ in range(ID_LETTERS))
        secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=").lower()
        text = f"{PREFIX}.{site}.{drawn}.{secret}" if use == AGENT else f"{site}-{drawn}-{secret}"
        parts = spelled(text)
        assert parts is not None, f"a token for `{site}` cannot be spelled"
        kept = SiteToken(drawn, site, use, storable(note, letters_max=NOTE_LETTERS_MAX), by, wall)
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
        mine = site_tokens.c.id == id
        with self._store.write() as conn:
            row = conn.execute(select(site_tokens).where(mine)).first()
            if row is None:
                return None
            if row.revoked_wall_s is None:
                conn.execute(update(site_tokens).where(mine).values(revoked_wall_s=wall))
            return _token(row)

    def bearer(self, text: str, *, use: str, wall: float) -> tuple[SiteToken, str] | None:
        """Whose token this is, with its digest; None for what is not one, is of another use or is revoked."""
        shown = spelled(text)
        if shown is None or shown.use != use:
            return None
        with self._store.read() as conn:
            row = conn.execute(select(site_tokens).where(site_tokens.c.id == shown.id)).first()
        # Compared in all cases, so that the time it takes does not tell which ids exist.
        same = hmac.compare_digest(row.digest if row is not None else "", shown.digest)
        if (
            row is None
            or not same
            or row.site != shown.site
            or row.use != use
            or row.revoked_wall_s is not None
        ):
            return None
        if row.used_wall_s is None or abs(wall - row.used_wall_s) > USED_EVERY_S:
            with self._store.write() as conn:
                mine = update(site_tokens).where(site_tokens.c.id == shown.id)
                conn.execute(mine.values(used_wall_s=wall))
        return _token(row), row.digest

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
