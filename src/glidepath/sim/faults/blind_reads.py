"""`blind-reads`: a door gives no answer. What it would have said is unknown, not empty."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glidepath.sim.fault import Fault


class BlindReads(Fault):
    name = "blind-reads"
    every = "read"
    about = "a read of a site, a pool or a schedd fails"

    def read(self, door: str, go: Callable[[], Any]) -> Any:
        if self.hits():
            raise TimeoutError(f"no answer from {door}")
        return go()


fault = BlindReads
