"""What the journal kept comes back exactly; what it could not keep is said before anything is done."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, func, select, update
from tests.journal.values import (
    RULES,
    SMALL,
    a_memory,
    a_moment,
    a_pilot,
    a_plan,
    a_snapshot,
    a_track,
    an_end,
    histories,
)

from glidepath.core.because import Because
from glidepath.core.cycle import Decision, Did, Done, Failed, Reason
from glidepath.core.provision.pilot import Clear, PilotPhase, Submit, WriteOff
from glidepath.core.provision.sight import Pause
from glidepath.core.quantity import Instant
from glidepath.journal import journal as module
from glidepath.journal.entry import EndedPilot, Entry, Measure, Note
from glidepath.journal.journal import CycleDamaged, Journal
from glidepath.journal.rollups import DAY_S, HOUR_S, MINUTE_S
from glidepath.store import schema
from glidepath.store.engine import Store, StoreUnwritable, open_store
from glidepath.store.migrations import KNOWN, migrate, tables_since

ENDED = Reason(Because.ENDED)


def keep(journal: Journal, number: int, *decisions: Decision[Any], **changes: Any) -> Entry:
    """Write one cycle and return what should be read back."""
    moment = changes.pop("moment", a_moment(number))
    rules = changes.pop("rules", RULES)
    snapshot = a_snapshot(
        number, *(a_pilot(f"p{n}") for n in range(number % 5)), idle=changes.pop("idle", number)
    )
    memory, plan = a_memory(number, *changes.pop("tracks", ())), a_plan(number, *decisions)
    assert not changes
    journal.planned(moment, snapshot, memory, rules=rules, plan=plan)
    outcomes = None if plan.actions else ()
    return Entry(number, moment, journal.version, snapshot, memory, rules, plan, outcomes)


def submit(number: int) -> Decision[Any]:
    names = (f"gp-{number}-1", f"gp-{number}-2")
    action = Submit("west", "west/big", "main", SMALL, (), 3600, 600, names)
    return Decision("west/big", Reason(Because.ASKED_HERE, (("wanted", number),)), action)


def rows(store: Store, table: Any) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_every_cycle_comes_back_across_keyframes_and_restarts(store: Store) -> None:
    written = []
    for start in (1, 12):
        journal = Journal(store, keyframe_every=4)
        written += [keep(journal, number, submit(number)) for number in range(start, start + 11)]
    assert [Journal(store).entry(entry.cycle) for entry in written] == written
    assert Journal(store).latest() == written[-1]
    with store.read() as connection:
        firsts = connection.execute(select(schema.cycle_groups.c.first_cycle)).scalars().all()
    assert sorted(firsts) == [1, 5, 9, 12, 16, 20]


@settings(max_examples=25, deadline=None)
@given(histories(), st.integers(1, 4), st.sets(st.integers(1, 6)))
def test_any_history_comes_back(history: list[Any], keyframe_every: int, restarts: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/s.db") as store:
        migrate(store)
        journal = Journal(store, keyframe_every=keyframe_every)
        for snapshot, memory, plan in history:
            if plan.cycle in restarts:
                journal = Journal(store, keyframe_every=keyframe_every)
            journal.planned(a_moment(plan.cycle), snapshot, memory, rules=RULES, plan=plan)
        for snapshot, memory, plan in history:
            found = journal.entry(plan.cycle)
            assert (found.snapshot, found.memory, found.plan) == (snapshot, memory, plan)


def test_an_empty_journal_has_nothing(store: Store) -> None:
    journal = Journal(store)
    assert journal.latest() is None
    assert (journal.headers(), journal.events(), journal.pauses(), journal.ended()) == ((), (), (), ())
    with pytest.raises(LookupError, match="cycle 3 is not in the journal; it is empty"):
        journal.entry(3)


def test_a_cycle_that_is_not_kept_is_named_with_those_that_are(store: Store) -> None:
    journal = Journal(store)
    for number in (4, 5, 6):
        keep(journal, number)
    with pytest.raises(LookupError, match="cycle 3 is not in the journal; kept are 4 to 6"):
        journal.entry(3)


def test_a_crash_between_plan_and_outcomes_leaves_them_unknown(store: Store) -> None:
    planned = keep(Journal(store), 1, submit(1))
    assert Journal(store).latest() == planned
    assert planned.outcomes is None
    assert [(header.cycle, header.actions, header.acted) for header in Journal(store).headers()] == [
        (1, 1, False)
    ]


def test_outcomes_come_back_also_when_another_process_writes_them(store: Store) -> None:
    outcomes = (Did("submit", "gp-1-1", Done("new")), Did("submit", "gp-1-2", Failed("\0 no \ud800 room")))
    planned = keep(Journal(store), 1, submit(1))
    Journal(store).acted(1, outcomes)
    assert Journal(store).latest() == replace(planned, outcomes=outcomes)


def test_a_plan_without_actions_is_done_when_it_is_planned(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 1, Decision("west", Reason(Because.NO_DEMAND)))
    journal.acted(1, ())
    assert journal.entry(1).outcomes == ()


def test_rules_are_kept_once_and_a_change_of_them_starts_a_group(store: Store) -> None:
    journal = Journal(store)
    other = replace(RULES, cycle_s_min=11)
    for number, rules in enumerate([RULES, RULES, other, RULES], start=1):
        keep(journal, number, rules=rules)
    assert [journal.entry(number).rules for number in (1, 2, 3, 4)] == [RULES, RULES, other, RULES]
    assert (rows(store, schema.rules), rows(store, schema.cycle_groups)) == (2, 3)


def test_a_reboot_starts_a_group_with_its_own_boot(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 1)
    keep(journal, 2, moment=a_moment(2, boot_id="next"))
    assert [header.moment for header in journal.headers()] == [a_moment(2, boot_id="next"), a_moment(1)]


def test_headers_are_newest_first_and_can_be_followed(store: Store) -> None:
    journal = Journal(store, version="9.9")
    for number in range(1, 8):
        keep(journal, number, submit(number))
    assert [header.cycle for header in journal.headers(limit=3)] == [7, 6, 5]
    assert [header.cycle for header in journal.headers(since_cycle=5)] == [7, 6]
    assert {header.version for header in journal.headers()} == {"9.9"}


def test_a_cycle_is_never_kept_twice(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 5)
    for again in (journal, Journal(store)):
        with pytest.raises((ValueError, StoreUnwritable), match="already"):
            keep(again, 5)
    with pytest.raises(ValueError, match="cycle 4 cannot be kept: the journal has cycles up to 5 already"):
        keep(Journal(store), 4)
    assert [header.cycle for header in journal.headers()] == [5]
    assert keep(journal, 6) == journal.entry(6)


def test_a_journal_of_version_one_is_read_after_the_migration(store: Store, store_url: str) -> None:
    written = [keep(Journal(store), number, submit(number)) for number in (1, 2)]
    with store.write() as connection:  # The store as it was before all that came later.
        for number in range(KNOWN, 1, -1):
            for table in reversed(tables_since(number)):
                table.drop(connection)
        connection.execute(delete(schema.schema_version).where(schema.schema_version.c.version > 1))
    store.close()
    with open_store(store_url) as again:
        assert migrate(again) == KNOWN
        journal = Journal(again)
        assert [journal.entry(number) for number in (1, 2)] == written
        keep(journal, 3)
        assert journal.rollups(DAY_S, since_s=0, until_s=2e6)


def test_two_writers_never_mix_their_groups(store: Store) -> None:
    first, second = Journal(store), Journal(store)
    keep(first, 1)
    keep(second, 2)
    with pytest.raises(StoreUnwritable, match="another glidepath writes"):
        keep(first, 2)
    written = [keep(first, 3), keep(second, 4), keep(first, 5)]
    assert [first.entry(entry.cycle) for entry in written] == written


def keep_many(journal: Journal, numbers: range) -> None:
    for number in numbers:
        keep(journal, number, moment=a_moment(1), idle=number**7)


def test_a_full_disk_keeps_nothing_of_the_cycle_and_the_next_one_is_whole(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        migrate(store)
        journal = Journal(store)
        keep(journal, 1)
        with store.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreUnwritable, match="the disk is full"):
            keep_many(journal, range(2, 1000))
        kept = journal.latest()
        assert kept is not None
        assert kept.cycle > 1
        failed = kept.cycle + 1
        with store.read() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages * 100}")
        again = keep(journal, failed)
        assert journal.entry(failed) == again
        assert rows(store, schema.cycles) == failed


class Unreliable:
    """A store whose server refuses, or carries out a commit and dies before it says so."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shown = store.shown
        self.read = store.read
        self.loses = self.refuses = False

    @contextmanager
    def write(self) -> Iterator[Connection]:
        if self.refuses:
            raise StoreUnwritable("the disk is full")
        with self.store.write() as connection:
            yield connection
        if self.loses:
            raise StoreUnwritable("the connection was lost")


def test_a_write_without_an_answer_may_be_repeated_or_left(store: Store) -> None:
    lossy = Unreliable(store)
    journal = Journal(lossy)  # type: ignore[arg-type]
    keep(journal, 1)
    for number in (2, 5):
        lossy.loses = True
        with pytest.raises(StoreUnwritable, match="the connection was lost"):
            keep(journal, number)
        lossy.loses = False
        if number == 2:
            assert keep(journal, 2, idle=77) == journal.entry(2)
        assert keep(journal, number + 1) == journal.entry(number + 1)
    assert [header.cycle for header in journal.headers()] == [6, 5, 3, 2, 1]


def test_a_read_only_store_refuses_the_plan_and_still_reads(store: Store, store_url: str) -> None:
    written = keep(Journal(store), 1)
    with open_store(store_url, read_only=True) as reader:
        assert migrate(reader) == KNOWN
        journal = Journal(reader)
        assert journal.latest() == written
        for write in (
            lambda: keep(journal, 2),
            lambda: journal.note("a", "b"),
            lambda: journal.pause("a", "b", "c"),
        ):
            with pytest.raises(StoreUnwritable):
                write()


READS = """
import sys
from glidepath.journal.journal import CycleDamaged, Journal
from glidepath.store.engine import open_store
with open_store(sys.argv[1], read_only=True) as store:
    journal = Journal(store)
    for line in sys.stdin:
        latest = journal.latest()
        print(latest.cycle, latest.snapshot.now, len(latest.plan.decisions), flush=True)
"""


def test_another_process_reads_while_the_owner_writes(store: Store, store_url: str) -> None:
    journal = Journal(store, keyframe_every=3)
    command = [sys.executable, "-c", READS, store_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for number in range(1, 8):
            keep(journal, number, submit(number))
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert reader.stdout.readline().split() == [str(number), str(10 * number), "1"]
        reader.stdin.close()
        assert reader.wait(30) == 0


def test_damage_in_one_cycle_is_named_and_other_groups_still_read(store: Store) -> None:
    journal = Journal(store, keyframe_every=3)
    written = [keep(journal, number) for number in range(1, 8)]
    with store.write() as connection:
        connection.execute(update(schema.cycles).where(schema.cycles.c.cycle == 5).values(body=b"\xff" * 30))
    for number in (5, 6):
        with pytest.raises(CycleDamaged, match=f"cycle {number} of the journal .* is damaged"):
            journal.entry(number)
    assert [journal.entry(number) for number in (1, 4, 7)] == [written[0], written[3], written[6]]


def clear(*names: str) -> Decision[Any]:
    return Decision("west", ENDED, Clear("west", tuple(an_end(name) for name in names), ("",) * len(names)))


def test_an_ended_pilot_is_recorded_once_and_only_when_it_is_cleared(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 1, clear("a", "b"))
    outcomes = (Did("remove", "a", Done()), Did("remove", "b", Failed("busy")))
    journal.acted(1, outcomes)
    journal.acted(1, outcomes)
    keep(journal, 2, clear("a", "b"), Decision("west", ENDED, WriteOff("west", (an_end("c", busy_s=9),))))
    journal.acted(2, (Did("remove", "a", Done()),))
    wall_s = a_moment(1).wall_s + 5  # It ended five seconds after the first cycle began.
    assert journal.ended() == (
        EndedPilot(an_end("a"), 1, wall_s),
        EndedPilot(an_end("c", busy_s=9), 2, wall_s),
    )
    Journal(store).acted(2, (Did("remove", "b", Done()),))
    assert [row.ended.name for row in journal.ended()] == ["a", "b", "c"]


def test_outcomes_that_could_not_be_written_are_written_with_the_next(store: Store) -> None:
    unreliable = Unreliable(store)
    journal = Journal(unreliable)  # type: ignore[arg-type]
    outcomes = (Did("clear", "a", Done()),)
    keep(journal, 1, clear("a"))
    unreliable.refuses = True
    with pytest.raises(StoreUnwritable):
        journal.acted(1, outcomes)
    unreliable.refuses = False
    assert journal.entry(1).outcomes is None
    keep(journal, 2)
    journal.acted(2, ())
    assert journal.entry(1).outcomes == outcomes
    assert [row.ended.name for row in journal.ended()] == ["a"]


def test_ended_pilots_can_be_read_by_site_and_newest_first(store: Store) -> None:
    journal = Journal(store)
    ends = [an_end("a", ended_at=Instant(1)), an_end("b", "east", ended_at=Instant(3)), an_end("c")]
    keep(journal, 1, Decision("x", ENDED, WriteOff("west", tuple(ends))))
    journal.acted(1, ())
    assert [row.ended.name for row in journal.ended()] == ["c", "b", "a"]
    assert [row.ended.name for row in journal.ended(limit=1)] == ["c"]
    assert [row.ended for row in journal.ended(site="east")] == [ends[1]]
    assert journal.entry(1).outcomes == ()


def test_hostile_words_of_a_site_do_not_stop_the_record(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 1, Decision("x", ENDED, WriteOff("west", (an_end("a", why="\0\ud800" * 5000, node="\n"),))))
    journal.acted(1, ())
    (row,) = journal.ended()
    assert (row.ended.why[:2], len(row.ended.why), row.ended.node) == ("\ufffd?", 2000, "\n")


def test_notes_are_read_newest_first(store: Store) -> None:
    journal = Journal(store)
    journal.note("config", "reloaded", "alice", wall_s=1.0)
    journal.note("config", "refused:\0 no", wall_s=2.0)
    assert journal.events() == (
        Note(2.0, "config", "refused:\ufffd no", ""),
        Note(1.0, "config", "reloaded", "alice"),
    )
    assert [note.wall_s for note in journal.events(limit=1)] == [2.0]


def test_a_pause_holds_until_it_is_taken_back(store: Store) -> None:
    journal = Journal(store)
    journal.pause("site:west", "alice", "too hot")
    journal.pause("offer:west/big", "bob", "")
    journal.pause("site:west", "carol", "still too hot")
    assert Journal(store).pauses() == (
        Pause("offer:west/big", "bob", ""),
        Pause("site:west", "carol", "still too hot"),
    )
    assert journal.resume("site:west")
    assert not journal.resume("site:west")
    assert journal.pauses() == (Pause("offer:west/big", "bob", ""),)


def test_a_pause_drains_while_the_last_word_says_so(store: Store) -> None:
    journal = Journal(store)
    journal.pause("site:west", "alice", "too hot", drain=True)
    assert journal.pauses() == (Pause("site:west", "alice", "too hot", drain=True),)
    journal.pause("site:west", "bob", "it may stay")
    assert journal.pauses() == (Pause("site:west", "bob", "it may stay"),)


def test_rollups_hold_lows_highs_and_totals_across_a_restart(store: Store) -> None:
    for number, idle, tracks in [(1, 7, ()), (2, 3, (a_track("a"),)), (3, 5, (a_track("a"), a_track("b")))]:
        moment = a_moment(number, wall_s=7200.0 + 25 * number)
        keep(Journal(store), number, submit(number), moment=moment, idle=idle, tracks=tracks)
    journal = Journal(store)
    minutes = {
        (found.about, found.start_s): found for found in journal.rollups(MINUTE_S, since_s=7200, until_s=7320)
    }
    pool, later = minutes["pool:main", 7200], minutes["pool:main", 7260]
    assert (pool.samples, pool.measures["idle"], later.measures["idle"]) == (
        2,
        Measure(3, 7, 10),
        Measure(5, 5, 5),
    )
    assert pool.measures["wait_s"] == Measure(10, 20, 30)
    offer = minutes["offer:west/big", 7200]
    assert offer.measures == {"asked": Measure(2, 2, 4), "busy": Measure(0, 1, 1)}
    assert minutes["offer:west/small", 7200].measures == {}
    for span_s in (HOUR_S, DAY_S):
        hours = {found.about: found for found in journal.rollups(span_s, since_s=7200, until_s=7320)}
        assert hours["offer:west/big"].measures["busy"] == Measure(0, 2, 3)
        assert hours["pool:main"].samples == 3
    assert journal.rollups(MINUTE_S, since_s=7320, until_s=8000) == ()
    with pytest.raises(ValueError, match="kept per 60 s, 3600 s, 86400 s, not per 7 s"):
        journal.rollups(7, since_s=0, until_s=1)


def test_an_ended_pilot_is_not_charted(store: Store) -> None:
    keep(Journal(store), 1, tracks=(a_track("a", PilotPhase.DONE),))
    found = Journal(store).rollups(DAY_S, since_s=0, until_s=2e6)
    assert {row.about: dict(row.measures) for row in found}["offer:west/big"] == {}


def test_retention_removes_whole_groups_and_the_rest_still_reads(store: Store) -> None:
    journal = Journal(store, keyframe_every=4)
    written = [keep(journal, number) for number in range(1, 15)]  # groups begin at 1, 5, 9 and 13
    now_s = a_moment(14).wall_s
    assert journal.prune(now_s, keep_s=1e9, keep_cycles_max=10**9) == 0
    assert journal.prune(now_s, keep_s=75, keep_cycles_max=10**9) == 4
    assert [journal.entry(entry.cycle) for entry in written[4:]] == written[4:]
    assert journal.prune(now_s, keep_s=1e9, keep_cycles_max=6) == 4
    assert journal.prune(now_s, keep_s=0, keep_cycles_max=1) == 4
    assert journal.prune(now_s + 1e6, keep_s=0, keep_cycles_max=1) == 0
    assert [header.cycle for header in journal.headers()] == [14, 13]
    assert keep(journal, 15) == journal.entry(15)
    assert rows(store, schema.rules) == 1


def test_retention_of_rules_and_rollups_follows(store: Store) -> None:
    journal = Journal(store)
    keep(journal, 1, rules=replace(RULES, cycle_s_min=12), moment=a_moment(1, wall_s=0.0))
    keep(journal, 2, moment=a_moment(2, wall_s=100.0 * DAY_S))
    journal.note("a", "b")
    assert journal.prune(102.0 * DAY_S, keep_s=DAY_S, keep_cycles_max=10**9) == 1
    assert rows(store, schema.rules) == 1
    starts = {
        span_s: journal.rollups(span_s, since_s=0, until_s=101 * DAY_S)
        for span_s in (MINUTE_S, HOUR_S, DAY_S)
    }
    assert {span_s: {row.start_s // DAY_S for row in found} for span_s, found in starts.items()} == {
        MINUTE_S: {100},
        HOUR_S: {100},
        DAY_S: {0, 100},
    }
    assert len(journal.events()) == 1


def test_one_prune_does_a_bounded_amount_of_work(store: Store) -> None:
    journal = Journal(store, keyframe_every=1)
    for number in range(1, module.GROUPS_PRUNED_MAX + 11):
        keep(journal, number)
    assert journal.prune(1e9, keep_s=0, keep_cycles_max=1) == module.GROUPS_PRUNED_MAX
    assert journal.prune(1e9, keep_s=0, keep_cycles_max=1) == 9
