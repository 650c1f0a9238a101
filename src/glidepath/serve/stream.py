"""Answers that go on: events as they come, logs as they grow. Each is bounded in time, number and memory.

A client that does not read is let go; one that was let go asks again from where it was. It refuses to know
who may see what: the desk is asked for every piece.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio
from starlette.responses import Response

from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import JobDesk, LogAsked, LogPiece
from glidepath.jobs.errors import DeskError
from glidepath.serve.desk import Denied
from glidepath.serve.wire import HEADERS, threaded
from glidepath.store.engine import StoreError

OF_ONE_MAX = 16
OF_ALL_MAX = 256
# After that the client asks again, so that no stream outlives the right to it for long.
STREAM_S_MAX = 3600.0
KNOWN_AGAIN_S = 30.0
SEND_S_MAX = 60.0
LOOK_S = 0.25
SILENT_S_MAX = 15.0
PAGE = 500
PIECE_BYTES = 64 * 1024
Again = Callable[[], Awaitable[Caller]]


@dataclass(slots=True)
class Listener:
    """Who has a stream, and how they are asked for again whether they are still known."""

    caller: Caller
    again: Again
    known_at: float = field(default_factory=time.monotonic)

    async def known(self, every_s: float) -> Caller:
        if time.monotonic() - self.known_at > every_s:
            try:
                self.caller, self.known_at = await self.again(), time.monotonic()
            except Denied as error:
                raise Cut(error.why) from None
        return self.caller


class Cut(Exception):
    """A stream that is over before its time: whoever has it is not known any more, or had it long enough."""


@dataclass
class Streams:
    """All open streams of one server."""

    desk: JobDesk
    open: Counter[str] = field(default_factory=Counter)
    poured: int = 0  # bytes, ever
    known_again_s: float = KNOWN_AGAIN_S
    send_s_max: float = SEND_S_MAX
    _newest: int = 0
    _looked_at: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def events(self, listener: Listener, *, job: int | None, after: int) -> Response:
        caller = listener.caller
        self._room(caller)
        pieces = self._told(listener, job, after)
        return Poured(pieces, self._counted(caller), "text/event-stream", limit_s=self.send_s_max)

    def log(self, listener: Listener, job: int, asked: LogAsked, first: LogPiece) -> Response:
        self._room(listener.caller)
        pieces = self._grown(listener, job, replace(asked, bytes_max=PIECE_BYTES), first)
        count = self._counted(listener.caller)
        headers = log_headers(first)
        return Poured(pieces, count, "application/octet-stream", headers, limit_s=self.send_s_max)

    def _room(self, caller: Caller) -> None:
        if self.open[caller.name] >= OF_ONE_MAX or self.open.total() >= OF_ALL_MAX:
            raise Denied(429, f"too many streams are open; one person may have {OF_ONE_MAX}")

    def _counted(self, caller: Caller) -> Callable[[int], None]:
        def count(by: int) -> None:
            self.open[caller.name] += by
            if not self.open[caller.name]:
                del self.open[caller.name]

        return count

    async def _told(self, listener: Listener, job: int | None, after: int) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        said_at = time.monotonic()
        for _ in range(int(STREAM_S_MAX / LOOK_S)):
            caller = await listener.known(self.known_again_s)
            newest = await self._look()
            page: list[Any] = []
            if newest > after:
                read = partial(self.desk.events, caller, job=job, after=after, limit=PAGE)
                page = list(await threaded(read))
                # What others see is left behind too, or it would be looked through again each time.
                after = max(newest if len(page) < PAGE else 0, page[-1]["id"] if page else 0)
            if page:
                yield "".join(map(_event_text, page)).encode()
                said_at = time.monotonic()
            elif time.monotonic() - said_at > SILENT_S_MAX:
                yield b": still here\n\n"
                said_at = time.monotonic()
            if len(page) < PAGE:
                await asyncio.sleep(LOOK_S)

    async def _look(self) -> int:
        """The newest event, asked of the store once for all who wait."""
        async with self._turn:
            if time.monotonic() - self._looked_at >= LOOK_S / 2:
                self._newest = await threaded(self.desk.newest)
                self._looked_at = time.monotonic()
            return self._newest

    async def _grown(
        self, listener: Listener, job: int, asked: LogAsked, piece: LogPiece
    ) -> AsyncIterator[bytes]:
        ends_at = time.monotonic() + STREAM_S_MAX
        # The attempt that was begun with is gone on with, whatever comes after it.
        asked = replace(asked, attempt=piece.attempt)
        while time.monotonic() < ends_at:
            if piece.content:
                self.poured += len(piece.content)
                yield piece.content
            elif piece.over:
                return
            else:
                await asyncio.sleep(LOOK_S)
            caller = await listener.known(self.known_again_s)
            asked = replace(asked, offset=piece.end)
            piece = await threaded(partial(self.desk.log, caller, job, asked))
        raise Cut("the log was followed for long enough; ask again from where it is")


def log_headers(piece: LogPiece) -> dict[str, str]:
    return {
        "Glidepath-Log-Start": str(piece.start),
        "Glidepath-Log-End": str(piece.end),
        "Glidepath-Log-Size": str(piece.size),
        "Glidepath-Log-Over": "true" if piece.over else "false",
        "Glidepath-Attempt": str(piece.attempt),
        # A browser must keep it, not show it: a job may write a page.
        "Content-Disposition": "attachment",
    }


def _event_text(event: dict[str, Any]) -> str:
    said = json.dumps(event, ensure_ascii=True, separators=(",", ":"))
    return f"id: {event['id']}\ndata: {said}\n\n"


class Poured(Response):
    """Piece by piece to one client: whoever goes away, or does not take a piece in time, ends it."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        count: Callable[[int], None],
        media_type: str,
        headers: dict[str, str] | None = None,
        *,
        limit_s: float,
    ) -> None:
        self.limit_s = limit_s
        self.pieces = pieces
        self.count = count
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers({**HEADERS, "X-Accel-Buffering": "no", **(headers or {})})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.count(1)
        try:
            async with anyio.create_task_group() as both:
                both.start_soon(self._until_gone, receive, both.cancel_scope)
                await self._pour(send)
                both.cancel_scope.cancel()
        finally:
            self.count(-1)

    async def _until_gone(self, receive: Any, scope: anyio.CancelScope) -> None:
        while True:  # Until the client goes, or the stream ends and takes this with it.
            message = await receive()
            if message["type"] == "http.disconnect":
                scope.cancel()
                return

    async def _pour(self, send: Any) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        try:
            async for piece in self.pieces:
                with anyio.fail_after(self.limit_s):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except (Cut, TimeoutError, DeskError, StoreError):
            return  # Without the last chunk, so that the client can tell it from the end of a log.
        await send({"type": "http.response.body", "body": b"", "more_body": False})
