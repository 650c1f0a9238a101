"""`glidepath up` counts what runs on this machine: a project that runs dry, a lost attempt."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from glidepath.store.engine import open_store
from glidepath.store.usage_rows import usage_runs
from placed.accounts import submit
from placed.test_placed_whole import becomes, run, shown
from whole.running import Running, until

pytestmark = pytest.mark.real
Up = Callable[..., Running]


def usage(home: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(home, "usage", *words, "-o", "json"))["items"]
    return found


def said(home: Path, job: int, kind: str) -> list[str]:
    return [event["text"] for event in shown(home, job)["events"] if event["kind"] == kind]


def test_a_project_runs_dry_in_the_middle_of_a_job_and_goes_on_with_more(
    home_with_books: Path, up: Up
) -> None:
    home = home_with_books
    up()
    run(home, "project", "add", "physics")
    run(home, "project", "grant", "physics", "5")
    job = submit(home, "--project", "physics", script="sleep 600")
    becomes(home, job, "running")
    over = becomes(home, job, "failed")
    assert over["why"].startswith("the project `physics` has nothing left to spend: ")
    assert any("unless more is granted" in text for text in said(home, job, "notice"))
    [spent] = usage(home, "--by", "project", "--project", "physics")
    assert (spent["runs"], spent["refunded"]) == (1, 0.0)
    assert spent["credits"] == pytest.approx(spent["seconds"])
    assert spent["credits"] > 5
    waits = submit(home, "--project", "physics", script="true")
    told = run(home, "job", "explain", str(waits))
    assert "the job has no right to run at present" in told
    assert f"{spent['credits']:g} of 5 credits are spent" in told
    assert shown(home, waits)["state"] == "queued"
    run(home, "project", "grant", "physics", "5000")
    becomes(home, waits, "done")


def test_an_attempt_that_was_lost_is_paid_back(home_with_books: Path, up: Up) -> None:
    home = home_with_books
    up()
    script = 'if [ "$GLIDEPATH_ATTEMPT" = 1 ]; then sleep 600; fi; sleep 2'
    job = submit(home, script=script)
    becomes(home, job, "running")
    until(lambda: any(item["charged"] > 1 for item in usage(home)), "it was charged")
    keeper = json.loads((home / "ranks" / f"{job}.1" / "keeper.json").read_text())["pid"]
    os.kill(keeper, signal.SIGKILL)
    over = becomes(home, job, "done")
    assert (over["attempt"], over["losses"]) == (2, 1)
    until(lambda: usage(home)[0]["refunded"] > 0 and usage(home)[0]["runs"] == 2, "it was paid back")
    [item] = usage(home)
    with open_store(f"sqlite:///{home}/glidepath.db", read_only=True) as store, store.read() as conn:
        rows = conn.execute(select(usage_runs).order_by(usage_runs.c.attempt)).all()
    first, second = [row.ended_at - row.began_at for row in rows]
    assert (item["refunded"], item["credits"]) == (float(first), float(second))
    assert [row.refund for row in rows] == [2, 0]
