"""People and projects as the store keeps them: who there is, who belongs to what, whose token this is.

Each call is one transaction, and decides within it: of two that happen at once one sees what the other did.
It refuses to know what a role may do, and what is said to whom.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, delete, func, select, update

from glidepath.store.engine import Store, insert, storable
from glidepath.store.people_rows import memberships, people, person_tokens, projects
from glidepath.store.token_rows import (
    ID,
    NOTE_LETTERS_MAX,
    SECRET,
    TOKENS_MAX,
    digest_of,
    drawn,
    note_use,
    row_revoked,
    row_shown,
)

PREFIX = "gpp"
# Lists of people are always whole; whoever has more of them has a provider that keeps the list.
PEOPLE_MAX = 20_000
PROJECTS_MAX = 10_000
MEMBERSHIPS_EACH_MAX = 500
TOKENS_EACH_MAX = 50
_TOKEN = re.compile(rf"{PREFIX}\.({ID})\.({SECRET})")


class Missing(LookupError):
    """There is no such person or project, or no more."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind, self.name = kind, name


class Full(ValueError):
    """As many as may be are there already; the sentence says of what."""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    role: str
    by: str
    made_wall_s: float
    left_wall_s: float | None = None
    projects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    by: str
    made_wall_s: float
    gone_wall_s: float | None = None
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonToken:
    """All that is kept of one token but its digest."""

    id: str
    person: str
    note: str
    by: str
    issued_wall_s: float
    ends_wall_s: float
    used_wall_s: float | None = None
    revoked_wall_s: float | None = None

    def in_force(self, wall: float) -> bool:
        return self.revoked_wall_s is None and wall < self.ends_wall_s


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is behind a token whose secret is the right one: it may have ended, they may have left."""

    token: PersonToken
    person: Person | None


class PeopleStore:
    """The people, projects and tokens of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # People.

    def people(self) -> list[Person]:
        with self._store.read() as conn:
            of = _memberships(conn)
            rows = conn.execute(select(people).order_by(people.c.name).limit(PEOPLE_MAX))
            return [_person(row, tuple(of[row.name])) for row in rows]

    def person(self, name: str) -> Person | None:
        with self._store.read() as conn:
            return _found(conn, name)

    def add(self, person: Person, *, again: bool = False) -> Person | None:
        """Who had the name before, if anybody. One who left comes back only if that is meant."""
        row = {"name": person.name, "role": person.role, "by": person.by, "made_wall_s": person.made_wall_s}
        with self._store.write() as conn:
            _room(conn, people, PEOPLE_MAX, "people")
            if _new(conn, people, row):
                return None
            had = _found(conn, person.name, locked=True)
            assert had is not None
            if had.left_wall_s is not None and again:
                mine = update(people).where(people.c.name == person.name)
                conn.execute(mine.values(role=person.role, by=person.by, left_wall_s=None))
            return had

    def set_role(self, name: str, role: str) -> Person:
        """The person as they were before."""
        with self._store.write() as conn:
            had = _present(conn, name)
            conn.execute(update(people).where(people.c.name == name).values(role=role))
            return had

    def leave(self, name: str, *, wall: float) -> tuple[Person, int]:
        """They are out of every project and their tokens are revoked: who they were, and how many tokens."""
        with self._store.write() as conn:
            had = _present(conn, name)
            conn.execute(update(people).where(people.c.name == name).values(left_wall_s=wall))
            return had, _cut_off(conn, name, wall=wall)

    # Projects.

    def projects(self) -> list[Project]:
        with self._store.read() as conn:
            of: defaultdict[str, list[str]] = defaultdict(list)
            for person, names in _memberships(conn).items():
                for name in names:
                    of[name].append(person)
            rows = conn.execute(select(projects).order_by(projects.c.name).limit(PROJECTS_MAX))
            return [_project(row, tuple(sorted(of[row.name]))) for row in rows]

    def open_projects(self, names: frozenset[str]) -> frozenset[str]:
        """Those of them that there are."""
        if not names:
            return frozenset()
        query = select(projects.c.name).where(projects.c.name.in_(sorted(names)))
        with self._store.read() as conn:
            return frozenset(conn.execute(query.where(projects.c.gone_wall_s.is_(None))).scalars())

    def add_project(self, project: Project, *, again: bool = False) -> Project | None:
        """The one that had the name before, if any. One that was closed opens only if that is meant."""
        row = {"name": project.name, "by": project.by, "made_wall_s": project.made_wall_s}
        with self._store.write() as conn:
            _room(conn, projects, PROJECTS_MAX, "projects")
            if _new(conn, projects, row):
                return None
            mine = projects.c.name == project.name
            had = conn.execute(select(projects).where(mine).with_for_update()).one()
            if had.gone_wall_s is not None and again:
                conn.execute(update(projects).where(mine).values(by=project.by, gone_wall_s=None))
            return _project(had, ())

    def close_project(self, name: str, *, wall: float) -> int:
        """Nobody belongs to it any more: how many did."""
        with self._store.write() as conn:
            _open(conn, name)
            conn.execute(update(projects).where(projects.c.name == name).values(gone_wall_s=wall))
            return conn.execute(delete(memberships).where(memberships.c.project == name)).rowcount

    def join(self, name: str, project: str, *, by: str, wall: float) -> bool:
        """Whether it is news that they belong to it."""
        row = {"person": name, "project": project, "by": by, "made_wall_s": wall}
        with self._store.write() as conn:
            had = _present(conn, name)
            _open(conn, project)
            if project not in had.projects and len(had.projects) >= MEMBERSHIPS_EACH_MAX:
                raise Full(f"a person may belong to {MEMBERSHIPS_EACH_MAX} projects")
            return _new(conn, memberships, row)

    def part(self, name: str, project: str) -> bool:
        """Whether it is news that they do not."""
        mine = (memberships.c.person == name, memberships.c.project == project)
        with self._store.write() as conn:
            _present(conn, name)
            _open(conn, project)
            return bool(conn.execute(delete(memberships).where(*mine)).rowcount)

    # Tokens.

    def issue(
        self, name: str, *, by: str, note: str, wall: float, ends_wall: float
    ) -> tuple[PersonToken, str]:
        """A new token and its text, which is nowhere else and cannot be had again."""
        id, secret = drawn()
        kept = PersonToken(id, name, storable(note, letters_max=NOTE_LETTERS_MAX), by, wall, ends_wall)
        row = {
            "id": id,
            "person": name,
            "digest": digest_of(secret),
            "note": kept.note,
            "by": by,
            "issued_wall_s": wall,
            "ends_wall_s": ends_wall,
        }
        with self._store.write() as conn:
            _present(conn, name)
            mine = (person_tokens.c.person == name, person_tokens.c.revoked_wall_s.is_(None))
            count = select(func.count()).where(*mine, person_tokens.c.ends_wall_s > wall)
            if (conn.execute(count).scalar() or 0) >= TOKENS_EACH_MAX:
                raise Full(f"a person may have {TOKENS_EACH_MAX} tokens at a time")
            conn.execute(insert(conn, person_tokens).values(row))
        return kept, f"{PREFIX}.{id}.{secret}"

    def tokens(self, name: str | None = None) -> list[PersonToken]:
        """Of one person or of all: the newest, oldest of them first."""
        query = select(person_tokens)
        if name is not None:
            query = query.where(person_tokens.c.person == name)
        newest = query.order_by(person_tokens.c.issued_wall_s.desc(), person_tokens.c.id.desc())
        with self._store.read() as conn:
            return [_token(row) for row in conn.execute(newest.limit(TOKENS_MAX))][::-1]

    def token(self, id: str) -> PersonToken | None:
        with self._store.read() as conn:
            row = conn.execute(select(person_tokens).where(person_tokens.c.id == id)).first()
        return None if row is None else _token(row)

    def revoke(self, id: str, *, wall: float) -> PersonToken | None:
        """The token as it was before; None where there is none of this id."""
        with self._store.write() as conn:
            row = row_revoked(conn, person_tokens, id, wall=wall)
        return None if row is None else _token(row)

    def shown(self, text: str) -> Shown | None:
        """What is behind a token; None where it is none of ours, or its secret is not the right one."""
        found = _TOKEN.fullmatch(text)
        if found is None:
            return None
        with self._store.read() as conn:
            row = row_shown(conn, person_tokens, found[1], digest_of(found[2]))
            return None if row is None else Shown(_token(row), _found(conn, row.person))

    def note_use(self, token: PersonToken, *, wall: float) -> None:
        note_use(self._store, person_tokens, token, wall=wall)


def _found(conn: Connection, name: str, *, locked: bool = False) -> Person | None:
    query = select(people).where(people.c.name == name)
    # Whoever changes something of a person holds their row, so that leaving comes wholly before or after.
    row = conn.execute(query.with_for_update() if locked else query).first()
    if row is None:
        return None
    of = select(memberships.c.project).where(memberships.c.person == name).order_by(memberships.c.project)
    return _person(row, tuple(conn.execute(of.limit(MEMBERSHIPS_EACH_MAX)).scalars()))


def _present(conn: Connection, name: str) -> Person:
    person = _found(conn, name, locked=True)
    if person is None or person.left_wall_s is not None:
        raise Missing("person", name)
    return person


def _open(conn: Connection, name: str) -> None:
    row = conn.execute(select(projects).where(projects.c.name == name).with_for_update()).first()
    if row is None or row.gone_wall_s is not None:
        raise Missing("project", name)


def _cut_off(conn: Connection, name: str, *, wall: float) -> int:
    conn.execute(delete(memberships).where(memberships.c.person == name))
    mine = (person_tokens.c.person == name, person_tokens.c.revoked_wall_s.is_(None))
    return conn.execute(update(person_tokens).where(*mine).values(revoked_wall_s=wall)).rowcount


def _new(conn: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Whether the row was not there; one that was stays as it is."""
    key = table.primary_key.columns.values()[0]
    made = insert(conn, table).values(row).on_conflict_do_nothing().returning(key)
    return conn.execute(made).first() is not None


def _room(conn: Connection, table: Table, most: int, what: str) -> None:
    if (conn.execute(select(func.count()).select_from(table)).scalar() or 0) >= most:
        raise Full(f"there may be {most} {what}, those that were once counted too")


def _memberships(conn: Connection) -> defaultdict[str, list[str]]:
    of: defaultdict[str, list[str]] = defaultdict(list)
    query = select(memberships.c.person, memberships.c.project)
    for row in conn.execute(query.order_by(memberships.c.person, memberships.c.project)):
        of[row.person].append(row.project)
    return of


def _person(row: Row[Any], projects: tuple[str, ...]) -> Person:
    return Person(row.name, row.role, row.by, row.made_wall_s, row.left_wall_s, projects)


def _project(row: Row[Any], people: tuple[str, ...]) -> Project:
    return Project(row.name, row.by, row.made_wall_s, row.gone_wall_s, people)


def _token(row: Row[Any]) -> PersonToken:
    return PersonToken(
        id=row.id,
        person=row.person,
        note=row.note,
        by=row.by,
        issued_wall_s=row.issued_wall_s,
        ends_wall_s=row.ends_wall_s,
        used_wall_s=row.used_wall_s,
        revoked_wall_s=row.revoked_wall_s,
    )
