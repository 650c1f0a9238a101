"""Whatever answers, or does not: every request ends in time, in data or in an error."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from glidepath.kube.access import Access
from glidepath.kube.api import (
    LINE_BYTES_MAX,
    RETRY_AFTER_S_MAX,
    Api,
    NotSentError,
    SilentError,
    UnansweredError,
)
from glidepath.kube.errors import AccessError, KubeError
from glidepath.kube.shapes import Decoder, Pod
from kube.stand_in import Answer, Papers, StandIn, papers, plain_access, serving

P = "/api/v1/pods"
HTML = b"<html>please log in</html>"
GOOD = b'{"kind": "Status"}'


@pytest.fixture
def server() -> Iterator[StandIn]:
    with serving() as running:
        yield running


@pytest.fixture
def api(server: StandIn) -> Iterator[Api]:
    opened = Api(plain_access(server))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))


def status(code: int, **more: object) -> bytes:
    return json.dumps({"kind": "Status", "code": code, **more}).encode()


def test_what_is_asked_reaches_the_server(server: StandIn, api: Api) -> None:
    server.say(P, Answer(body=GOOD))
    assert api.get(P, {"limit": 5, "labelSelector": "a=b,c"}) == GOOD
    assert api.change("PATCH", P, {"a": "\ud800"}) == GOOD
    assert api.change("POST", P, {"a": 1}) == GOOD
    assert api.change("DELETE", P) == GOOD
    first, patch, post, delete = server.asked
    assert first.path == f"{P}?limit=5&labelSelector=a%3Db%2Cc"
    assert first.headers["User-Agent"] == "glidepath"
    assert "Authorization" not in first.headers
    assert patch.headers["Content-Type"] == "application/merge-patch+json"
    assert (post.headers["Content-Type"], post.body) == ("application/json", b'{"a":1}')
    assert delete.body == b""


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(body=HTML, kind="text/html"), 0, "answered 200 with text/html, which is no answer"),
        (Answer(502, HTML, "text/html"), 502, "answered 502 with text/html"),
        (Answer(body=HTML, kind=""), 0, "answered 200 with nothing"),
        (Answer(302, HTML, "text/html", {"Location": "/elsewhere"}), 0, "answered 302"),
        (Answer(307, b"{}", headers={"Location": "/elsewhere"}), 307, "{}"),
        (Answer(body=GOOD, headers={"Content-Encoding": "gzip"}), 0, "no answer of Kubernetes"),
        (Answer(204, b"", ""), 0, "answered 204"),
        (Answer(403, status(403, message="no\x1b[2J\nno", reason="Forbidden")), 403, "no\\x1b[2J\\nno"),
        (Answer(500, b""), 500, "answered 500"),
        (Answer(500, b"[1]"), 500, "[1]"),
        (Answer(500, b"[" * 100_000), 500, "[[["),
        (Answer(500, status(500, message=5, details="x")), 500, "5"),
        (Answer(500, b'{"message": "\xff'), 500, "message"),
        (Answer(409, status(409, message="x" * 5000)), 409, "..."),
    ],
)
def test_what_is_no_answer_of_kubernetes_is_an_error(
    server: StandIn, api: Api, answer: Answer, code: int, words: str
) -> None:
    server.say(P, answer)
    with pytest.raises(KubeError) as caught:
        api.get(P)
    assert caught.value.status == code
    assert words in str(caught.value)
    assert len(str(caught.value)) <= 400
    assert len(server.asked) == 1, "it was not followed anywhere"


def test_the_servers_reason_is_kept_but_not_at_any_length(server: StandIn, api: Api) -> None:
    server.say(P, Answer(410, status(410, reason="Expired")), Answer(400, status(400, reason="x" * 9999)))
    with pytest.raises(KubeError) as caught:
        api.get(P)
    assert (caught.value.reason, caught.value.gone, caught.value.busy) == ("Expired", True, False)
    with pytest.raises(KubeError) as caught:
        api.get(P)
    assert len(caught.value.reason) <= 100


def test_a_log_is_text_and_a_page_of_a_proxy_is_no_log(server: StandIn, api: Api) -> None:
    server.say("/log", Answer(body=b"hello\n", kind="text/plain; charset=utf-8"))
    server.say("/page", Answer(body=HTML, kind="text/html"))
    server.say("/no", Answer(404, status(404, message="no such pod")))
    assert api.get("/log", text=True) == b"hello\n"
    assert "*/*" in server.asked[0].headers["Accept"]
    with pytest.raises(KubeError, match="text/plain"):
        api.get("/log")
    with pytest.raises(KubeError, match="text/html"):
        api.get("/page", text=True)
    with pytest.raises(KubeError, match="no such pod"):
        api.get("/no", text=True)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784111777.0),
        ("yesterday", None),
        ("", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 99999999 08:49:37 GMT", None),
        (None, None),
    ],
)
def test_the_servers_time_is_told_where_it_is_one(
    server: StandIn, api: Api, said: str | None, expected: float | None
) -> None:
    server.say(P, Answer(body=GOOD, headers={} if said is None else {"Date": said}))
    assert api.dated(P) == (GOOD, expected)


@pytest.mark.parametrize(
    ("header", "details", "wait_s"),
    [
        ("7", None, 7.0),
        (None, 9, 9.0),
        ("7", 9, 7.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 9, 9.0),
        ("-5", None, 0.0),
        ("1e400", None, RETRY_AFTER_S_MAX),
        (None, 10**30, RETRY_AFTER_S_MAX),
        ("nan", None, 0.0),
        ("soon", None, None),
        (None, [], None),
        (None, True, None),
        (None, None, None),
    ],
)
def test_how_long_to_wait_is_taken_from_either_place_and_bounded(
    server: StandIn, api: Api, header: str | None, details: object, wait_s: float | None
) -> None:
    body = status(429, message="slowly", details={"retryAfterSeconds": details})
    server.say(P, Answer(429, body, headers={"Retry-After": header} if header else {}))
    with pytest.raises(KubeError, match="slowly") as caught:
        api.get(P)
    assert caught.value.busy
    assert caught.value.retry_after_s == wait_s


def test_half_a_document_of_the_right_length_is_refused_by_whoever_reads_it(
    server: StandIn, api: Api
) -> None:
    server.say(P, Answer(body=b'{"metadata": {}, "items": [{"meta'))
    with pytest.raises(KubeError, match="list cannot be read"):
        Decoder(Pod).page(api.get(P))


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(body=GOOD, length=1000), "broke off"),
        (Answer(chunks=(GOOD,), end="cut"), "broke off"),
        (Answer(body=GOOD, length=1000, end="silent"), "timed out"),
        (Answer(body=GOOD, length=1000, end="drip"), "timed out"),
        (Answer(chunks=(GOOD,), end="drip"), "timed out"),
        (Answer(bare=True, end="drip"), "timed out"),
        (Answer(wait_s=5), "timed out"),
        (Answer(gone=True), "did not answer"),
        (Answer(raw=HEAD + b"X: " + b"y" * 500), "timed out"),
        (Answer(raw=b"HTTP/1.1 100 Continue\r\n\r\n" * 50, drop_s=0.01), "timed out"),
        (Answer(raw=b"nonsense\r\n\r\n", drop_s=0), "did not answer"),
        (Answer(raw=HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", drop_s=0), "broke off"),
        (Answer(raw=HEAD + b"Content-Length: 3, 4\r\n\r\n{}", drop_s=0), "did not answer"),
        (Answer(raw=HEAD + b"X: y\r\n" * 300 + b"\r\n{}", drop_s=0), "did not answer"),
    ],
)
def test_an_answer_that_does_not_come_whole_in_time_may_have_happened(
    server: StandIn, api: Api, answer: Answer, words: str
) -> None:
    server.say(P, answer, Answer(body=GOOD))
    with pytest.raises(UnansweredError, match=words):
        api.change("POST", P, {}, limit_s=0.5)
    assert api.get(P) == GOOD, "the next request does not find the rest of the last"
    assert [asked.method for asked in server.asked] == ["POST", "GET"], "nothing was sent twice"


def test_a_body_beyond_the_bound_is_not_kept(server: StandIn, api: Api) -> None:
    server.say(P, Answer(chunks=(b" " * (1 << 20),) * 70))
    with pytest.raises(UnansweredError, match="more than 64 MiB"):
        api.get(P)


def test_a_connection_is_used_again(server: StandIn, api: Api) -> None:
    server.say(P, Answer(body=GOOD), Answer(chunks=(b"{", b"}")), Answer(500, GOOD), Answer(body=GOOD))
    assert [api.get(P), api.get(P)] == [GOOD, b"{}"]
    with pytest.raises(KubeError):
        api.get(P)
    assert api.get(P) == GOOD


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://nowhere.invalid", "cannot be reached"),
        (f"http://{'a' * 70}.example", "cannot be reached"),
        ("https://127.0.0.1:1", "Connection refused"),
    ],
)
def test_what_cannot_be_reached_was_not_sent(url: str, words: str) -> None:
    api = Api(Access(url, "here", "test", verified=False))
    said = []
    for _ in range(2):
        with pytest.raises(NotSentError, match=words) as caught:
            api.change("POST", P, {}, limit_s=2)
        said.append(str(caught.value))
    assert said[0] == said[1], "the same trouble is told in the same words"


def test_who_accepts_and_says_nothing_in_a_handshake_was_not_sent_anything() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        api = Api(Access(f"https://127.0.0.1:{mute.getsockname()[1]}", "here", "test"))
        with pytest.raises(NotSentError, match="timed out"):
            api.change("POST", P, {}, limit_s=0.3)


def test_a_proxy_that_is_not_there_or_refuses_was_not_sent_anything(server: StandIn) -> None:
    for url in (server.url, "https://cluster.example"):
        api = Api(Access(url, "here", "test", verified=False, proxy="http://127.0.0.1:1"))
        with pytest.raises(NotSentError, match="refused"):
            api.get(P, limit_s=2)
    # One that refuses to connect us further.
    server.say("cluster.example:443", Answer(403))
    api = Api(Access("https://cluster.example", "here", "test", proxy=server.url))
    with pytest.raises(NotSentError, match="cannot be reached"):
        api.get(P, limit_s=2)


def secure(server: StandIn, made: Papers, **more: object) -> Api:
    return Api(plain_access(server, **{"verified": True, "ca": made.text("ca.crt"), **more}))


def test_a_server_that_the_authority_vouches_for_is_believed(made: Papers) -> None:
    comment = "# Főtanúsítvány\n"
    with serving(made.server_side("server")) as server:
        server.say(P, Answer(body=GOOD))
        assert secure(server, made, ca=comment + made.text("ca.crt")).get(P) == GOOD
        named = {"certificate": made.text("client.crt"), "key": made.text("client.key")}
        assert secure(server, made, **named).get(P) == GOOD
    assert [asked.presented for asked in server.asked] == ["", "client"]


def test_a_server_name_other_than_the_address(made: Papers) -> None:
    with serving(made.server_side("elsewhere")) as server:
        server.say(P, Answer(body=GOOD))
        assert secure(server, made, server_name="cluster.example").get(P) == GOOD
        for name in ("", "other.example"):
            with pytest.raises(NotSentError, match=r"is not who it should be: .*mismatch.*look at") as caught:
                secure(server, made, server_name=name).get(P)
            assert "0x" not in str(caught.value)
        assert secure(server, made, verified=False).get(P) == GOOD
    assert len(server.asked) == 2, "nothing was told to who is not believed"


def test_a_name_for_the_certificate_does_not_disturb_a_plain_address(server: StandIn) -> None:
    server.say(P, Answer(body=GOOD))
    assert Api(plain_access(server, server_name="cluster.example")).get(P) == GOOD


@pytest.mark.parametrize("ca", ["client.crt", ""])
def test_a_server_of_another_authority_is_not_believed(made: Papers, ca: str) -> None:
    with serving(made.server_side("server")) as server:
        api = secure(server, made, ca=made.text(ca) if ca else "", token="secret")
        with pytest.raises(NotSentError, match=r"not who it should be: .*certificate.*look at"):
            api.get(P)
    assert not server.asked


@pytest.mark.parametrize(
    ("ca", "certificate", "key"),
    [
        ("garbage", "", ""),
        ("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n", "", ""),
        ("ca.crt", "client.crt", "server.key"),
        ("ca.crt", "client.crt", "locked.key"),
        ("ca.crt", "garbage", "garbage"),
    ],
)
def test_papers_that_are_no_use_are_named(made: Papers, ca: str, certificate: str, key: str) -> None:
    texts = [made.text(each) if each.endswith((".crt", ".key")) else each for each in (ca, certificate, key)]
    api = Api(Access("https://x.example", "here", "test", ca=texts[0], certificate=texts[1], key=texts[2]))
    with pytest.raises(
        AccessError, match=r"certificate or key for https://x.example cannot be used: .*phrase"
    ):
        api.get(P)


def hear(
    api: Api, heard: list[bytes], *, silent_s: float = 0.4, live: Callable[[], bool] = lambda: True
) -> list[bytes]:
    with api.lines(P, {"watch": "1"}, silent_s=silent_s, live=live) as lines:
        heard.extend(lines)
    return heard


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"a\nb\n",), [b"a", b"b"]),
        ((b"a", b"b\nc", b"d", b"\n"), [b"ab", b"cd"]),
        ((b"\n \na\n\n",), [b"a"]),
        ((b"a\nhalf",), [b"a"]),
        ((), []),
        ((b"x" * 3_000_000 + b"\n",), [b"x" * 3_000_000]),
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_lines_come_whole_however_they_were_cut(
    server: StandIn, api: Api, chunks: tuple[bytes, ...], lines: list[bytes], bare: bool
) -> None:
    server.say(P, Answer(chunks=chunks, bare=bare, pause_s=0.01))
    assert hear(api, [], silent_s=5) == lines


def test_a_line_is_given_on_when_it_comes(server: StandIn, api: Api) -> None:
    for bare in (False, True):
        server.say(P, Answer(chunks=(b"a\n",), bare=bare, end="silent"))
        with api.lines(P, {}, silent_s=60, live=lambda: True) as lines:
            assert next(lines) == b"a"


@pytest.mark.parametrize("end", ["silent", "drip"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_stream_without_a_whole_line_for_too_long_is_silent(
    server: StandIn, api: Api, end: str, bare: bool
) -> None:
    server.say(P, Answer(chunks=(b"a\n", b"b"), bare=bare, end=end))
    heard: list[bytes] = []
    with pytest.raises(SilentError, match="fell silent"):
        hear(api, heard)
    assert heard == [b"a"]


def test_a_stream_that_goes_on_is_not_silent(server: StandIn, api: Api) -> None:
    server.say(P, Answer(chunks=(b"a\n",) * 30, pause_s=0.05))
    assert len(hear(api, [], silent_s=1.2)) == 30


@pytest.mark.parametrize("bare", [False, True])
def test_of_a_busy_stream_in_odd_parts_nothing_is_lost(server: StandIn, api: Api, bare: bool) -> None:
    told = [f"{number} {'x' * (number % 50) * 400}".encode() for number in range(250)]
    whole = b"\n".join(told) + b"\n"
    chunks = tuple(whole[at : at + 7_001] for at in range(0, len(whole), 7_001))
    server.say(P, Answer(chunks=chunks, bare=bare, pause_s=0.002))
    assert hear(api, [], silent_s=5) == told


def test_a_reader_that_takes_its_time_is_not_the_servers_silence(server: StandIn, api: Api) -> None:
    server.say(P, Answer(chunks=(b"a\nb\n", b"c\n")))
    heard = []
    with api.lines(P, {}, silent_s=0.4, live=lambda: True) as lines:
        for line in lines:
            time.sleep(0.3)
            heard.append(line)
    assert heard == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (Answer(chunks=(b"a\n", b"b"), end="cut"), UnansweredError, "broke off"),
        (Answer(gone=True), UnansweredError, "did not answer"),
        (Answer(wait_s=5), UnansweredError, "timed out"),
        (Answer(410, status(410, message="too old", reason="Expired")), KubeError, "too old"),
        (Answer(body=HTML, kind="text/html"), KubeError, "text/html"),
        (Answer(chunks=(b"x" * (1 << 20),) * ((LINE_BYTES_MAX >> 20) + 1)), KubeError, "more than 8 MiB"),
    ],
)
def test_a_stream_that_fails_says_how(
    server: StandIn, api: Api, answer: Answer, kind: type[Exception], words: str
) -> None:
    server.say(P, answer)
    with pytest.raises(kind, match=words):
        hear(api, [])


def test_a_stream_ends_when_nobody_wants_it_and_at_once_when_all_is_closed(
    server: StandIn, api: Api, made: Papers
) -> None:
    server.say(P, Answer(chunks=(b"a\n",) * 50, pause_s=0.02))
    assert hear(api, [], live=lambda: False) == [b"a"]
    with serving(made.server_side("server")) as other:
        for each, opened in ((server, api), (other, secure(other, made))):
            each.say(P, Answer(chunks=(b"a\n",), end="silent"))
            heard: list[bytes] = []
            with opened.lines(P, {}, silent_s=300, live=lambda: True) as lines:
                heard.append(next(lines))
                closing = threading.Timer(0.1, opened.close)
                closing.start()
                heard += list(lines)
                closing.join()
            assert heard == [b"a"]


def test_many_threads_share_one_door(server: StandIn, api: Api) -> None:
    server.say(P, Answer(body=GOOD, wait_s=0.02))
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(api.get(P))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [GOOD] * 8


def test_a_credential_that_comes_too_late_is_not_used(server: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t")
    api = Api(plain_access(server, token_file=file))
    with pytest.raises(NotSentError, match="took all the time"):
        api.get(P, limit_s=0)
    assert not server.asked
