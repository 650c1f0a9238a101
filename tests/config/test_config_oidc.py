"""The settings of an OIDC provider: what is taken, what is refused and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from config_builders import GOOD, loaded, problems

from glidepath.config import show
from glidepath.config.reading import ALONE

OIDC = """
[serve.oidc]
issuer = "https://login.example.org/realms/lab"
audience = "glidepath"
"""
EXAMPLE = "must be an address such as `https://login.example.org/realms/lab`"
SPOOFED = "must begin with `https://`: whoever is on the way could say who people are"


def test_settings_of_a_provider_are_shown_as_they_were_read(tmp_path: Path) -> None:
    text = (
        GOOD
        + OIDC
        + 'role_claim = "a.b"\nroles = { "lab ops" = "operator" }\nrole = "viewer"\nleeway = "1m"\n'
    )
    settings = loaded(tmp_path, text).settings
    assert settings.serve.oidc is not None
    assert settings.serve.oidc.model_dump() == {
        "issuer": "https://login.example.org/realms/lab",
        "audience": "glidepath",
        "keys": "",
        "keys_last": 86400,
        "ca_file": "",
        "name_claim": "sub",
        "role_claim": "a.b",
        "roles": {"lab ops": "operator"},
        "role": "viewer",
        "projects_claim": "",
        "leeway": 60,
    }
    assert loaded(tmp_path, show(settings)).settings == settings


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://[::1]:80/x", "http://localhost/realms/lab"])
def test_a_provider_on_this_machine_needs_no_https(tmp_path: Path, url: str) -> None:
    text = OIDC.replace("https://login.example.org/realms/lab", url)
    oidc = loaded(tmp_path, GOOD + text).settings.serve.oidc
    assert oidc is not None
    assert oidc.issuer == url


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('issuer = "http://login.example.org"', f"issuer: {SPOOFED}"),
        ('issuer = "http://127.0.0.1.example.org"', f"issuer: {SPOOFED}"),
        ('issuer = "login.example.org"', f"issuer: {EXAMPLE}"),
        ('issuer = "https://u:p@login.example.org"', f"issuer: {EXAMPLE}"),
        ('issuer = "https://login.example.org?x=1"', f"issuer: {EXAMPLE}"),
        ('issuer = "https://login.example.org:99999"', f"issuer: {EXAMPLE}"),
        ('issuer = "https://[::1"', f"issuer: {EXAMPLE}"),
        ('issuer = "file:///etc/keys"', f"issuer: {EXAMPLE}"),
        ('audience = ""', "audience: must not be empty"),
        ('audience = ["a"]', "audience: must be text, not a list"),
        ('keys = "certs.json"', "keys: must be an address, or the absolute path of a file"),
        ('keys = "http://login.example.org/certs"', f"keys: {SPOOFED}"),
        (
            'keys_last = "8d"',
            "keys_last: must be at most `7d`: a key that was withdrawn would be good for as long",
        ),
        ('leeway = "6m"', "leeway: must be at most `5m`: clocks that are further apart need mending"),
        ("leeway = 30", "leeway: `30` has no unit"),
        ('role = "root"', "role: must be"),
        ('role_claim = "groups"', "needs both `role_claim` and `roles`, or neither"),
        ('roles = { ops = "operator" }', "needs both `role_claim` and `roles`, or neither"),
        ('role_claim = "g"\nroles = { ops = "Operator" }', "roles.ops: must be"),
        ('role_clam = "groups"', "role_clam: unknown key; did you mean `role_claim`?"),
    ],
)
def test_a_mistake_about_a_provider_is_told_with_its_place(tmp_path: Path, line: str, said: str) -> None:
    key = line.partition(" ")[0]
    rest = "\n".join(each for each in OIDC.splitlines() if not each.startswith(f"{key} "))
    found = problems(tmp_path, f"{GOOD}{rest}\n{line}\n")
    assert len(found) == 1
    assert f"serve.oidc{'' if said.startswith('needs') else '.'}" in found[0]
    assert said in found[0]


@pytest.mark.parametrize("key", ALONE)
def test_a_mistake_in_any_table_is_told(tmp_path: Path, key: str) -> None:
    [found] = problems(tmp_path, f'{GOOD}[{key}]\n"x y" = []\n')
    assert f"{key}." in found
    assert "x y" in found
