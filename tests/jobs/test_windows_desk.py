"""The calendar at the desk: what operators may ask, what is refused and why, and whom a window is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glidepath.clock import iso
from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import WindowMove, WindowWish
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unknown, Unusable
from glidepath.journal.journal import Journal
from glidepath.store.windows import TO_COME_MAX, Changed, WindowStore
from jobs.desk_scene import ANN, BEN, OPERATOR, VIEWER, DeskScene
from placing.placing_world import T0

OTHER = Caller("olga", OPERATOR.role)
HOSTILE = "a\x1b[2Jb"


def at(after_s: int) -> str:
    return iso(T0 + after_s) or ""


def wish(**more: Any) -> WindowWish:
    return WindowWish(**{"starts": "+2h", "lasts_s": 3600, "nodes": ("n1",), "why": "new disks", **more})


def added(scene: DeskScene, **more: Any) -> dict[str, Any]:
    return scene.desk.add_window(OPERATOR, wish(**more))


def same_minute(one: str, other: str) -> bool:
    """The clocks of a scene are a few seconds apart; it begins with a full hour."""
    return one[:16] == other[:16]


def places(refused: pytest.ExceptionInfo[DeskError]) -> dict[str, str]:
    assert isinstance(refused.value, Unusable)
    return dict(refused.value.places)


def test_a_window_is_made_shown_moved_and_cancelled_and_the_journal_says_by_whom(scene: DeskScene) -> None:
    now = scene.world.time.at
    made = added(scene, starts=iso(now + 7200), projects=("astro",), people=("ben",))
    expected = {
        "id": 1,
        "cluster": "lab",
        "state": "planned",
        "opens": iso(now + 7200),
        "closes": iso(now + 10800),
        "nodes": ["n1"],
        "projects": ["astro"],
        "people": ["ben"],
        "why": "new disks",
        "made_by": "oz",
        "made": iso(now),
        "changed_by": "oz",
        "changed": iso(now),
        "version": 1,
    }
    span = f"from {iso(now + 7200)} to {iso(now + 10800)}"
    say = f"window 1 keeps n1 of `lab` {span} for project `astro`, `ben`"
    assert made == {**expected, "affected": [], "say": say}
    assert scene.desk.window(VIEWER, 1) == expected
    moved = scene.desk.move_window(OTHER, 1, WindowMove(1, starts="+4h", why="parts are late"))
    assert (moved["version"], moved["changed_by"], moved["made_by"]) == (2, "olga", "oz")
    assert (moved["opens"], moved["closes"]) == (iso(now + 14400), iso(now + 18000)), "as long as before"
    assert scene.desk.cancel_window(OPERATOR, 1, 2, why="no parts")["state"] == "cancelled"
    assert scene.desk.windows(ANN) == []
    assert [(one["id"], one["state"]) for one in scene.desk.windows(ANN, over=True)] == [(1, "cancelled")]
    told = [(note.by, note.text) for note in Journal(scene.world.store).events() if note.kind == "window"]
    later = f"from {iso(now + 14400)} to {iso(now + 18000)}"
    assert told == [
        ("oz", "window 1 cancelled: no parts"),
        (
            "olga",
            f"window 1 moved, it keeps n1 of `lab` {later} for project `astro`, `ben`: parts are late",
        ),
        ("oz", f"window 1 made, it keeps n1 of `lab` {span} for project `astro`, `ben`: new disks"),
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"starts": at(-7200)}, {"starts": "has passed: it is "}),
        ({"starts": at(7200), "ends": at(3600), "lasts_s": None}, {"ends": "must be later than `starts`: "}),
        ({"starts": at(7200), "ends": at(7200), "lasts_s": None}, {"ends": "must be later than `starts`: "}),
        ({"lasts_s": None}, {"ends": "is needed, or `lasts`: a window ends; to close nodes until further"}),
        ({"ends": "+9h"}, {"ends": "says the same as `lasts`; leave one of them out"}),
        ({"lasts_s": 20 * 366 * 86400}, {"ends": "is more than ten years away; "}),
        ({"starts": "2030-01-31T08:00:00"}, {"starts": "`2030-01-31T08:00:00` is no time; write "}),
        ({"starts": "tomorrow"}, {"starts": "`tomorrow` is no time; write "}),
        ({"nodes": ("n11",)}, {"nodes": "no node is named `n11`; did you mean `n1`?"}),
        ({"nodes": ()}, {"nodes": "is needed, or `all` for every node of the cluster"}),
        ({"everywhere": True}, {"nodes": "is said beside `all`"}),
        ({"cluster": "lap"}, {"cluster": "no cluster is named `lap`; did you mean `lab`?"}),
        ({"why": HOSTILE}, {"why": "the reason has the control character U+001B at place 2; leave it out"}),
        ({"projects": (HOSTILE,)}, {"projects": "the project has the control character U+001B at place 2"}),
        ({"people": ("",)}, {"people": "the name of a person is empty"}),
        ({"why": "x" * 501}, {"why": "the reason has 501 characters; at most 500 are kept"}),
        (
            {"starts": "soon", "ends": "late", "lasts_s": None, "nodes": ("q",)},
            {"starts": "`soon` is no time", "ends": "`late` is no time", "nodes": "no node is named `q`"},
        ),
    ],
)
def test_what_is_wrong_with_a_window_is_told_all_at_once_and_nothing_is_made(
    scene: DeskScene, more: dict[str, Any], expected: dict[str, str]
) -> None:
    with pytest.raises(Unusable) as refused:
        added(scene, **more)
    found = places(refused)
    assert found.keys() == expected.keys()
    assert {key: found[key][: len(text)] for key, text in expected.items()} == expected
    assert scene.desk.windows(ANN, over=True) == []


def test_times_are_read_with_their_offset_and_shown_in_utc(scene: DeskScene) -> None:
    made = added(scene, starts="2027-01-15T12:00:00+02:00", ends="2027-01-15T12:00:00Z", lasts_s=None)
    assert (made["opens"], made["closes"]) == ("2027-01-15T10:00:00Z", "2027-01-15T12:00:00Z")


def test_of_two_operators_who_change_one_window_the_second_gets_a_sentence(scene: DeskScene) -> None:
    now = scene.world.time.at
    added(scene)
    scene.desk.move_window(OPERATOR, 1, WindowMove(1, lasts_s=1800))
    before = scene.desk.window(ANN, 1)
    says = f"closes n1 of `lab` from {iso(now + 7200)} to {iso(now + 9000)}, as oz said at {iso(now)}"
    changes: list[Callable[[int | None], object]] = [
        lambda version: scene.desk.move_window(OTHER, 1, WindowMove(version, starts="+9h")),
        lambda version: scene.desk.cancel_window(OTHER, 1, version),
    ]
    for change in changes:
        with pytest.raises(Clash) as late:
            change(1)
        assert late.value.why == (
            f"window 1 was changed since version 1: it {says}; that is version 2; nothing was changed"
        )
        with pytest.raises(Unusable) as silent:
            change(None)
        assert places(silent) == {"version": f"is needed: window 1 {says}; that is version 2"}
    assert scene.desk.window(ANN, 1) == before


def test_of_two_at_the_same_instant_one_changes_it(scene: DeskScene) -> None:
    """Both have read the same version; the store decides."""
    added(scene)
    store = WindowStore(scene.world.store)
    seen = store.find(1)
    assert seen is not None
    store.cancel(seen, by="oz", wall=0.0, told=lambda conn, planned: None)
    with pytest.raises(Changed) as second:
        store.move(seen, seen.span, by="olga", wall=1.0, told=lambda conn, planned: None)
    assert (second.value.now.cancelled, second.value.now.changed_by) == (True, "oz")
    with pytest.raises(Clash, match=r"window 1 was cancelled by oz at .*; nothing was changed"):
        scene.desk.move_window(OTHER, 1, WindowMove(2, starts="+9h"))


def test_an_open_window_ends_at_another_time_and_begins_at_none(scene: DeskScene) -> None:
    added(scene, starts="")
    scene.world.time.at += 600
    with pytest.raises(Clash, match=r"window 1 has opened at .*: its end can be moved, its start not"):
        scene.desk.move_window(OPERATOR, 1, WindowMove(1, starts="+1h"))
    with pytest.raises(Unusable) as refused:
        scene.desk.move_window(OPERATOR, 1, WindowMove(1, lasts_s=60))
    assert places(refused)["ends"].startswith("has passed: ")
    with pytest.raises(Unusable) as refused:
        scene.desk.move_window(OPERATOR, 1, WindowMove(1))
    assert places(refused)["starts"].startswith("is needed, or `ends` or `lasts`")
    assert scene.desk.move_window(OPERATOR, 1, WindowMove(1, lasts_s=1200))["state"] == "open"
    scene.world.time.at += 6000
    with pytest.raises(Clash, match="window 1 is over since "):
        scene.desk.cancel_window(OPERATOR, 1, 2)
    with pytest.raises(Unknown, match="there is no window 9"):
        scene.desk.window(ANN, 9)


def test_windows_may_overlap_unless_nobody_could_use_what_both_keep(scene: DeskScene) -> None:
    added(scene, projects=("astro",))
    assert added(scene, nodes=(), everywhere=True)["say"].endswith("; it overlaps window 1")
    added(scene, people=("ann",))  # a job of hers for astro is in both
    with pytest.raises(Clash, match="window 1 keeps the same nodes at that time for others"):
        added(scene, projects=("geo",))
    assert added(scene, projects=("geo",), nodes=("n2",))["say"].endswith("; it overlaps window 2")
    assert "overlaps" not in added(scene, projects=("geo",), starts="+9h")["say"]


@pytest.mark.parametrize("who", [VIEWER, ANN])
def test_only_operators_change_the_calendar_and_everybody_reads_it(scene: DeskScene, who: Caller) -> None:
    added(scene)
    refused: list[Callable[[], object]] = [
        lambda: scene.desk.add_window(who, wish(), dry=True),
        lambda: scene.desk.move_window(who, 1, WindowMove(1, starts="+9h"), dry=True),
        lambda: scene.desk.cancel_window(who, 1, 1, dry=True),
    ]
    for change in refused:
        with pytest.raises(Forbidden, match=r"may not .* a window; `operator` may"):
            change()
    assert [one["id"] for one in scene.desk.windows(who)] == [1]


def test_a_dry_run_names_those_whom_a_window_is_about_and_changes_nothing(scene: DeskScene) -> None:
    runs = scene.placed(ANN, cpus=4, time="2h")
    short = scene.placed(ANN, cpus=4, time="10m")
    scene.world.cluster.runs_s |= {runs: 100_000, short: 100_000}
    scene.world.turns(2)
    waits = scene.placed(BEN, cpus=4, time="1h")
    scene.world.turns(2)
    before = {job: scene.desk.show(OPERATOR, job) for job in (runs, short, waits)}
    at_risk = wish(nodes=(), everywhere=True, starts="+30m")
    said = scene.desk.add_window(OPERATOR, at_risk, dry=True)
    opens = said["opens"]
    assert [(one["job"], one["owner"], one["what"], one["then"]) for one in said["affected"]] == [
        (runs, "ann", "ends", "waits again"),
        (waits, "ben", "starts", ""),
    ]
    ends, starts = said["affected"]
    assert same_minute(ends["before"], before[runs]["ends"])
    assert same_minute(ends["after"], opens)
    assert same_minute(starts["before"], before[waits]["start"])
    assert same_minute(starts["after"], said["closes"])
    assert said["say"].endswith("; by it 1 running jobs end at another time, 1 start at another")
    assert scene.desk.windows(ANN, over=True) == []
    assert {job: scene.desk.show(OPERATOR, job)["events"] for job in before} == {
        job: item["events"] for job, item in before.items()
    }
    done = scene.desk.add_window(OPERATOR, at_risk)
    assert [one["job"] for one in done["affected"]] == [runs, waits]
    scene.world.turns(2)
    assert same_minute(scene.desk.show(ANN, runs)["ends"], opens)
    cancelled = scene.desk.cancel_window(OPERATOR, done["id"], 1, dry=True)
    assert (cancelled["affected"][0]["job"], cancelled["affected"][0]["then"]) == (runs, "")


def test_nodes_say_which_window_they_are_in_and_which_comes(scene: DeskScene) -> None:
    added(scene, starts="")
    added(scene, nodes=("n2",), projects=("astro",), starts="")
    scene.world.turns(2)
    assert [one["state"] for one in scene.desk.nodes(ANN)] == ["closed", "kept"]
    scene.desk.cancel_window(OPERATOR, 1, 1)
    scene.desk.cancel_window(OPERATOR, 2, 1)
    opens = added(scene)["opens"]
    scene.world.turns(2)
    first, second = scene.desk.nodes(ANN)
    assert (first["state"], second["state"], second["why"]) == ("up", "up", "")
    assert same_minute(first["why"].removeprefix("window 3 (new disks) opens at "), opens)
    scene.desk.word(OPERATOR, "node", "n1", "drain", why="a fan")
    assert (scene.desk.nodes(ANN)[0]["state"], scene.desk.nodes(ANN)[0]["why"]) == ("drained", "a fan")


def test_a_calendar_has_a_bound(scene: DeskScene) -> None:
    for number in range(TO_COME_MAX):
        added(scene, starts=f"+{number + 1}d")
    with pytest.raises(Clash, match="a cluster may have 100 windows that are not over; nothing was changed"):
        added(scene)
