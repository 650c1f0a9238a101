"""What every door of the server shares: bodies within their bounds, calls on threads, headers of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from glidepath.serve.desk import Denied

T = TypeVar("T")
BODY_S_MAX = 30.0
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def threaded(call: Callable[[], T]) -> T:
    """On a thread: the store may wait for its disk."""
    return await anyio.to_thread.run_sync(call)


async def body_of(request: Request, bytes_max: int) -> bytes:
    """The whole body within its bound and within a time."""
    too_long = Denied(413, f"a body may have {bytes_max} bytes")
    stated = request.headers.get("content-length", "0")
    if not stated.isdecimal() or len(stated) > 12 or int(stated) > bytes_max:
        raise too_long
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        raise Denied(408, f"the body did not come within {BODY_S_MAX:g} s") from None
    except ClientDisconnect:
        raise Denied(400, "the caller went away") from None
    return b"".join(parts)
