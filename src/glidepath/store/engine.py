"""Opens the store: an address comes in, transactions go out, and every failure of the world has one name.

`StoreUnwritable` means that nothing was kept and nothing may be done; `StoreBroken` that a person must look.
It refuses to know what the rows mean.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from glidepath.core.text import one_line

# Another process holds the store for milliseconds; whoever holds it longer is stuck, and we say so.
BUSY_S_MAX = 5
CONNECT_S_MAX = 5
# No statement of ours is long; a server that hangs must not hang the loop.
STATEMENT_S_MAX = 30
# Whoever is stopped in the middle of a transaction must not keep its locks: another waits to take over.
IDLE_S_MAX = 10
# After a burst the write-ahead log shrinks back to this.
WAL_BYTES_MAX = 64 * 1024**2
WHY_LETTERS_MAX = 300

URL_FORMS = "`sqlite:///PATH` or `postgresql://USER@HOST/DATABASE`"

_UNWRITABLE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "the disk answers with errors",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_AUTH: "access is denied",
    sqlite3.SQLITE_BUSY: f"another process has kept it locked for {BUSY_S_MAX} s",
    sqlite3.SQLITE_LOCKED: "another connection has kept it locked",
    sqlite3.SQLITE_NOLFS: "the file system takes no larger file",
    sqlite3.SQLITE_PROTOCOL: "the file system does not lock files properly",
}
_BROKEN = {sqlite3.SQLITE_CORRUPT: "it is damaged", sqlite3.SQLITE_NOTADB: "it is not a database"}
# By SQLSTATE: connection lost, read-only, deadlock, no privilege, disk full, busy, shutting down, I/O error.
_SERVER_STATES = ("08", "25006", "40", "42501", "53", "55", "57", "58")
_SERVER_GONE = frozenset({"OperationalError", "InterfaceError", "ConnectionTimeout"})


# Opening one costs more than most of what is asked: as many stay open as threads ask at once under
# load. Each may keep 2 MB of pages.
CONNECTIONS = {"pool_size": 16, "max_overflow": 48}


class StoreError(OSError):
    """Anything that the world did to the store; the sentence says what and what to do."""


class StoreUnwritable(StoreError):
    """Nothing was written and nothing may be done that depends on it; asking again may help."""


class StoreUnreadable(StoreError):
    """The store gave no answer; asking again may help."""


class StoreBroken(StoreError):
    """What is stored cannot be used; a person has to move it aside."""


class Store:
    """One open store. Any thread may read; one thread writes."""

    def __init__(self, engine: Engine, *, shown: str, path: Path | None, read_only: bool) -> None:
        self._engine = engine
        self._writing = engine.execution_options(glidepath_writes=True)
        self._reading = engine if path else engine.execution_options(isolation_level="REPEATABLE READ")
        self.shown = shown  # the address without its password
        self.path = path  # of the SQLite file
        self.read_only = read_only

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: all of it is durable when the block ends, or nothing of it."""
        if self.read_only:
            raise StoreUnwritable(
                f"the store `{self.shown}` cannot be written: it was opened for reading only"
            )
        with self._failures_named(StoreUnwritable, "written"), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view, however many rows another process writes meanwhile."""
        with self._failures_named(StoreUnreadable, "read"), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def _failures_named(self, refusal: type[StoreError], verb: str) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            named = self._named(cause, refusal, verb)
            if named is None:
                raise
            raise named from error

    def _named(self, cause: BaseException | None, refusal: type[StoreError], verb: str) -> StoreError | None:
        """Ours for a failure of the world; None for a mistake in a statement, which is a bug."""
        if isinstance(cause, sqlite3.Error):
            code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            if code in _BROKEN:
                return StoreBroken(
                    f"the store `{self.shown}` cannot be used: {_BROKEN[code]}; move the file aside and "
                    "start again, glidepath will adopt its pilots by label"
                )
            if code not in _UNWRITABLE:
                return None
            return refusal(f"the store `{self.shown}` cannot be {verb}: {_UNWRITABLE[code]} ({said(cause)})")
        state = getattr(cause, "sqlstate", None)
        gone = state is None and type(cause).__name__ in _SERVER_GONE
        if gone or (state is not None and state.startswith(_SERVER_STATES)):
            return refusal(f"the store `{self.shown}` cannot be {verb}: {said(cause)}")
        return None

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str, *, read_only: bool = False) -> Store:
    """Open and look once, so that a wrong address or a broken file is told before anything starts."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(url.removeprefix("sqlite:///")).absolute()  # As written: nobody quotes a path.
        shown = one_line(str(path))
        if read_only and not path.exists():
            raise StoreUnreadable(f"there is no store at `{shown}`; `glidepath up` makes one")
        if not read_only:
            _make_file(path)
        engine = _sqlite_engine(path, read_only=read_only)
    else:
        path, shown = None, one_line(parsed.render_as_string(hide_password=True))
        engine = _postgresql_engine(parsed, read_only=read_only)
    store = Store(engine, shown=shown, path=path, read_only=read_only)
    try:
        refusal = StoreUnreadable if read_only else StoreUnwritable
        with store._failures_named(refusal, "opened"), engine.begin() as connection:
            connection.exec_driver_sql("SELECT 1 FROM sqlite_master" if path else "SELECT 1").first()
    except BaseException:
        store.close()
        raise
    return store


def insert(connection: Connection, table: Table) -> Any:
    """An INSERT of the store's own dialect, which knows what to do `on_conflict`."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def storable(text: str, *, letters_max: int) -> str:
    """Text as any database takes it: PostgreSQL refuses a zero byte, and UTF-8 has no half characters."""
    return text[:letters_max].replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def said(cause: object) -> str:
    """Another program's words on one line, its own line breaks taken for blanks."""
    return one_line(" ".join(str(cause).split()) or type(cause).__name__, letters_max=WHY_LETTERS_MAX)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The address is not shown: what cannot be taken apart may hold a password anywhere.
        raise ValueError(f"the address of the store is not understood; write {URL_FORMS}") from None
    if parsed.drivername == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ValueError(f"a store needs a file, or nothing survives a restart; write {URL_FORMS}")
        if parsed.host or "?" in url:  # A question mark would cut the path short without a word.
            raise ValueError(f"`sqlite:` takes a path with three slashes and nothing else; write {URL_FORMS}")
        return parsed
    if parsed.drivername in {"postgresql", "postgres", "postgresql+psycopg"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise ValueError(f"`{one_line(parsed.drivername)}` is not a kind of store; write {URL_FORMS}")


def _make_file(path: Path) -> None:
    """The journal names users and their jobs, so only its owner may read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreUnwritable(
            f"the store `{one_line(str(path))}` cannot be opened: {error.strerror or error}"
        ) from error


def _sqlite_engine(path: Path, *, read_only: bool) -> Engine:
    mode = "ro" if read_only else "rw"

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode={mode}",
            uri=True,
            timeout=BUSY_S_MAX,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite+pysqlite://", creator=connect, poolclass=QueuePool, **CONNECTIONS)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A write that starts as a read can be refused half-way when another process writes first.
        writes = connection.get_execution_options().get("glidepath_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql_engine(url: URL, *, read_only: bool) -> Engine:
    options = [f"statement_timeout={STATEMENT_S_MAX}s", f"lock_timeout={BUSY_S_MAX}s"]
    options.append(f"idle_in_transaction_session_timeout={IDLE_S_MAX}s")
    if read_only:
        options.append("default_transaction_read_only=on")
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_S_MAX,
        "options": " ".join(f"-c {option}" for option in options),
        "tcp_user_timeout": STATEMENT_S_MAX * 1000,
        "application_name": "glidepath",
    }
    given = {name: value for name, value in arguments.items() if name not in url.query}
    try:
        return create_engine(url, connect_args=given, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreUnwritable(
            "a store in PostgreSQL needs the package `psycopg`; install `glidepath[postgresql]`"
        ) from error
