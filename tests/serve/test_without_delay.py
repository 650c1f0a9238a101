"""Answers leave at once: small pieces of them do not wait for the caller's word that the last one came."""

from __future__ import annotations

import asyncio
import socket

from glidepath.serve.run import listening


def test_what_is_sent_to_a_caller_is_not_held_back() -> None:
    async def one_call() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def taken(_: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
            connection = answers.get_extra_info("socket")
            seen.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            answers.close()

        listener = listening("127.0.0.1:0")
        async with await asyncio.start_server(taken, sock=listener):
            reader, caller = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            caller.close()
            return await seen

    assert asyncio.run(one_call()) != 0
