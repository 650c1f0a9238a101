"""Tokens of an OIDC provider: a text comes in, its person goes out if all of it is as it must be.

Which algorithm is used is said by the key and never by the token; keys that a token brings are not looked at.
A person whom the store knows has the role that the store gives, and nobody who left comes in by this door.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jwt

from glidepath.config.oidc import OidcSettings
from glidepath.core.text import one_line
from glidepath.jobs.caller import ROLES, Caller, Role
from glidepath.people.keys import ProviderKeys
from glidepath.people.keyset import ALGORITHMS, ID_LETTERS_MAX
from glidepath.people.keysource import key_source
from glidepath.people.known import People, Refused
from glidepath.people.names import PERSON, PROJECT
from glidepath.store.engine import Store
from glidepath.store.people import MEMBERSHIPS_EACH_MAX, PeopleStore

TOKEN_LETTERS_MAX = 16 * 1024
WHY_LETTERS_MAX = 200
# As whole numbers of seconds; beyond the year 9999 nothing is meant.
WALL_S_MAX = 253_402_300_800
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
# An identity or an access token; the same provider signs other things that let nobody in, such as log-outs.
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
# Either changes what the signature means, and neither is understood here.
_CRITICAL = ("crit", "b64")
# Everything about time is checked here, by the clock that all of glidepath has.
_OPTIONS: Any = {
    "require": ["exp", "iss", "aud", "sub"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}
Claims = Mapping[str, Any]


class Signers(Protocol):
    """The keys of the provider; raises `Refused` where there is none of this id.

    Without an id the only key that is for the algorithm is meant.
    """

    def key(self, id: str, algorithm: str) -> jwt.PyJWK: ...


@dataclass(frozen=True)
class OidcProvider:
    """One provider, as the settings have it."""

    settings: OidcSettings
    keys: Signers
    people: PeopleStore

    def caller_of(self, text: str, wall: float) -> tuple[Caller, float]:
        claims = self.claims(text)
        ends_wall = checked_times(claims, wall, leeway_s=self.settings.leeway)
        return self.caller(claims), ends_wall

    def claims(self, text: str) -> Claims:
        """What the token says, once it is the provider's own word for this audience."""
        if len(text) > TOKEN_LETTERS_MAX:
            raise Refused(f"it has more than {TOKEN_LETTERS_MAX} letters")
        if not _TOKEN.fullmatch(text):
            raise Refused("it is no token of a provider")
        try:
            header = jwt.get_unverified_header(text)
            algorithm, id = checked_header(header)
            key = self.keys.key(id, algorithm)
            if key.algorithm_name != algorithm:
                raise Refused(f"its key is for {key.algorithm_name}, and it says `alg` is `{algorithm}`")
            issuer, audience = self.settings.issuer, self.settings.audience
            return jwt.decode(
                text, key, algorithms=[algorithm], issuer=issuer, audience=audience, options=_OPTIONS
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            why = one_line(str(error), letters_max=WHY_LETTERS_MAX)
            raise Refused(f"{type(error).__name__}: {why}") from None

    def caller(self, claims: Claims) -> Caller:
        """Who it is; the word of the store goes before that of the provider."""
        name = checked_name(claims, self.settings.name_claim)
        known = self.people.person(name)
        if known is not None and known.left_wall_s is not None:
            raise Refused(f"it is of `{name}`, who left")
        said = role_of(claims, self.settings)
        role = said if known is None else ROLES.get(known.role)
        if role is None:
            raise Refused(f"nothing gives a role to `{name}`, or it is one that this glidepath does not know")
        asked = frozenset(filter(PROJECT.fullmatch, words_at(claims, self.settings.projects_claim)))
        if len(asked) > MEMBERSHIPS_EACH_MAX:
            raise Refused(f"it names more than {MEMBERSHIPS_EACH_MAX} projects")
        own = frozenset(known.projects) if known is not None else frozenset()
        return Caller(name, role, own | self.people.open_projects(asked))


def checked_header(header: Claims) -> tuple[str, str]:
    """The algorithm, and the id of the key, or nothing."""
    algorithm, id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    if algorithm not in ALGORITHMS:
        raise Refused(
            f"its `alg` is `{one_line(str(algorithm), letters_max=40)}`, not {' or '.join(ALGORITHMS)}"
        )
    if "kid" not in header:
        id = ""
    elif not isinstance(id, str) or not 0 < len(id) <= ID_LETTERS_MAX:
        raise Refused("its `kid` is no id of a key")
    if any(name in header for name in _CRITICAL):
        raise Refused(f"its header has {' or '.join(f'`{name}`' for name in _CRITICAL)}")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise Refused(f"its `typ` is `{one_line(str(kind), letters_max=40)}`")
    return algorithm, id


def checked_times(claims: Claims, wall: float, *, leeway_s: int) -> float:
    """When it ends, the leeway included."""
    ends, starts, issued = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None:
        raise Refused("it does not say when it ends")
    if wall >= ends + leeway_s:
        raise Refused("it has ended")
    for name, moment in (("nbf", starts), ("iat", issued)):
        if moment is not None and wall < moment - leeway_s:
            raise Refused(f"it is not valid yet, by `{name}`")
    return ends + leeway_s


def _moment(claims: Claims, name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= WALL_S_MAX:
        raise Refused(f"its `{name}` is no moment")
    return float(found)


def checked_name(claims: Claims, path: str) -> str:
    name = claim_at(claims, path)
    if not isinstance(name, str) or not PERSON.fullmatch(name):
        raise Refused(f"its `{path}` is no name of a person")
    if path == "email" and claims.get("email_verified") is not True:
        raise Refused("its `email` was not verified")
    return name


def role_of(claims: Claims, settings: OidcSettings) -> Role | None:
    """The highest that its words give, or that of everybody; none where there is neither."""
    said = (settings.roles.get(word) for word in words_at(claims, settings.role_claim))
    given = [ROLES[word] for word in (*said, settings.role) if word is not None]
    return max(given, default=None)


def words_at(claims: Claims, path: str) -> Iterable[str]:
    """One word or a list of them; anything else is none."""
    found = claim_at(claims, path) if path else None
    listed = found if isinstance(found, list) else [found]
    return [word for word in listed if isinstance(word, str)]


def claim_at(claims: Claims, path: str) -> Any:
    """A claim by its name, or by names with dots in between where providers put one into the other."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def people_of(store: Store, settings: OidcSettings | None) -> People:
    """Who is known to a store, and to the provider that the settings name, if they name one."""
    known = People(store)
    use_provider(known, settings)
    return known


@dataclass(frozen=True)
class PeopleNow:
    """Who is known by the settings that are in force now, which change while a server runs."""

    known: People
    settings: Callable[[], OidcSettings | None]

    def kept(self, token_text: str, wall: float) -> Caller | None:
        """By the settings of a moment ago."""
        return self.known.kept(token_text, wall)

    def caller_of(self, token_text: str, wall: float) -> Caller:
        use_provider(self.known, self.settings())
        return self.known.caller_of(token_text, wall)


def use_provider(known: People, settings: OidcSettings | None) -> None:
    """Take up settings that may have changed; where they have not, the keys that were read go on."""
    had = known.provider.settings if isinstance(known.provider, OidcProvider) else None
    if had is settings or had == settings:
        return
    # Made first and put there at once: meanwhile others are asked for.
    provider = None if settings is None else provider_of(settings, known.store)
    known.provider = provider
    known.forget()


def provider_of(settings: OidcSettings, store: Store) -> OidcProvider:
    keys = ProviderKeys(key_source(settings), settings.keys_last)
    return OidcProvider(settings, keys, PeopleStore(store))
