"""No pilot is started with a token that it could not join with, and no token is ever shown."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from glidepath.condor.settings import CondorSettings
from glidepath.condor.tokens import Claims, Tokens, claims_of, is_exposed
from glidepath.core.quantity import PilotName, PoolName

NOW = 1_800_000_000.0
DAY = 86400
PILOT = PilotName("gp-1-here-7")
SCOPE = "condor:/ADVERTISE_STARTD condor:/ADVERTISE_MASTER"
GOOD = {"sub": "glidepath-x@bed.example", "iss": "bed.example", "iat": NOW - 10, "exp": NOW + 30 * DAY}


def token(**claims: object) -> str:
    found = {"scope": SCOPE, **GOOD, **claims}
    said = {key: value for key, value in found.items() if value is not None}
    parts = [{"alg": "HS256", "kid": "POOL"}, said]
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*words, "c2lnbmF0dXJl"])


def tokens(told: dict[str, object], **settings: object) -> Tokens:
    known = {"collector": "cm.example", "trust_domain": "bed.example", **settings}
    model = CondorSettings.model_validate({**known, "tokens": told})
    return Tokens(PoolName("bed"), model, wall=lambda: NOW)


def supplied(folder: Path, text: str) -> Tokens:
    (folder / "a.token").write_text(text + "\n")
    return tokens({"file": str(folder / "a.token")})


def minting(folder: Path, body: str) -> str:
    """A stand-in for the pool's tool, which writes down how it was called."""
    program = folder / "mint"
    program.write_text(f'#!/bin/sh\necho "$@" > {folder}/called\n{body}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_a_token_says_whose_it_is_what_it_may_and_until_when() -> None:
    rights = frozenset({"ADVERTISE_STARTD", "ADVERTISE_MASTER"})
    expected = Claims("glidepath-x@bed.example", "bed.example", rights, NOW - 10, NOW + 30 * DAY)
    assert claims_of(token()) == expected
    assert claims_of(token(scope=None)).rights is None
    assert claims_of(token(exp=None)).ends_at is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a.b", "a.b.c", "....", "a.b.c.d", token()[:-1] + "!", "e30.W10.e30", "e30.bm8.e30"),
        *(token(sub=5), token(iss=""), token(exp="soon"), token(exp=True), token(exp=-1), token(scope=[])),
        "e30." + base64.urlsafe_b64encode(b"[" * 100_000).decode().rstrip("=") + ".e30",
    ],
)
def test_what_is_no_token_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it (is not|has|does not)"):
        claims_of(text)


def test_a_supplied_token_is_handed_over_and_read_anew_when_it_changes(tmp_path: Path) -> None:
    first, second = token(), token(jti="2")
    source = supplied(tmp_path, first)
    assert source.secrets(PILOT, lifetime_s=3600) == (("bed.token", first + "\n"),)
    supplied(tmp_path, second)
    assert source.secrets(PILOT, lifetime_s=3600) == (("bed.token", second + "\n"),)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - 120}, "it expired 2m ago"),
        ({"exp": NOW + 3600}, "it expires in 1h, and a pilot may need it for 2h20m"),
        ({"iat": NOW + 3600}, "it is not valid yet"),
        ({"iss": "other.example"}, "it was made by `other.example`, not by `bed.example`"),
        ({"sub": "ann@bed.example"}, "it is of `ann@bed.example`, whose slots would be ignored"),
        ({"scope": None}, "it is not limited"),
        ({"scope": "condor:/ADVERTISE_STARTD"}, "it lacks the right ADVERTISE_MASTER"),
        (
            {"scope": SCOPE + " condor:/WRITE condor:/DAEMON"},
            "it has more rights than a pilot may have: DAEMON",
        ),
    ],
)
def test_a_token_that_would_not_do_starts_no_pilot_and_is_not_shown(
    tmp_path: Path, claims: dict[str, object], why: str
) -> None:
    text = token(**claims)
    with pytest.raises(RuntimeError) as error:
        supplied(tmp_path, text).secrets(PILOT, lifetime_s=3600)
    assert f"the pool `bed` has no token for a pilot: `{tmp_path}/a.token`: {why}" in str(error.value)
    assert text.split(".")[2] not in str(error.value)


def test_read_besides_is_no_more_than_every_token_has(tmp_path: Path) -> None:
    assert supplied(tmp_path, token(scope=SCOPE + " condor:/READ")).secrets(PILOT, lifetime_s=60)


def test_of_a_folder_the_one_that_lasts_longest_is_used(tmp_path: Path) -> None:
    best = token(exp=NOW + 90 * DAY)
    found = {"a": token(), "b": best, "c": token(exp=NOW + 5), "d": "nonsense", ".e": "x"}
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    assert tokens({"folder": str(tmp_path)}).secrets(PILOT, lifetime_s=60) == (("bed.token", best + "\n"),)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"file": "/nowhere/x"}, "the token `/nowhere/x` cannot be read: No such file or directory"),
        ({"folder": "/nowhere"}, "`/nowhere` cannot be read: No such file or directory"),
        ({"fil": "x"}, "the pool `bed`: `tokens.fil`: Extra inputs are not permitted"),
        ({"mint": "/nowhere/mint"}, "`/nowhere/mint` made no token for `bed` (exit code None)"),
    ],
)
def test_what_is_missing_is_named(told: dict[str, object], why: str) -> None:
    with pytest.raises(RuntimeError) as error:
        tokens(told).secrets(PILOT, lifetime_s=60)
    assert str(error.value).startswith(why)


@pytest.mark.parametrize(
    ("told", "identity"), [({}, "glidepath-gp-1-here-7"), ({"each": "pool"}, "glidepath-bed")]
)
def test_a_minted_token_has_the_rights_and_the_life_of_its_pilot_and_no_more(
    tmp_path: Path, told: dict[str, object], identity: str
) -> None:
    text = token(sub=f"{identity}@bed.example")
    told = {"mint": minting(tmp_path, f"echo {text}"), "key": "pilots", "wait": "10m", **told}
    assert tokens(told).secrets(PILOT, lifetime_s=3600) == (("bed.token", text + "\n"),)
    called = (tmp_path / "called").read_text().split()
    rights = ["-authz", "ADVERTISE_STARTD", "-authz", "ADVERTISE_MASTER", "-key", "pilots"]
    assert called == ["-identity", f"{identity}@bed.example", "-lifetime", "5460", *rights]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo no key >&2; exit 1", "made no token for `bed` (exit code 1): no key"),
        ("echo one; echo two", "made no token for `bed` (exit code 0): it said nothing"),
        ("echo nonsense", "made a token that will not do: it is not a token"),
        (f"echo {token(scope=None)}", "made a token that will not do: it is not limited"),
    ],
)
def test_a_tool_that_makes_none_is_told(tmp_path: Path, body: str, why: str) -> None:
    with pytest.raises(RuntimeError) as error:
        tokens({"mint": minting(tmp_path, body)}).secrets(PILOT, lifetime_s=3600)
    assert why in str(error.value)


def test_without_a_trust_domain_none_can_be_minted() -> None:
    with pytest.raises(RuntimeError, match="has no `trust_domain`"):
        tokens({}, trust_domain="").secrets(PILOT, lifetime_s=60)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, ()),
        ({"exp": NOW + 8 * DAY}, ()),
        ({"exp": None}, ()),
        ({"exp": NOW + 6 * DAY}, ("the token `{}` of the pool `bed` expires in 6d; renew it",)),
        ({"exp": NOW - 60}, ("the token `{}` of the pool `bed` will not do: it expired 1m ago",)),
    ],
)
def test_a_token_that_ends_soon_is_warned_of_seven_days_ahead(
    tmp_path: Path, claims: dict[str, object], expected: tuple[str, ...]
) -> None:
    found = supplied(tmp_path, token(**claims)).warnings()
    assert found == tuple(text.format(tmp_path / "a.token") for text in expected)


def test_what_is_minted_needs_no_warning() -> None:
    assert tokens({}).warnings() == ()


@pytest.mark.parametrize(
    ("mode", "owner", "expected"),
    [
        (0o100600, 7, False),
        (0o100640, 7, True),
        (0o100604, 7, True),
        (0o100440, 0, False),
        (0o100644, 0, True),
        (0o100666, 0, True),
    ],
)
def test_a_token_is_exposed_to_whoever_else_may_read_it(mode: int, owner: int, expected: bool) -> None:
    assert is_exposed(mode, owner=owner, reader=7) is expected
