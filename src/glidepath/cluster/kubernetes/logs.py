"""What ranks write, fetched from their nodes and kept where `glidepath.ranklog` finds it.

A log comes in pieces, with the time of each line; what was not kept yet goes to the end of a file. Where it
was left off is found again by the time of one line and a number of bytes, so that nothing is kept twice, and
memory is bounded whatever a job writes.
"""

from __future__ import annotations

import fcntl
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from glidepath.cluster.kubernetes.pod import CONTAINER
from glidepath.core.place.rank import SetKey
from glidepath.keptlog import KeptLog
from glidepath.kube.api import Api
from glidepath.ranklog import log_folder

# As the kubelet writes the time before a line, and what is at most looked at for it.
_TIME = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{1,9}(Z|[+-][0-9]{2}:[0-9]{2})"
)
HEAD_BYTES_MAX = 48
SECOND_LETTERS = len("2026-01-01T00:00:00")
TURN_S_MAX = 20.0
SAVED_EVERY_BYTES = 16 << 20
CURSOR, LOCK, LOG = ".kept", ".lock", "stdout"
LOST = b"\n[glidepath: the node has thrown away older parts of this log; lines may be missing here]\n"


class Cursor(msgspec.Struct, frozen=True):
    """Where it was left off: so many bytes behind the line of that time, asked for since that second."""

    since: str = ""
    line: str = ""  # empty: from where the answer begins
    used: int = 0
    size: int = 0  # of all that came, kept or not
    over: bool = False  # all that there ever was is kept


class Reader:
    """An answer with times, piece by piece; what is new of it comes back."""

    def __init__(self, cursor: Cursor) -> None:
        self.since, self.line, self.used = cursor.since, cursor.line, cursor.used
        self._skip = cursor.used
        self.found = not cursor.line  # whether the line where it was left off has come
        self.any = False
        self._head = bytearray()
        self._at_start = True

    def feed(self, part: bytes) -> bytes:
        self.any = self.any or bool(part)
        new = bytearray()
        place = 0
        while place < len(part):
            if self._at_start:
                place = self._heads(part, place, new)
            else:
                end = part.find(b"\n", place) + 1 or len(part)
                self._body(part[place:end], new)
                self._at_start = part[end - 1 : end] == b"\n"
                place = end
        return bytes(new)

    def rest(self) -> bytes:
        """What was held back at the end, because it might have become a time."""
        new = bytearray()
        head, self._head = bytes(self._head), bytearray()
        if head:
            self._body(head, new)
            self._at_start = False
        return bytes(new)

    def _heads(self, part: bytes, place: int, new: bytearray) -> int:
        """Up to the end of the time before a line."""
        end = min(len(part), place + HEAD_BYTES_MAX - len(self._head))
        space = part.find(b" ", place, end)
        stop = space + 1 if space >= 0 else end
        self._head += part[place:stop]
        whole = bytes(self._head)
        if space < 0 and len(whole) < HEAD_BYTES_MAX and b"\n" not in whole:
            return stop
        self._head.clear()
        time = _TIME.fullmatch(whole[:-1]) if space >= 0 else None
        if time is not None:
            self._line(time[0].decode(), time[1].decode(), len(whole))
            self._at_start = False
            return stop
        # No time: the rest of a line that began before.
        newline = whole.find(b"\n")
        if newline >= 0:
            self._body(whole[: newline + 1], new)
            return stop - (len(whole) - newline - 1)
        self._body(whole, new)
        self._at_start = False
        return stop

    def _line(self, time: str, zone: str, length: int) -> None:
        if not self.found:
            if time != self.line:
                return
            self.found = True
        elif self._skip <= 0 and time[:SECOND_LETTERS] > self.since[:SECOND_LETTERS]:
            # A new second: from here on less has to be asked for again.
            self.since, self.line, self.used = f"{time[:SECOND_LETTERS]}{zone}", time, 0
        self._count(length)

    def _count(self, length: int) -> int:
        """Takes in so many bytes; says how many of them are known already."""
        known = min(self._skip, length)
        self._skip -= known
        self.used += length - known
        return known

    def _body(self, content: bytes, new: bytearray) -> None:
        if self.found:
            new += content[self._count(len(content)) :]


class RankLog:
    """The file of one rank. One thread at a time may take a turn at it."""

    def __init__(self, home: Path, key: SetKey, rank: int, bytes_max: int) -> None:
        self._folder = log_folder(home, key, rank)
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._cursor: Cursor | None = None

    @property
    def over(self) -> bool:
        return self._known().over

    def turn(self, api: Api, path: str, *, last: bool) -> None:
        """Fetches what is new. `last` where nothing more can come. Raises what the cluster's door raises."""
        with self._lock, self._alone():
            cursor = self._known()
            if not cursor.over:
                cursor = self._fetched(api, path, cursor)
            if last:
                self._save(msgspec.structs.replace(cursor, over=True))

    def close(self) -> None:
        """Nothing more will come, because there is nothing left to ask."""
        with self._lock:
            self._save(msgspec.structs.replace(self._known(), over=True))

    def _fetched(self, api: Api, path: str, cursor: Cursor) -> Cursor:
        reader = self._asked(api, path, cursor)
        if reader.any and not reader.found:
            # The node began a new file, and the line where we left off is gone with the old one.
            with closing(self._opened()) as kept:
                kept.write(LOST)
                self._save(Cursor(since=cursor.since, size=kept.size))
            self._asked(api, path, self._known())
        return self._known()

    def _asked(self, api: Api, path: str, cursor: Cursor) -> Reader:
        reader = Reader(cursor)
        query: dict[str, str | int] = {"container": CONTAINER, "timestamps": "true"}
        if cursor.since:
            query["sinceTime"] = cursor.since
        saved, whole = cursor.size, True
        with api.parts(path, query, limit_s=TURN_S_MAX) as parts, closing(self._opened()) as kept:
            try:
                for part in parts:
                    whole = False
                    kept.write(reader.feed(part))
                    whole = True
                    if kept.size - saved > SAVED_EVERY_BYTES:
                        self._keep(reader, kept.size)
                        saved = kept.size
                whole = False
                kept.write(reader.rest())
                whole = True
            finally:
                # Also where it broke off: what came is kept, and is not asked for again. What the disk did
                # not take is.
                if reader.found and whole:
                    self._keep(reader, kept.size)
        return reader

    def _keep(self, reader: Reader, size: int) -> None:
        self._save(Cursor(reader.since, reader.line, reader.used, size))

    def _opened(self) -> KeptLog:
        """At the end of what is known to be kept: what a crash left behind that is fetched again."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return KeptLog(str(self._folder), LOG, self._bytes_max, size=self._known().size)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Only one of us at a time, should there be two for a moment: each reads what the other has kept."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._cursor = None
            yield

    def _known(self) -> Cursor:
        if self._cursor is None:
            found = Cursor()
            with suppress(OSError, msgspec.DecodeError):
                found = msgspec.json.decode((self._folder / CURSOR).read_bytes(), type=Cursor)
            self._cursor = found
        return self._cursor

    def _save(self, cursor: Cursor) -> None:
        if cursor == self._cursor:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._folder / f"{CURSOR}.new"
        fresh.write_bytes(msgspec.json.encode(cursor))
        fresh.replace(self._folder / CURSOR)
        self._cursor = cursor
