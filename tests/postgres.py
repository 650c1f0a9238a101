"""A real PostgreSQL for tests, from the bed: one for the session or one for a block, and databases in it.

Always stopped and removed; where there can be none the test is skipped, or fails in CI.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from bed.parts import postgres as part
from tests.bed_pool import MEANT, needs, place

_NUMBERS = count(1)


@dataclass
class Server:
    started: part.Server
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def url(self, database: str) -> str:
        return self.started.url(database)

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The address of a new, empty database, which is dropped afterwards whoever is still in it."""
        name = f"test_{next(self.numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[arg-type]


_SHARED = pytest.StashKey[Server]()


def shared_server(config: pytest.Config) -> Server:
    """One server for the whole session, started by the first test that needs it."""
    if _SHARED not in config.stash:
        whole = contextlib.ExitStack()
        config.stash[_SHARED] = server = whole.enter_context(postgres())
        MEANT.add(server.started.folder)
        config.add_cleanup(whole.close)
    return config.stash[_SHARED]


@contextlib.contextmanager
def postgres(address: str = "") -> Iterator[Server]:
    """One server for as long as the block lasts, with an address where one is given.

    Skips, or fails in CI, where there can be none.
    """
    server = part.Server(f"postgres@{os.getpid()}-{next(_NUMBERS)}", place=place())
    needs(server.part)
    server.up(tied=True, address=address)  # A test run that is killed must not leave its server behind.
    try:
        yield Server(server)
    finally:
        server.down()
