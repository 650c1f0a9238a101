"""Who asks, and what a role may do. Values only: how somebody proved who they are is known elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """Each may do what those before it may, so that a comparison is the rule."""

    VIEWER = 1  # reads what is their own
    USER = 2  # submits, and changes what is their own
    OPERATOR = 3  # sees and changes every job, pauses queues, cordons nodes
    ADMIN = 4  # also people, their tokens, and projects

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES = {role.word: role for role in Role}


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who has shown who they are. Whoever can open the store themselves is an admin of it."""

    name: str
    role: Role
    projects: frozenset[str] = frozenset()

    @property
    def sees_all(self) -> bool:
        return self.role >= Role.OPERATOR

    def sees(self, owner: str, project: str) -> bool:
        """Their own jobs, and to read those of their projects."""
        return self.sees_all or owner == self.name or (bool(project) and project in self.projects)

    def changes(self, owner: str) -> bool:
        return self.sees_all or (self.role >= Role.USER and owner == self.name)

    def pays(self, project: str) -> bool:
        """Whether they may submit on behalf of a project; none is everybody's."""
        return not project or self.role >= Role.ADMIN or project in self.projects
