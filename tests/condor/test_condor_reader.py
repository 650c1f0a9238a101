"""Reading a queue: grouped or plain, full or by changes, the counts are those of every ad looked at alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from condor.ads import BIG, OFFERS, RUN_NAMES, TERMS, FakeQueue, job_ad, question
from glidepath.condor.around import PRIME, SAMPLE, differ, scattered
from glidepath.condor.binding import ClassAd, HTCondorException
from glidepath.condor.evaluate import BadJob, owner_of, request_of, run_s_of
from glidepath.condor.groups import OWNER_S_MAX, Key, Tally
from glidepath.condor.match import Matcher
from glidepath.condor.reader import COST_FACTOR, STILL_S_MAX, Reader
from glidepath.condor.refs import TEXT_LETTERS_MAX, References
from glidepath.core.quantity import Resources
from glidepath.terms import OfferTerms

TEXTS = st.sampled_from(
    [
        *("1024", "1024 * RequestCpus", "512 + 512", "Factor * 100", "Factor", "undefined", "error", "-1"),
        *("ifthenelse(ImageSize isnt undefined, ImageSize, 64)", "RequestMemory", '"8"', "ProcId * 10 + 5"),
    ]
)
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "RequestMemory": TEXTS,
            "RequestCpus": st.sampled_from(["1", "2", "Factor", "1 + 1", "0", ""]),
            "Owner": st.sampled_from(['"ann"', '"ben"', '"b\\nd"']),
            "JobStatus": st.sampled_from(["1", "2", "5", "6"]),
            "JobUniverse": st.sampled_from(["5", "5", "5", "7"]),
            "Factor": st.sampled_from(["", "3", "Base + 1", "200"]),
            "Base": st.sampled_from(["", "4"]),
            "ImageSize": st.sampled_from(["", "77"]),
            "MaxWallTimeMins": st.sampled_from(["", "", "30", "Base"]),
            "Requirements": st.sampled_from(["true", "TARGET.Cpus > Base", "TARGET.Memory >= RequestMemory"]),
        }
    ),
    max_size=12,
)

Counts = Counter[tuple[Key, str, str]]


def ads_of(jobs: list[dict[str, str]]) -> list[ClassAd]:
    return [job_ad(ProcId=str(n % 5), ClusterId=str(1 + n // 5), **job) for n, job in enumerate(jobs)]


def one_by_one(ads: list[ClassAd]) -> Counts:
    """Every ad evaluated alone, with all its attributes."""
    matcher = Matcher(OFFERS, TERMS, route="RequestK8SNamespace", references=References())
    found: Counts = Counter()
    for ad in ads:
        state = {1: "idle", 2: "running", 6: "running"}.get(ad["JobStatus"])
        if state is None or ad["JobUniverse"] == 7:
            continue
        try:
            owner, request = owner_of(ad), request_of(ad)
            fit = matcher.fit(ad, request, now_s=0)
            key = Key(request, fit.traits, run_s_of(ad, RUN_NAMES), fit.offers)
        except BadJob:
            continue
        found[(key, state, owner if state == "idle" else "")] += 1
    return found


def counts_of(tally: Tally) -> Counts:
    found: Counts = Counter()
    for key, row in tally.rows.items():
        for owner, idle in row.owners.items():
            found[(key, "idle", owner)] += idle
        found[(key, "running", "")] += row.running
        assert row.idle == sum(row.owners.values())
    return +found


@given(jobs=JOBS, expands=st.booleans(), apart=st.booleans())
@settings(deadline=None, max_examples=150)
def test_groups_equal_every_ad_evaluated_by_itself(
    jobs: list[dict[str, str]], expands: bool, apart: bool
) -> None:
    ads = ads_of(jobs)
    reader = Reader(FakeQueue(ads, expands=expands), wall=lambda: 5000.0)
    reader._around.differ = apart
    reading = reader.read(question())
    assert counts_of(reading.tally) == one_by_one(ads)
    aside = sum(1 for ad in ads if ad["JobUniverse"] != 7) - sum(one_by_one(ads).values())
    held = sum(reading.tally.held.values())
    assert reading.tally.aside_jobs + held == aside


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        self.now_s += 0.001
        return self.now_s


@given(before=JOBS, after=JOBS)
@settings(deadline=None, max_examples=100)
def test_changes_over_a_full_read_equal_a_full_read(
    before: list[dict[str, str]], after: list[dict[str, str]]
) -> None:
    queue, clock = FakeQueue(ads_of(before)), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    reader.read(question())
    clock.now_s += 10
    queue.now_s += 10
    for n, ad in enumerate(queue.ads):
        moves = {1: 2, 2: 5, 5: 1, 6: 1}
        if n % 3 == 0:
            ad["LastJobStatus"] = ad["JobStatus"]
            ad["JobStatus"] = moves[ad["JobStatus"]]
            ad["EnteredCurrentStatus"] = queue.now_s - 2
    for n, job in enumerate(after):
        stamp = str(queue.now_s - 1)
        queue.ads.append(job_ad(ClusterId=str(100 + n), QDate=stamp, EnteredCurrentStatus=stamp, **job))
    reading = reader.read(question())
    assert reading.exact
    assert counts_of(reading.tally) == one_by_one(queue.ads)


def test_between_full_reads_only_what_changed_is_asked_for() -> None:
    queue, clock = FakeQueue([job_ad(ProcId=str(n)) for n in range(5)]), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    assert reader.read(question()).full
    clock.now_s += 10
    queue.asked.clear()
    second = reader.read(question())
    assert (second.full, second.exact, "grouped" in queue.asked) == (False, True, False)
    clock.now_s += 60
    assert reader.read(question()).full


def test_while_the_totals_stand_still_nothing_else_is_asked_for_a_while() -> None:
    queue, clock = FakeQueue([job_ad(ProcId=str(n)) for n in range(5)]), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    first = reader.read(question())
    asked = []
    for step_s in (2, STILL_S_MAX - 3, 1):  # within the span, at its end, and anew after the walk
        clock.now_s += step_s
        queue.asked.clear()
        reading = reader.read(question())
        assert (counts_of(reading.tally), reading.exact) == (counts_of(first.tally), True)
        asked.append(list(queue.asked))
    assert asked == [["totals"], ["totals"], ["totals", "plain"]], asked
    queue.ads.append(job_ad(ProcId="9", EnteredCurrentStatus=str(queue.now_s), QDate=str(queue.now_s)))
    clock.now_s += 1
    assert sum(counts_of(reader.read(question()).tally).values()) == 6


def test_totals_are_not_asked_for_twice_within_a_moment() -> None:
    queue, clock = FakeQueue([job_ad(ProcId=str(n)) for n in range(5)]), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    reader.read(question())
    clock.now_s += 2
    queue.asked.clear()
    reader.waits()
    assert queue.asked == ["totals"]
    queue.ads.append(job_ad(ProcId="9", EnteredCurrentStatus=str(queue.now_s), QDate=str(queue.now_s)))
    clock.now_s += 0.5
    assert sum(reader.waits()) == 10, "each job counts in `Jobs` and in its state"
    assert reader.read(question()).exact
    assert queue.asked == ["totals"]
    clock.now_s += 0.6
    assert sum(reader.waits()) == 12
    assert sum(counts_of(reader.read(question()).tally).values()) == 6
    assert queue.asked == ["totals", "totals", "plain"]


def test_a_job_that_left_without_a_trace_is_noticed_by_the_totals() -> None:
    queue, clock = FakeQueue([job_ad(ProcId=str(n)) for n in range(5)]), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    reader.read(question())
    clock.now_s += 10
    del queue.ads[2:]
    third = reader.read(question())
    assert (third.full, [row.idle for row in third.tally.rows.values()]) == (True, [2])


def test_a_costly_full_read_is_not_repeated_at_once() -> None:
    class SlowQueue(FakeQueue):
        def grouped(self, constraint: str, names: object) -> list[ClassAd]:
            clock.now_s += 1.0
            return super().grouped(constraint, names)  # type: ignore[arg-type]

    clock = Clock()
    queue = SlowQueue([job_ad(ProcId=str(n)) for n in range(5)])
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    reader.read(question())
    del queue.ads[2:]
    clock.now_s += 10
    soon = reader.read(question())
    assert (soon.full, soon.exact, [row.idle for row in soon.tally.rows.values()]) == (False, False, [5])
    clock.now_s += COST_FACTOR
    later = reader.read(question())
    assert (later.full, later.exact, [row.idle for row in later.tally.rows.values()]) == (True, True, [2])


def test_other_offers_mean_another_full_read() -> None:
    queue, clock = FakeQueue([job_ad()]), Clock()
    reader = Reader(queue, mono=clock, wall=lambda: float(queue.now_s))
    first = reader.read(question())
    fewer = question((BIG,))
    second = reader.read(type(fewer)(**{**_fields(fewer), "digest": "other"}))
    assert second.full
    assert [key.fits for key in first.tally.rows] == [("east/gpu", "west/big", "west/small")]
    assert [key.fits for key in second.tally.rows] == [("west/big",)]


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}  # type: ignore[attr-defined]


@pytest.mark.parametrize("expands", [True, False])
def test_attributes_that_expressions_lead_to_are_found(expands: bool) -> None:
    ads = [job_ad(RequestMemory="A", A="B * 2", B="C", C=str(n), ProcId=str(n)) for n in (1, 2, 2)]
    reading = Reader(FakeQueue(ads, expands=expands), wall=lambda: 5000.0).read(question())
    found = {key.request.memory_mib: row.idle for key, row in reading.tally.rows.items()}
    assert found == {2: 1, 4: 2}


def test_attributes_that_offers_look_at_are_asked_for() -> None:
    terms = {BIG.key: OfferTerms(community="ice", start=("TARGET.WantsBig",))}
    ads = [
        job_ad(RequestK8SNamespace='"ice"', WantsBig="true"),
        job_ad(RequestK8SNamespace='"ice"', WantsBig="false", ProcId="1"),
        job_ad(RequestK8SNamespace='"fire"', WantsBig="true", ProcId="2"),
    ]
    reading = Reader(FakeQueue(ads), wall=lambda: 5000.0).read(question((BIG,), terms))
    assert {key.fits: row.idle for key, row in reading.tally.rows.items()} == {("west/big",): 1, (): 2}


def test_a_job_that_cannot_be_counted_is_named_and_the_others_are_served() -> None:
    ads = [
        job_ad(ProcId="7", ClusterId="1842", RequestMemory="error"),
        job_ad(Owner='"b\\nd"'),
        job_ad(ProcId="2"),
    ]
    tally = Reader(FakeQueue(ads), wall=lambda: 5000.0).read(question()).tally
    assert sorted(tally.aside) == [
        ("1.0 of `b\\nd`", "Owner is the text `b\\nd`, with letters that cannot be shown"),
        ("1842.7 of `ann`", "RequestMemory is error, not an amount"),
    ]
    assert tally.aside_jobs == 2
    assert [row.idle for row in tally.rows.values()] == [1]


def test_ten_thousand_bad_jobs_are_counted_and_fifty_are_named() -> None:
    ads = [job_ad(ProcId=str(n), RequestMemory=f'"{n}"') for n in range(2000)]
    tally = Reader(FakeQueue(ads), wall=lambda: 5000.0).read(question()).tally
    assert (len(tally.aside), tally.aside_jobs) == (50, 2000)


def test_ten_megabytes_of_attributes_are_set_aside() -> None:
    long = " + ".join(["1"] * 20_000)
    ads = [job_ad(Requirements=f'Name != "{"x" * 10_000_000}"'), job_ad(ProcId="1", RequestMemory=long)]
    tally = Reader(FakeQueue([*ads, job_ad(ProcId="2")]), wall=lambda: 5000.0).read(question()).tally
    assert [why for _, why in tally.aside] == [
        "RequestMemory has 79997 letters, more than 65536",
        "Requirements has 10000010 letters, more than 65536",
    ]
    assert [row.idle for row in tally.rows.values()] == [1]


def test_an_owner_whose_expressions_take_long_is_left_out_and_others_are_not() -> None:
    bombs = {f"A{n}": f"A{n - 1} + A{n - 1}" for n in range(1, 21)}
    ads = [
        job_ad(ProcId=str(n), RequestMemory=f"A20 * 0 + {n}", A0="1", Owner='"mallory"', **bombs)
        for n in range(1, 60)
    ]
    tally = Reader(FakeQueue([*ads, job_ad()]), wall=lambda: 5000.0).read(question()).tally
    assert any(f"more than {OWNER_S_MAX:g} s" in why for _, why in tally.aside)
    assert {owner for row in tally.rows.values() for owner in row.owners} >= {"ann"}


def test_an_owner_who_kept_the_last_child_from_answering_is_left_out() -> None:
    marks: list[str] = []
    ads = [job_ad(Owner='"mallory"'), job_ad(ProcId="1")]
    reader = Reader(FakeQueue(ads), mark=marks.append, wall=lambda: 5000.0)
    tally = reader.read(question(poisoned=("mallory",))).tally
    assert [job for job, _ in tally.aside] == ["1.0 of `mallory`"]
    assert marks[0] == "ann"
    assert marks[-1] == ""


def test_the_oldest_waiting_job_gives_a_group_its_age() -> None:
    ads = [job_ad(ClusterId=str(n), QDate=str(1000 + 10 * n)) for n in (3, 4, 5)]
    ads.append(job_ad(ClusterId="2", QDate="900", JobStatus="2"))
    queue = FakeQueue(ads)
    reading = Reader(queue, wall=lambda: 0.0).read(question())
    assert list(reading.ages_s.values()) == [queue.now_s - 1030]
    assert Resources(1000, 1024, 1, 0) in {key.request for key in reading.tally.rows}


class BrokenQueue(FakeQueue):
    """Fails as a whole where an ad with a `Blob` would be part of the answer."""

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        return _whole(super().grouped(constraint, names))

    def plain(self, constraint: str, names: Sequence[str], *, limit: int = -1) -> list[ClassAd]:
        return _whole(super().plain(constraint, names, limit=limit))


def _whole(ads: list[ClassAd]) -> list[ClassAd]:
    if any("Blob" in ad for ad in ads):
        raise HTCondorException("Failed to fetch ads")
    return ads


def test_an_ad_that_breaks_the_answer_is_found_and_all_others_are_served() -> None:
    ads = [
        job_ad(ClusterId=str(n), Owner=f'"user{n % 7}"', RequestMemory=str(100 + n % 3)) for n in range(1, 60)
    ]
    blob = {"Blob": '"x"', "Requirements": 'Blob == "x"'}
    ads += [job_ad(ClusterId="70", Owner='"user3"', **blob), job_ad(ClusterId="80", Owner='"user5"', **blob)]
    queue = BrokenQueue(ads)
    tally = Reader(queue, wall=lambda: 5000.0).read(question()).tally
    assert sum(row.idle for row in tally.rows.values()) == 59
    assert sorted(tally.aside) == [
        ("70.0 of `user3`", "its ad is too large to be fetched"),
        ("80.0 of `user5`", "its ad is too large to be fetched"),
    ]


class MoodyQueue(FakeQueue):
    """A long ad breaks an answer so many times, then comes through: with a real schedd nobody can tell."""

    def __init__(self, ads: Sequence[ClassAd], times: int) -> None:
        super().__init__(ads)
        self._times = times

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        return self._at_times(super().grouped(constraint, names))

    def plain(self, constraint: str, names: Sequence[str], *, limit: int = -1) -> list[ClassAd]:
        return self._at_times(super().plain(constraint, names, limit=limit))

    def _at_times(self, ads: list[ClassAd]) -> list[ClassAd]:
        if self._times and any("Blob" in ad for ad in ads):
            self._times -= 1
            raise HTCondorException("Failed to fetch ads")
        return ads


@pytest.mark.parametrize("times", range(16))
def test_who_breaks_an_answer_at_times_costs_no_other_job(times: int) -> None:
    blob = {"Blob": f'"{"x" * (TEXT_LETTERS_MAX + 1)}"', "Requirements": 'Blob != ""'}
    ads = [job_ad(ClusterId=str(n), Owner=f'"user{n % 3}"') for n in range(1, 20)]
    ads.append(job_ad(ClusterId="20", Owner='"user1"', **blob))
    tally = Reader(MoodyQueue(ads, times), wall=lambda: 5000.0).read(question()).tally
    assert sum(row.idle for row in tally.rows.values()) == 19
    assert [name for name, _ in tally.aside] == ["20.0 of `user1`"]


def test_a_queue_that_does_not_answer_at_all_is_an_error() -> None:
    class DeadQueue(FakeQueue):
        def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
            raise HTCondorException("dead")

    with pytest.raises(HTCondorException):
        Reader(DeadQueue([job_ad()])).read(question())


@pytest.mark.parametrize(("groups", "expected"), [(1, False), (20, False), (300, False), (1000, True)])
def test_a_sample_tells_whether_grouping_pays(groups: int, expected: bool) -> None:
    sample = [job_ad(ProcId=str(n), RequestMemory=str(1 + n % groups)) for n in range(1000)]
    assert differ(sample, ("Owner", "RequestMemory"), 100_000) is expected


def test_a_large_group_does_not_hide_that_all_others_differ() -> None:
    sample = [job_ad(ProcId=str(n), RequestMemory=str(max(1, n - 250))) for n in range(1000)]
    assert differ(sample, ("RequestMemory",), 100_000)


def test_an_ad_that_breaks_the_answer_is_found_among_jobs_that_all_differ() -> None:
    ads = [job_ad(ClusterId=str(n), RequestMemory=str(n)) for n in range(1, 9)]
    reader = Reader(BrokenQueue([*ads, job_ad(ClusterId="9", Blob='"x"', Requirements='Blob == "x"')]))
    reader._around.differ = True
    tally = reader.read(question()).tally
    assert (sum(row.idle for row in tally.rows.values()), tally.aside_jobs) == (8, 1)


@pytest.mark.parametrize("per_group", [16, 100])
def test_groups_that_come_one_after_the_other_are_seen_in_a_sample(per_group: int) -> None:
    jobs = 100_000
    kept = PRIME * SAMPLE // jobs
    chosen = [n for n in range(jobs) if scattered((1, n)) < kept]
    sample = [job_ad(RequestMemory=str(1 + n // per_group)) for n in chosen]
    assert 0.8 * SAMPLE < len(sample) < 1.2 * SAMPLE
    assert not differ(sample, ("RequestMemory",), jobs)
