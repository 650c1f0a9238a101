"""Webhooks to a real receiver: what arrives, how it is signed, and what is made of each answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import threading
from pathlib import Path
from typing import Any

from glidepath.config import NoticesSettings
from glidepath.notices.address import reach_of, target_of
from glidepath.notices.hook import Hooks, new_secret
from glidepath.notices.sending import Fault, Undone
from kube.stand_in import papers
from notices.receivers import HookReceiver, hook_receiver

WALL = 1_800_000_000.5
SECRET = new_secret()


def hooks(**own: Any) -> Hooks:
    settings = NoticesSettings.model_validate({"webhooks": True, "networks": ["127.0.0.0/8"]})
    return Hooks(reach_of(settings), lambda: WALL, **own)


def test_a_letter_arrives_signed_as_standard_webhooks_has_it(hook: HookReceiver) -> None:
    body = json.dumps({"text": "job 7 is done"}).encode()
    assert hooks().post(target_of(hook.url), SECRET, "abc-7", body) is None
    [post] = hook.posts
    assert (post.path, post.body, post.headers["host"]) == ("/hook?of=ada", body, f"127.0.0.1:{hook.port}")
    assert post.headers["webhook-id"] == "abc-7"
    assert post.headers["webhook-timestamp"] == "1800000000"
    # By hand, as a receiver would: its words are those of docs/how-to/get-notices.md.
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    mark = hmac.new(key, b"abc-7.1800000000." + body, hashlib.sha256).digest()
    assert post.headers["webhook-signature"] == f"v1,{base64.b64encode(mark).decode()}"
    assert len(key) == 32


def test_answers_are_told_apart_and_redirects_are_not_followed(hook: HookReceiver) -> None:
    hook.location = f"{hook.url}&again=1"
    of = f"`127.0.0.1:{hook.port}`"
    expected = {
        200: None,
        302: Undone(f"{of} answers HTTP 302, and redirects are not followed"),
        307: Undone(f"{of} answers HTTP 307, and redirects are not followed"),
        404: Undone(f"{of} answers HTTP 404"),
        410: Undone(f"{of} answers HTTP 410, which asks for no more", Fault.GONE),
        500: Undone(f"{of} answers HTTP 500"),
    }
    found = {}
    for status in expected:
        hook.status = status
        found[status] = hooks().post(target_of(hook.url), SECRET, f"abc-{status}", b"{}")
    assert found == expected
    assert [post.path for post in hook.posts] == ["/hook?of=ada"] * len(expected)


def test_a_name_that_means_something_else_by_the_second_look_is_looked_at_once(hook: HookReceiver) -> None:
    """The address that was checked is the one that is called, under the name that was asked for."""
    asked = []

    def resolve(host: str, port: int, **more: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    target = target_of(f"http://hooks.example.org:{hook.port}/x")
    assert hooks(resolve=resolve).post(target, SECRET, "abc-1", b"{}") is None
    assert asked == ["hooks.example.org"]
    assert hook.posts[0].headers["host"] == f"hooks.example.org:{hook.port}"
    undone = hooks(resolve=resolve).post(target, SECRET, "abc-2", b"{}")
    assert undone is not None
    assert "at a private or reserved address" in undone.why
    assert len(hook.posts) == 1


def test_whoever_is_silent_or_slow_is_left_in_time(hook: HookReceiver) -> None:
    hook.held.clear()
    undone = hooks(limit_s=0.3).post(target_of(hook.url), SECRET, "abc-1", b"{}")
    assert undone == Undone(f"`127.0.0.1:{hook.port}` gave no answer in 0.3 s")
    with socket.create_server(("127.0.0.1", 0)) as dripping:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = dripping.accept()
            with connection:
                try:
                    while not ended.wait(0.02):
                        connection.sendall(b"H")  # A status line without an end.
                except OSError:
                    pass

        threading.Thread(target=drip, daemon=True).start()
        port = dripping.getsockname()[1]
        undone = hooks(limit_s=0.3).post(target_of(f"http://127.0.0.1:{port}/"), SECRET, "abc-2", b"{}")
        ended.set()
    assert undone is not None
    assert f"`127.0.0.1:{port}`" in undone.why


def test_nobody_there_is_told(hook: HookReceiver) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        undone = hooks().post(target_of(f"http://127.0.0.1:{port}/"), SECRET, "abc-1", b"{}")
    assert undone == Undone(f"`127.0.0.1:{port}` does not answer: [Errno 111] Connection refused")


def test_over_https_the_certificate_is_of_the_name_and_of_an_authority_that_is_trusted(
    tmp_path: Path,
) -> None:
    made = papers(tmp_path)
    trusting = {"ca_file": str(made.folder / "ca.crt")}

    def resolve(host: str, port: int, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    with hook_receiver(made.server_side("server")) as hook:
        answers = []
        for name, own in (
            ("cluster.example", trusting),
            ("other.example", trusting),
            ("cluster.example", {}),
        ):
            target = target_of(f"https://{name}:{hook.port}/x")
            answers.append(hooks(resolve=resolve, **own).post(target, SECRET, "abc-1", b"{}"))
        assert answers[0] is None
        assert [bool(one and "CERTIFICATE_VERIFY_FAILED" in one.why) for one in answers] == [
            False,
            True,
            True,
        ]
        assert len(hook.posts) == 1
