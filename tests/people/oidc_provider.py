"""An OIDC provider of the tests' own on a port of loopback: it has keys, says where, and really signs."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from glidepath.config.oidc import OidcSettings
from people.people_builders import WALL

AUDIENCE = "glidepath"
# Made once for all tests; the second of each kind is nobody's.
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@lru_cache
def rsa_key(name: str = "own", bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@lru_cache
def ec_key(name: str = "own", curve: type[ec.EllipticCurve] = ec.SECP256R1) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


def public_jwk(key: Private, kid: str, **more: Any) -> dict[str, Any]:
    kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    made: dict[str, Any] = kind.to_jwk(key.public_key(), as_dict=True)  # type: ignore[arg-type]
    return {**made, "kid": kid, "use": "sig", **more}


def public_pem(key: Private) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class Provider:
    """What it answers can be changed while it runs."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.keys: list[dict[str, Any]] = [public_jwk(rsa_key(), "r1"), public_jwk(ec_key(), "e1")]
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}  # instead of the usual, by path
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._requests())
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}"

    @property
    def issuer(self) -> str:
        return f"{self.url}/realms/lab"

    def settings(self, **more: Any) -> OidcSettings:
        return OidcSettings.model_validate(
            {"issuer": self.issuer, "audience": AUDIENCE, "role": "user", **more}
        )

    def claims(self, **more: Any) -> dict[str, Any]:
        """Of a good token; a claim given as `...` is left out."""
        plain = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "iat": WALL - 10, "exp": WALL + 300}
        return {name: value for name, value in {**plain, **more}.items() if value is not ...}

    def token(self, kid: str | None = "r1", key: Any = None, alg: str = "", **claims: Any) -> str:
        """Signed as it must be, but for what is said otherwise."""
        key = key if key is not None else (ec_key() if kid == "e1" else rsa_key())
        alg = alg or ("ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256")
        headers = {} if kid is None else {"kid": kid}
        return jwt.encode(self.claims(**claims), key, alg, headers=headers)

    def _requests(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Requests(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                documents = {
                    "/realms/lab/.well-known/openid-configuration": {
                        "issuer": provider.issuer,
                        "jwks_uri": f"{provider.url}/certs",
                    },
                    "/certs": {"keys": provider.keys},
                }
                found = documents.get(self.path)
                usual = (200 if found else 404, {}, json.dumps(found).encode())
                code, headers, body = provider.answers.get(self.path, usual)
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

        return Requests


@contextmanager
def provider(context: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """By `https` where it is given what shows who it is."""
    made = Provider(context)
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(60)
