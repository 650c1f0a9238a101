"""`glidepath person` and `glidepath project`: what is printed, what is said, and how each call ends."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from cli.conftest import WALL, Cli, cli, home
from glidepath.cli.session import login
from glidepath.clock import iso
from glidepath.jobs.caller import Caller, Role
from glidepath.people.known import NotKnown, People
from glidepath.store.engine import open_store

__all__ = ["cli", "home"]
MADE = iso(WALL)


def known(home: Path, text: str) -> Caller | None:
    with open_store(f"sqlite:///{home}/glidepath.db", read_only=True) as store:
        try:
            return People(store).caller_of(text, WALL)
        except NotKnown:
            return None


def items(cli: Cli, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(cli(*words, "-o", "json").out)["items"]
    return found


def everything(cli: Cli) -> object:
    return [items(cli, *words.split()) for words in ("person list", "person tokens", "project list")]


def test_somebody_is_let_in_gets_a_token_and_leaves(cli: Cli, home: Path) -> None:
    assert cli("person", "add", "ann", "--role", "operator").code == 0
    cli("project", "add", "atlas")
    cli("project", "join", "atlas", "ann")
    done = cli("person", "issue", "ann")
    text = done.out.strip()
    assert (done.code, text.count("\n")) == (0, 0)
    id = text.split(".")[1]
    assert done.err.startswith(f"token {id} of `ann` ends {iso(WALL + 90 * 86400)}; revoke it with")
    assert known(home, text) == Caller("ann", Role.OPERATOR, frozenset({"atlas"}))
    left = cli("person", "leave", "ann")
    assert (left.code, left.out, left.err) == (0, "", "`ann` has left; tokens revoked: 1\n")
    assert known(home, text) is None
    person = {"name": "ann", "role": "operator", "projects": [], "by": login(), "made": MADE, "left": MADE}
    assert items(cli, "people", "list") == [person]


def test_a_dry_run_says_what_would_be_also_where_there_is_no_store_yet(cli: Cli, home: Path) -> None:
    said = "nothing was changed; otherwise: "
    person = cli("person", "add", "ann", "--dry-run", "-o", "json")
    assert (person.code, json.loads(person.out)["items"][0]["role"]) == (0, "user")
    assert person.err.startswith(f"{said}`ann` is let in as user")
    assert cli("project", "add", "atlas", "--dry-run").err.startswith(said)
    assert cli("person", "add", "../ann", "--dry-run").code == 2
    assert cli("person", "leave", "ann", "--dry-run").code == 4
    assert not (home / "glidepath.db").exists()


def test_no_list_and_no_file_shows_a_secret(cli: Cli, home: Path) -> None:
    cli("person", "add", "ann")
    secret = cli("person", "issue", "ann", "--note", "laptop").out.strip().split(".")[2]
    for words in (
        ("person", "list"),
        ("person", "show", "ann"),
        ("person", "tokens"),
        ("person", "tokens", "ann"),
    ):
        for form in ("table", "wide", "json", "yaml", "name"):
            done = cli(*words, "-o", form)
            assert done.code == 0
            assert secret not in done.out + done.err
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert secret.encode() not in kept


def test_a_token_goes_to_a_new_file_that_nobody_else_can_read(cli: Cli, home: Path, tmp_path: Path) -> None:
    cli("person", "add", "ann")
    file = tmp_path / "ann.token"
    before = os.umask(0)
    try:
        done = cli("person", "issue", "ann", "--to", str(file))
    finally:
        os.umask(before)
    assert (done.code, done.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert known(home, text.strip()) == Caller("ann", Role.USER)
    again = cli("person", "issue", "ann", "--to", str(file))
    assert (again.code, again.err) == (
        1,
        f"glidepath: `{file}` cannot be made: File exists; no token was issued\n",
    )
    assert cli("person", "issue", "anne", "--to", str(tmp_path / "other")).code == 4
    assert [file.read_text(), (tmp_path / "other").exists(), len(items(cli, "person", "tokens"))] == [
        text,
        False,
        1,
    ]


def test_a_token_is_revoked_alone(cli: Cli, home: Path) -> None:
    cli("person", "add", "ann")
    one, two = (cli("person", "issue", "ann").out.strip() for _ in range(2))
    id = one.split(".")[1]
    assert cli("person", "revoke", id, "--dry-run").err.startswith("nothing was changed; otherwise: ")
    assert known(home, one) is not None
    assert cli("person", "revoke", id).err == f"token {id} of `ann` is revoked\n"
    assert cli("person", "revoke", id).err == f"token {id} of `ann` is revoked already\n"
    assert (known(home, one), known(home, two)) == (None, Caller("ann", Role.USER))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("person", "add", "ann"), 1, "person `ann` is there already, with the role `user`"),
        (("person", "add", "a b"), 2, "`a b` is no name of a person; write up to 100 letters"),
        (("person", "add", "bob", "--role", "opperator"), 2, "did you mean `operator`?"),
        (("person", "show", "an"), 4, "no person is named `an`; did you mean `ann`?"),
        (("person", "role", "anne", "user"), 4, "no person is named `anne`; did you mean `ann`?"),
        (("person", "issue", "ann", "--for", "2y"), 2, "`--for`"),
        (("person", "issue", "ann", "--for", "400d"), 2, "a token lasts from 1m to 366d, not 400d"),
        (("person", "revoke", "\x1b[2J"), 4, "no token is named `\\x1b[2J`"),
        (("person", "leav", "ann"), 2, "`person` has no verb `leav`; did you mean `leave`?"),
        (("project", "show", "atals"), 4, "no project is named `atals`; did you mean `atlas`?"),
        (("project", "join", "atlas", "bob"), 4, "no person is named `bob`"),
        (("project", "add", "-x"), 2, "glidepath project add"),
    ],
)
def test_what_is_wrong_is_said_with_what_was_meant(
    cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    cli("person", "add", "ann")
    cli("project", "add", "atlas")
    before = everything(cli)
    done = cli(*words)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert everything(cli) == before


def test_a_project_has_people_until_they_go_or_it_is_closed(cli: Cli) -> None:
    for name in ("ann", "bob"):
        cli("person", "add", name)
    assert cli("project", "add", "atlas", "-o", "name").out == "atlas\n"
    for name in ("ann", "bob"):
        assert cli("project", "join", "atlas", name).err == f"`{name}` belongs to `atlas`\n"
    assert cli("project", "join", "atlas", "ann").err == "`ann` belongs to `atlas` already\n"
    assert cli("project", "leave", "atlas", "bob").err == "`bob` belongs to `atlas` no more\n"
    assert cli("project", "leave", "atlas", "bob").err == "`bob` does not belong to `atlas`\n"
    assert ["people:", "ann"] in [line.split() for line in cli("project", "show", "atlas").out.splitlines()]
    assert cli("project", "close", "atlas").err.startswith("project `atlas` is closed; people who belonged")
    wallet = {"parent": "", "weight": 1, "granted": None, "left": None, "dry": False}
    project = {"name": "atlas", "people": [], "by": login(), "made": MADE, "gone": MADE, **wallet}
    assert items(cli, "projects", "list") == [project]
    assert cli("project", "join", "atlas", "ann").code == 4
    assert cli("project", "add", "atlas").code == 1
    assert cli("project", "add", "atlas", "--again").code == 0
    assert items(cli, "project", "list") == [{**project, "gone": None}]
