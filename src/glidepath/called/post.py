"""The trays in the store: one transaction for each act of the provisioner and for each call of an agent.

What is asked of a tray is decided by `tray`; here it is read and kept. Secrets lie apart, are handed out with
their request and are forgotten as soon as the agent has said that it has them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection, delete, func, select

from glidepath.called.tray import Request, Step, Terms, Tray, called
from glidepath.called.words import Orders, Report
from glidepath.core.cycle import Outcome
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import Instant, SiteName
from glidepath.journal.codec import decode, encode
from glidepath.store.call_rows import call_clients, call_requests, call_secrets, call_sites
from glidepath.store.engine import insert

TICKET_BYTES = 18
# Of all locks of ours in the database, the first number of those on trays.
TRAY_LOCK = 7237108
# Of a site; a page of them is as much as people read.
CLIENTS_MAX = 200
T = TypeVar("T")
# Requests in these steps still have their secrets to hand out.
_UNSAID = (Step.ASKED, Step.GIVEN)


class Transactions(Protocol):
    """The part of the store that is needed here."""

    def write(self) -> AbstractContextManager[Connection]: ...

    def read(self) -> AbstractContextManager[Connection]: ...


@dataclass(frozen=True, slots=True)
class Late:
    """The report is not the next one: sent before, or this store has not heard of the one before it."""

    ticket: str


Change = Callable[[Tray], tuple[Tray, Outcome]]


class Post:
    """All trays of one store."""

    def __init__(self, store: Transactions) -> None:
        self._store = store

    def tray(self, site: SiteName) -> Tray:
        with self._store.read() as conn:
            return _read(conn, site)

    def trays(self) -> dict[SiteName, Tray]:
        """Of every site that was ever asked for something or has called."""
        with self._store.read() as conn:
            names = set(conn.execute(select(call_sites.c.site)).scalars())
            names |= set(conn.execute(select(call_requests.c.site).distinct()).scalars())
            return {SiteName(name): _read(conn, SiteName(name)) for name in sorted(names)}

    def change(
        self, site: SiteName, change: Change, *, hidden: tuple[tuple[str, str], ...] = (), name: str = ""
    ) -> Outcome:
        """One act of the provisioner; `hidden` are the secrets of the pilot of that name."""
        with self._store.write() as conn:
            before = _read_alone(conn, site)
            after, outcome = change(before)
            _keep(conn, before, after)
            if hidden and before.of(name) is None and after.of(name) is not None:
                row = {"site": site, "name": name, "body": json.dumps(hidden)}
                conn.execute(insert(conn, call_secrets).values(row))
            return outcome

    def call(
        self, site: SiteName, report: Report, *, now: Instant, wall: float, terms: Terms
    ) -> Orders | Late:
        """One call of the site's agent, as a whole or not at all."""
        with self._store.write() as conn:
            before = _read_alone(conn, site)
            if not before.ticket:
                before = replace(before, ticket=_ticket())
                _keep_site(conn, before, wall=None)
            if report.ticket != before.ticket:
                return Late(before.ticket)
            after, orders = called(before, report, now, terms=terms, ticket=_ticket())
            _keep(conn, before, after)
            _keep_site(conn, after, wall=wall)
            return _with_secrets(conn, site, orders)

    def nameless(self, site: SiteName, change: Callable[[Tray], tuple[Tray, T]], *, wall: float) -> T:
        """What a client that names no pilots asks for or says; it has no ticket."""
        with self._store.write() as conn:
            before = _read_alone(conn, site)
            after, found = change(before)
            after = after if after.ticket else replace(after, ticket=_ticket())
            _keep(conn, before, after)
            _keep_site(conn, after, wall=wall)
            return found

    def clients(self, site: str) -> dict[str, tuple[float, dict[str, Any]]]:
        """What each client of a site, or of the open address, said last, and when; the newest first."""
        query = select(call_clients).where(call_clients.c.site == site).order_by(call_clients.c.wall_s.desc())
        with self._store.read() as conn:
            rows = conn.execute(query.limit(CLIENTS_MAX))
            return {row.client: (row.wall_s, json.loads(row.body)) for row in rows}

    def keep_client(self, site: str, client: str, body: dict[str, Any], *, wall: float) -> None:
        """Only so many are kept; whoever was heard longest ago makes room."""
        row = {"site": site, "client": client, "wall_s": wall, "body": json.dumps(body)}
        mine = call_clients.c.site == site
        with self._store.write() as conn:
            query = insert(conn, call_clients).values(row)
            fresh = {"wall_s": wall, "body": row["body"]}
            conn.execute(query.on_conflict_do_update(index_elements=["site", "client"], set_=fresh))
            newest = select(call_clients.c.client).where(mine).order_by(call_clients.c.wall_s.desc())
            kept = set(conn.execute(newest.limit(CLIENTS_MAX)).scalars())
            if len(kept) == CLIENTS_MAX:
                conn.execute(delete(call_clients).where(mine, call_clients.c.client.not_in(kept)))


def without_secrets(spec: PilotSpec) -> PilotSpec:
    return replace(spec, secrets=(), mates_secrets=())


def digest_of(spec: PilotSpec) -> str:
    """The same intent repeated later is still the same pilot."""
    plain = encode(PilotSpec, replace(without_secrets(spec), asked_at=Instant(0)))
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _ticket() -> str:
    return secrets.token_urlsafe(TICKET_BYTES)


def _read_alone(conn: Connection, site: SiteName) -> Tray:
    """To be changed: nobody else reads it to change it before this transaction is over.

    Or the provisioner takes back what the server hands out in the same moment, and both believe it. SQLite
    has one writer at a time by itself.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_advisory_xact_lock(TRAY_LOCK, func.hashtext(site))))
    return _read(conn, site)


def _read(conn: Connection, site: SiteName) -> Tray:
    row = conn.execute(select(call_sites).where(call_sites.c.site == site)).first()
    rows = conn.execute(select(call_requests.c.body).where(call_requests.c.site == site)).scalars()
    requests = tuple(decode(Request, json.loads(body)) for body in rows)
    requests = tuple(sorted(requests, key=lambda request: request.name))
    if row is None:
        return Tray(site, requests=requests)
    return Tray(
        site=site,
        ticket=row.ticket,
        heard_at=None if row.heard_at is None else Instant(row.heard_at),
        report=_report(row),
        requests=requests,
        calls=row.calls,
        given=row.given,
        refused=row.refused,
        last_refusal=row.last_refusal,
    )


def _report(row: Any) -> Report | None:
    if not row.said:
        return None
    try:
        return Report.model_validate_json(row.said)
    except ValidationError:
        return None  # Of another version of the program; the next call brings one that can be read.


def _keep(conn: Connection, before: Tray, after: Tray) -> None:
    """What is different, and nothing else."""
    old = {request.name: request for request in before.requests}
    new = {request.name: request for request in after.requests}
    for name, request in new.items():
        if old.get(name) != request:
            row = {"site": after.site, "name": name, "body": json.dumps(encode(Request, request))}
            query = insert(conn, call_requests).values(row)
            keys = ["site", "name"]
            conn.execute(query.on_conflict_do_update(index_elements=keys, set_={"body": row["body"]}))
    gone = [name for name in old if name not in new]
    said = [name for name, request in new.items() if request.step not in _UNSAID]
    for name in gone:
        mine = (call_requests.c.site == after.site, call_requests.c.name == name)
        conn.execute(delete(call_requests).where(*mine))
    for name in [*gone, *(n for n in said if n in old and old[n].step in _UNSAID)]:
        conn.execute(
            delete(call_secrets).where(call_secrets.c.site == after.site, call_secrets.c.name == name)
        )


def _keep_site(conn: Connection, tray: Tray, *, wall: float | None) -> None:
    row = {
        "site": tray.site,
        "ticket": tray.ticket,
        "heard_at": tray.heard_at,
        "heard_wall_s": wall,
        "said": tray.report.model_dump_json(exclude_defaults=True) if tray.report else "",
        "calls": tray.calls,
        "given": tray.given,
        "refused": tray.refused,
        "last_refusal": tray.last_refusal,
    }
    query = insert(conn, call_sites).values(row)
    fresh = {key: value for key, value in row.items() if key != "site"}
    conn.execute(query.on_conflict_do_update(index_elements=["site"], set_=fresh))


def _with_secrets(conn: Connection, site: SiteName, orders: Orders) -> Orders:
    if not orders.starts:
        return orders
    rows = conn.execute(select(call_secrets.c.name, call_secrets.c.body).where(call_secrets.c.site == site))
    kept = {name: json.loads(body) for name, body in rows}
    starts = [start.model_copy(update={"secrets": kept.get(start.name, [])}) for start in orders.starts]
    return orders.model_copy(update={"starts": starts})
