"""Callers that mean no good, and some that do: each is a thread that asks until it is told to stop.

An address, tokens and a seed come in; how often each answer was given goes out. They know no targets: what
answers they may get is said by whoever counts them.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

API = "/api/v1"
ANSWER_S_MAX = 60.0
# So long a client that reads nothing is there; the server lets it go after a minute.
UNREAD_S, HALF_S_MAX = 90.0, 40.0
UNREAD_AT_ONCE = 6
SMALL_BUFFER = 4096
MIB = 1 << 20
WORDS = ("../../etc/passwd", "a\x00b", "\u202e\U0001f4a5", "';DROP TABLE jobs;--", "$(id)", "A" * 5000, "")
WRONG: tuple[Any, ...] = (None, True, -1, 2**63, 1e308, [], [[]], {}, {"a": {}}, "9" * 400, "\ud800", *WORDS)
KEYS = (
    "partition",
    "queue",
    "cpus",
    "mem",
    "time",
    "env",
    "image",
    "workdir",
    "files",
    "ranks",
    "gpus",
    "port",
)
OTHER_ADDRESSES = ("/jobs/9999999999", "/jobs/-1", "/jobs/1e3", "/jobs/%00", "/nodes/x/drain", "/nothing")


@dataclass
class Scene:
    """Where all of them call, and what came of it."""

    port: int
    token: str  # of somebody who may submit
    dead_tokens: tuple[str, ...]  # expired, revoked, or another store's
    log_job: int  # one that writes without an end
    over: threading.Event = field(default_factory=threading.Event)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)

    def caller(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)

    def raw(self, *, buffer: int = 0) -> socket.socket:
        made = socket.socket()
        if buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        made.settimeout(ANSWER_S_MAX)
        made.connect(("127.0.0.1", self.port))
        return made

    def head(self, verb: str, path: str, *lines: str) -> bytes:
        rows = (f"{verb} {API}{path} HTTP/1.1", "Host: here", f"Authorization: Bearer {self.token}", *lines)
        return "\r\n".join((*rows, "", "")).encode()


def asked(
    scene: Scene, who: str, where: str, body: object = b"", *, verb: str = "POST", token: str | None = None
) -> bytes:
    """One request on a connection of its own, counted by its answer; 0 where the connection was cut."""
    connection = scene.caller()
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {scene.token if token is None else token}"}
    try:
        connection.request(verb, f"{API}{where}", given or None, headers)
        answer = connection.getresponse()
        said = answer.read()
        scene.counts[who, answer.status] += 1
        return said
    except (OSError, http.client.HTTPException):
        scene.counts[who, 0] += 1
        return b""
    finally:
        connection.close()


# Hands: each does one thing once; the pauses between are the runner's.


def odd_wish(scene: Scene, draw: random.Random) -> None:
    wish: dict[str, Any] = {"command": ["true"], "partition": "main", "queue": "batch"}
    sort = draw.randrange(5)
    if sort == 0:
        wish["command"] = draw.choice((None, "true", [], [1], ["a\x00"], {"a": 1}))
    elif sort == 1:
        wish[draw.choice(("nothing", "__class__", "A" * 3000, "cpus "))] = draw.choice(WRONG)
    elif sort == 2:
        wish["partition"] = draw.choice(("nowhere", *WORDS[:-1]))
    elif sort == 3:
        wish["command"] = ["x" * (MIB + draw.randrange(MIB))]
    else:
        wish[draw.choice(KEYS)] = draw.choice(({"a": []}, [[[]]], -(2**70), {"": {"": {}}}))
    asked(scene, "odd wishes", draw.choice(("/jobs?wait=0", "/jobs/test")), wish)


def no_json(scene: Scene, draw: random.Random) -> None:
    bodies = (
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe" * 100,
        b"1" * 100_000,
        b"{",
        draw.randbytes(2000),
    )
    asked(scene, "no JSON", "/jobs", draw.choice(bodies))


def odd_address(scene: Scene, draw: random.Random) -> None:
    query = f"?{'a' * draw.randrange(1, 8000)}={draw.random()}"
    verb = draw.choice(("GET", "PUT", "DELETE", "PATCH"))
    asked(scene, "odd addresses", draw.choice(OTHER_ADDRESSES) + draw.choice(("", query)), verb=verb)


def stranger(scene: Scene, draw: random.Random) -> None:
    unsigned = b'{"alg":"none","typ":"JWT"}', b'{"sub":"ann","aud":"other","exp":9999999999}'
    parts = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in unsigned]
    made_up = draw.randbytes(24).hex()
    token = draw.choice((*scene.dead_tokens, f"{'.'.join(parts)}.", made_up, "x" * 20_000, ""))
    asked(scene, "strangers", "/jobs", verb="GET", token=token)


def too_long(scene: Scene, draw: random.Random) -> None:
    """A body beyond the bound: with its length, or in pieces that do not say where they end."""
    if draw.random() < 0.5:
        asked(scene, "too long", "/jobs", b" " * (9 * MIB))
        return
    with contextlib.suppress(OSError), scene.raw() as made:
        made.sendall(scene.head("POST", "/jobs", "Transfer-Encoding: chunked"))
        piece = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
        for _ in range(12):
            made.sendall(piece)
        scene.counts["too long", int(made.recv(100).split()[1])] += 1
        return
    scene.counts["too long", 0] += 1


def half(scene: Scene, draw: random.Random) -> None:
    """A request that does not end, and a connection that is torn."""
    with contextlib.suppress(OSError), scene.raw() as made:
        made.sendall(scene.head("POST", "/jobs", "Content-Length: 5000")[: draw.randrange(5, 400)])
        made.sendall(b"{" * draw.randrange(100))
        scene.over.wait(draw.random() * HALF_S_MAX)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    scene.counts["torn requests", 0] += 1


def unread(scene: Scene, draw: random.Random) -> None:
    """Streams that nobody reads."""
    paths = (f"/jobs/{scene.log_job}/ranks/0/log?follow=true", "/events")
    opened: list[socket.socket] = []
    for _ in range(UNREAD_AT_ONCE):
        with contextlib.suppress(OSError):
            made = scene.raw(buffer=SMALL_BUFFER)
            opened.append(made)
            made.sendall(scene.head("GET", draw.choice(paths), "Accept: text/event-stream"))
            scene.counts["unread streams", 0] += 1
    scene.over.wait(UNREAD_S)
    for made in opened:
        made.close()


def submits(scene: Scene, draw: random.Random) -> None:
    """Jobs that wait, of all sizes, and are cancelled again."""
    wish = {
        "partition": "main",
        "queue": draw.choice(("batch", "interactive")),
        "name": draw.choice(("sweep", "", "n" * 60)),
        "cpus": draw.randrange(1, 3000) / 1000,
        "mem": f"{draw.randrange(1, 500)}MiB",
        "time": f"{draw.randrange(60, 4000)}s",
        "env": {f"V{draw.randrange(50)}": "x" * draw.randrange(2000)},
        "command": ["true", "x" * draw.randrange(4000)],
    }
    said = asked(scene, "submissions", "/jobs?wait=0", wish)
    with contextlib.suppress(ValueError, KeyError):
        number = json.loads(said)["jobs"][0]["id"]
        asked(scene, "looks", f"/jobs/{number}", verb="GET")
        asked(scene, "cancels", f"/jobs/{number}/cancel")


HANDS: tuple[tuple[Callable[[Scene, random.Random], None], float], ...] = (
    (odd_wish, 0.1),
    (no_json, 0.3),
    (odd_address, 0.1),
    (stranger, 0.1),
    (too_long, 2.0),
    (half, 0.1),
    (unread, 0.5),
    (submits, 0.05),
)
# Of each: what any number of these must never be answered with is a success.
HOSTILE = frozenset({"odd wishes", "no JSON", "odd addresses", "strangers", "too long"})


def wrong(scene: Scene) -> list[str]:
    """Answers that nobody should have had."""
    return [
        f"{who} were answered {status} {count} times"
        for (who, status), count in sorted(scene.counts.items())
        if status >= 500 or (who in HOSTILE and 200 <= status < 400)
    ]


@contextlib.contextmanager
def at_work(scene: Scene) -> Iterator[None]:
    def work(hand: Callable[[Scene, random.Random], None], pause_s: float, seed: int) -> None:
        draw = random.Random(seed)
        while not scene.over.wait(draw.expovariate(1 / pause_s)):
            hand(scene, draw)

    threads = [
        threading.Thread(target=work, args=(hand, pause_s, seed), daemon=True)
        for seed, (hand, pause_s) in enumerate(HANDS)
    ]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        scene.over.set()
        for each in threads:
            each.join(2 * ANSWER_S_MAX)
