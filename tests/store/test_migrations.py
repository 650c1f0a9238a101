"""An older store is brought up with all that is in it; a newer one is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, inspect, select, text

from glidepath.core.provision.sight import Pause
from glidepath.journal.journal import Journal
from glidepath.journal.placing import PlacingJournal
from glidepath.store.engine import Store, StoreUnwritable, insert, open_store
from glidepath.store.migrations import KNOWN, MIGRATIONS, StoreWrongVersion, migrate, tables_since, version
from glidepath.store.placed_rows import schedule_state
from glidepath.store.schema import metadata, notes, schema_version
from glidepath.store.usage_rows import usage_days, usage_hours


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


# What each later step adds to tables of an earlier one, taken away again.
EARLIER = {
    3: ("ALTER TABLE pauses DROP COLUMN drain",),
    8: tuple(f"ALTER TABLE projects DROP COLUMN {name}" for name in ("parent", "weight", "dry_at")),
    9: ("ALTER TABLE schedule_state DROP COLUMN event",),
    10: (),
    11: ("DROP INDEX jobs_owner", "DROP INDEX placed_project"),
    12: (),
    14: ("ALTER TABLE placed DROP COLUMN cut_at",),
}
OF_TABLE = {
    3: "pauses",
    8: "projects",
    9: "schedule_state",
    10: "usage_hours",
    11: "placed",
    12: "usage_hours",
    14: "placed",
}


def one_of(table: Table) -> dict[str, Any]:
    """A row with something in every column."""
    values: dict[type, Any] = {int: 7, float: 1.5, str: f"of {table.name}", bytes: b"\0\xff"}
    return {column.name: values[column.type.python_type] for column in table.columns}


def rows_of(store: Store) -> dict[str, list[dict[str, Any]]]:
    with store.read() as connection:
        found = {}
        for name in sorted(tables(store) - {schema_version.name}):
            found[name] = [dict(row._mapping) for row in connection.execute(text(f"SELECT * FROM {name}"))]
        return found


@pytest.mark.parametrize("began", range(1, KNOWN))
def test_a_store_of_each_older_version_comes_up_with_all_that_is_in_it(store_url: str, began: int) -> None:
    assert set(EARLIER) == {migration.number for migration in MIGRATIONS if migration.also is not None}
    with open_store(store_url) as store:
        migrate(store, upto=began)
        with store.write() as connection:
            for step in EARLIER:
                if step > began and OF_TABLE[step] in inspect(connection).get_table_names():
                    for statement in EARLIER[step]:
                        connection.exec_driver_sql(statement)
            for number in range(1, began + 1):
                for table in tables_since(number):
                    had = {column["name"] for column in inspect(connection).get_columns(table.name)}
                    row = {name: value for name, value in one_of(table).items() if name in had}
                    if table is not schema_version:
                        connection.execute(insert(connection, table).values(row))
        before = rows_of(store)
        assert migrate(store) == KNOWN
        after = rows_of(store)
        for name, rows in before.items():
            kept = [{key: row[key] for key in had} for row, had in zip(after[name], rows, strict=True)]
            assert kept == rows, name
        with store.read() as connection:
            look = inspect(connection)
            for table in metadata.sorted_tables:
                assert {each["name"] for each in look.get_columns(table.name)} == set(table.columns.keys())
                indexes = {str(each["name"]) for each in look.get_indexes(table.name)}
                assert {str(index.name) for index in table.indexes} <= indexes


def test_sums_of_an_older_store_come_to_lie_in_the_order_of_their_keys(tmp_path: Path) -> None:
    def made(connection: Connection, name: str) -> str:
        words = "SELECT sql FROM sqlite_master WHERE name = ?"
        return str(connection.exec_driver_sql(words, (name,)).scalar())

    with open_store(f"sqlite:///{tmp_path}/glidepath.db") as store:
        migrate(store, upto=11)
        with store.write() as connection:
            for table in (usage_hours, usage_days):
                text = made(connection, table.name).replace("WITHOUT ROWID", "")
                connection.exec_driver_sql(f"DROP TABLE {table.name}")
                connection.exec_driver_sql(text)
                connection.execute(insert(connection, table).values(one_of(table)))
        before = rows_of(store)
        assert migrate(store, upto=12) == 12
        assert rows_of(store) == before
        with store.read() as connection:
            assert {made(connection, table.name).rstrip()[-13:] for table in (usage_hours, usage_days)} == {
                "WITHOUT ROWID"
            }
        assert not {name for name in tables(store) if name.endswith("_before")}


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
