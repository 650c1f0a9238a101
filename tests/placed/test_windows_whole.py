"""A window of the calendar with a real `glidepath up`: made, moved and cut short, and no job overruns it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from placed.test_placed_whole import becomes, run, shown, submit
from whole.running import Running, until

pytestmark = pytest.mark.real
Up = Callable[..., Running]
# Instants are whole seconds of another clock.
CLOCKS_APART_S = 2
LONG = ("--queue", "interactive", "--time", "2h")


def window(home: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(home, "window", *words, "-o", "json"))["items"][0]
    return found


def told(home: Path, job: int) -> list[str]:
    return [event["text"] for event in shown(home, job)["events"] if event["kind"] == "window"]


def wall(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def hears(home: Path, job: int, count: int) -> str:
    """So many words about windows; the last of them."""
    until(lambda: len(told(home, job)) == count, lambda: f"{count} words: {told(home, job)}")
    return told(home, job)[-1]


def nodes(home: Path) -> set[str]:
    return {one["state"] for one in json.loads(run(home, "node", "list", "-o", "json"))["items"]}


def test_no_job_overruns_a_window_that_is_moved_and_nodes_return(home: Path, up: Up) -> None:
    up()
    again = submit(home, *LONG, "--on-loss", "requeue", script="sleep 3600")
    ends = submit(home, *LONG, "--on-loss", "end", script="sleep 3600")
    becomes(home, again, "running")
    becomes(home, ends, "running")
    dry = window(home, "add", "--all", "--from", "+1h", "--for", "2h", "--dry-run")
    assert {(one["job"], one["what"], one["then"]) for one in dry["affected"]} == {
        (again, "ends", "waits again"),
        (ends, "ends", "is over"),
    }
    assert json.loads(run(home, "window", "list", "-o", "json"))["items"] == []
    made = window(home, "add", "--all", "--from", "+1h", "--for", "2h", "--why", "new disks")
    for job in (again, ends):
        assert "window 1 (new disks) opens at " in hears(home, job, 1)
        assert abs(wall(shown(home, job)["ends"]) - wall(made["opens"])) <= CLOCKS_APART_S
    waits = submit(home, *LONG, script="echo began; sleep 3600")
    assert wall(shown(home, waits)["start"]) >= wall(made["closes"]) - CLOCKS_APART_S
    moved = window(home, "move", "1", "--version", "1", "--from", "+45s", "--why", "disks are here")
    assert " any more: it is ended then, and waits again" in hears(home, again, 2)
    late = run(home, "window", "cancel", "1", "--version", "1", code=1)
    assert "window 1 was changed since version 1" in late
    assert window(home, "show", "1")["version"] == 2
    becomes(home, again, "queued")
    over = becomes(home, ends, "failed")
    assert "1 (new disks)" in over["why"]
    assert wall(over["ended"]) >= wall(moved["opens"]) - CLOCKS_APART_S
    until(lambda: nodes(home) == {"closed"}, lambda: f"closed: {nodes(home)}")
    until(lambda: not any((home / "ranks").iterdir()), "nothing is left on the nodes")
    assert [shown(home, job)["state"] for job in (again, waits)] == ["queued", "queued"]
    cut = window(home, "move", "1", "--version", "2", "--to", "+10s")
    for job in (again, waits):
        assert wall(becomes(home, job, "running")["started"]) >= wall(cut["closes"]) - CLOCKS_APART_S
    assert nodes(home) == {"up"}
    assert [len(told(home, job)) for job in (again, ends, waits)] == [2, 2, 0], "each was told once"
    notes = run(home, "journal", "events", "-o", "json")
    assert all(word in notes for word in ("window 1 made", "window 1 moved", "disks are here"))
    run(home, "job", "cancel", str(again), str(waits))
    becomes(home, again, "cancelled")
    becomes(home, waits, "cancelled")
