"""A set-up that hangs has an end: a thread looks at it, and ends all of it when it takes too long.

A step may hang where no exception reaches it, such as on a mount whose server is gone, so that the end of it
is the end of the process. Standard library only, since keepers use it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

LOOK_S = 0.2


class SettingUp:
    """From `watch` until `is_over`. `at` is the rank whose turn it is.

    `hung` writes down how it ended: of which rank, and why; without a why it was told to stop, which counts
    until commands begin: from then on they are to be ended in good order.
    """

    def __init__(self, stop: Path, s_max: float, hung: Callable[[int, str], None]) -> None:
        self.s_max, self.at = s_max, 0
        self._stop, self._hung, self._begins = stop, hung, False
        self._over = threading.Event()
        # Who has it says how it ends, and the other does nothing more.
        self._word = threading.Lock()

    def watch(self) -> None:
        threading.Thread(target=self._look, name="set-up", daemon=True).start()

    def commands_begin(self) -> None:
        with self._word:
            self._begins = True

    def is_over(self) -> None:
        with self._word:
            self._over.set()

    def _look(self) -> None:
        deadline = time.monotonic() + self.s_max
        while not self._over.wait(LOOK_S):
            late = time.monotonic() >= deadline
            if not late and not self._stop.exists():
                continue
            with self._word:
                if self._over.is_set():
                    return
                if self._begins and not late:
                    continue
                why = f"its set-up did not end within {self.s_max:g} s, and was ended" if late else ""
                try:
                    self._hung(self.at, why)
                finally:
                    os._exit(1)
