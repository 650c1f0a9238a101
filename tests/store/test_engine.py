"""The store opens, keeps, and names every failure of the world."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from tests.postgres import Server, shared_server

from glidepath.store.engine import (
    Store,
    StoreBroken,
    StoreUnreadable,
    StoreUnwritable,
    insert,
    open_store,
    storable,
)
from glidepath.store.migrations import migrate
from glidepath.store.schema import notes

A_NOTE = {"wall_s": 1.5, "kind": "config", "text": "reloaded", "by": "alice"}


def add(store: Store, **changes: object) -> None:
    with store.write() as connection:
        connection.execute(insert(connection, notes).values({**A_NOTE, **changes}))


def kept(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(notes)).scalar_one())


def test_what_is_written_is_there_after_reopening(store: Store, store_url: str) -> None:
    add(store)
    store.close()
    with open_store(store_url) as again:
        assert kept(again) == 1


def test_a_failed_block_keeps_nothing(store: Store) -> None:
    def fails_half_way() -> None:
        with store.write() as connection:
            connection.execute(insert(connection, notes).values(A_NOTE))
            raise KeyError("a bug in the block")

    with pytest.raises(KeyError):
        fails_half_way()
    assert kept(store) == 0


def test_a_mistake_of_ours_is_not_called_a_failure_of_the_world(store: Store) -> None:
    add(store, id=7)
    with pytest.raises(IntegrityError):
        add(store, id=7)
    assert kept(store) == 1


def test_a_store_opened_for_reading_is_never_written(store: Store, store_url: str) -> None:
    add(store)
    with open_store(store_url, read_only=True) as reader:
        assert kept(reader) == 1
        with pytest.raises(StoreUnwritable, match="opened for reading only"):
            add(reader)
        with pytest.raises(StoreUnreadable, match="cannot be read"), reader.read() as connection:
            connection.execute(insert(connection, notes).values(A_NOTE))


def test_a_reader_sees_one_view_while_another_process_writes(store: Store, store_url: str) -> None:
    add(store)
    writes = (
        "import sys; from glidepath.store.engine import open_store, insert\n"
        "from glidepath.store.schema import notes\n"
        "with open_store(sys.argv[1]) as store:\n"
        "    with store.write() as c: c.execute(insert(c, notes).values(wall_s=1, kind='', text='', by=''))\n"
    )
    with store.read() as connection:
        count = select(func.count()).select_from(notes)
        assert connection.execute(count).scalar_one() == 1
        subprocess.run([sys.executable, "-c", writes, store_url], check=True, timeout=60)
        assert connection.execute(count).scalar_one() == 1
    assert kept(store) == 2


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    with open_store(f"sqlite:///{folder}/glidepath.db") as store:
        migrate(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert modes == {"glidepath.db": 0o600, "glidepath.db-wal": 0o600, "glidepath.db-shm": 0o600}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_commit_in_sqlite_is_on_the_disk_before_it_is_believed(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store, store.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}


def test_a_full_disk_is_said_plainly_and_keeps_nothing_half(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        migrate(store)
        with store.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        two = [A_NOTE, {**A_NOTE, "text": "x" * 100_000}]
        with pytest.raises(StoreUnwritable, match="the disk is full"), store.write() as connection:
            connection.execute(insert(connection, notes), two)
        assert kept(store) == 0
        add(store)
        assert kept(store) == 1


def test_a_file_that_became_read_only_is_said_plainly(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        migrate(store)
        with store.read() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
        with pytest.raises(StoreUnwritable, match="cannot be written: it is read-only"):
            add(store)
        assert kept(store) == 0


@pytest.mark.parametrize("size", [100, 10_000])
def test_a_file_that_is_no_database_is_named_with_what_to_do(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database\n" * size)
    with pytest.raises(StoreBroken, match=r"move the file aside.*adopt its pilots by label"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"not a database\n" * size


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(f"sqlite:///{path}") as store:
        migrate(store)
        add(store, text="x" * 2000)
    damaged = path.read_bytes()
    path.write_bytes(damaged[:4096] + b"\xff" * (len(damaged) - 4096))
    with pytest.raises(StoreBroken, match="it is damaged"):
        open_store(f"sqlite:///{path}")


def test_a_locked_store_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store, open_store(f"sqlite:///{tmp_path}/s.db") as other:
        migrate(store)
        with store.write():
            with other.read() as connection:
                connection.exec_driver_sql("PRAGMA busy_timeout = 1")
            with pytest.raises(StoreUnwritable, match="another process has kept it locked"):
                add(other)


@pytest.mark.parametrize(
    "path", ["/proc/nowhere/s.db", "/dev/null/s.db", "/proc/s.db"], ids=["no folder", "a file", "no file"]
)
def test_a_place_that_cannot_be_written_is_named(path: str) -> None:
    with pytest.raises(StoreUnwritable, match=f"`{path}` cannot be opened"):
        open_store(f"sqlite:///{path}")


def test_reading_where_nothing_is_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"there is no store.*`glidepath up` makes one"):
        open_store(f"sqlite:///{tmp_path}/none/s.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "is not understood"),
        ("glidepath.db", "is not understood"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite://host/path", "three slashes"),
        ("sqlite:///s.db?mode=ro", "three slashes"),
        ("sqlite:////home/who?/s.db", "three slashes"),
        ("mysql://u:secret@h/d", "`mysql` is not a kind of store"),
        ("postgresql://u:secret@h:port/d", "is not understood"),
    ],
)
def test_a_wrong_address_is_refused_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refusal:
        open_store(url)
    assert "secret" not in str(refusal.value)


def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreUnwritable, match="cannot be opened") as refusal:
        open_store(f"postgresql://alice:secret@/jobs?host={tmp_path}")
    assert "secret" not in str(refusal.value)


def loses_its_server(store: Store, server: Server) -> None:
    with store.write() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        server.execute(f"SELECT pg_terminate_backend({pid})")
        connection.execute(insert(connection, notes).values(A_NOTE))


@pytest.mark.real
def test_a_server_that_goes_away_is_unwritable_and_may_come_back(request: pytest.FixtureRequest) -> None:
    server = shared_server(request.config)
    with server.database() as url, open_store(url) as store:
        migrate(store)
        with pytest.raises(StoreUnwritable, match="cannot be written"):
            loses_its_server(store, server)
        add(store)
        assert kept(store) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain", "plain"), ("a\0b", "a\ufffdb"), ("\ud800x", "?x"), ("long text", "long text")],
)
def test_any_text_can_be_stored(store: Store, text: str, expected: str) -> None:
    assert storable(text, letters_max=9) == expected
    add(store, text=storable(text, letters_max=9))


@pytest.mark.parametrize("name", ["a b", "100%41", "a#b", "ä\n", "'; DROP"])
def test_any_other_path_is_taken_as_it_is_written(tmp_path: Path, name: str) -> None:
    with open_store(f"sqlite:///{tmp_path}/{name}/s.db") as store:
        migrate(store)
    assert (tmp_path / name / "s.db").stat().st_size > 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_nothing_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        migrate(store)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
