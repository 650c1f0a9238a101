"""An older store is brought up with all that is in it; a newer one is left alone."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, select

from glidepath.core.provision.sight import Pause
from glidepath.journal.journal import Journal
from glidepath.journal.placing import PlacingJournal
from glidepath.store.engine import Store, StoreUnwritable, insert, open_store
from glidepath.store.migrations import KNOWN, MIGRATIONS, StoreWrongVersion, migrate, tables_since, version
from glidepath.store.placed_rows import schedule_state
from glidepath.store.schema import metadata, notes, schema_version


def tables(store: Store) -> set[str]:
    with store.read() as connection:
        return set(inspect(connection).get_table_names())


def test_steps_are_numbered_from_one_and_every_table_arrives_in_one_of_them() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, KNOWN + 1))
    arriving = [table.name for migration in MIGRATIONS for table in tables_since(migration.number)]
    assert sorted(arriving) == sorted(metadata.tables)


def test_an_empty_store_gets_every_table_and_again_changes_nothing(store_url: str) -> None:
    with open_store(store_url) as store:
        assert version(store) == 0
        assert migrate(store) == KNOWN
        assert migrate(store) == version(store) == KNOWN
        assert tables(store) == set(metadata.tables)


def test_a_store_of_version_one_is_brought_up_with_its_rows(store_url: str) -> None:
    row = {"id": 1, "wall_s": 2.5, "kind": "config", "text": "reloaded", "by": "alice"}
    with open_store(store_url) as store:
        assert migrate(store, upto=1) == 1
        assert "rollups" not in tables(store)
        with store.write() as connection:
            connection.execute(insert(connection, notes).values(row))
    with open_store(store_url) as store:
        assert migrate(store) == KNOWN
        assert "rollups" in tables(store)
        with store.read() as connection:
            assert [dict(found._mapping) for found in connection.execute(select(notes))] == [row]


def test_pauses_of_an_older_store_drain_nothing(store_url: str) -> None:
    """As it was before there was a word for that."""
    old = "CREATE TABLE pauses (about TEXT PRIMARY KEY, by TEXT NOT NULL, why TEXT NOT NULL, wall_s FLOAT)"
    with open_store(store_url) as store:
        assert migrate(store, upto=2) == 2
        with store.write() as connection:
            connection.exec_driver_sql("DROP TABLE pauses")
            connection.exec_driver_sql(old)
            connection.exec_driver_sql("INSERT INTO pauses VALUES ('site:west', 'ann', 'too hot', 1.5)")
        assert migrate(store) == KNOWN
        assert Journal(store).pauses() == (Pause("site:west", "ann", "too hot"),)


def test_plans_of_an_older_store_say_that_they_saw_nothing(store_url: str) -> None:
    with open_store(store_url) as store:
        assert migrate(store, upto=8) == 8
        with store.write() as connection:
            connection.exec_driver_sql("ALTER TABLE schedule_state DROP COLUMN event")
        assert migrate(store) == KNOWN
        assert PlacingJournal(store, "lab", ()).seen_event() == 0
        with store.write() as connection:
            empty = {"memory": b"", "cluster": b"", "boot_id": "", "monotonic_s": 0.0, "wall_s": 0.0}
            connection.execute(insert(connection, schedule_state).values(name="lab", cycle=1, at=1, **empty))
        assert PlacingJournal(store, "lab", ()).seen_event() == 0


def test_a_newer_store_is_refused_and_not_changed(store: Store) -> None:
    with store.write() as connection:
        connection.execute(insert(connection, schema_version).values(version=KNOWN + 1, wall_s=0.0))
    before = tables(store)
    expected = f"is of version {KNOWN + 1} and this glidepath knows version {KNOWN}; upgrade glidepath"
    with pytest.raises(StoreWrongVersion, match=expected):
        migrate(store)
    assert tables(store) == before


def test_a_reader_of_an_older_store_is_told_what_to_do(store_url: str) -> None:
    with open_store(store_url) as store:
        migrate(store, upto=1)
    with open_store(store_url, read_only=True) as reader:
        with pytest.raises(StoreWrongVersion, match=r"is of version 1 .* start `glidepath up` once"):
            migrate(reader)
        with pytest.raises(StoreUnwritable), reader.write():
            pass


def test_a_step_that_fails_leaves_the_version_before_it(store_url: str) -> None:
    with open_store(store_url) as store:
        migrate(store, upto=1)
        with store.write() as connection:
            connection.exec_driver_sql("CREATE TABLE rollups (in_the_way INTEGER)")
        with pytest.raises(Exception, match="already exists"):
            migrate(store)
        assert version(store) == 1
