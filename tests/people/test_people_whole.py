"""A real server and a real provider on loopback: people show tokens over HTTP, and the log says why not."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from people.oidc_provider import Provider, provider

WAIT_S = 240.0
CONFIG = """
[pools.local]
kind = "embedded"

[sites.here]
kind = "local"

[sites.here.offers.worker]
cpus = 1
memory = "1GiB"
{oidc}"""
OIDC = """
[serve.oidc]
issuer = "{issuer}"
audience = "{audience}"
name_claim = "login"
role = "viewer"
"""


class Serving:
    """`glidepath serve` as a process of its own, with all that it has said so far."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "glidepath.toml"
        self.environ = {**os.environ, "GLIDEPATH_HOME": str(home), "GLIDEPATH_CONFIG": str(self.config)}
        self.lines: list[str] = []

    def configure(self, oidc: str) -> None:
        fresh = self.config.with_suffix(".new")
        fresh.write_text(CONFIG.format(oidc=oidc))
        fresh.replace(self.config)

    def start(self) -> None:
        words = ["serve", "--listen", "127.0.0.1:0", "--until-eof"]
        self.running = subprocess.Popen(
            [sys.executable, "-m", "glidepath", *words],
            env=self.environ,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        until(lambda: bool(self._port()), lambda: f"the server listens; said: {self.lines}")

    def _read(self) -> None:
        assert self.running.stderr is not None
        self.lines.extend(iter(self.running.stderr.readline, ""))

    def _port(self) -> int:
        found = re.search(r"listens on http://127\.0\.0\.1:(\d+)", "".join(self.lines))
        return int(found[1]) if found else 0

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "glidepath", *words],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        return done.stdout.strip()

    def me(self, token: str) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port(), timeout=WAIT_S)
        try:
            connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            said: dict[str, object] = json.loads(answer.read())
            return answer.status, said
        finally:
            connection.close()

    def refused(self, token: str) -> dict[str, object]:
        """What is said to somebody who is not let in, once it is their turn to hear it."""
        said: list[tuple[int, dict[str, object]]] = []

        def heard() -> bool:
            said.append(self.me(token))
            return said[-1][0] != 429

        until(heard, lambda: "strangers may ask again", every_s=1)
        assert said[-1][0] == 401
        return said[-1][1]

    def stop(self) -> None:
        assert self.running.stdin is not None
        self.running.stdin.close()
        try:
            assert self.running.wait(WAIT_S) == 0
        finally:
            self.running.kill()
            self.running.wait()
            self.reader.join(WAIT_S)
            if self.running.stderr is not None:
                self.running.stderr.close()


def until(met: Callable[[], bool], said: Callable[[], str], *, every_s: float = 0.05) -> None:
    deadline = time.monotonic() + WAIT_S
    while not met():
        assert time.monotonic() < deadline, f"it did not happen that {said()}"
        time.sleep(every_s)


@pytest.fixture
def lab() -> Iterator[Provider]:
    with provider() as made:
        yield made


def now(lab: Provider, login: str, **more: object) -> str:
    wall = time.time()
    return lab.token(login=login, iat=int(wall) - 5, exp=int(wall) + 3600, **more)


def test_people_come_by_tokens_of_ours_and_of_a_provider_whose_settings_change_while_we_run(
    tmp_path: Path, lab: Provider
) -> None:
    server = Serving(tmp_path)
    server.configure("")
    server.run("person", "add", "ann", "--role", "operator")
    ours = server.run("person", "issue", "ann")
    server.start()
    try:
        ann = {"name": "ann", "role": "operator", "projects": []}
        assert server.me(ours) == (200, ann)
        theirs, other = now(lab, "bob"), now(lab, "bob", aud="other")
        assert server.refused(theirs) == server.refused(other)
        server.configure(OIDC.format(issuer=lab.issuer, audience="glidepath"))
        until(lambda: server.me(theirs)[0] == 200, lambda: "the provider is taken up", every_s=1)
        assert server.me(theirs) == (200, {"name": "bob", "role": "viewer", "projects": []})
        assert server.me(now(lab, "ann")) == (200, ann)
        assert server.refused(other)["error"] == "no token that is in force was shown"
        server.configure(OIDC.format(issuer=lab.issuer, audience="other"))
        until(lambda: server.me(other)[0] == 200, lambda: "the other audience is taken up", every_s=1)
        server.refused(theirs)
        server.run("person", "leave", "ann")
        until(lambda: server.me(ours)[0] == 401, lambda: "ann is out", every_s=1)
        server.refused(now(lab, "ann", aud="other"))
    finally:
        server.stop()
    said = "".join(server.lines)
    assert "a token was refused: InvalidAudienceError: Audience doesn't match" in said
    assert "a token was refused: token " in said
    assert "a token was refused: it is of `ann`, who left" in said
    assert [text for text in (ours, theirs, other) if text.rpartition(".")[2] in said] == []
