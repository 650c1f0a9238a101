"""The settings of an OIDC provider, whose tokens people may show: strict, and every key explained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from glidepath.config.address import checked_url
from glidepath.config.fields import Duration, Span, Text, Word
from glidepath.config.tables import DAY_S, MINUTE_S, Table

LEEWAY_S_MAX = 5 * MINUTE_S
KEYS_LAST_S_MAX = 7 * DAY_S
# The words of `glidepath.jobs.caller`, which this module must not know; a test compares them.
RoleWord = Literal["viewer", "user", "operator", "admin"]
_SPOOFED = "whoever is on the way could say who people are"


def _issuer(url: str) -> str:
    return checked_url(url, example="https://login.example.org/realms/lab", why=_SPOOFED)


def _keys(text: str) -> str:
    if "://" in text:
        return checked_url(text, example="https://login.example.org/certs", why=_SPOOFED)
    if text and not Path(text).is_absolute():
        raise ValueError("must be an address, or the absolute path of a file")
    return text


def _leeway(seconds: int) -> int:
    if seconds > LEEWAY_S_MAX:
        raise ValueError("must be at most `5m`: clocks that are further apart need mending")
    return seconds


def _keys_last(seconds: int) -> int:
    if seconds > KEYS_LAST_S_MAX:
        raise ValueError("must be at most `7d`: a key that was withdrawn would be good for as long")
    return seconds


class OidcSettings(Table):
    """An OIDC provider whose tokens people may show, beside those of `glidepath person issue`."""

    issuer: Annotated[str, AfterValidator(_issuer)] = Field(
        description="The provider, exactly as its tokens say it in `iss`."
    )
    audience: Word = Field(
        description="What tokens must be meant for: one of those that `aud` names. A token for another "
        "service of the same provider is refused."
    )
    keys: Annotated[Text, AfterValidator(_keys)] = Field(
        default="",
        description="Where the provider's public keys are (JWKS): an address, or the absolute path of a "
        "file. Unset, the issuer says where, at `/.well-known/openid-configuration`.",
    )
    keys_last: Annotated[Span, AfterValidator(_keys_last)] = Field(
        default=DAY_S,
        description="How long keys that were read are used while the provider is silent; after that its "
        "tokens are refused. At most a week.",
    )
    ca_file: Text = Field(
        default="", description="Certificates that the provider's is checked with. By default the system's."
    )
    name_claim: Word = Field(
        default="sub",
        description="The claim with the name of a person, which is also the owner of their jobs. `sub` is "
        "the only one that no provider gives to another person later; `preferred_username` reads better "
        "where people cannot change it. `email` counts only where `email_verified` is true.",
    )
    role_claim: Text = Field(
        default="",
        description="The claim with the groups or roles that `roles` names, such as `groups` or "
        "`realm_access.roles`. Unset, no token says anything about roles.",
    )
    roles: Mapping[Word, RoleWord] = Field(
        default_factory=dict,
        description='Which role each word of `role_claim` gives, such as `{ hpc-admins = "operator" }`; the '
        "highest counts. A role given by `glidepath person` counts before all of them.",
    )
    role: RoleWord | None = Field(
        default=None,
        description="The role of those to whom neither `glidepath person` nor `roles` gives one. Unset, they "
        "are not let in, because a provider knows many more people than should be.",
    )
    projects_claim: Text = Field(
        default="",
        description="The claim with names of projects, beside those that `glidepath project join` says. One "
        "that `glidepath project` does not know is passed over.",
    )
    leeway: Annotated[Duration, AfterValidator(_leeway)] = Field(
        default=30, description="How far the clocks of the two may be apart. At most five minutes."
    )

    @model_validator(mode="after")
    def _agrees(self) -> OidcSettings:
        if bool(self.role_claim) != bool(self.roles):
            raise ValueError("needs both `role_claim` and `roles`, or neither")
        return self
