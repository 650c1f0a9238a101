"""Usage by whom, for what and when: the same sums however they are cut, and only of whoever is seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from glidepath.core.account.run import MILLIONTHS
from glidepath.core.quantity import Instant
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.desk import UsageAsked
from glidepath.jobs.errors import Unusable
from glidepath.jobs.stored import StoredDesk
from glidepath.journal.meter import Meter
from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate
from glidepath.store.people import PeopleStore, Project
from glidepath.store.sights import Eyes
from glidepath.store.usage import Line, Span, Step, Sums, UsageStore, Wanted, together
from glidepath.store.usage_rows import usage_days, usage_hours, usage_runs
from glidepath.store.wallets import WalletStore
from jobs.desk_scene import SETTINGS
from store.conftest import store_url

__all__ = ["store_url"]
HOUR_S, DAY_S = 3600, 86400
# A day in spring; nothing here depends on today.
DAY = 20_530
T0 = DAY * DAY_S
RUNS = [
    # owner, project, partition, began, ended, cpus, refund
    ("ada", "physics", "main", T0 + 10 * HOUR_S, T0 + 12 * HOUR_S, 2, 0),
    ("ada", "", "main", T0 + 23 * HOUR_S + 1800, T0 + DAY_S + 1800, 1, 0),
    ("bob", "physics", "long", T0 + DAY_S, T0 + 3 * DAY_S + 7200, 4, 0),
    ("bob", "optics", "long", T0 + 2 * DAY_S + 60, T0 + 2 * DAY_S + 3660, 1, 1),
    ("eve", "biology", "main", T0 + 40 * DAY_S, T0 + 40 * DAY_S + HOUR_S, 8, 0),
]
END = T0 + 45 * DAY_S
ALL = Span.of(Instant(T0), Instant(END))


def rows() -> list[dict[str, Any]]:
    return [
        {
            "job": at + 1,
            "attempt": 1,
            "owner": owner,
            "project": project,
            "partition": partition,
            "cpu_milli": cpus * 1000,
            "memory_mib": 1024,
            "disk_mib": 0,
            "gpu_milli": 0,
            "rate": cpus * MILLIONTHS,
            "began_at": began,
            "ended_at": ended,
            "counted": 0,
            "refund": refund,
        }
        for at, (owner, project, partition, began, ended, cpus, refund) in enumerate(RUNS)
    ]


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """Metered in three looks, the second in the middle of a run."""
    with open_store(store_url) as made:
        migrate(made)
        people = PeopleStore(made)
        for name in ("physics", "optics", "biology"):
            people.add_project(Project(name, "root", float(T0)))
        WalletStore(made).set("optics", parent="physics", weight=None)
        with made.write() as conn:
            conn.execute(usage_runs.insert(), rows())
        meter = Meter(made)
        for at in (T0 + 11 * HOUR_S + 77, T0 + 2 * DAY_S + 5000, END):
            meter.look(Instant(at), float(at))
        yield made


def asked(store: Store, eyes: Eyes | None = None, **own: Any) -> list[Line]:
    return UsageStore(store).lines(eyes or Eyes(), Wanted(**{"span": ALL, **own}))


def total(lines: list[Line]) -> Sums:
    return together(line.sums for line in lines)


EVERYTHING = Sums(
    seconds=7200 + 3600 + 2 * DAY_S + 7200 + 3600 + 3600,
    cpu_milli_s=1000 * (2 * 7200 + 3600 + 4 * (2 * DAY_S + 7200) + 3600 + 8 * 3600),
    memory_mib_s=1024 * (7200 + 3600 + 2 * DAY_S + 7200 + 3600 + 3600),
    charge=(2 * 2 + 1 + 4 * 50 + 1 + 8) * MILLIONTHS,
    refund=MILLIONTHS,
    runs=5,
)


@pytest.mark.parametrize(
    ("step", "by"), list(product(Step, [(), ("owner",), ("owner", "project", "partition")]))
)
def test_whatever_it_is_cut_into_it_is_the_same_in_all(store: Store, step: Step, by: tuple[str, ...]) -> None:
    assert total(asked(store, step=step, by=by)) == EVERYTHING


@pytest.mark.parametrize(
    "cut_s", [T0 + 10 * HOUR_S, T0 + DAY_S, T0 + 2 * DAY_S + 5 * HOUR_S, T0 + 40 * DAY_S]
)
@pytest.mark.parametrize("step", Step)
def test_two_spans_that_meet_are_the_whole(store: Store, cut_s: int, step: Step) -> None:
    parts = [Span.of(Instant(T0), Instant(cut_s)), Span.of(Instant(cut_s), Instant(END))]
    found = [total(asked(store, span=span, step=step)) for span in parts]
    assert together(found) == EVERYTHING


def test_days_are_the_sums_of_their_hours(store: Store) -> None:
    with store.read() as conn:
        hours = {tuple(row) for row in conn.execute(usage_hours.select())}
        days = {tuple(row) for row in conn.execute(usage_days.select())}
    grown: dict[Any, list[int]] = {}
    for hour, owner, project, partition, *sums in hours:
        had = grown.setdefault((hour // 24, owner, project, partition), [0] * len(sums))
        grown[hour // 24, owner, project, partition] = [a + b for a, b in zip(had, sums, strict=True)]
    assert days == {(*key, *sums) for key, sums in grown.items()}


def test_steps_begin_where_calendars_do(store: Store) -> None:
    found = [line.start for line in asked(store, step=Step.DAY, owner="bob")]
    assert found == [Instant(T0 + day * DAY_S) for day in (1, 2, 3)]
    months = asked(store, step=Step.MONTH)
    assert [line.sums.runs for line in months] == [4, 1]
    [hour, *_] = asked(store, step=Step.HOUR)
    assert hour.start == Instant(T0 + 10 * HOUR_S)


def test_a_project_is_meant_with_those_below_it(store: Store) -> None:
    assert [line.whose for line in asked(store, by=("project",), project="physics")] == [
        ("optics",),
        ("physics",),
    ]
    assert [line.whose for line in asked(store, by=("project",), project="optics")] == [("optics",)]
    assert asked(store, project="unheard") == []


@pytest.mark.parametrize(
    ("eyes", "seen"),
    [
        (Eyes(), {"ada", "bob", "eve"}),
        (Eyes("ada"), {"ada"}),
        (Eyes("kim"), set()),
        (Eyes("kim", frozenset({"physics", ""})), {"ada", "bob"}),
        (Eyes("eve", frozenset({"optics"})), {"bob", "eve"}),
    ],
)
def test_only_of_whoever_is_seen(store: Store, eyes: Eyes, seen: set[str]) -> None:
    assert {line.whose[0] for line in asked(store, eyes, by=("owner",))} == seen
    # What was used for no project is its owner's alone, and a filter shows nothing more.
    assert {line.whose for line in asked(store, eyes, by=("owner", "project"), project="")} <= {("ada", "")}
    assert {line.whose[0] for line in asked(store, eyes, by=("owner",), owner="bob")} <= seen


def desk(store: Store, tmp_path: Path, *, wall: float = END) -> StoredDesk:
    return StoredDesk(SETTINGS, store, tmp_path, wall=lambda: float(wall))


def test_the_desk_answers_in_credits_and_hours(store: Store, tmp_path: Path) -> None:
    caller = Caller("kim", Role.USER, frozenset({"physics"}))
    found = desk(store, tmp_path).usage(
        caller, UsageAsked(("project", "owner"), since="2026-03-18", until="2026-03-21")
    )
    assert [
        (item["project"], item["owner"], item["cpu_hours"], item["credits"]) for item in found["usage"]
    ] == [
        ("physics", "ada", 4.0, 4.0),
        ("physics", "bob", 192.0, 192.0),
    ]
    assert (found["total"]["credits"], found["since"], found["until"]) == (
        196.0,
        "2026-03-18T00:00:00Z",
        "2026-03-21T00:00:00Z",
    )
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(
    ("own", "places"),
    [
        ({"since": "soon"}, {"since"}),
        ({"since": "2026-02-31"}, {"since"}),
        ({"since": "1d", "until": "2d"}, {"until"}),
        ({"by": ("colour", "owner")}, {"by"}),
        ({"step": "week", "since": "-1d", "until": "+"}, {"step", "since", "until"}),
        ({"since": "9" * 400}, {"since"}),
    ],
)
def test_what_cannot_be_understood_is_told_at_once(
    store: Store, tmp_path: Path, own: dict[str, Any], places: set[str]
) -> None:
    with pytest.raises(Unusable) as refused:
        desk(store, tmp_path).usage(Caller("root", Role.ADMIN), UsageAsked(**own))
    assert {place for place, _ in refused.value.places} == places


def test_nothing_metered_is_told_as_nothing(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/empty.db") as store:
        migrate(store)
        found = desk(store, tmp_path).usage(Caller("root", Role.ADMIN), UsageAsked())
    assert (found["usage"], found["total"]["credits"], found["metered"]) == ([], 0.0, None)
