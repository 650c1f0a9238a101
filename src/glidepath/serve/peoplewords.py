"""What goes over the wire for people, tokens and projects; the register decides what may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from glidepath.people.register import TOKEN_S, TOKEN_S_MAX, TOKEN_S_MIN
from glidepath.people.wallets import GRANT_LASTS
from glidepath.serve.jobwords import WHY_CHARS_MAX, Asked, Said, span_of
from glidepath.store.wallets import WEIGHT_MAX

NAME_CHARS_MAX = 100


def amount_text(value: object) -> object:
    """A number as people write it: JSON has no whole millionths."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) < AMOUNT_MAX else "a number that long"


AMOUNT_MAX = 10**12
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


# JSON's numbers would do, but for whoever writes them as text to keep them exact.
Amount = Annotated[str, BeforeValidator(amount_text), Field(max_length=32, strict=True)]


class GrantAsked(DryAsked):
    amount: Amount = Field(
        description="How much may be spent, in credits.", json_schema_extra={"type": ["number", "string"]}
    )
    starts: Name = Field("", strict=True, description="From when on: a day, or a date and time; else now.")
    ends: Name = Field(GRANT_LASTS, strict=True, description="Until when, in the same forms, or `+90d`.")
    note: str = Field("", strict=True, max_length=WHY_CHARS_MAX, description="What it is for.")


class TakeAsked(DryAsked):
    amount: Amount = Field(
        description="How much of what is not spent, in credits.",
        json_schema_extra={"type": ["number", "string"]},
    )


class ProjectSet(DryAsked):
    parent: Name | None = Field(
        None, strict=True, description="The project that it draws from, too; empty for none."
    )
    weight: int | None = Field(
        None, ge=1, le=WEIGHT_MAX, strict=True, description="Its part beside its siblings, in fair share."
    )


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


class WalletItem(Said):
    parent: str = Field(description="The project that it draws from, too; empty where there is none.")
    weight: int
    granted: float | None = Field(
        description="In credits, by allocations in force; none where nothing was ever granted."
    )
    left: float | None = Field(description="Of that; below zero where more was spent.")
    dry: bool = Field(description="Whether nothing is left to spend.")


class ProjectItem(WalletItem):
    name: str
    people: list[str]
    by: str
    made: str | None
    gone: str | None


class AllocationItem(Said):
    id: int
    granted: float
    spent: float
    left: float
    in_force: bool
    starts: str | None
    ends: str | None


class ProjectShown(ProjectItem):
    allocations: list[AllocationItem]


class WalletAnswer(WalletItem):
    name: str
    allocations: list[AllocationItem]


class GrantAnswer(WalletAnswer):
    amount: float


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
