"""One owner of the store: a holder's name comes in, a lease that can be checked before every act goes out.

In PostgreSQL it runs out by the server's own clock, so a leader that was paused loses it. In SQLite a lock on
a file beside the store frees it the moment its holder dies. The epoch fences: a lost one never comes back,
and what is written under it is refused.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, func, literal_column, or_, select, update
from sqlalchemy.sql import ColumnElement

from glidepath.store.engine import Store, StoreError, StoreUnwritable, insert, said, storable
from glidepath.store.schema import leases

HOLDER_LETTERS_MAX = 200
NAME = "owner"
NOT_OURS = "this glidepath no longer owns the store"


def steady_s() -> float:
    """Counts while the machine sleeps: a laptop that wakes must not believe that its lease is fresh."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Taken:
    """Somebody else holds it: who, and for how long."""

    holder: str
    since_s: float


@dataclass(slots=True)
class Held:
    """Ours, until `check` says otherwise."""

    store: Store
    epoch: int
    ttl_s: float
    steady: Callable[[], float]
    renewed_s: float  # before the renewal was sent, so that our patience ends before the server's
    lock_fd: int | None = field(default=None, repr=False)
    lost: bool = False

    def check(self) -> bool:
        """Before every act. Cheap while the last renewal is young; false when it is not known to be ours."""
        if self.lost:
            return False
        return self.steady() - self.renewed_s < self.ttl_s * 2 / 3 or self.renew()

    def renew(self) -> bool:
        """Compare and swap on the epoch; false when another has taken it or the store gives no answer."""
        if self.lost:
            return False
        sent_s = self.steady()
        try:
            with self.store.write() as connection:
                ours = leases.update().where(leases.c.name == NAME, leases.c.epoch == self.epoch)
                found = connection.execute(ours.values(renewed_at=_clock(connection))).rowcount
        except StoreError:
            return False
        if found != 1:
            self.lost = True
            return False
        self.renewed_s = sent_s
        return True

    def hold(self, connection: Connection) -> None:
        """First in a transaction: nobody takes the lease before it ends, and nothing is written without it.

        A check before the transaction is not enough: whoever sleeps in between writes with an old lease.
        """
        ours = select(leases.c.epoch).where(leases.c.name == NAME, leases.c.epoch == self.epoch)
        if connection.execute(ours.with_for_update(read=True)).first() is None:
            self.lost = True
            raise StoreUnwritable(NOT_OURS)

    def release(self) -> None:
        """Give it back. A store that cannot be written keeps the row, which then runs out by time."""
        if not self.lost:
            self.lost = True
            try:
                with self.store.write() as connection:
                    ours = update(leases).where(leases.c.name == NAME, leases.c.epoch == self.epoch)
                    connection.execute(ours.values(holder=""))
            except StoreError:
                pass
        if self.lock_fd is not None:
            os.ftruncate(self.lock_fd, 0)
            os.close(self.lock_fd)
            self.lock_fd = None


def take(store: Store, holder: str, *, ttl_s: float, steady: Callable[[], float] = steady_s) -> Held | Taken:
    """Make `holder` the owner of the store, or say who is."""
    holder = storable(" ".join(holder.split()), letters_max=HOLDER_LETTERS_MAX) or "nameless"
    if store.path is None:
        return _take_row(store, holder, ttl_s=ttl_s, steady=steady, locked=False)
    fd = _locked(store.path, holder)
    if fd is None:
        return Taken(_lock_holder(store.path), _since_s(store))
    try:
        held = _take_row(store, holder, ttl_s=ttl_s, steady=steady, locked=True)
        assert isinstance(held, Held)
    except BaseException:
        os.close(fd)
        raise
    held.lock_fd = fd
    return held


def _take_row(
    store: Store, holder: str, *, ttl_s: float, steady: Callable[[], float], locked: bool
) -> Held | Taken:
    sent_s = steady()
    with store.write() as connection:
        clock = _clock(connection)
        nobody = {"name": NAME, "holder": "", "epoch": 0, "taken_at": 0.0, "renewed_at": 0.0, "ttl_s": 0.0}
        connection.execute(insert(connection, leases).values(nobody).on_conflict_do_nothing())
        free = update(leases).where(leases.c.name == NAME)
        if not locked:
            free = free.where(or_(leases.c.holder == "", leases.c.renewed_at + leases.c.ttl_s < clock))
        ours = free.values(
            holder=holder, epoch=leases.c.epoch + 1, taken_at=clock, renewed_at=clock, ttl_s=ttl_s
        )
        epoch = connection.execute(ours.returning(leases.c.epoch)).scalar()
        if epoch is not None:
            return Held(store, epoch, ttl_s, steady, sent_s)
        row = connection.execute(select(leases.c.holder, clock - leases.c.taken_at)).one()
        return Taken(row[0], float(row[1]))


def _since_s(store: Store) -> float:
    with store.read() as connection:
        since = select(_clock(connection) - leases.c.taken_at).where(leases.c.name == NAME)
        return float(connection.execute(since).scalar() or 0.0)


def _clock(connection: Connection) -> ColumnElement[float]:
    """Now, by the only clock that all contenders share."""
    if connection.dialect.name == "postgresql":
        return func.extract("epoch", func.clock_timestamp()).cast(leases.c.renewed_at.type)
    return literal_column("((julianday('now') - 2440587.5) * 86400.0)", leases.c.renewed_at.type)


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def _lock_holder(path: Path) -> str:
    """Who wrote the lock file last; made fit for a terminal, because anyone may have written to it since."""
    try:
        with _lock_path(path).open("rb") as file:
            words = file.read(4 * HOLDER_LETTERS_MAX).decode("utf-8", "replace")
    except OSError:
        words = ""
    return said(words) if words else "another process"


def _locked(path: Path, holder: str) -> int | None:
    """A descriptor that holds the lock with our name in it; None while another process has it."""
    try:
        fd = os.open(_lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnwritable(
            f"`{said(_lock_path(path))}` cannot be opened: {error.strerror or error}"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The name stays when its holder dies; the lock does not, and only the lock counts.
        os.ftruncate(fd, 0)
        os.pwrite(fd, holder.encode(), 0)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError as error:
        os.close(fd)
        raise StoreUnwritable(
            f"`{said(_lock_path(path))}` cannot be locked: {error.strerror or error}"
        ) from error
    return fd
