"""Plain values to bytes and back: JSON, and one compressed stream for all the cycles of a group.

Cycles look much like the ones before them, so each is compressed with all of its group as a dictionary: the
stream is flushed after every cycle and its pieces are stored apart. Read in order, they are whole again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator

from glidepath.journal.codec import Malformed, Plain

LEVEL = 9
# Plain values are made here and hold no circles; looking for them is a tenth of the time.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


class Stream:
    """The writing end of one group. A piece that was not kept makes all later ones unreadable."""

    def __init__(self, level: int = LEVEL) -> None:
        self._deflate = zlib.compressobj(level)

    def piece(self, plain: Plain) -> bytes:
        return self._deflate.compress(packed(plain)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def pieces(bodies: Iterable[bytes]) -> Iterator[Plain]:
    """The plain values of a group, in the order in which they were written."""
    inflate = zlib.decompressobj()
    for body in bodies:
        try:
            raw = inflate.decompress(body)
        except zlib.error as error:
            raise Malformed(f"a stored piece is damaged: {error}") from error
        yield unpacked(raw)


def compressed(plain: Plain) -> bytes:
    return zlib.compress(packed(plain), LEVEL)


def decompressed(body: bytes) -> Plain:
    try:
        return unpacked(zlib.decompress(body))
    except zlib.error as error:
        raise Malformed(f"a stored value is damaged: {error}") from error


def packed(plain: Plain) -> bytes:
    # Halves of characters come from outside and must come back as they were; plain UTF-8 refuses them.
    return _JSON.encode(plain).encode("utf-8", "surrogatepass")


def unpacked(raw: bytes) -> Plain:
    try:
        return json.loads(raw.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise Malformed(f"a stored value is not JSON: {error}") from error
