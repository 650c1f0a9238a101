"""`glidepath doctor` of a provider of tokens: whether its keys can be read now, and which are good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Cli, cli, home
from people.oidc_provider import Provider, provider, public_jwk, rsa_key

__all__ = ["cli", "home"]
CONFIG = """
[pools.local]
kind = "embedded"

[sites.here]
kind = "local"

[sites.here.offers.worker]
cpus = 1
memory = "1GiB"
"""
OIDC = """
[serve.oidc]
issuer = "{issuer}"
audience = "glidepath"
"""


def said(cli: Cli, tmp_path: Path, oidc: str) -> list[tuple[str, str, str]]:
    config = tmp_path / "glidepath.toml"
    config.write_text(CONFIG + oidc)
    items = json.loads(cli("doctor", "-o", "json", "--config", str(config)).out)["items"]
    return [(one["verdict"], one["found"], one["fix"]) for one in items if one["name"] == "tokens of people"]


@pytest.mark.parametrize("case", ["no provider", "good", "a key too many", "silent"])
def test_the_doctor_says_whether_the_keys_of_a_provider_can_be_read(
    cli: Cli, tmp_path: Path, case: str
) -> None:
    with provider() as lab:
        expected = {
            "no provider": [],
            "good": [("ok", f"keys of {lab.issuer}: r1 (RS256), e1 (ES256)", "")],
            "a key too many": [
                (
                    "warn",
                    f"keys of {lab.issuer}: r1 (RS256), e1 (ES256)",
                    "not used: key 3: it has 1024 bits, not 2048 to 8192",
                )
            ],
            "silent": [
                (
                    "fail",
                    f"the keys of {lab.issuer} cannot be read: `{lab.url}/certs` answers HTTP 503",
                    "look at `[serve.oidc]`, and at the way there",
                )
            ],
        }[case]
        prepare(lab, case)
        oidc = "" if case == "no provider" else OIDC.format(issuer=lab.issuer)
        assert said(cli, tmp_path, oidc) == expected


def prepare(lab: Provider, case: str) -> None:
    if case == "a key too many":
        lab.keys.append(public_jwk(rsa_key("small", 1024), "s1"))
    if case == "silent":
        lab.answers["/certs"] = (503, {}, b"")
