"""One output on the disk, within a bound: bytes come in, its beginning and its latest part are kept.

The beginning is a file by the name of the output, `stdout`; what comes later is in pieces named by where they
begin in the whole stream, `stdout.268435456`, and the oldest of these goes first. So every offset is one of
the whole stream, and what is gone is what no file has. Standard library only: keepers of jobs use it.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice

# Of the bound: a quarter for the beginning, where a job says what it is, the rest for what came last.
HEAD_SHARE = 4
PIECE_SHARE = 8
PIECES_MAX = 6
# More than a folder of ours ever has; whoever made them has no claim that all are looked at.
ENTRIES_MAX = 10_000
# Files that are renamed or removed while they are read are looked for again so often.
READ_TRIES_MAX = 3
_MADE = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
# Without O_NONBLOCK a named pipe in its place would hold us for ever.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Span:
    """A file and where in the stream it begins."""

    start: int
    name: str


def spans(folder: int, name: str) -> list[Span]:
    """The files of one output in a folder that is open, in the order of the stream."""
    later = re.compile(rf"{re.escape(name)}\.([1-9][0-9]{{0,17}})")
    found = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, ENTRIES_MAX):
            match = later.fullmatch(entry.name)
            if (entry.name == name or match) and entry.is_file(follow_symlinks=False):
                found.append(Span(int(match[1]) if match else 0, entry.name))
    return sorted(found, key=lambda span: span.start)


class KeptLog:
    """The writer, in a folder that is there. `size` is that of the whole stream, kept or not."""

    def __init__(self, folder: str, name: str, bytes_max: int, *, size: int = 0) -> None:
        """Goes on at `size`; what is kept beyond it came from a life that did not get to write it down."""
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name, self.size = name, size
        self._head_max = max(bytes_max // HEAD_SHARE, 1)
        self._piece_max = max(bytes_max // PIECE_SHARE, 1)
        self._file = -1
        self._begun = 0  # where the open file begins
        self._starts: deque[int] = deque()
        self._cut_back()

    def _cut_back(self) -> None:
        for span in spans(self._folder, self._name):
            if span.start >= self.size and span.start:
                os.unlink(span.name, dir_fd=self._folder)
                continue
            if span.start:
                self._starts.append(span.start)
            self._open(span.name, span.start)
            kept = span.start + os.fstat(self._file).st_size
            if kept > self.size:
                os.ftruncate(self._file, self.size - span.start)
            elif kept < self.size:
                self._shut()  # Something between was lost: no file may hide that.
        if self._file < 0 and not self.size:
            self._open(self._name, 0)

    def _open(self, name: str, start: int) -> None:
        self._shut()
        self._file = os.open(name, _MADE, 0o600, dir_fd=self._folder)
        self._begun = start

    def _shut(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def write(self, content: bytes) -> None:
        """All of it, or an OSError; then `size` says how far it came, and the rest may be written again."""
        view = memoryview(content)
        while view:
            room = self._room()
            done = os.write(self._file, view[:room])
            self.size += done
            view = view[done:]

    def take(self, content: bytes) -> None:
        """Never fails: what the disk does not take is counted, and is gone."""
        end = self.size + len(content)
        try:
            self.write(content)
        except OSError:
            self._give_up()
            self.size = end

    def _room(self) -> int:
        """How much the open file may still take; the next one is begun where that is nothing."""
        most = self._piece_max if self._begun else self._head_max
        left = self._begun + most - self.size
        if self._file >= 0 and left > 0:
            return left
        self._open(f"{self._name}.{self.size}", self.size)
        self._starts.append(self.size)
        while len(self._starts) > PIECES_MAX:
            oldest = self._starts.popleft()
            try:
                os.unlink(f"{self._name}.{oldest}", dir_fd=self._folder)
            except FileNotFoundError:
                pass  # Somebody else has made room.
        return self._piece_max

    def _give_up(self) -> None:
        """This file ends here; one of which nothing could be written leaves no name behind."""
        empty = self._file >= 0 and self._begun and not os.fstat(self._file).st_size
        self._shut()
        if empty:
            os.unlink(f"{self._name}.{self._begun}", dir_fd=self._folder)
            self._starts.remove(self._begun)

    def close(self) -> None:
        """Where the last of it was not kept, an empty file says how long it was."""
        if self._folder < 0:
            return
        if self._file < 0 and self.size:
            try:
                self._room()
            except OSError:
                pass  # Not even that can be written.
        self._shut()
        os.close(self._folder)
        self._folder = -1


@dataclass(frozen=True)
class Part:
    """What was read: where it begins and ends in the stream, and how long that is by now."""

    content: bytes
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + len(self.content)


def read_part(folder: int, name: str, offset: int, bytes_max: int) -> Part:
    """At most so many bytes from the offset on, or from the first that is kept after it; of none, where.

    An offset below zero is counted from the end. A FileNotFoundError where there is no such output.
    """
    for _ in range(READ_TRIES_MAX - 1):
        try:
            return _read(folder, spans(folder, name), offset, bytes_max)
        except FileNotFoundError:
            continue  # Its oldest piece went in this moment, or it never was.
    found = spans(folder, name)
    if not found:
        raise FileNotFoundError(f"there is no `{name}`")
    return _read(folder, found, offset, bytes_max)


def _read(folder: int, found: list[Span], offset: int, bytes_max: int) -> Part:
    if not found:
        raise FileNotFoundError
    if bytes_max < 1:
        return replace(_read(folder, found, offset, 1), content=b"")
    size = found[-1].start + _length(folder, found[-1])
    at = begin = max(size + offset, 0) if offset < 0 else offset
    content = b""
    # What begins later than the next one does is not needed, and neither is what lies before.
    for span in found[max(sum(span.start <= begin for span in found) - 1, 0) :]:
        if len(content) >= bytes_max or begin >= size or (content and span.start > at):
            break
        if span.start > at:
            begin = at = span.start  # What was between is gone.
        content += _bytes_of(folder, span, at, bytes_max - len(content))
        at = begin + len(content)
    return Part(content, begin if content or begin >= size else size, size)


def _bytes_of(folder: int, span: Span, at: int, bytes_max: int) -> bytes:
    file = os.open(span.name, _READ, dir_fd=folder)
    try:
        _plain_size(file, span.name)
        return os.pread(file, bytes_max, at - span.start)
    finally:
        os.close(file)


def _length(folder: int, span: Span) -> int:
    file = os.open(span.name, _READ, dir_fd=folder)
    try:
        return _plain_size(file, span.name)
    finally:
        os.close(file)


def _plain_size(file: int, name: str) -> int:
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        raise OSError(f"`{name}` is not a plain file")
    return about.st_size


def gone_words(count: int) -> bytes:
    """What is printed in the place of bytes that are gone."""
    return f"\n[glidepath: {count} bytes that were written here are not kept]\n".encode()
