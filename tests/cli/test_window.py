"""The calendar on the command line, on a real store and without a scheduler."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glidepath.clock import iso

from .conftest import WALL, Cli

ADD = ("window", "add", "--all", "--from", "+2h", "--for", "4h", "--why", "new disks")
OPENS, CLOSES = iso(WALL + 7200), iso(WALL + 21600)


def calendar(cli: Cli, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("window", "list", "-o", "json", *more).out)["items"]
    return found


def test_a_window_is_made_and_listed_and_shown(cli: Cli) -> None:
    ran = cli(*ADD)
    assert (ran.code, ran.err) == (0, f"window 1 closes all of `here` from {OPENS} to {CLOSES}\n"), ran
    [item] = calendar(cli)
    assert (item["opens"], item["closes"], item["why"], item["version"]) == (OPENS, CLOSES, "new disks", 1)
    shown = cli("window", "show", "1")
    assert shown.code == 0
    assert "new disks" in shown.out
    assert cli("window", "list", "-o", "name").out.strip() == "1"


def test_a_dry_run_makes_nothing(cli: Cli) -> None:
    assert cli(*ADD).code == 0
    ran = cli(*ADD, "--project", "sky", "--dry-run", "-o", "json")
    span = f"from {OPENS} to {CLOSES}"
    said = f"a window keeps all of `here` {span} for project `sky`; it overlaps window 1"
    assert (ran.code, ran.err) == (0, f"nothing was changed; otherwise: {said}\n")
    assert json.loads(ran.out)["items"][0]["affected"] == []
    assert len(calendar(cli)) == 1


def test_it_is_moved_and_cancelled_in_the_version_that_was_seen(cli: Cli) -> None:
    assert cli(*ADD).code == 0
    silent = cli("window", "move", "1", "--for", "1h")
    assert silent.code == 2
    assert "that is version 1" in silent.err
    assert cli("window", "move", "1", "--version", "1", "--for", "1h").code == 0
    late = cli("window", "move", "1", "--version", "1", "--from", "+9h")
    assert (late.code, "window 1 was changed since version 1" in late.err) == (
        1,
        True,
    )
    assert calendar(cli)[0]["closes"] == iso(WALL + 10800)
    assert cli("window", "cancel", "1", "--version", "2", "--why", "no parts").code == 0
    assert calendar(cli) == []
    assert [each["state"] for each in calendar(cli, "--all")] == ["cancelled"]
    events = cli("journal", "events", "-o", "json").out
    assert "window 1 cancelled: no parts" in events


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "--all", "--from", "2020-01-01T00:00:00Z", "--for", "4h"), 2, "has passed: it is "),
        (("add", "--all", "--from", "2030-01-01T00:00:00", "--for", "4h"), 2, "is no time; write "),
        (("add", "--all", "--from", "+2h"), 2, "a window ends"),
        (("add", "--from", "+2h", "--for", "4h"), 2, "is needed, or `all`"),
        (("add", "n1", "--from", "+2h", "--for", "4h"), 2, "no node of the cluster `here` has been seen yet"),
        (("add", "--all", "--cluster", "hree", "--for", "4h"), 2, "did you mean `here`?"),
        (("add", "--all", "--for", "4"), 2, "--for"),
        (("show", "7"), 4, "there is no window 7"),
        (("move", "7", "--version", "1", "--for", "1h"), 4, "there is no window 7"),
        (("cancel", "x"), 2, "is not a whole number"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    assert cli(*ADD).code == 0
    before = calendar(cli, "--all")
    ran = cli("window", *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert calendar(cli, "--all") == before
