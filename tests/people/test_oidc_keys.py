"""The keys of a provider: which are taken, when they are read again, and what happens while it is silent."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from glidepath.people.keys import AGAIN_S, FRESH_S, READING_S_MAX, READINGS_MAX, WAITING_MAX, ProviderKeys
from glidepath.people.keyset import KEYS_MAX, OddKeys, key_set
from glidepath.people.keysource import DOCUMENT_BYTES_MAX, NotRead, key_source
from glidepath.people.known import Refused
from kube.stand_in import papers
from people.oidc_provider import Provider, ec_key, provider, public_jwk, rsa_key
from people.people_builders import Steady

WAIT_S = 60.0
LAST_S = 3600.0
R1, E1 = public_jwk(rsa_key(), "r1"), public_jwk(ec_key(), "e1")


@pytest.fixture
def lab() -> Iterator[Provider]:
    with provider() as made:
        yield made


class Source:
    """What the provider says now, and how often it was asked."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys: tuple[dict[str, Any], ...] | None = keys
        self.asked = 0
        self.held = threading.Event()
        self.held.set()

    def __call__(self) -> bytes:
        self.asked += 1
        assert self.held.wait(WAIT_S)
        if self.keys is None:
            raise NotRead("`https://login.example.org` does not answer")
        return json.dumps({"keys": self.keys}).encode()


def kept(source: Source, steady: Steady, *, wait_s_max: float = WAIT_S) -> ProviderKeys:
    return ProviderKeys(source, LAST_S, steady, wait_s_max=wait_s_max)


def settled(keys: ProviderKeys) -> None:
    """Whatever was being read is read."""
    for reading in keys._readings:
        reading.join(WAIT_S)
        assert not reading.is_alive()


def known(keys: ProviderKeys, id: str) -> bool:
    try:
        return bool(keys.key(id, "RS256"))
    except Refused:
        return False


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(Refused) as found:
        ask()
    return str(found.value)


# Which keys are taken.


def test_keys_for_signatures_of_the_two_kinds_are_taken_each_for_its_algorithm() -> None:
    plain = {key: value for key, value in R1.items() if key not in ("use", "key_ops")}
    found = key_set(
        json.dumps({"keys": [{**plain, "x5c": ["odd"], "n2": {}}, {**E1, "alg": "ES256"}]}).encode()
    )
    assert {id: key.algorithm_name for id, key in found.keys.items()} == {"r1": "RS256", "e1": "ES256"}
    assert found.passed_over == ()


PRIVATE = {**RSAAlgorithm.to_jwk(rsa_key(), as_dict=True), "kid": "p", "key_ops": ["verify"]}
PASSED_OVER: dict[str, Any] = {
    "it is not an object": "r2",
    "its `kid` is no id": {**R1, "kid": None},
    "it is not for RS256 or ES256": {"kty": "oct", "k": "c2VjcmV0", "kid": "h", "alg": "HS256"},
    "it is not for signatures": {**R1, "kid": "x", "use": "enc"},
    "it is a private key": PRIVATE,
    "its `n` is no text": {**R1, "kid": "x", "n": 7},
    "it has 1024 bits": public_jwk(rsa_key("small", 1024), "x"),
    "its curve is not P-256": public_jwk(ec_key("big", ec.SECP384R1), "x"),
    "its numbers are no public key": {**E1, "kid": "x", "x": "AAAA"},
    "another has the same `kid`": {**E1, "kid": "r1"},
}
MORE_PASSED_OVER = [
    {**R1, "kid": ""},
    {**R1, "kid": "x" * 201},
    {**R1, "kid": "x", "alg": "RS512"},
    {**R1, "kid": "x", "alg": "none"},
    {**R1, "kid": "x", "key_ops": ["encrypt"]},
    {**R1, "kid": "x", "kty": ["RSA"]},
    {**R1, "kid": "x", "e": "AA"},
    {**R1, "kid": "x", "n": "!"},
    {**R1, "kid": "x", "n": "\u00e9"},
    {"kty": "RSA", "kid": "x"},
    {"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "x"},
    {**E1, "kid": "x", "y": E1["x"]},
    None,
    [],
]


@pytest.mark.parametrize("why", PASSED_OVER)
def test_a_key_that_should_not_be_there_is_passed_over_and_the_others_are_good(why: str) -> None:
    found = key_set(json.dumps({"keys": [R1, PASSED_OVER[why]]}).encode())
    assert list(found.keys) == ["r1"]
    assert [each.startswith(f"key 2: {why}") for each in found.passed_over] == [True]


@pytest.mark.parametrize("raw", MORE_PASSED_OVER, ids=ascii)
def test_odd_keys_are_passed_over(raw: object) -> None:
    found = key_set(json.dumps({"keys": [raw, R1]}).encode())
    assert (list(found.keys), len(found.passed_over)) == (["r1"], 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "it is not JSON"),
        (b"<html>", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[" * 200_000, "it is not JSON"),
        (b"[]", "it is not an object"),
        (b"{}", "it has no list of `keys`"),
        (b'{"keys": {}}', "it has no list of `keys`"),
        (b'{"keys": []}', "it has no key that can be used"),
        (json.dumps({"keys": [PRIVATE]}).encode(), "no key that can be used; key 1: it is a private key"),
        (json.dumps({"keys": [R1] * (KEYS_MAX + 1)}).encode(), f"it has more than {KEYS_MAX} keys"),
    ],
    ids=range(10),
)
def test_what_is_no_set_of_keys_is_refused_whole(text: bytes, said: str) -> None:
    with pytest.raises(OddKeys, match=said):
        key_set(text)


UNNAMED_R, UNNAMED_E = ({name: value for name, value in key.items() if name != "kid"} for key in (R1, E1))
R2 = public_jwk(rsa_key("second"), "r2")
NO_ID = "it does not say by `kid` which key signed it, and the provider has "


@pytest.mark.parametrize(
    ("listed", "algorithm", "found"),
    [
        ((R1, E1), "RS256", R1),
        ((R1, E1), "ES256", E1),
        ((UNNAMED_R, E1), "RS256", R1),
        ((UNNAMED_R, UNNAMED_E), "ES256", E1),
        ((R1, R2), "RS256", f"{NO_ID}2 keys for RS256"),
        ((R1, UNNAMED_R), "RS256", f"{NO_ID}2 keys for RS256"),
        ((UNNAMED_R, UNNAMED_R), "RS256", f"{NO_ID}2 keys for RS256"),
        ((R1,), "ES256", f"{NO_ID}no keys for ES256"),
    ],
)
def test_a_token_that_names_no_key_is_of_the_only_one_for_its_algorithm(
    listed: tuple[dict[str, Any], ...], algorithm: str, found: dict[str, Any] | str
) -> None:
    keys = kept(Source(*listed), Steady())
    if isinstance(found, str):
        assert refused(lambda: keys.key("", algorithm)) == found
        return
    kind = RSAAlgorithm if algorithm == "RS256" else ECAlgorithm
    shown = kind.to_jwk(keys.key("", algorithm).key, as_dict=True)
    parts = [name for name in ("n", "e", "crv", "x", "y") if name in found]
    assert [shown[name] for name in parts] == [found[name] for name in parts]


def test_a_key_without_an_id_is_not_that_of_a_token_that_names_one() -> None:
    keys = kept(Source(UNNAMED_R), Steady())
    assert refused(lambda: keys.key("r1", "RS256")) == "the provider has no key `r1`"


# When they are read.


def test_keys_are_read_once_and_again_when_they_are_no_longer_fresh() -> None:
    source, steady = Source(R1), Steady()
    keys = kept(source, steady)
    for _ in range(5):
        assert keys.key("r1", "RS256").algorithm_name == "RS256"
        steady.now += FRESH_S / 6
    assert source.asked == 1
    source.keys = (E1,)
    steady.now += FRESH_S
    assert known(keys, "r1")  # Nobody waits for keys that are only not fresh.
    settled(keys)
    assert (source.asked, known(keys, "r1"), known(keys, "e1")) == (2, False, True)


def test_a_new_key_is_found_at_once_and_ids_that_are_made_up_ask_once_a_minute() -> None:
    source, steady = Source(R1), Steady()
    keys = kept(source, steady)
    assert known(keys, "r1")
    source.keys = (R1, E1)
    steady.now += AGAIN_S
    assert known(keys, "e1")
    for number in range(100):
        said = refused(partial(keys.key, f"made-up-{number}", "RS256"))
        assert said == f"the provider has no key `made-up-{number}`"
    assert source.asked == 2
    steady.now += AGAIN_S
    assert not known(keys, "made-up")
    assert source.asked == 3


def test_old_keys_go_on_while_the_provider_is_silent_up_to_their_age(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, steady = Source(R1), Steady()
    keys = kept(source, steady)
    assert known(keys, "r1")
    source.keys = None
    steady.now += LAST_S - 1
    with caplog.at_level(logging.WARNING, "glidepath.people"):
        assert known(keys, "r1")
        settled(keys)
    assert [record.getMessage() for record in caplog.records] == [
        "the keys of the provider could not be read: `https://login.example.org` does not answer"
    ]
    steady.now += 1
    assert refused(lambda: keys.key("r1", "RS256")) == "the keys of the provider are older than 1h"
    source.keys = (R1,)
    steady.now += AGAIN_S
    assert known(keys, "r1")


def test_without_any_keys_all_are_refused_until_they_are_read() -> None:
    source, steady = Source(), Steady()
    source.keys = None
    keys = kept(source, steady)
    for _ in range(3):
        assert refused(lambda: keys.key("r1", "RS256")) == "the keys of the provider are not known"
    assert source.asked == 1
    source.keys = (R1,)
    steady.now += AGAIN_S
    assert known(keys, "r1")


def test_a_provider_that_hangs_holds_up_a_few_and_nobody_whose_key_is_known() -> None:
    source, steady = Source(R1), Steady()
    keys = kept(source, steady)
    assert known(keys, "r1")
    source.held.clear()
    steady.now += AGAIN_S
    waiting = [threading.Thread(target=known, args=(keys, f"x{number}")) for number in range(WAITING_MAX)]
    for thread in waiting:
        thread.start()
    deadline = time.monotonic() + WAIT_S
    while keys._waiting.acquire(blocking=False):  # Until all of them wait.
        keys._waiting.release()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not known(keys, "x")  # One more is not held up,
    assert known(keys, "r1")  # and neither is anybody else.
    assert all(thread.is_alive() for thread in waiting)
    source.held.set()
    for thread in waiting:
        thread.join(WAIT_S)
    assert (source.asked, any(thread.is_alive() for thread in waiting)) == (2, False)


def test_a_reading_that_never_ends_is_not_the_last_and_there_are_few_of_them() -> None:
    source, steady = Source(R1), Steady()
    source.held.clear()
    keys = kept(source, steady, wait_s_max=0)
    for _ in range(READINGS_MAX + 3):
        assert not known(keys, "r1")
        steady.now += READING_S_MAX
    assert source.asked == READINGS_MAX
    source.held.set()
    settled(keys)
    assert known(keys, "r1")


def test_what_was_asked_first_and_came_last_is_not_taken() -> None:
    source, steady = Source(E1), Steady()
    source.held.clear()
    keys = kept(source, steady, wait_s_max=0)
    assert not known(keys, "e1")
    late = keys._readings[0]
    fresh = Source(R1)
    keys.read = fresh
    steady.now += READING_S_MAX
    keys.wait_s_max = WAIT_S
    assert known(keys, "r1")
    source.held.set()
    late.join(WAIT_S)
    assert (known(keys, "r1"), known(keys, "e1")) == (True, False)


# Where they are read.


def test_the_issuer_says_where_its_keys_are(lab: Provider) -> None:
    assert json.loads(key_source(lab.settings())()) == {"keys": lab.keys}
    assert lab.asked == ["/realms/lab/.well-known/openid-configuration", "/certs"]


WELL_KNOWN = "/realms/lab/.well-known/openid-configuration"
SECRET = b'{"keys": "what nobody else should see"}'


def wrong_answers(lab: Provider) -> dict[str, tuple[str, tuple[int, dict[str, str], bytes]]]:
    def document(**more: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, json.dumps({"issuer": lab.issuer, "jwks_uri": f"{lab.url}/certs", **more}).encode()

    there = {"Location": f"{lab.url}/there"}
    return {
        "is of another issuer, `https://evil.example.org`": (
            WELL_KNOWN,
            document(issuer="https://evil.example.org"),
        ),
        "its `jwks_uri` must be an address": (WELL_KNOWN, document(jwks_uri="file:///etc/passwd")),
        "its `jwks_uri` must begin with `https://`": (
            WELL_KNOWN,
            document(jwks_uri="http://192.0.2.1/certs"),
        ),
        "it is not JSON": (WELL_KNOWN, (200, {}, b"<html>")),
        "it is not an object": (WELL_KNOWN, (200, {}, b"[]")),
        "answers HTTP 302": (WELL_KNOWN, (302, there, b"")),
        "answers HTTP 307": ("/certs", (307, there, b"")),
        "answers HTTP 500": ("/certs", (500, {}, SECRET)),
        "answers HTTP 204": ("/certs", (204, {}, b"")),
        f"is longer than {DOCUMENT_BYTES_MAX} bytes": ("/certs", (200, {}, b" " * (DOCUMENT_BYTES_MAX + 1))),
    }


def test_whatever_else_comes_back_is_told_and_nothing_is_taken_from_it(lab: Provider) -> None:
    lab.answers["/there"] = (200, {}, json.dumps({"keys": lab.keys}).encode())
    for said, (path, answer) in wrong_answers(lab).items():
        lab.answers[path] = answer
        with pytest.raises(NotRead) as found:
            key_source(lab.settings())()
        del lab.answers[path]
        assert said in str(found.value)
        assert SECRET.decode() not in str(found.value)
    assert "/there" not in lab.asked


def test_a_provider_over_https_is_believed_by_its_certificate_alone(tmp_path: Path) -> None:
    made = papers(tmp_path)
    with provider(made.server_side("server")) as lab:
        assert lab.url.startswith("https://")
        trusting = {"ca_file": str(made.folder / "ca.crt")}
        assert json.loads(key_source(lab.settings(**trusting))()) == {"keys": lab.keys}
        asked = list(lab.asked)
        for settings in (lab.settings(), lab.settings(ca_file=str(made.folder / "client.crt"))):
            with pytest.raises(NotRead, match=r"does not answer: .*CERTIFICATE_VERIFY_FAILED"):
                key_source(settings)()
        assert lab.asked == asked, "nothing is asked of a server that is not believed"
    with provider(made.server_side("elsewhere")) as lab:
        with pytest.raises(NotRead, match=r"does not answer: .*127\.0\.0\.1"):
            key_source(lab.settings(**trusting))()
        assert lab.asked == []


def test_nobody_there_and_no_such_file_are_told(lab: Provider, tmp_path: Path) -> None:
    settings = lab.settings()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Taken, and nobody listens there.
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(NotRead, match=r"does not answer: .*refused"):
            key_source(settings.model_copy(update={"issuer": away}))()
    missing = tmp_path / "keys.json"
    with pytest.raises(NotRead, match="No such file"):
        key_source(settings.model_copy(update={"keys": str(missing)}))()
    missing.write_bytes(b" " * (DOCUMENT_BYTES_MAX + 1))
    with pytest.raises(NotRead, match="is longer than"):
        key_source(settings.model_copy(update={"keys": str(missing)}))()
