"""Logs of many ranks, fetched by a few threads: which pods there are comes in, what is kept goes to the disk.

Those that have ended come first, because somebody waits to be told of their end; the others in turn, seldomer
the more there are.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from glidepath.cluster.kubernetes.logs import RankLog
from glidepath.core.place.rank import SetKey
from glidepath.core.text import one_line
from glidepath.kube.api import Api
from glidepath.kube.errors import AccessError, KubeError

THREADS = 4
# Between two looks at the log of a rank that runs, and how many looks a second there are for all of them.
EVERY_S, LOOKS_PER_S = 1.0, 20.0
# A node that gives nothing of a rank that is over may be asked so often before its log is given up.
TRIES_MAX, AGAIN_S = 12, 5.0
# One that knows of no such log may be behind what the cluster says of the rank, and comes to know it soon.
ABSENT_TRIES_MAX, ABSENT_AGAIN_S = 3, 1.0
WORLD = (OSError, KubeError, AccessError)


@dataclass
class _Followed:
    log: RankLog
    name: str
    uid: str
    ended: bool = False
    under_way: bool = False
    due: float = 0.0
    tries: int = 0
    over: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod whose log is followed, by its name and that of its rank."""

    name: str
    uid: str
    key: SetKey
    rank: int
    bytes_max: int
    ended: bool
    gone: bool = False  # and its log with it


@dataclass
class Fetching:
    """For one cluster; its threads begin with the first log."""

    home: Path
    api: Api
    path: str  # of the pods
    ours: Callable[[], bool] = lambda: True
    mono: Callable[[], float] = time.monotonic
    trouble: str = ""
    _followed: dict[str, _Followed] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _queue: queue.SimpleQueue[_Followed | None] = field(default_factory=queue.SimpleQueue)
    _threads: list[threading.Thread] = field(default_factory=list)

    def follow(self, wanted: Mapping[str, Wanted]) -> None:
        """What there is to be fetched now; a pod that is not named any more is forgotten."""
        now = self.mono()
        with self._lock:
            for name in self._followed.keys() - wanted.keys():
                del self._followed[name]
            for name, each in wanted.items():
                known = self._followed.get(name)
                if known is None or known.uid != each.uid:
                    log = RankLog(self.home, each.key, each.rank, each.bytes_max)
                    known = self._followed[name] = _Followed(log, name, each.uid, over=log.over)
                if each.gone and not known.over and not known.under_way:
                    known.log.close()
                    known.over = True
                if each.ended and not known.ended:
                    known.ended, known.due = True, now
                if not known.over and not known.under_way and known.due <= now:
                    known.under_way = True
                    self._queue.put(known)
        self._begin()

    def kept(self) -> dict[str, bool]:
        """By name of a pod: whether there is nothing more to come."""
        with self._lock:
            return {name: each.over for name, each in self._followed.items()}

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)

    def _begin(self) -> None:
        while len(self._threads) < THREADS:
            thread = threading.Thread(target=self._run, name="logs of ranks", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (each := self._queue.get()) is not None:
            last = each.ended
            over, again_s = False, 0.0
            try:
                if self.ours():
                    each.log.turn(self.api, f"{self.path}/{each.name}/log", last=last)
                    over = last
            except WORLD as error:
                over, again_s = self._failed(each, error)
            with self._lock:
                # Ended meanwhile: what came last is still there, and is fetched at once.
                # Who waits to be told of an end does not wait for the logs of others.
                again_s = again_s or max(EVERY_S, len(self._followed) / LOOKS_PER_S)
                each.due = self.mono() + (0.0 if each.ended and not last else again_s)
                each.over, each.under_way = each.over or over, False

    def _failed(self, each: _Followed, error: Exception) -> tuple[bool, float]:
        """Whether that was the last try, and when the next one is due."""
        self.trouble = one_line(f"the log of `{each.name}` cannot be fetched: {error}")
        absent = isinstance(error, KubeError) and error.status in (400, 404)
        again_s, tries_max = (ABSENT_AGAIN_S, ABSENT_TRIES_MAX) if absent else (AGAIN_S, TRIES_MAX)
        if not each.ended:
            return False, again_s
        each.tries += 1
        if each.tries >= tries_max:
            each.log.close()
            return True, again_s
        return False, again_s
