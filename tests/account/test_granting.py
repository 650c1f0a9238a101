"""Who grants what to which project: at each level a quota, never below zero, never in a circle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from cli.conftest import WALL, Cli, cli, home
from glidepath.core.account.run import MILLIONTHS
from glidepath.core.account.wallet import GRANTED_MAX, amount_of
from glidepath.jobs.caller import ROLES, Caller, Role
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unknown, Unusable
from glidepath.people.register import Register
from glidepath.people.wallets import Wallets
from glidepath.store.engine import Store
from glidepath.store.wallets import GRANTS_EACH_MAX
from serve.api_server import api_server
from store.conftest import store, store_url

__all__ = ["cli", "home", "store", "store_url"]
ROOT = Caller("root", Role.ADMIN)
NAMES = ("science", "physics", "optics", "biology")


@pytest.fixture
def register(store: Store) -> Register:
    made = Register(store, lambda: WALL)
    for name in NAMES:
        made.add_project(ROOT, name)
    made.wallets.set(ROOT, "physics", parent="science")
    made.wallets.set(ROOT, "optics", parent="physics", weight=3)
    return made


@pytest.fixture
def wallets(register: Register) -> Wallets:
    return register.wallets


def everything(wallets: Wallets) -> Any:
    return [wallets.wallet(ROOT, name) for name in NAMES]


def test_what_is_granted_is_there_for_its_time_and_what_is_left_can_be_taken_back(wallets: Wallets) -> None:
    first = wallets.grant(ROOT, "physics", "100", ends="+10d", note="a start")
    assert (first["granted"], first["left"], first["dry"], first["amount"]) == (100.0, 100.0, False, 100.0)
    wallets.grant(ROOT, "physics", "0.5", starts="+30d", ends="+60d")
    found = wallets.wallet(ROOT, "physics")
    assert [(each["granted"], each["in_force"]) for each in found["allocations"]] == [
        (100.0, True),
        (0.5, False),
    ]
    assert (found["granted"], found["left"], found["parent"]) == (100.0, 100.0, "science")
    less = wallets.take(ROOT, "physics", "99.75")
    assert (less["left"], less["granted"], less["dry"]) == (0.25, 0.25, False)
    assert wallets.take(ROOT, "physics", "0.25")["dry"] is True


Ask = Callable[[Wallets], Any]
BAD: dict[str, tuple[Ask, type[DeskError], str]] = {
    "a circle": (
        lambda w: w.set(ROOT, "science", parent="optics"),
        Clash,
        "a circle: `science` below `optics` below `physics` below `science`; nothing was changed",
    ),
    "itself": (
        lambda w: w.set(ROOT, "physics", parent="physics"),
        Clash,
        "a circle: `physics` below `physics`",
    ),
    "below one that is not there": (
        lambda w: w.set(ROOT, "physics", parent="sciense"),
        Unknown,
        "no project is named `sciense`; did you mean `science`?",
    ),
    "nothing": (lambda w: w.set(ROOT, "physics"), Unusable, "nothing is said to be changed"),
    "no weight": (lambda w: w.set(ROOT, "physics", weight=0), Unusable, "a weight is from 1 to"),
    "more than there is": (
        lambda w: w.take(ROOT, "physics", "10.5"),
        Clash,
        "`physics` has 10 credits left that could be taken, not 10.5; nothing was changed",
    ),
    "of nothing": (lambda w: w.take(ROOT, "biology", "1"), Clash, "`biology` has 0 credits left"),
    "below zero": (lambda w: w.grant(ROOT, "physics", "-5"), Unusable, "`-5` is no amount; write credits"),
    "zero": (lambda w: w.grant(ROOT, "physics", "0"), Unusable, "must be more than nothing"),
    "too much": (lambda w: w.grant(ROOT, "physics", "9" * 12), Unusable, "at most 1000000000 credits"),
    "no number": (lambda w: w.grant(ROOT, "physics", "1e9\x1b"), Unusable, "is no amount"),
    "backwards": (
        lambda w: w.grant(ROOT, "physics", "1", starts="+2d", ends="+1d"),
        Unusable,
        "`ends`: must be later than `starts`",
    ),
    "over already": (
        lambda w: w.grant(ROOT, "physics", "1", starts="2020-01-01", ends="2020-02-01"),
        Unusable,
        "`ends`: has passed already",
    ),
    "no day": (lambda w: w.grant(ROOT, "physics", "1", ends="2030-02-31"), Unusable, "is no day"),
    "to nobody": (lambda w: w.grant(ROOT, "'; DROP TABLE", "1"), Unknown, "no project is named"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_with_a_sentence_and_changes_nothing(wallets: Wallets, name: str) -> None:
    wallets.grant(ROOT, "physics", "10")
    before = everything(wallets)
    ask, kind, why = BAD[name]
    with pytest.raises(kind) as refused:
        ask(wallets)
    assert why in str(refused.value)
    assert everything(wallets) == before


@pytest.mark.parametrize("role", ROLES.values(), ids=lambda role: role.word)
def test_admins_change_wallets_and_those_who_belong_to_them_see_them(wallets: Wallets, role: Role) -> None:
    caller = Caller("kim", role, frozenset({"physics"}))
    changes: list[Ask] = [
        lambda w: w.grant(caller, "physics", "1"),
        lambda w: w.take(caller, "physics", "1"),
        lambda w: w.set(caller, "physics", weight=2),
    ]
    for change in changes:
        before = everything(wallets)
        if role is Role.ADMIN:
            change(wallets)
            continue
        with pytest.raises(Forbidden, match="only an admin may"):
            change(wallets)
        assert everything(wallets) == before
    assert wallets.wallet(caller, "physics")["name"] == "physics"
    if role < Role.OPERATOR:
        with pytest.raises(Unknown) as hidden:
            wallets.wallet(caller, "biology")
        with pytest.raises(Unknown) as never:
            wallets.wallet(caller, "geology")
        assert str(hidden.value) == str(never.value).replace("geology", "biology")


def test_nothing_is_granted_to_a_project_that_is_closed_or_has_too_many(
    register: Register, wallets: Wallets, store: Store
) -> None:
    for _ in range(3):
        wallets.grant(ROOT, "physics", "1", dry=True)
    assert wallets.wallet(ROOT, "physics")["allocations"] == []
    register.close(ROOT, "physics")
    with pytest.raises(Clash, match="project `physics` is closed; nothing was changed"):
        wallets.grant(ROOT, "physics", "1")
    assert GRANTS_EACH_MAX * GRANTED_MAX < 2**63


def test_two_that_are_moved_below_each_other_at_once_make_no_circle(wallets: Wallets) -> None:
    ready, told = Barrier(2), []

    def move(project: str, parent: str) -> None:
        ready.wait()
        try:
            wallets.set(ROOT, project, parent=parent)
        except DeskError as error:
            told.append(str(error))

    moves = [Thread(target=move, args=pair) for pair in (("biology", "science"), ("science", "biology"))]
    for each in moves:
        each.start()
    for each in moves:
        each.join()
    assert len(told) == 1
    assert "a circle" in told[0]


def test_a_project_is_moved_out_to_the_top(wallets: Wallets) -> None:
    assert wallets.set(ROOT, "optics", parent="")["parent"] == ""
    assert wallets.wallet(ROOT, "optics")["weight"] == 3


@pytest.mark.parametrize(
    ("text", "amount"), [("1", MILLIONTHS), ("0.000001", 1), ("500.25", 500_250_000), ("007", 7 * MILLIONTHS)]
)
def test_amounts_are_read_to_the_last_millionth(text: str, amount: int) -> None:
    assert amount_of(text) == amount


def items(cli: Cli, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli(*words, "-o", "json").out)["items"]
    return found


def test_projects_are_granted_and_placed_by_commands(cli: Cli) -> None:
    for name in ("science", "physics"):
        cli("project", "add", name)
    done = cli("project", "set", "physics", "--parent", "science", "--weight", "3")
    assert (done.code, done.err) == (0, "`physics` is below `science`, with the weight 3\n")
    done = cli("project", "grant", "physics", "100", "--to", "+30d", "--note", "spring")
    assert (done.code, done.err) == (0, "`physics` may spend 100 credits more; it has 100.00 left\n")
    tried = cli("project", "take", "physics", "40", "--dry-run")
    assert tried.err.startswith("nothing was changed; otherwise: 40 credits of `physics` are taken back")
    assert cli("project", "take", "physics", "40").err.endswith("it has 60.00 left\n")
    refused = cli("project", "take", "physics", "61")
    assert (refused.code, "nothing was changed" in refused.err) == (1, True)
    assert cli("project", "set", "science", "--parent", "physics").code == 1
    [shown] = items(cli, "project", "show", "physics")
    assert (shown["parent"], shown["weight"], shown["left"]) == ("science", 3, 60.0)
    said = cli("project", "show", "physics").out
    assert "left:    60.00 of 60.00 credits" in said
    assert (
        "allocation 1, from 2027-01-15T08:00:00Z to 2027-02-14T08:00:00Z: 0.00 of 60.00 credits spent" in said
    )
    assert "as much as it likes" in cli("project", "show", "science").out


def test_usage_is_printed_as_a_table_as_json_and_as_csv(cli: Cli) -> None:
    cli("project", "add", "physics")
    nothing = cli("usage")
    assert (nothing.code, nothing.out) == (0, "")
    assert "nothing was used in this time" in nothing.err
    header = cli("usage", "-o", "csv").out
    assert header.startswith("start,owner,project,partition,runs,seconds,cpu_hours,")
    assert items(cli, "usage") == []
    bad = cli("usage", "--since", "soon", "--by", "colour")
    assert (bad.code, "2 mistakes" in bad.err) == (2, True)


def test_projects_are_granted_and_placed_over_http(tmp_path: Path) -> None:
    with api_server(tmp_path / "home") as world:
        world.person("root", "admin")
        world.person("kim", "user", ("physics",))
        world.ask("POST", "/projects", {"name": "science"}, who="root")
        code, made = world.ask("POST", "/projects/physics/grant", {"amount": 2.5, "ends": "+1d"}, who="root")
        assert (code, made["left"], made["amount"]) == (201, 2.5, 2.5)
        code, said = world.ask(
            "POST", "/projects/physics/set", {"parent": "science", "weight": 2}, who="root"
        )
        assert (code, said["parent"], said["weight"]) == (200, "science", 2)
        code, said = world.ask("POST", "/projects/science/set", {"parent": "physics"}, who="root")
        assert (code, said["kind"], "a circle" in said["error"]) == (409, "clash", True)
        code, said = world.ask("POST", "/projects/physics/take", {"amount": "3"}, who="root")
        assert (code, said["kind"]) == (409, "clash")
        for odd in (True, None, [1], -1, 1e300, "1" * 40):
            code, said = world.ask("POST", "/projects/physics/grant", {"amount": odd}, who="root")
            assert (code, said["kind"]) == (422, "unusable"), odd
        code, mine = world.ask("GET", "/projects/physics", who="kim")
        assert (code, mine["left"], len(mine["allocations"])) == (200, 2.5, 1)
        code, found = world.ask("GET", "/usage?by=project&step=month&since=90d", who="kim")
        assert (code, found["usage"], found["metered"]) == (200, [], None)
