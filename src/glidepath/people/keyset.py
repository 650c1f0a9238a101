"""The public keys of a provider: the text of a JWKS comes in, keys by their id go out, and why others do not.

Of a key only what verifies a signature is looked at. Each is good for one algorithm, whatever a token says.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

RSA, EC = "RS256", "ES256"
ALGORITHMS = (RSA, EC)
RSA_BITS_MIN, RSA_BITS_MAX = 2048, 8192
KEYS_MAX = 100
ID_LETTERS_MAX = 200
# What makes a public key of each kind; all else that a provider writes beside it is not looked at.
_PARTS = {RSA: ("n", "e"), EC: ("crv", "x", "y")}
_KINDS = {"RSA": RSA, "EC": EC}
Keys = Mapping[str, jwt.PyJWK]


class OddKeys(ValueError):
    """A text that is no set of keys."""


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: Keys
    unnamed: tuple[jwt.PyJWK, ...] = ()  # those without an id
    passed_over: tuple[str, ...] = ()  # in words

    def fit(self, algorithm: str) -> list[jwt.PyJWK]:
        """All that are for this algorithm, with an id or without."""
        return [key for key in (*self.keys.values(), *self.unnamed) if key.algorithm_name == algorithm]


def json_object(text: bytes) -> dict[str, Any]:
    """One object of JSON; raises `OddKeys`, however odd the text is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise OddKeys("it is not JSON") from None
    if not isinstance(found, dict):
        raise OddKeys("it is not an object of JSON")
    return found


def key_set(text: bytes) -> KeySet:
    listed = json_object(text).get("keys")
    if not isinstance(listed, list):
        raise OddKeys("it has no list of `keys`")
    if len(listed) > KEYS_MAX:
        raise OddKeys(f"it has more than {KEYS_MAX} keys")
    found: dict[str, jwt.PyJWK] = {}
    unnamed, passed_over = [], []
    for number, raw in enumerate(listed):
        try:
            id, key = _key(raw)
            if id in found:
                raise OddKeys("another has the same `kid`")
            if id is None:
                unnamed.append(key)
            else:
                found[id] = key
        except OddKeys as error:
            passed_over.append(f"key {number + 1}: {error}")
    if not found and not unnamed:
        raise OddKeys("; ".join(["it has no key that can be used", *passed_over[:3]]))
    return KeySet(found, tuple(unnamed), tuple(passed_over))


def _key(raw: Any) -> tuple[str | None, jwt.PyJWK]:
    """With its id, where it has one."""
    if not isinstance(raw, dict):
        raise OddKeys("it is not an object")
    id = raw.get("kid")
    if "kid" in raw and not (isinstance(id, str) and 0 < len(id) <= ID_LETTERS_MAX):
        raise OddKeys("its `kid` is no id")
    algorithm = _KINDS.get(str(raw.get("kty")))
    if algorithm is None or raw.get("alg", algorithm) != algorithm:
        raise OddKeys(f"it is not for {' or '.join(ALGORITHMS)}")
    if raw.get("use", "sig") != "sig" or "verify" not in raw.get("key_ops", ("verify",)):
        raise OddKeys("it is not for signatures")
    if "d" in raw:
        raise OddKeys("it is a private key, which everybody who saw it can sign with")
    public = {"kty": raw["kty"], **dict(_texts(raw, _PARTS[algorithm]))}
    _check_size(algorithm, public)
    try:
        return id, jwt.PyJWK(public, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise OddKeys("its numbers are no public key") from None


def _texts(raw: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in names:
        if not isinstance(raw.get(name), str):
            raise OddKeys(f"its `{name}` is no text")
        yield name, raw[name]


def _check_size(algorithm: str, public: Mapping[str, str]) -> None:
    if algorithm == EC:
        if public["crv"] != "P-256":
            raise OddKeys("its curve is not P-256")
        return
    try:
        number = base64.urlsafe_b64decode(public["n"] + "==")
    except ValueError:
        raise OddKeys("its numbers are no public key") from None
    bits = int.from_bytes(number, "big").bit_length()
    if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
        raise OddKeys(f"it has {bits} bits, not {RSA_BITS_MIN} to {RSA_BITS_MAX}")
