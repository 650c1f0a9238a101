"""The register of people: what each role may see and change there, and what is said to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from glidepath.clock import iso
from glidepath.jobs.caller import ROLES, Caller, Role
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unknown, Unusable
from glidepath.people.known import NotKnown, People
from glidepath.people.register import TOKEN_S, TOKEN_S_MAX, Register
from glidepath.store.engine import Store, insert
from glidepath.store.people import MEMBERSHIPS_EACH_MAX
from glidepath.store.people_rows import memberships
from people.people_builders import DAY_S, WALL

ROOT = Caller("root", Role.ADMIN)
# A null, half a character, an escape, a way out of a folder, a statement.
HOSTILE = [
    "",
    "a\0b",
    "\ud800",
    "a\x1b[2J",
    "../ann",
    "ann/..",
    "'; DROP TABLE people--",
    "ann ",
    "a" * 101,
    "é",
]


@pytest.fixture
def register(store: Store) -> Register:
    made = Register(store, lambda: WALL)
    made.add(ROOT, "ann", "user")
    made.add_project(ROOT, "atlas")
    made.join(ROOT, "atlas", "ann")
    return made


Ask = Callable[[Register, Caller], Any]
# What each may do at least be to do it; none where everybody may, of themselves.
ASKS: dict[str, tuple[Role, Ask]] = {
    "people": (Role.ADMIN, lambda r, c: r.people(c)),
    "person": (Role.ADMIN, lambda r, c: r.person(c, "ann")),
    "oneself": (Role.VIEWER, lambda r, c: r.tokens(c, c.name)),
    "add": (Role.ADMIN, lambda r, c: r.add(c, "eve", "admin")),
    "set_role": (Role.ADMIN, lambda r, c: r.set_role(c, "ann", "admin")),
    "leave": (Role.ADMIN, lambda r, c: r.leave(c, "ann")),
    "tokens": (Role.ADMIN, lambda r, c: r.tokens(c)),
    "tokens of another": (Role.ADMIN, lambda r, c: r.tokens(c, "ann")),
    "issue": (Role.ADMIN, lambda r, c: r.issue(c, "ann")),
    "projects": (Role.VIEWER, lambda r, c: r.projects(c)),
    "add_project": (Role.ADMIN, lambda r, c: r.add_project(c, "cms")),
    "join": (Role.ADMIN, lambda r, c: r.join(c, "atlas", "ann")),
    "part": (Role.ADMIN, lambda r, c: r.part(c, "atlas", "ann")),
    "close": (Role.ADMIN, lambda r, c: r.close(c, "atlas")),
}


def everything(register: Register) -> Any:
    return register.people(ROOT), register.tokens(ROOT), register.projects(ROOT)


@pytest.mark.parametrize("role", ROLES.values(), ids=lambda role: role.word)
@pytest.mark.parametrize("what", ASKS)
def test_each_role_may_do_what_is_said_of_it_and_nothing_else(
    register: Register, what: str, role: Role
) -> None:
    least, ask = ASKS[what]
    before = everything(register)
    if role >= least:
        ask(register, Caller("bob", role))
        return
    with pytest.raises(Forbidden, match=r"^only an admin may .*; the role of `bob` is"):
        ask(register, Caller("bob", role))
    assert everything(register) == before


def test_every_question_of_the_register_stands_in_the_table() -> None:
    names = {name for name, value in vars(Register).items() if callable(value) and not name.startswith("_")}
    # Those three are of one's own; what they show of others is tested below.
    assert names - {"revoke", "project", "changed", "at_wall"} == set(ASKS) - {"oneself", "tokens of another"}


def test_everybody_sees_themselves_and_nothing_of_others(register: Register) -> None:
    register.add(ROOT, "bob", "operator")
    register.add_project(ROOT, "cms")
    mine, his = register.issue(ROOT, "ann"), register.issue(ROOT, "bob")
    ann = Caller("ann", Role.USER, frozenset({"atlas"}))
    listed = {key: value for key, value in mine.items() if key != "text"}
    assert register.person(ann, "ann") == {**register.people(ROOT)[0], "tokens": [listed]}
    assert register.tokens(ann, "ann") == [listed]
    assert [project["name"] for project in register.projects(ann)] == ["atlas"]
    assert [project["name"] for project in register.projects(Caller("bob", Role.OPERATOR))] == [
        "atlas",
        "cms",
    ]
    for hidden in (lambda: register.project(ann, "cms"), lambda: register.project(ann, "never")):
        with pytest.raises(Unknown, match=r"^no project is named `\w+`$"):
            hidden()
    for id in (his["name"], "aaaaaaaa"):
        with pytest.raises(Unknown, match=r"^no token is named `\w+`$"):
            register.revoke(ann, id)
    assert register.revoke(ann, mine["name"])["revoked"] is None
    in_force = {token["person"]: token["in_force"] for token in register.tokens(ROOT)}
    assert in_force == {"ann": False, "bob": True}


def test_somebody_whom_only_a_provider_knows_learns_no_names_of_others(register: Register) -> None:
    with pytest.raises(Unknown) as found:
        register.person(Caller("anna", Role.USER), "anna")
    assert str(found.value) == "no person is named `anna`"


def test_a_token_lasts_ninety_days_or_as_long_as_is_said_within_a_year(register: Register) -> None:
    token = register.issue(ROOT, "ann", note="laptop")
    assert token.pop("text").startswith(f"gpp.{token['name']}.")
    assert token == {
        "name": token["name"],
        "person": "ann",
        "in_force": True,
        "note": "laptop",
        "by": "root",
        "issued": iso(WALL),
        "ends": iso(WALL + 90 * DAY_S),
        "used": None,
        "revoked": None,
    }
    assert TOKEN_S == 90 * DAY_S
    assert register.issue(ROOT, "ann", for_s=TOKEN_S_MAX)["ends"] == iso(WALL + TOKEN_S_MAX)
    for wrong in (-1, 0, 59, TOKEN_S_MAX + 1):
        with pytest.raises(Unusable, match="a token lasts from 1m to 366d"):
            register.issue(ROOT, "ann", for_s=wrong)
    for note in ("a\nb", "\0", "a" * 201, "\ud800"):
        with pytest.raises(Unusable, match="a note is one printable line"):
            register.issue(ROOT, "ann", note=note)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_what_is_no_name_is_refused_as_new_and_unknown_as_old(register: Register, name: str) -> None:
    before = everything(register)
    for ask in (lambda: register.add(ROOT, name, "user"), lambda: register.add_project(ROOT, name)):
        with pytest.raises(Unusable, match="is no name of a"):
            ask()
    asks: list[Callable[[], object]] = [
        lambda: register.person(ROOT, name),
        lambda: register.set_role(ROOT, name, "user"),
        lambda: register.leave(ROOT, name),
        lambda: register.tokens(ROOT, name),
        lambda: register.issue(ROOT, name),
        lambda: register.revoke(ROOT, name),
        lambda: register.project(ROOT, name),
        lambda: register.close(ROOT, name),
        lambda: register.join(ROOT, name, "ann"),
        lambda: register.part(ROOT, "atlas", name),
    ]
    for ask in asks:
        with pytest.raises(Unknown) as found:
            ask()
        assert str(found.value).isprintable()
    assert everything(register) == before


def test_names_as_logins_mail_addresses_and_providers_have_them_are_taken(register: Register) -> None:
    names = ["_x", "a", "ann.b@example.org", "auth0|5f7c8ec7c33c6c004bbafe82", "j-doe_2+test", "a" * 100]
    for name in names:
        assert register.add(ROOT, name, "viewer")["name"] == name


@pytest.mark.parametrize("word", ["", "Admin", "root", "user\0"])
def test_a_role_is_one_of_four_words(register: Register, word: str) -> None:
    for ask in (lambda: register.add(ROOT, "bob", word), lambda: register.set_role(ROOT, "ann", word)):
        with pytest.raises(Unusable, match="is none of `viewer`, `user`, `operator`, `admin`"):
            ask()


def test_a_dry_run_says_the_same_and_changes_nothing(register: Register) -> None:
    register.issue(ROOT, "ann")
    before = everything(register)
    for dry, ask in {
        "add": lambda dry: register.add(ROOT, "bob", "viewer", dry=dry),
        "role": lambda dry: register.set_role(ROOT, "ann", "viewer", dry=dry),
        "project": lambda dry: register.add_project(ROOT, "cms", dry=dry),
        "join": lambda dry: register.join(ROOT, "atlas", "bob", dry=dry),
        "part": lambda dry: register.part(ROOT, "atlas", "bob", dry=dry),
        "close": lambda dry: register.close(ROOT, "atlas", dry=dry),
        "leave": lambda dry: register.leave(ROOT, "bob", dry=dry),
    }.items():
        said = ask(True)
        assert everything(register) == before, dry
        assert ask(False) == said, dry
        before = everything(register)
    assert register.issue(ROOT, "ann", dry=True)["text"] == ""
    assert everything(register) == before


def test_what_is_there_already_or_no_more_is_told_and_changes_nothing(register: Register) -> None:
    register.add(ROOT, "bob", "user")
    register.leave(ROOT, "bob")
    register.add_project(ROOT, "cms")
    register.close(ROOT, "cms")
    before = everything(register)
    refused: dict[str, tuple[type[DeskError], Callable[[], object]]] = {
        "person `ann` is there already, with the role `user`": (
            Clash,
            lambda: register.add(ROOT, "ann", "admin", again=True),
        ),
        f"person `bob` left {iso(WALL)}; the jobs": (Clash, lambda: register.add(ROOT, "bob", "user")),
        f"person `bob` left {iso(WALL)}": (Clash, lambda: register.issue(ROOT, "bob")),
        "project `atlas` is there already": (Clash, lambda: register.add_project(ROOT, "atlas")),
        f"project `cms` was closed {iso(WALL)}": (Clash, lambda: register.add_project(ROOT, "cms")),
        "no project is named `cms`": (Unknown, lambda: register.join(ROOT, "cms", "ann")),
        "no person is named `anne`; did you mean `ann`?": (
            Unknown,
            lambda: register.join(ROOT, "atlas", "anne"),
        ),
    }
    for sentence, (kind, ask) in refused.items():
        with pytest.raises(kind) as found:
            ask()
        assert str(found.value).startswith(sentence)
    assert register.join(ROOT, "atlas", "ann")["new"] is False
    assert register.set_role(ROOT, "ann", "user")["before"] == "user"
    assert everything(register) == before


def test_who_leaves_through_the_register_is_cut_off_at_once_there(store: Store) -> None:
    known = People(store)
    register = Register(store, lambda: WALL, known.forget)
    register.add(ROOT, "ann", "user")
    text = register.issue(ROOT, "ann")["text"]
    assert known.caller_of(text, WALL).name == "ann"
    assert register.leave(ROOT, "ann")["revoked"] == 1
    with pytest.raises(NotKnown):
        known.caller_of(text, WALL)


def test_a_person_belongs_to_so_many_projects(store: Store, register: Register) -> None:
    others = [f"p{number}" for number in range(MEMBERSHIPS_EACH_MAX - 1)]
    rows = [{"person": "ann", "project": name, "by": "root", "made_wall_s": WALL} for name in others]
    with store.write() as conn:
        conn.execute(insert(conn, memberships), rows)
    register.add_project(ROOT, "more")
    with pytest.raises(Clash, match=f"a person may belong to {MEMBERSHIPS_EACH_MAX} projects; nothing was"):
        register.join(ROOT, "more", "ann")
    assert register.join(ROOT, "atlas", "ann")["new"] is False
