"""A long queue in two halves: they are the whole, evenly dealt out, read while this process looks around."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condor.ads import RUN_NAMES, FakeQueue, job_ad, question
from condor.test_condor_reader import JOBS, BrokenQueue, Clock, counts_of, one_by_one
from glidepath.condor.around import SELDOM
from glidepath.condor.binding import ClassAd, HTCondorException
from glidepath.condor.halves import (
    HALVED_MIN,
    PARTS,
    PARTS_HERE,
    Half,
    NotHalvedError,
    at_once,
    part_of,
    two_halves,
)
from glidepath.condor.reader import Reader


def spread(jobs: list[dict[str, str]]) -> list[ClassAd]:
    """In clusters that are far enough apart to be in both halves."""
    return [job_ad(ProcId=str(n % 5), ClusterId=str(1 + 7 * (n // 5)), **job) for n, job in enumerate(jobs)]


@given(jobs=JOBS, apart=st.booleans())
@settings(deadline=None, max_examples=60)
def test_two_halves_are_the_whole(jobs: list[dict[str, str]], apart: bool) -> None:
    whole = Reader(FakeQueue(spread(jobs)), wall=lambda: 5000.0).read(question()).tally
    reader = Reader(FakeQueue(spread(jobs)), wall=lambda: 5000.0)
    reader._around.differ, reader._around.stated = apart, {name.lower() for name in (*RUN_NAMES, *SELDOM)}
    for _ in range(2):  # Each half once here and once beside.
        tally, missing = reader._in_halves(question())
        assert missing <= {"base", "factor", "imagesize", "clusterid", "procid"}
        assert counts_of(tally) == one_by_one(spread(jobs))
        assert {key: row.first for key, row in tally.rows.items() if row.idle} == {
            key: row.first for key, row in whole.rows.items() if row.idle
        }
        assert (tally.held, tally.aside_jobs, tally.last) == (whole.held, whole.aside_jobs, whole.last)


class LongQueue(FakeQueue):
    """Says that it is long enough to be halved; the jobs of which it says so are removed ones."""

    def totals(self) -> Mapping[str, int]:
        found = super().totals()
        return {**found, "Jobs": found["Jobs"] + HALVED_MIN, "Removed": HALVED_MIN}


def far_apart(count: int, **attributes: str) -> list[ClassAd]:
    return [job_ad(ClusterId=str(n), **attributes) for n in range(1, count + 1)]


def test_a_long_queue_is_read_in_halves_while_this_process_looks_around() -> None:
    queue = LongQueue(far_apart(PARTS, QDate="900"))
    reading = Reader(queue, wall=lambda: float(queue.now_s)).read(question())
    # The first few jobs and the walk; of the groups one half, as the other is asked for beside.
    assert queue.asked == ["totals", "plain", "plain", "grouped"]
    assert [row.idle for row in reading.tally.rows.values()] == [PARTS]
    assert list(reading.ages_s.values()) == [queue.now_s - 900]


@pytest.mark.parametrize("stating", [1, 400])
def test_run_times_that_only_the_walk_finds_are_counted_in_the_same_read(stating: int) -> None:
    """Those of the first few are known before; one beyond them makes both halves be asked for once more."""
    ads = far_apart(400)
    for ad in ads[-stating:]:
        ad["MaxWallTimeMins"] = 30
    queue = LongQueue(ads)
    tally = Reader(queue, wall=lambda: 5000.0).read(question()).tally
    found = {key.run_s: row.idle for key, row in tally.rows.items()}
    assert found == {run_s: count for run_s, count in ((1800, stating), (None, 400 - stating)) if count}
    assert queue.asked == ["totals", "plain", "plain", "grouped"]


def test_where_many_groups_were_few_the_first_jobs_are_not_looked_at_again() -> None:
    queue, clock = LongQueue(far_apart(PARTS)), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    reader.read(question())
    clock.now_s += 60
    queue.asked.clear()
    assert reader.read(question()).full
    assert queue.asked == ["totals", "plain", "grouped"]


def test_a_schedd_that_asks_constraints_of_groups_alone_is_not_halved() -> None:
    class GroupsQueue(LongQueue):
        def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
            return super().grouped("true", names)

    reader = Reader(GroupsQueue(far_apart(PARTS)), wall=lambda: 5000.0)
    assert [row.idle for row in reader.read(question()).tally.rows.values()] == [PARTS]
    assert not reader._halves


def test_an_ad_that_breaks_the_answer_is_found_in_a_long_queue() -> None:
    class LongBrokenQueue(BrokenQueue, LongQueue):
        pass

    blob = job_ad(ClusterId="70", Owner='"ben"', Blob='"x"', Requirements='Blob == "x"')
    tally = Reader(LongBrokenQueue([*far_apart(60), blob]), wall=lambda: 5000.0).read(question()).tally
    assert [row.idle for row in tally.rows.values()] == [60]
    assert tally.aside == [("70.0 of `ben`", "its ad is too large to be fetched")]


def test_a_process_beside_that_dies_is_an_error_and_not_half_a_queue() -> None:
    with pytest.raises(HTCondorException, match="ended"):
        at_once(lambda: 1, lambda: os._exit(3))
    with pytest.raises(NotHalvedError):
        at_once(lambda: 1, lambda: Half(5, upper=True).refuse_others(((1, 0), (1, 0))))


@pytest.mark.parametrize("step", [1, 2, 10])
@pytest.mark.parametrize("procs", [1, 20, 3000, 100_000])
def test_a_long_queue_is_dealt_out_evenly(procs: int, step: int) -> None:
    ids = [(1 + step * (n // procs), n % procs) for n in range(100_000)]
    for upper_here in (False, True):
        here, beside = two_halves(upper_here=upper_here)
        mine = sum((part_of(own) >= here.cut) == here.upper for own in ids)
        assert (here.cut, here.upper) == (beside.cut, not beside.upper)
        assert mine / len(ids) == pytest.approx(PARTS_HERE / PARTS, abs=0.04)
