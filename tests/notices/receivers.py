"""Who receives: a real server of HTTP and one of SMTP on loopback, which keep what came and answer as told.

They are the other side of what is tested, as small as they can be.
"""

from __future__ import annotations

import http.server
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

WAIT_S = 120.0


@dataclass(frozen=True)
class Post:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookReceiver:
    """Answers with `status`; `held` keeps it silent until the test lets it go."""

    port: int = 0
    status: int = 204
    location: str = ""
    posts: list[Post] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?of=ada"


@contextmanager
def hook_receiver(context: ssl.SSLContext | None = None) -> Iterator[HookReceiver]:
    made = HookReceiver()
    made.held.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.posts.append(Post(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            made.asked.set()
            made.held.wait(WAIT_S)
            self.send_response(made.status)
            if made.location:
                self.send_header("Location", made.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    made.port = server.server_address[1]
    with _serving(server):
        try:
            yield made
        finally:
            made.held.set()


@dataclass
class MailReceiver:
    """Takes mail; `refuses` has what it says to an address, `away` hangs up on everybody."""

    port: int = 0
    letters: list[tuple[str, str, bytes]] = field(default_factory=list)  # from, to, what
    refuses: dict[str, str] = field(default_factory=dict)
    logins: list[str] = field(default_factory=list)
    away: bool = False
    context: ssl.SSLContext | None = None


@contextmanager
def mail_receiver(context: ssl.SSLContext | None = None) -> Iterator[MailReceiver]:
    """With a context it offers STARTTLS and a login."""
    made = MailReceiver(context=context)

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def talk(self) -> None:
            try:
                self.answer()
            except OSError:
                pass  # They hung up, such as whoever does not believe our certificate.
            finally:
                self.request.close()

        def answer(self) -> None:
            if made.away:
                return
            self.say("220 receiver of the tests")
            sender = to = ""
            while line := self.rfile.readline(2000).decode().strip():
                word = line.split(" ")[0].upper()
                if word == "EHLO":
                    self.say("250-receiver")
                    self.say("250-STARTTLS" if made.context else "250-8BITMIME")
                    self.say("250 AUTH PLAIN")
                elif word == "STARTTLS" and made.context is not None:
                    self.say("220 go on")
                    self.request = made.context.wrap_socket(self.request, server_side=True)
                    self.rfile = self.request.makefile("rb")
                    self.wfile = self.request.makefile("wb", buffering=0)
                elif word == "AUTH":
                    made.logins.append(line)
                    self.say("235 welcome")
                elif word == "MAIL":
                    sender = line.partition("<")[2].partition(">")[0]
                    self.say("250 fine")
                elif word == "RCPT":
                    to = line.partition("<")[2].partition(">")[0]
                    self.say(made.refuses.get(to, "250 fine"))
                elif word == "DATA":
                    self.say("354 go on")
                    lines = []
                    while (text := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(text)
                    made.letters.append((sender, to, b"".join(lines).replace(b"\r\n", b"\n")))
                    self.say("250 taken")
                elif word == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 fine" if word in ("RSET", "NOOP") else "502 no")

        handle = talk

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    with _serving(server):
        yield made


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(WAIT_S)
