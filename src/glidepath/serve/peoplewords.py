"""What goes over the wire for people, tokens and projects; the register decides what may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from glidepath.people.register import TOKEN_S, TOKEN_S_MAX, TOKEN_S_MIN
from glidepath.serve.jobwords import WHY_CHARS_MAX, Asked, Said, span_of

NAME_CHARS_MAX = 100
Name = Annotated[str, Field(max_length=NAME_CHARS_MAX)]
RoleWord = Literal["viewer", "user", "operator", "admin"]


class DryAsked(Asked):
    dry: bool = Field(False, strict=True, description="Only say what would be.")


class PersonAsked(DryAsked):
    name: Name = Field(strict=True, description="Who, as tokens and jobs will name them.")
    role: RoleWord = Field("user", description="What they may do.")
    again: bool = Field(False, strict=True, description="Somebody who left, and is the same person.")


class RoleAsked(DryAsked):
    role: RoleWord = Field(description="What they may do from now on.")


class TokenAsked(DryAsked):
    lasts: Annotated[int, BeforeValidator(span_of), Field(ge=TOKEN_S_MIN, le=TOKEN_S_MAX, strict=True)] = (
        Field(
            TOKEN_S,
            description="How long, in seconds or as `90d`.",
            json_schema_extra={"type": ["integer", "string"]},
        )
    )
    note: str = Field("", strict=True, max_length=WHY_CHARS_MAX, description="What it is for.")


class ProjectAsked(DryAsked):
    name: Name = Field(strict=True, description="Its name.")
    again: bool = Field(False, strict=True, description="One that was closed, and is the same project.")


class MemberAsked(DryAsked):
    person: Name = Field(strict=True, description="Who.")


class MeAnswer(Said):
    name: str
    role: RoleWord
    projects: list[str]


class PersonItem(Said):
    name: str
    role: str
    projects: list[str]
    by: str
    made: str | None
    left: str | None


class TokenItem(Said):
    name: str
    person: str
    in_force: bool
    note: str
    by: str
    issued: str | None
    ends: str | None
    used: str | None
    revoked: str | None


class PersonShown(PersonItem):
    tokens: list[TokenItem]


class RoleAnswer(PersonItem):
    before: str


class LeaveAnswer(PersonItem):
    revoked: int


class TokenIssued(TokenItem):
    text: str = Field(description="The token, shown this once and kept nowhere.")


class ProjectItem(Said):
    name: str
    people: list[str]
    by: str
    made: str | None
    gone: str | None


class MemberAnswer(Said):
    name: str
    person: str
    new: bool


class PeopleAnswer(Said):
    people: list[PersonItem]


class TokensAnswer(Said):
    tokens: list[TokenItem]


class ProjectsAnswer(Said):
    projects: list[ProjectItem]
