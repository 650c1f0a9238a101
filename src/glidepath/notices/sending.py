"""What became of a letter, and the time that one may take: shared by webhooks and mail."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

# The whole of one letter, however slowly its bytes come and go.
LETTER_S_MAX = 20.0
# Between two bytes.
SILENT_S_MAX = 10.0
WHY_LETTERS_MAX = 200


class Fault(StrEnum):
    THEIRS = "theirs"  # their address does not take it; one that never does is switched off
    OURS = "ours"  # nobody's address can be reached this way; it is tried until it can
    GONE = "gone"  # they ask for no more


@dataclass(frozen=True, slots=True)
class Undone:
    """It was not taken, as far as is known."""

    why: str
    fault: Fault = Fault.THEIRS


# None for what was taken.
Sent = Undone | None


@contextmanager
def bounded(connection: Callable[[], socket.socket | None], limit_s: float) -> Iterator[threading.Event]:
    """Whoever waits for a byte when the time is over hears the end of the line; the event says so."""
    over = threading.Event()

    def cut() -> None:
        over.set()
        found = connection()
        if found is not None:
            try:
                # Not by the socket's own method: that of TLS would take itself apart under its reader.
                socket.socket.shutdown(found, socket.SHUT_RDWR)
            except OSError:
                pass  # It has ended by itself.

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
