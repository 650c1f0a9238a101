"""Where the hours of pilots went: each second in one sum, by cause, however the sums are cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from glidepath.core.provision.pilot import PilotPhase
from glidepath.core.quantity import Instant
from glidepath.journal.pilot_sums import PILOT_KEYS, PILOT_STEPS, PilotSums, pilot_lines
from glidepath.store.engine import Store
from glidepath.store.usage import Span, Step
from journal.values import an_end, written_off

DAY = 86400
T0 = 20_000 * DAY  # the fourth of October 2024
ALL = Span(T0 // 3600, (T0 + 90 * DAY) // 3600)
PRICES = {"west/big": 2000, "east/big": 500}


def at(day: int, **changes: int) -> dict[str, object]:
    return {"ended_at": Instant(T0 + day * DAY + 60), **changes}


ENDS = (
    an_end("a", **at(0, pending_s=100, starting_s=20, busy_s=3600, idle_s=600, cpu_milli=4000)),
    an_end("b", **at(1, pending_s=0, starting_s=30, busy_s=0, idle_s=900, jobs_run=0, cpu_milli=4000)),
    # It never came to anything: what it waited is of the failure.
    replace(
        an_end("c", "east", **at(1, pending_s=50, starting_s=5, busy_s=0, idle_s=0, jobs_run=0, failed_s=7)),
        phase=PilotPhase.FAILED,
    ),
    # It had worked before it was lost.
    replace(
        an_end("d", "east", **at(40, pending_s=1, starting_s=2, busy_s=70, idle_s=3, failed_s=300)),
        phase=PilotPhase.GONE,
    ),
    # Not of this time any more.
    an_end("e", "east", **at(90, busy_s=10**6)),
)


def test_each_second_is_in_one_sum_by_its_cause(store: Store) -> None:
    written_off(store, *ENDS)
    (all_of_it,) = pilot_lines(store, ALL, Step.ALL, by=(), price_milli=PRICES)
    waste_s = {"unclaimed": 600 + 900 + 3, "starting": 120 + 30 + 3, "failed": 62 + 300}
    # By the hour in which they were there for jobs: 4200 and 900 seconds at 2, 73 at a half.
    cost_micro = 2_000_000 * 5100 // 3600 + 500_000 * 73 // 3600
    cpu_milli_s = 4000 * 3600
    assert all_of_it.sums == PilotSums(4, 2, 10, 3670, cpu_milli_s, Counter(waste_s), cost_micro)
    by_site = pilot_lines(store, ALL, Step.ALL, by=("site",), price_milli=PRICES)
    assert [(line.whose, line.sums.pilots, line.sums.busy_s) for line in by_site] == [
        (("east",), 2, 70),
        (("west",), 2, 3600),
    ]


def test_however_the_sums_are_cut_they_come_to_the_same(store: Store) -> None:
    written_off(store, *ENDS)
    (whole,) = pilot_lines(store, ALL, Step.ALL, by=(), price_milli={})
    for step in PILOT_STEPS:
        for by in ((), ("owner",), ("site", "offer"), PILOT_KEYS):
            together = PilotSums()
            for line in pilot_lines(store, ALL, step, by=by, price_milli={}):
                together.add(line.sums)
            assert together == whole.sums, (step, by)
    months = pilot_lines(store, ALL, Step.MONTH, by=(), price_milli={})
    assert [(line.start, line.sums.pilots) for line in months] == [
        (Instant(T0 - 3 * DAY), 3),
        (Instant(T0 + 28 * DAY), 1),
    ]
