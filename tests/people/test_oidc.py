"""Tokens of an OIDC provider: who is known by one; forged, old and odd ones are refused in the same words."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import jwt
import pytest
from jwt.algorithms import RSAAlgorithm
from jwt.utils import base64url_encode

from glidepath.config.oidc import RoleWord
from glidepath.jobs.caller import ROLES, Caller, Role
from glidepath.people.known import NotKnown, People
from glidepath.people.oidc import TOKEN_LETTERS_MAX, people_of
from glidepath.store.engine import Store, open_store
from glidepath.store.migrations import migrate
from glidepath.store.people import PeopleStore, Project
from people.oidc_provider import AUDIENCE, Provider, ec_key, provider, public_jwk, public_pem, rsa_key
from people.people_builders import DAY_S, WALL, Steady, token_of, with_person

ANN = Caller("ann", Role.USER)
SAID = "no token that is in force was shown"


@pytest.fixture(scope="module")
def lab() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture(scope="module")
def attacked_people(lab: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """One store and one provider for all attacks: a good token must be known before and after each."""
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('attacked')}/glidepath.db") as store:
        migrate(store)
        yield people_of(store, lab.settings())


@pytest.fixture
def attacked(attacked_people: People) -> People:
    """Who has just come up, and remembers no answer and no reason."""
    return People(attacked_people.store, attacked_people.provider)


def part(value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64url_encode(text).decode()


def spelled(lab: Provider, header: object, claims: object = None, *, sign: bytes | None = None) -> str:
    """By hand, for what no library would write; really signed by the provider's key unless said otherwise."""
    signed = f"{part(header)}.{part(lab.claims() if claims is None else claims)}"
    if sign is None:
        sign = RSAAlgorithm(RSAAlgorithm.SHA256).sign(signed.encode(), rsa_key())
    return f"{signed}.{base64url_encode(sign).decode()}"


def said(lab: Provider, claims: object) -> str:
    return spelled(lab, {"alg": "RS256", "kid": "r1"}, claims)


def with_header(lab: Provider, **more: Any) -> str:
    return spelled(lab, {"alg": "RS256", "kid": "r1", "typ": "JWT", **more})


def hs256(lab: Provider, secret: bytes, kid: str = "r1") -> str:
    signed = f"{part({'alg': 'HS256', 'kid': kid, 'typ': 'JWT'})}.{part(lab.claims())}"
    return f"{signed}.{base64url_encode(hmac.digest(secret, signed.encode(), hashlib.sha256)).decode()}"


def cut(text: str, place: int, by: Callable[[str], str]) -> str:
    parts = text.split(".")
    parts[place] = by(parts[place])
    return ".".join(parts)


EVIL = public_jwk(rsa_key("evil"), "evil")
EVIL_URL = "/evil"
# By which of several protections, where each alone would do.
REASONS = {
    "alg none, signed": "its `alg` is `none`, not RS256 or ES256",
    "no alg": "its `alg` is `None`",
    "HS256 with the public key as secret": "its `alg` is `HS256`",
    "RS512 by the right key": "its `alg` is `RS512`",
    "ES256 with the id of an RSA key": "its key is for RS256, and it says `alg` is `ES256`",
    "RS256 with the id of an EC key": "its key is for ES256, and it says `alg` is `RS256`",
    "RS256 said, by another key": "InvalidSignatureError",
    "a key in the header, a known id": "InvalidSignatureError",
    "a key in the header": "the provider has no key `evil`",
    "no issuer": 'MissingRequiredClaimError: Token is missing the "iss" claim',
    "no subject": 'MissingRequiredClaimError: Token is missing the "sub" claim',
    "expired": "it has ended",
    "no kid, by another key": "InvalidSignatureError",
}
Forge = Callable[[Provider], str]
FORGED: dict[str, Forge] = {
    "alg none": lambda lab: spelled(lab, {"alg": "none", "kid": "r1"}, sign=b""),
    "alg none, signed": lambda lab: spelled(lab, {"alg": "none", "kid": "r1"}),
    "alg nOnE": lambda lab: spelled(lab, {"alg": "nOnE", "kid": "r1"}),
    "alg none by the library": lambda lab: jwt.encode(lab.claims(), None, "none", headers={"kid": "r1"}),
    "no alg": lambda lab: spelled(lab, {"kid": "r1"}),
    "alg is a list": lambda lab: spelled(lab, {"alg": ["RS256"], "kid": "r1"}),
    "HS256 with the public key as secret": lambda lab: hs256(lab, public_pem(rsa_key())),
    "HS256 with the JWK as secret": lambda lab: hs256(lab, json.dumps(lab.keys[0]).encode()),
    "HS256 with the modulus as secret": lambda lab: hs256(
        lab, base64.urlsafe_b64decode(lab.keys[0]["n"] + "==")
    ),
    "HS256 with nothing as secret": lambda lab: hs256(lab, b"", "e1"),
    "RS512 by the right key": lambda lab: lab.token(alg="RS512"),
    "PS256 by the right key": lambda lab: lab.token(alg="PS256"),
    "RS256 said, by another key": lambda lab: lab.token(key=rsa_key("evil")),
    "ES256 said, by another key": lambda lab: lab.token("e1", ec_key("evil")),
    "ES256 with the id of an RSA key": lambda lab: lab.token("r1", ec_key()),
    "RS256 with the id of an EC key": lambda lab: lab.token("e1", rsa_key()),
    "ES256 of zeros": lambda lab: spelled(lab, {"alg": "ES256", "kid": "e1"}, sign=bytes(64)),
    "no signature": lambda lab: cut(lab.token(), 2, lambda _: ""),
    "half a signature": lambda lab: cut(lab.token(), 2, lambda sign: sign[: len(sign) // 2]),
    "other claims under a signature": lambda lab: cut(lab.token(), 1, lambda _: part(lab.claims(sub="root"))),
    "another header over a signature": lambda lab: cut(
        lab.token(), 0, lambda _: part({"alg": "RS256", "kid": "r1", "typ": "JWT", "x": 1})
    ),
    "a key in the header": lambda lab: jwt.encode(
        lab.claims(), rsa_key("evil"), "RS256", headers={"kid": "evil", "jwk": EVIL}
    ),
    "a key in the header, a known id": lambda lab: jwt.encode(
        lab.claims(), rsa_key("evil"), "RS256", headers={"kid": "r1", "jwk": EVIL}
    ),
    "an address of keys in the header": lambda lab: jwt.encode(
        lab.claims(), rsa_key("evil"), "RS256", headers={"kid": "evil", "jku": lab.url + EVIL_URL}
    ),
    "an address of a certificate in the header": lambda lab: jwt.encode(
        lab.claims(), rsa_key("evil"), "RS256", headers={"kid": "evil", "x5u": lab.url + EVIL_URL}
    ),
    "crit": lambda lab: with_header(lab, crit=["exp"]),
    "crit with what the library knows": lambda lab: with_header(lab, crit=["b64"], b64=True),
    "crit of nothing": lambda lab: with_header(lab, crit=[]),
    "b64": lambda lab: with_header(lab, b64=False),
    "a log-out": lambda lab: with_header(lab, typ="logout+jwt"),
    "a type that is no text": lambda lab: with_header(lab, typ=["JWT"]),
    "an unknown key": lambda lab: lab.token("r9", rsa_key()),
    "no kid, by another key": lambda lab: lab.token(None, rsa_key("evil")),
    "no kid, and ES256 of the RSA key's numbers": lambda lab: spelled(lab, {"alg": "ES256"}),
    "a kid that is nothing": lambda lab: with_header(lab, kid=None),
    "an empty kid": lambda lab: with_header(lab, kid=""),
    "a kid that is a number": lambda lab: with_header(lab, kid=1),
    "a kid that leads elsewhere": lambda lab: with_header(lab, kid="../../etc/passwd\x1b[2J"),
    "a long kid": lambda lab: with_header(lab, kid="r" * 1000),
    "another audience": lambda lab: lab.token(aud="other"),
    "other audiences": lambda lab: lab.token(aud=["other", AUDIENCE + "2"]),
    "no audience": lambda lab: lab.token(aud=...),
    "an empty audience": lambda lab: lab.token(aud=[]),
    "an audience that is a number": lambda lab: lab.token(aud=1),
    "another issuer": lambda lab: lab.token(iss="https://evil.example.org"),
    "nearly the issuer": lambda lab: lab.token(iss=lab.issuer + "/"),
    "no issuer": lambda lab: lab.token(iss=...),
    "issuers": lambda lab: said(lab, lab.claims(iss=[lab.issuer])),
    "expired": lambda lab: lab.token(exp=WALL - 31),
    "no end": lambda lab: lab.token(exp=...),
    "an end that is null": lambda lab: lab.token(exp=None),
    "an end that is text": lambda lab: said(lab, lab.claims(exp="9999999999")),
    "an end that is true": lambda lab: lab.token(exp=True),
    "an end that is no number": lambda lab: lab.token(exp=float("nan")),
    "an endless end": lambda lab: lab.token(exp=float("inf")),
    "an end after all time": lambda lab: lab.token(exp=10**30),
    "not yet valid": lambda lab: lab.token(nbf=WALL + 31),
    "a start that is true": lambda lab: lab.token(nbf=True),
    "issued in the future": lambda lab: lab.token(iat=WALL + 31),
    "issued at text": lambda lab: said(lab, lab.claims(iat="now")),
    "no subject": lambda lab: lab.token(sub=...),
    "a subject that is a number": lambda lab: said(lab, lab.claims(sub=7)),
    "a subject with a line break": lambda lab: lab.token(sub="ann\nroot"),
    "a subject that leads elsewhere": lambda lab: lab.token(sub="../root"),
    "a subject with a null": lambda lab: lab.token(sub="ann\0"),
    "a long subject": lambda lab: lab.token(sub="a" * 101),
    "an empty subject": lambda lab: lab.token(sub=""),
    "too long": lambda lab: lab.token(more="x" * TOKEN_LETTERS_MAX),
    "a megabyte": lambda lab: f"a.{'b' * (1 << 20)}.c",
    "a deep header": lambda lab: spelled(lab, b"[" * 8000),
    "a deep object in the header": lambda lab: spelled(lab, b'{"a":' * 1500 + b"1" + b"}" * 1500),
    "deep claims": lambda lab: said(lab, b"[" * 8000),
    "a header that is a list": lambda lab: spelled(lab, []),
    "a header that is not JSON": lambda lab: spelled(lab, b"\xff\xfe{"),
    "claims that are a list": lambda lab: said(lab, [lab.claims()]),
    "claims that are not JSON": lambda lab: said(lab, b"\xff"),
    "two parts": lambda lab: lab.token().rpartition(".")[0],
    "four parts": lambda lab: f"{lab.token()}.x",
    "five parts": lambda lab: "a.b.c.d.e",
    "a line break at the end": lambda lab: f"{lab.token()}\n",
    "a blank before": lambda lab: f" {lab.token()}",
    "filled up": lambda lab: f"{lab.token()}==",
    "letters of another alphabet": lambda lab: lab.token().replace(".", "\uff0e"),
    "half a character": lambda lab: f"{lab.token()}\ud800",
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_forged_old_odd_or_meant_for_others_is_refused_and_only_the_log_knows_why(
    lab: Provider, attacked: People, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    good, text = lab.token(), FORGED[name](lab)
    assert attacked.caller_of(good, WALL) == ANN
    with caplog.at_level(logging.DEBUG, "glidepath"), pytest.raises(NotKnown) as found:
        attacked.caller_of(text, WALL)
    assert str(found.value) == SAID
    logged = [record.getMessage() for record in caplog.records if "was refused: " in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].isprintable()
    assert REASONS.get(name, "a token was refused") in logged[0]
    assert [piece for piece in text.split(".") if len(piece) > 20 and piece in logged[0]] == []
    assert EVIL_URL not in lab.asked
    assert attacked.caller_of(good, WALL) == ANN


@pytest.mark.parametrize(
    ("kid", "claims"),
    [
        ("r1", {}),
        ("e1", {}),
        (None, {}),
        ("r1", {"aud": [AUDIENCE, "other"]}),
        ("r1", {"exp": WALL - 29}),
        ("r1", {"nbf": WALL + 29, "iat": WALL + 29}),
        ("r1", {"exp": int(WALL) + 1, "iat": ..., "nbf": ...}),
    ],
)
def test_who_shows_a_token_that_the_provider_signed_for_us_is_known(
    lab: Provider, attacked: People, kid: str | None, claims: dict[str, Any]
) -> None:
    assert attacked.caller_of(lab.token(kid, **claims), WALL) == ANN


def test_keys_and_certificates_that_a_good_token_brings_are_not_looked_at(
    lab: Provider, attacked: People
) -> None:
    brought = {
        "kid": "r1",
        "jwk": EVIL,
        "jku": lab.url + EVIL_URL,
        "x5u": lab.url + EVIL_URL,
        "x5c": ["AA=="],
    }
    assert attacked.caller_of(jwt.encode(lab.claims(), rsa_key(), "RS256", headers=brought), WALL) == ANN
    assert EVIL_URL not in lab.asked


def test_an_access_token_is_as_good_as_one_of_identity(lab: Provider, attacked: People) -> None:
    for typ in ("at+jwt", "application/at+jwt", "jwt", "AT+JWT"):
        assert attacked.caller_of(with_header(lab, typ=typ), WALL) == ANN


def test_an_answer_is_not_used_beyond_the_end_of_the_token(lab: Provider, store: Store) -> None:
    known = people_of(store, lab.settings())
    known.steady = Steady()
    text = lab.token(exp=WALL + 1)
    assert known.caller_of(text, WALL + 30) == ANN
    with pytest.raises(NotKnown):
        known.caller_of(text, WALL + 31)


GROUPS = {"role_claim": "groups", "roles": {"lab-ops": "operator", "lab": "viewer"}}
WHO: dict[str, tuple[dict[str, Any], dict[str, Any], Caller | None]] = {
    "the role of everybody": ({}, {}, ANN),
    "no role for everybody": ({"role": None}, {}, None),
    "the highest of the groups": (GROUPS, {"groups": ["lab", "x", "lab-ops"]}, Caller("ann", Role.OPERATOR)),
    "one group as text": ({**GROUPS, "role": None}, {"groups": "lab"}, Caller("ann", Role.VIEWER)),
    "never less than everybody": (GROUPS, {"groups": ["lab"]}, ANN),
    "groups that are not named": ({**GROUPS, "role": None}, {"groups": ["admin", "operator"]}, None),
    "groups that are no words": ({**GROUPS, "role": None}, {"groups": [{"lab": 1}, 1, None, ["lab"]]}, None),
    "a group is not part of a word": ({**GROUPS, "role": None}, {"groups": "lab lab-ops"}, None),
    "roles in another claim": (
        {"role_claim": "realm_access.roles", "roles": {"boss": "admin"}},
        {"realm_access": {"roles": ["boss"]}},
        Caller("ann", Role.ADMIN),
    ),
    "roles by an address": (
        {"role_claim": "https://lab.example.org/roles", "roles": {"boss": "admin"}},
        {"https://lab.example.org/roles": ["boss"]},
        Caller("ann", Role.ADMIN),
    ),
    "a claim that is not as deep": (
        {**GROUPS, "role_claim": "groups.a.b", "role": None},
        {"groups": "lab"},
        None,
    ),
    "another name": (
        {"name_claim": "preferred_username"},
        {"preferred_username": "bob"},
        Caller("bob", Role.USER),
    ),
    "another name without a subject": ({"name_claim": "login"}, {"login": "bob", "sub": ...}, None),
    "another name that is not there": ({"name_claim": "preferred_username"}, {}, None),
    "an address of mail that was verified": (
        {"name_claim": "email"},
        {"email": "ann@example.org", "email_verified": True},
        Caller("ann@example.org", Role.USER),
    ),
    "an address of mail": ({"name_claim": "email"}, {"email": "ann@example.org"}, None),
    "an address of mail, verified in a word": (
        {"name_claim": "email"},
        {"email": "ann@example.org", "email_verified": "true"},
        None,
    ),
    "projects that there are": (
        {"projects_claim": "projects"},
        {"projects": ["atlas", "gone", "never", "../x", "a\0", 7]},
        Caller("ann", Role.USER, frozenset({"atlas"})),
    ),
    "projects that nobody asked for": ({}, {"projects": ["atlas"]}, ANN),
    "too many projects": ({"projects_claim": "projects"}, {"projects": [f"p{n}" for n in range(501)]}, None),
    "somebody whom the store knows": (
        {**GROUPS, "projects_claim": "projects"},
        {"sub": "eve", "groups": ["lab-ops"], "projects": ["atlas"]},
        Caller("eve", Role.VIEWER, frozenset({"atlas", "cms"})),
    ),
    "somebody who left": ({}, {"sub": "left"}, None),
}


@pytest.mark.parametrize("name", WHO)
def test_a_person_is_who_the_claims_say_with_the_rights_that_settings_and_store_give(
    lab: Provider, store: Store, name: str
) -> None:
    settings, claims, expected = WHO[name]
    people = with_person(PeopleStore(store), "eve", "viewer", projects=("cms",))
    with_person(people, "left").leave("left", wall=WALL)
    for project in ("atlas", "gone"):
        people.add_project(Project(project, "root", WALL))
    people.close_project("gone", wall=WALL)
    known = people_of(store, lab.settings(**settings))
    text = lab.token(**claims)
    if expected is None:
        with pytest.raises(NotKnown):
            known.caller_of(text, WALL)
    else:
        assert known.caller_of(text, WALL) == expected


def test_tokens_that_are_issued_here_are_good_beside_those_of_a_provider_and_without_it(
    lab: Provider, store: Store
) -> None:
    people = with_person(PeopleStore(store))
    ours = token_of(people)
    both, alone = people_of(store, lab.settings()), people_of(store, None)
    assert (
        both.caller_of(ours, WALL) == both.caller_of(lab.token(), WALL) == alone.caller_of(ours, WALL) == ANN
    )
    with pytest.raises(NotKnown):
        alone.caller_of(lab.token(), WALL)
    people.leave("ann", wall=WALL)
    for known in (both, alone):
        known.forget()
        for text in (ours, lab.token(iat=WALL - 9)):
            with pytest.raises(NotKnown):
                known.caller_of(text, WALL)


def test_the_settings_know_the_same_roles_as_the_desk() -> None:
    assert get_args(RoleWord) == tuple(ROLES)


def test_keys_may_stand_in_a_file_or_at_an_address(lab: Provider, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": lab.keys}))
    for keys in (str(file), f"{lab.url}/certs"):
        assert people_of(store, lab.settings(keys=keys)).caller_of(lab.token(), WALL + DAY_S / 500) == ANN
