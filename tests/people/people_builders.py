"""Builders for tests of people: a store with somebody in it, and tokens of theirs."""

from __future__ import annotations

from glidepath.store.people import PeopleStore, Person, Project

WALL = 1_800_000_000.0
DAY_S = 86400.0


def with_person(
    people: PeopleStore, name: str = "ann", role: str = "user", *, projects: tuple[str, ...] = ()
) -> PeopleStore:
    assert people.add(Person(name, role, "root", WALL)) is None
    for project in projects:
        people.add_project(Project(project, "root", WALL))
        people.join(name, project, by="root", wall=WALL)
    return people


def token_of(people: PeopleStore, name: str = "ann", *, days: float = 90, wall: float = WALL) -> str:
    return people.issue(name, by="root", note="", wall=wall, ends_wall=wall + days * DAY_S)[1]


class Steady:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
