"""Submissions that come at the same time are made durable together: a disk is waited for once, not for each.

Whoever has the turn writes for all who stand in line; each gets what became of its own. It refuses to know
what a submission means.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Done = TypeVar("Done")
# One transaction is no longer than others can wait for it.
TOGETHER_MAX = 500


@dataclass(slots=True)
class _Place(Generic[Asked, Done]):
    """Somebody in the line."""

    asked: Asked
    over: bool = False
    done: Done | None = None
    error: BaseException | None = None


@dataclass
class Together(Generic[Asked, Done]):
    """For any thread. `write` makes all durable or raises, and answers in the order of the asked."""

    turn: threading.Lock
    write: Callable[[Sequence[Asked]], Sequence[Done]]
    _line: list[_Place[Asked, Done]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def waiting(self) -> int:
        """How many stand in line, those that are being written not among them."""
        return len(self._line)

    def submit(self, asked: Asked) -> Done:
        mine: _Place[Asked, Done] = _Place(asked)
        with self._lock:
            self._line.append(mine)
        while not mine.over:  # A line that is longer than one transaction takes several turns.
            with self.turn:
                if not mine.over:
                    self._write()
        if mine.error is not None:
            raise mine.error
        assert mine.done is not None
        return mine.done

    def _write(self) -> None:
        with self._lock:
            batch, self._line = self._line[:TOGETHER_MAX], self._line[TOGETHER_MAX:]
        try:
            for place, done in zip(batch, self.write([each.asked for each in batch]), strict=True):
                place.done = done
        except BaseException as error:
            for place in batch:
                place.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for place in batch:
                place.over = True
