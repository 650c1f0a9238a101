"""Ports that nobody listens on: an address comes in, a number goes out. Nothing stays open."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

from bed.trouble import Trouble

# Below what Linux gives to outgoing connections, so that none of those can sit on a chosen port.
PORTS = range(20000, 30000)
TRIES_MAX = 50


def free_port(address: str, candidates: Sequence[int] = ()) -> int:
    """The first of these on which nobody listens; any at all where none is named."""
    candidates = candidates or random.sample(PORTS, TRIES_MAX)
    for port in candidates:
        with socket.socket() as listener:
            # As HTCondor does: a port that only remembers old connections is free.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((address, port))
            except OSError:
                continue
            return port
    tried = f"port {candidates[0]}" if len(candidates) == 1 else f"{len(candidates)} ports"
    raise Trouble(f"{tried} of {address} tried, none is free; choose another one with `--port`")
