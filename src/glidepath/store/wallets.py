"""Allocations and the tree of projects as the store keeps them: granted, taken back, placed below another.

Each call is one transaction, and decides within it: of two that happen at once one sees what the other did.
It refuses to know who may grant, and what is said to whom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, select, update

from glidepath.core.account.wallet import (
    Allocation,
    Purse,
    Tree,
    given_back,
    placed_below,
    purses,
)
from glidepath.core.quantity import Instant
from glidepath.store.engine import Store, storable
from glidepath.store.people import Full, Missing
from glidepath.store.people_rows import projects
from glidepath.store.token_rows import NOTE_LETTERS_MAX
from glidepath.store.usage_rows import allocations

GRANTS_EACH_MAX = 1000
WEIGHT_MAX = 10**6


class BelowZero(ValueError):
    """More would be taken than there is left."""

    def __init__(self, left: int) -> None:
        super().__init__(left)
        self.left = left


@dataclass(frozen=True, slots=True)
class Grant:
    """So much more may be spent between two moments; whose word that is, and what for."""

    project: str
    amount: int  # millionths of a credit
    starts_at: Instant
    ends_at: Instant
    by: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Wallet:
    """One project: where it stands, and what it may spend."""

    project: str
    parent: str
    weight: int
    purse: Purse | None = None  # none where nothing was ever granted: it has no bound of its own
    allocations: tuple[Allocation, ...] = ()
    dry_at: Instant | None = None


class WalletStore:
    """The wallets of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self, now: Instant) -> dict[str, Wallet]:
        with self._store.read() as conn:
            return wallets_of(conn, now)

    def grant(self, grant: Grant, *, wall: float) -> Allocation:
        with self._store.write() as conn:
            _locked(conn, grant.project)
            mine = allocations.c.project == grant.project
            if conn.execute(select(func.count()).where(mine)).scalar_one() >= GRANTS_EACH_MAX:
                raise Full(f"a project may have {GRANTS_EACH_MAX} allocations, those that ended counted too")
            row = {
                "project": grant.project,
                "granted": grant.amount,
                "starts_at": grant.starts_at,
                "ends_at": grant.ends_at,
                "drawn": 0,
                "note": storable(grant.note, letters_max=NOTE_LETTERS_MAX),
                "by": grant.by,
                "made_wall_s": wall,
            }
            number = conn.execute(allocations.insert().returning(allocations.c.id), row).scalar_one()
        return Allocation(number, grant.project, grant.amount, grant.starts_at, grant.ends_at)

    def take(self, project: str, amount: int, now: Instant) -> Purse:
        """Take back what is not spent, what ends last first; a `BelowZero` where it is less."""
        with self._store.write() as conn:
            _locked(conn, project)
            mine = [each for each in grants_of(conn, locked=True) if each.project == project]
            usable = [each for each in mine if each.in_force(now) and each.left > 0]
            left = sum(each.left for each in usable)
            if amount > left:
                raise BelowZero(left)
            # What is left goes as a refund comes: of the same allocations in the same order.
            for part in given_back([replace(each, drawn=each.left) for each in usable], amount, now):
                less = allocations.c.granted + part.amount
                conn.execute(
                    update(allocations).where(allocations.c.id == part.allocation).values(granted=less)
                )
            return purses_of(conn, now)[project]

    def set(self, project: str, *, parent: str | None, weight: int | None, dry: bool = False) -> None:
        """A `TreeFlaw` where it cannot be below that one; an empty parent is the top."""
        with self._store.write() as conn:
            _locked(conn, project)
            if parent:
                _locked(conn, parent)
                placed_below(tree_of(conn), project, parent)
            values: dict[str, Any] = {} if parent is None else {"parent": parent}
            if weight is not None:
                values["weight"] = weight
            if values and not dry:
                conn.execute(update(projects).where(projects.c.name == project).values(**values))


def _locked(conn: Connection, project: str) -> None:
    """The project is there and open; whoever else changes the tree or its wallets waits."""
    if conn.dialect.name == "postgresql":
        # Two that are moved below each other at once would each see a tree in which that is no circle.
        conn.exec_driver_sql("SELECT pg_advisory_xact_lock(7237108)")
    row = conn.execute(select(projects).where(projects.c.name == project).with_for_update()).first()
    if row is None or row.gone_wall_s is not None:
        raise Missing("project", project)


def tree_of(conn: Connection) -> Tree:
    rows = conn.execute(select(projects.c.name, projects.c.parent).where(projects.c.parent != ""))
    return Tree({row.name: row.parent for row in rows})


def grants_of(conn: Connection, *, locked: bool = False) -> list[Allocation]:
    query = select(allocations).order_by(allocations.c.id)
    return [
        Allocation(row.id, row.project, row.granted, Instant(row.starts_at), Instant(row.ends_at), row.drawn)
        for row in conn.execute(query.with_for_update() if locked else query)
    ]


def purses_of(conn: Connection, now: Instant) -> Mapping[str, Purse]:
    return purses(grants_of(conn), now)


def wallets_of(conn: Connection, now: Instant) -> dict[str, Wallet]:
    grants = grants_of(conn)
    found = purses(grants, now)
    of: dict[str, list[Allocation]] = {}
    for each in grants:
        of.setdefault(each.project, []).append(each)
    return {
        row.name: Wallet(
            row.name,
            row.parent,
            row.weight,
            found.get(row.name),
            tuple(of.get(row.name, ())),
            None if row.dry_at is None else Instant(row.dry_at),
        )
        for row in conn.execute(select(projects).order_by(projects.c.name))
    }
