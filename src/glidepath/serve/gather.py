"""Calls of one kind that come while others of it are under way are done together, by one thread.

Many threads that each do a little of one interpreter take turns at it all the time, and most of the time goes
to the turns. It refuses to know what a call means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from glidepath.serve.wire import threaded

Asked = TypeVar("Asked")
Done = TypeVar("Done")
# Nobody waits for longer than so many others take.
TOGETHER_MAX = 100


@dataclass
class Gather(Generic[Asked, Done]):
    """On one event loop. `run` answers in the order of the asked; an error among the answers is raised."""

    run: Callable[[Sequence[Asked]], Sequence[Done | Exception]]
    _line: list[tuple[Asked, asyncio.Future[Done]]] = field(default_factory=list)
    _works: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Done:
        mine: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._line.append((asked, mine))
        if self._works is None or self._works.done():
            self._works = asyncio.create_task(self._work())
        return await mine

    async def _work(self) -> None:
        while self._line:
            batch, self._line = self._line[:TOGETHER_MAX], self._line[TOGETHER_MAX:]
            doing = threaded(partial(self.run, [asked for asked, _ in batch]))
            [done] = await asyncio.gather(doing, return_exceptions=True)
            answers = [done] * len(batch) if isinstance(done, BaseException) else done
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue  # Whoever asked is gone.
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
