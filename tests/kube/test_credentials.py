"""Credentials are renewed when they should be, not more often, and never shown."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from glidepath.kube.access import EXEC_KINDS, Access, ExecPlugin
from glidepath.kube.api import Api
from glidepath.kube.credentials import (
    ANSWER_BYTES_MAX,
    EARLY_S,
    FAILED_REST_S,
    FILE_EVERY_S,
    TOKEN_BYTES_MAX,
    Credential,
    Credentials,
)
from glidepath.kube.errors import AccessError, KubeError
from kube.stand_in import Answer, plain_access, serving

SECRET = "s3cr3t-t0k3n"
NOW = 1_800_000_000.0
P = "/version"


class Hands:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def mono(self) -> float:
        return self.passed_s

    def wall(self) -> float:
        return NOW + self.passed_s


def at(seconds: float) -> str:
    return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")


def printed(**status: object) -> str:
    return json.dumps({"kind": "ExecCredential", "apiVersion": EXEC_KINDS[0], "status": status})


def script(folder: Path, body: str, name: str = "plugin") -> ExecPlugin:
    """Counts its own runs in the file `runs`."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho run >> '{folder}/runs'\n{body}\n")
    program.chmod(0o755)
    return ExecPlugin(str(program), ("one", "two words"), (("OWN", "value"),), EXEC_KINDS[0])


def printing(folder: Path, answer: str) -> ExecPlugin:
    (folder / "answer").write_text(answer)
    return script(folder, f"cat '{folder}/answer'")


def runs(folder: Path) -> int:
    path = folder / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def of(access: Mapping[str, Any], hands: Hands | None = None, *, plugin_s_max: float = 30.0) -> Credentials:
    hands = hands or Hands()
    whole = Access("https://x.example", "here", "test", **access)
    return Credentials(whole, mono=hands.mono, wall=hands.wall, plugin_s_max=plugin_s_max)


def refused(credentials: Credentials) -> str:
    with pytest.raises(AccessError) as caught:
        credentials.now()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_secrets_are_not_shown_when_printed() -> None:
    shown = repr(Credential(SECRET, SECRET, SECRET, 5.0))
    assert SECRET not in shown
    assert "5.0" in shown


def test_what_stands_in_the_file_is_used_as_it_is() -> None:
    assert of({"token": SECRET}).now() == Credential(SECRET)
    assert of({"certificate": "c", "key": "k"}).now() == Credential("", "c", "k")
    assert of({}).now() == Credential()


@pytest.mark.parametrize(
    "token", [f"{SECRET}\nX-Other: y", f"{SECRET}\r", f"a {SECRET}", f"{SECRET}\u00e9", f"\0{SECRET}"]
)
def test_a_token_with_letters_that_no_token_has_is_not_used(tmp_path: Path, token: str) -> None:
    assert "letters that no token has" in refused(of({"token": token}))
    (tmp_path / "token").write_text(f"{token}x")
    assert "letters that no token has" in refused(of({"token_file": tmp_path / "token"}))
    assert "letters that no token has" in refused(of({"plugin": printing(tmp_path, printed(token=token))}))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b" \n", "is empty"),
        (SECRET.encode() + b"\xff", "is no text"),
        (SECRET.encode() * TOKEN_BYTES_MAX, "is larger than 64 KiB"),
    ],
)
def test_a_token_file_that_is_no_use_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    said = refused(of({"token_file": path}))
    assert words in said
    assert str(path) in said


def test_a_pipe_in_place_of_a_token_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    assert "is no file" in refused(of({"token_file": tmp_path / "token"}))


def test_a_token_file_is_read_again_after_a_minute_and_at_once_when_refused(tmp_path: Path) -> None:
    hands, path = Hands(), tmp_path / "token"
    path.write_text("first\n")
    credentials = of({"token_file": path, "token": "ignored"}, hands)
    first = credentials.now()
    assert first.token == "first"
    path.write_text("second\n")
    hands.passed_s = FILE_EVERY_S
    assert credentials.now() is first
    hands.passed_s = FILE_EVERY_S + 1
    second = credentials.now()
    assert second.token == "second"
    path.write_text("third")
    credentials.refused(first)
    assert credentials.now() is second, "it is not the one that was refused"
    credentials.refused(second)
    assert credentials.now().token == "third"


def test_a_token_that_cannot_be_read_again_serves_until_it_is_refused(tmp_path: Path) -> None:
    hands, path = Hands(), tmp_path / "token"
    path.write_text("first")
    credentials = of({"token_file": path}, hands)
    first = credentials.now()
    path.unlink()
    hands.passed_s = FILE_EVERY_S + 1
    assert credentials.now() is first
    credentials.refused(first)
    assert "No such file" in refused(credentials)
    path.write_text("second")
    assert credentials.now().token == "second"


def test_a_plug_in_is_told_what_the_kubeconfig_says(tmp_path: Path) -> None:
    plugin = script(
        tmp_path,
        f"""printf '%s' "$KUBERNETES_EXEC_INFO" > '{tmp_path}/told'
echo "$OWN,$1,$2,$FROM_US" > '{tmp_path}/words'
echo '{printed(token=SECRET)}'""",
    )
    access = Access("https://x.example", "here", "test", plugin=plugin)
    credentials = Credentials(access, environ={"FROM_US": "x", "PATH": os.environ["PATH"], "OWN": "covered"})
    assert credentials.now() == Credential(SECRET)
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"apiVersion": EXEC_KINDS[0], "kind": "ExecCredential", "spec": {"interactive": False}}
    assert (tmp_path / "words").read_text() == "value,one,two words,x\n"


def test_a_plug_in_may_give_a_certificate(tmp_path: Path) -> None:
    answer = printed(clientCertificateData="c", clientKeyData="k", expirationTimestamp=at(100))
    assert of({"plugin": printing(tmp_path, answer)}).now() == Credential("", "c", "k", NOW + 100)


def test_a_plug_in_is_run_again_before_its_credential_ends_and_when_it_is_refused(tmp_path: Path) -> None:
    hands = Hands()
    plugin = printing(tmp_path, printed(token="first", expirationTimestamp=at(3600)))
    credentials = of({"plugin": plugin, "token_file": tmp_path / "ignored"}, hands)
    first = credentials.now()
    hands.passed_s = 3600 - EARLY_S
    assert credentials.now() is first
    printing(tmp_path, printed(token="second"))
    hands.passed_s += 1
    second = credentials.now()
    assert (second.token, runs(tmp_path)) == ("second", 2)
    hands.passed_s += 1e9
    assert credentials.now() is second, "without an end it lasts"
    credentials.refused(first)
    assert credentials.now() is second
    credentials.refused(second)
    assert credentials.now().token == "second"
    assert runs(tmp_path) == 3


def test_a_plug_in_that_fails_early_leaves_what_still_serves(tmp_path: Path) -> None:
    hands = Hands()
    plugin = printing(tmp_path, printed(token="first", expirationTimestamp=at(3600)))
    credentials = of({"plugin": plugin}, hands)
    first = credentials.now()
    script(tmp_path, "exit 1")
    hands.passed_s = 3600 - EARLY_S / 2
    assert credentials.now() is first
    hands.passed_s = 3601
    assert "exit code 1" in refused(credentials)


@pytest.mark.parametrize(
    "answer",
    [
        printed(token="t", expirationTimestamp=at(-9999)),
        printed(token="t", expirationTimestamp="0001-01-01T00:00:00Z"),
    ],
)
def test_credentials_that_are_over_or_refused_at_once_do_not_start_a_storm(
    tmp_path: Path, answer: str
) -> None:
    hands = Hands()
    credentials = of({"plugin": printing(tmp_path, answer)}, hands)
    for _ in range(20):
        credentials.refused(credentials.now())
    assert runs(tmp_path) == 1
    hands.passed_s = FAILED_REST_S
    credentials.now()
    assert runs(tmp_path) == 2


def test_a_plug_in_that_failed_rests_and_then_has_another_go(tmp_path: Path) -> None:
    hands = Hands()
    credentials = of({"plugin": script(tmp_path, "echo 'log in first' >&2; exit 3")}, hands)
    said = {refused(credentials) for _ in range(20)}
    assert len(said) == 1
    assert said.pop().endswith("/plugin` ended with exit code 3: log in first")
    assert runs(tmp_path) == 1
    hands.passed_s = FAILED_REST_S
    refused(credentials)
    assert runs(tmp_path) == 2
    printing(tmp_path, printed(token="t"))
    hands.passed_s *= 2
    assert credentials.now().token == "t"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "printed no JSON"),
        (f"token: {SECRET}", "printed no JSON"),
        (f'{{"token": "{SECRET}\udcff"}}', "printed no JSON"),
        ("[" * 100_000, "printed no JSON"),
        (f'["{SECRET}"]', "printed no `ExecCredential`"),
        (f'{{"kind": "ExecCredential", "status": "{SECRET}"}}', "printed no `ExecCredential`"),
        (printed(token=SECRET).replace("ExecCredential", "Secret"), "printed no `ExecCredential`"),
        (printed(token=SECRET).replace("io/v1", "io/v9"), "of another version"),
        (printed(), "neither a token nor a certificate"),
        (printed(clientCertificateData=SECRET), "neither a token nor a certificate"),
        (printed(token="t", clientKeyData=SECRET), "a certificate without its key"),
        (printed(token=[SECRET]), "something else than texts"),
        (printed(token=12345), "something else than texts"),
        (printed(token=SECRET, expirationTimestamp="soon"), "that is no time"),
        (printed(token=SECRET, expirationTimestamp=12345), "something else than texts"),
    ],
)
def test_what_is_no_credential_is_refused_and_not_repeated(tmp_path: Path, answer: str, words: str) -> None:
    (tmp_path / "answer").write_bytes(answer.encode("utf-8", "surrogateescape"))
    assert words in refused(of({"plugin": script(tmp_path, f"cat '{tmp_path}/answer'")}))


def test_a_time_without_zone_is_meant_as_utc(tmp_path: Path) -> None:
    plugin = printing(tmp_path, printed(token="t", expirationTimestamp="2100-01-01T00:00:00"))
    assert of({"plugin": plugin}).now().ends_s == datetime(2100, 1, 1, tzinfo=UTC).timestamp()


def test_a_plug_in_that_is_not_there_is_explained_by_its_maker(tmp_path: Path) -> None:
    missing = ExecPlugin(str(tmp_path / "nope"), (), (), EXEC_KINDS[0], hint="Install\n nope.")
    assert refused(of({"plugin": missing})).endswith(
        "cannot be started: No such file or directory. Install\\n nope."
    )
    for arguments, environ in ((("a\0b",), ()), ((), (("A=B", "c"),))):
        odd = ExecPlugin("/bin/true", arguments, environ, EXEC_KINDS[0])
        assert "no command" in refused(of({"plugin": odd}))


def alive(path: Path) -> bool:
    """Whether the process whose number stands there runs; one that only waits to be buried does not."""
    stat = Path("/proc", path.read_text().strip(), "stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ended(path: Path) -> bool:
    until = time.monotonic() + 10
    while alive(path) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(path)


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("sleep 600", "did not end within 1 s"),
        ("exec >&- 2>&-; sleep 600", "did not end within 1 s"),
        ("while :; do echo; sleep 0.05; done", "did not end within 1 s"),
        ("exec yes", f"printed more than {ANSWER_BYTES_MAX >> 20} MiB"),
        ("yes >&2", "did not end within 1 s"),
        ("exit 4", "exit code 4: it said nothing"),
    ],
)
def test_a_plug_in_that_hangs_or_floods_is_ended_with_its_children(
    tmp_path: Path, last: str, words: str
) -> None:
    plugin = script(tmp_path, f"sleep 600 &\necho $! > '{tmp_path}/child'\n{last}")
    assert words in refused(of({"plugin": plugin}, plugin_s_max=1 if "1 s" in words else 30))
    assert ended(tmp_path / "child")


def test_a_child_that_keeps_the_output_open_does_not_hold_up_the_answer(tmp_path: Path) -> None:
    body = f"sleep 600 &\necho $! > '{tmp_path}/child'\necho '{printed(token='t')}'"
    assert of({"plugin": script(tmp_path, body)}).now().token == "t"
    assert ended(tmp_path / "child")


def test_a_child_that_left_the_group_does_not_hold_us_up_either(tmp_path: Path) -> None:
    body = f"setsid sleep 2 &\necho $! > '{tmp_path}/child'\nsleep 600"
    assert "did not end" in refused(of({"plugin": script(tmp_path, body)}, plugin_s_max=0.3))


def test_a_long_answer_comes_whole(tmp_path: Path) -> None:
    long = "x" * 60_000
    assert of({"plugin": printing(tmp_path, printed(token=long))}).now().token == long


class TestWithAServer:
    def test_a_refused_token_is_read_again_and_tried_once_more(self, tmp_path: Path) -> None:
        path = tmp_path / "token"
        path.write_text("old")
        no = Answer(401, b'{"message": "who are you?"}')
        with serving() as server:
            api = Api(plain_access(server, token_file=path))
            server.say(P, Answer(), no, Answer())
            api.get(P)
            path.write_text("new")
            assert api.change("POST", P, {"a": 1}) == b"{}"
            assert [asked.headers["Authorization"] for asked in server.asked] == [
                "Bearer old",
                "Bearer old",
                "Bearer new",
            ]
            assert [asked.body for asked in server.asked[1:]] == [b'{"a":1}'] * 2

    def test_a_token_that_is_refused_twice_is_an_error(self, tmp_path: Path) -> None:
        with serving() as server:
            server.say(P, Answer(401, b'{"message": "who are you?", "reason": "Unauthorized"}'))
            api = Api(plain_access(server, plugin=printing(tmp_path, printed(token=SECRET))))
            for number in (1, 2, 3):
                with pytest.raises(KubeError, match="who are you") as caught:
                    api.get(P)
                assert (caught.value.status, caught.value.reason) == (401, "Unauthorized")
                assert len(server.asked) == 2 * number
            with pytest.raises(KubeError, match="who are you"), api.lines(P, {}, silent_s=5, live=bool):
                pass
        assert runs(tmp_path) == 1

    def test_without_a_credential_nothing_is_asked(self, tmp_path: Path) -> None:
        with serving() as server:
            api = Api(plain_access(server, token_file=tmp_path / "none"))
            with pytest.raises(AccessError, match="No such file"):
                api.get(P)
            assert not server.asked
