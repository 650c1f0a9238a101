"""The register of people: who may come in, with which role, on behalf of which projects, by which tokens.

A caller and a wish come in, plain items or a named refusal go out, as at the desk for jobs: the command line
prints them, the HTTP API sends them. What may be changed by whom is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from glidepath.clock import iso
from glidepath.core.quantity import Instant
from glidepath.core.text import known_word, one_line
from glidepath.core.units import shown_duration
from glidepath.jobs.caller import ROLES, Caller, Role
from glidepath.jobs.errors import Clash, Unusable
from glidepath.people.names import PERSON, PERSON_FORM, PROJECT, PROJECT_FORM
from glidepath.people.refusing import only, unknown
from glidepath.people.wallets import NO_WALLET, Wallets, same_second
from glidepath.store.engine import Store
from glidepath.store.people import Full, Missing, PeopleStore, Person, PersonToken, Project
from glidepath.store.token_rows import ID, NOTE_LETTERS_MAX

Item = dict[str, Any]
# Long enough that nobody hides one in a script for ever, short enough that a lost one ends by itself.
TOKEN_S = 90 * 86400
TOKEN_S_MIN = 60
TOKEN_S_MAX = 366 * 86400
TOKEN_ID = re.compile(ID)


def _unchanged() -> None:
    """Nobody has to be told."""


@dataclass
class Register:
    """The people, projects and tokens of one store, as a caller may see and change them."""

    store: Store
    wall: Callable[[], float]
    changed: Callable[[], None] = _unchanged  # told after every change, such as `People.forget`
    at_wall: Callable[[float], Instant] = same_second

    def __post_init__(self) -> None:
        self._people = PeopleStore(self.store)
        self.wallets = Wallets(self.store, self.wall, lambda wall_s: self.at_wall(wall_s))

    # People.

    def people(self, caller: Caller) -> list[Item]:
        only(caller, Role.ADMIN, "see who there is")
        return [_person(person) for person in self._people.people()]

    def person(self, caller: Caller, name: str) -> Item:
        """One person with their tokens. Everybody may see themselves."""
        if name != caller.name:
            only(caller, Role.ADMIN, "see others")
        found = self._people.person(name) if PERSON.fullmatch(name) else None
        if found is None and caller.role < Role.ADMIN:
            raise unknown(
                "person", name, ()
            )  # A provider knows them, and we do not; names of others are not hinted at.
        return {**_person(found or self._known(name)), "tokens": self.tokens(caller, name)}

    def add(self, caller: Caller, name: str, role: str, *, again: bool = False, dry: bool = False) -> Item:
        only(caller, Role.ADMIN, "let people in")
        _named("person", name, PERSON, PERSON_FORM)
        person = Person(name, _role(role), caller.name, self.wall())
        had = self._people.person(name)
        if had is None or (had.left_wall_s is not None and again):
            if dry:
                return _person(person)
            with self._changing():
                had = self._people.add(person, again=again)
        if had is not None and had.left_wall_s is None:
            raise Clash(f"person `{name}` is there already, with the role `{had.role}`")
        if had is not None and not again:
            raise Clash(
                f"person `{name}` left {iso(had.left_wall_s)}; the jobs of that name are theirs: say `again` "
                "if it is the same person"
            )
        return _person(self._known(name))

    def set_role(self, caller: Caller, name: str, role: str, *, dry: bool = False) -> Item:
        """The person, with `before`: the role that they had."""
        only(caller, Role.ADMIN, "give roles")
        had = self._present(name)
        word = _role(role)
        if not dry and had.role != word:
            with self._changing():
                had = self._people.set_role(name, word)
        return {**_person(had), "role": word, "before": had.role}

    def leave(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        """The person as they were, with `revoked`: how many tokens are no longer in force."""
        only(caller, Role.ADMIN, "send people away")
        had = self._present(name)
        revoked = sum(token.revoked_wall_s is None for token in self._people.tokens(name))
        if not dry:
            with self._changing():
                had, revoked = self._people.leave(name, wall=self.wall())
        return {**_person(had), "revoked": revoked}

    # Tokens.

    def tokens(self, caller: Caller, name: str | None = None) -> list[Item]:
        """Of one person or of all, without their secrets. Everybody may see their own."""
        if name != caller.name:
            only(caller, Role.ADMIN, "see tokens of others")
        if name is not None and name != caller.name:
            self._known(name)
        wall = self.wall()
        return [_token(token, wall) for token in self._people.tokens(name)]

    def issue(
        self, caller: Caller, name: str, *, for_s: int = TOKEN_S, note: str = "", dry: bool = False
    ) -> Item:
        """The token with its `text`, which is shown this once; empty where nothing was issued."""
        only(caller, Role.ADMIN, "issue tokens")
        if not TOKEN_S_MIN <= for_s <= TOKEN_S_MAX:
            raise Unusable(
                f"a token lasts from {shown_duration(TOKEN_S_MIN)} to {shown_duration(TOKEN_S_MAX)}, "
                f"not {shown_duration(for_s) if for_s >= 0 else for_s}"
            )
        if len(note) > NOTE_LETTERS_MAX or not (note.isprintable() or not note):
            raise Unusable(f"a note is one printable line of at most {NOTE_LETTERS_MAX} letters")
        self._present(name)
        wall = self.wall()
        if dry:
            return {**_token(PersonToken("", name, note, caller.name, wall, wall + for_s), wall), "text": ""}
        with self._changing():
            token, text = self._people.issue(
                name, by=caller.name, note=note, wall=wall, ends_wall=wall + for_s
            )
        return {**_token(token, wall), "text": text}

    def revoke(self, caller: Caller, id: str, *, dry: bool = False) -> Item:
        """The token as it was before. Everybody may revoke their own."""
        had = self._people.token(id) if TOKEN_ID.fullmatch(id) else None
        if had is None or (had.person != caller.name and caller.role < Role.ADMIN):
            mine = None if caller.role >= Role.ADMIN else caller.name
            raise unknown("token", id, (token.id for token in self._people.tokens(mine)))
        if not dry and had.revoked_wall_s is None:
            with self._changing():
                had = self._people.revoke(id, wall=self.wall()) or had
        return _token(had, self.wall())

    # Projects.

    def projects(self, caller: Caller) -> list[Item]:
        """Their own; operators see all."""
        wallets = self.wallets.items()
        return [
            {**_project(project), **wallets[project.name]}
            for project in self._people.projects()
            if (caller.sees_all or project.name in caller.projects) and project.name in wallets
        ]

    def project(self, caller: Caller, name: str) -> Item:
        seen = {item["name"]: item for item in self.projects(caller)}
        if name not in seen:
            raise unknown("project", name, seen)
        return {**seen[name], **self.wallets.wallet(caller, name)}

    def add_project(self, caller: Caller, name: str, *, again: bool = False, dry: bool = False) -> Item:
        only(caller, Role.ADMIN, "make projects")
        _named("project", name, PROJECT, PROJECT_FORM)
        project = Project(name, caller.name, self.wall())
        had = next((each for each in self._people.projects() if each.name == name), None)
        if had is None or (had.gone_wall_s is not None and again):
            if dry:
                return {**_project(project), **NO_WALLET}
            with self._changing():
                had = self._people.add_project(project, again=again)
        if had is not None and had.gone_wall_s is None:
            raise Clash(f"project `{name}` is there already")
        if had is not None and not again:
            raise Clash(
                f"project `{name}` was closed {iso(had.gone_wall_s)}; its jobs still name it: say `again` if "
                "it is the same project"
            )
        [made] = [each for each in self.projects(caller) if each["name"] == name]
        return made

    def join(self, caller: Caller, project: str, name: str, *, dry: bool = False) -> Item:
        """`new` is false where they belonged to it already."""
        return self._membership(caller, project, name, joins=True, dry=dry)

    def part(self, caller: Caller, project: str, name: str, *, dry: bool = False) -> Item:
        """`new` is false where they did not belong to it."""
        return self._membership(caller, project, name, joins=False, dry=dry)

    def _membership(self, caller: Caller, project: str, name: str, *, joins: bool, dry: bool) -> Item:
        only(caller, Role.ADMIN, "say who belongs to a project")
        self._open(project)
        new = (project in self._present(name).projects) != joins
        if new and not dry:
            with self._changing():
                if joins:
                    new = self._people.join(name, project, by=caller.name, wall=self.wall())
                else:
                    new = self._people.part(name, project)
        return {"name": project, "person": name, "new": new}

    def close(self, caller: Caller, name: str, *, dry: bool = False) -> Item:
        """The project as it was: who belonged to it does so no longer."""
        only(caller, Role.ADMIN, "close projects")
        had = {**_project(self._open(name)), **self.wallets.items().get(name, NO_WALLET)}
        if not dry:
            with self._changing():
                self._people.close_project(name, wall=self.wall())
        return had

    # What there is.

    def _known(self, name: str) -> Person:
        # What is no name at all is not looked for: databases have their own words for odd characters.
        person = self._people.person(name) if PERSON.fullmatch(name) else None
        if person is None:
            raise unknown("person", name, (each.name for each in self._people.people()))
        return person

    def _present(self, name: str) -> Person:
        person = self._known(name)
        if person.left_wall_s is not None:
            raise _gone(name, person)
        return person

    def _open(self, name: str) -> Project:
        known = {project.name: project for project in self._people.projects() if project.gone_wall_s is None}
        if name not in known:
            raise unknown("project", name, known)
        return known[name]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Whatever came in between is told like what was so before."""
        try:
            yield
        except Missing as error:
            raise Clash(f"{error.kind} `{error.name}` has gone meanwhile; nothing was changed") from None
        except Full as error:
            raise Clash(f"{error}; nothing was changed") from None
        self.changed()


def _gone(name: str, person: Person) -> Clash:
    return Clash(f"person `{name}` left {iso(person.left_wall_s)}")


def _role(word: str) -> str:
    try:
        return known_word(word, ROLES)
    except ValueError as error:
        raise Unusable(f"the role {error}") from None


def _named(kind: str, name: str, form: re.Pattern[str], words: str) -> None:
    if not form.fullmatch(name):
        raise Unusable(f"`{one_line(name)}` is no name of a {kind}; write {words}")


def _person(person: Person) -> Item:
    return {
        "name": person.name,
        "role": person.role,
        "projects": list(person.projects),
        "by": person.by,
        "made": iso(person.made_wall_s),
        "left": iso(person.left_wall_s),
    }


def _project(project: Project) -> Item:
    return {
        "name": project.name,
        "people": list(project.people),
        "by": project.by,
        "made": iso(project.made_wall_s),
        "gone": iso(project.gone_wall_s),
    }


def _token(token: PersonToken, wall: float) -> Item:
    return {
        "name": token.id,
        "person": token.person,
        "in_force": token.in_force(wall),
        "note": token.note,
        "by": token.by,
        "issued": iso(token.issued_wall_s),
        "ends": iso(token.ends_wall_s),
        "used": iso(token.used_wall_s),
        "revoked": iso(token.revoked_wall_s),
    }
