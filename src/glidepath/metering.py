"""The meter at work: a thread that counts what runs at an interval, and what plans go by in between.

A meter and the settings in force come in. What cannot be counted now is counted at the next look, and the
rights that were read last go on until then: there is no action on doubt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from glidepath.config import AccountingSettings, account_terms
from glidepath.core.place.accounts import Accounts
from glidepath.core.quantity import Instant
from glidepath.journal.meter import Looked, Meter
from glidepath.journal.rights import read_accounts
from glidepath.store.engine import StoreError

# Whoever is granted more waits no longer than this for their jobs to begin.
RIGHTS_S = 5.0
# What was used is read so seldom that it takes a hundredth of the time.
USED_SHARE = 100
STOP_S_MAX = 10.0


@dataclass
class Metering:
    """Begins with `start`; `look` is all that its thread does, again and again. `accounts` is for plans."""

    meter: Meter
    settings: Callable[[], AccountingSettings]
    now: Callable[[], Instant]
    wall: Callable[[], float]
    steady: Callable[[], float] = time.monotonic
    trouble: str = ""
    looked: Looked | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: Accounts = field(default_factory=Accounts)
    _rights_at: float = float("-inf")
    _used_at: float = float("-inf")

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)

    @property
    def alive(self) -> bool:
        return self._thread is None or self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.wait(self.settings().interval):
            try:
                self.look()
                self.trouble = ""
            except OSError as error:
                self.trouble = f"usage is not counted: {error}"

    def look(self) -> Looked:
        """Count what is new; whoever has spent all is known to the next plan."""
        self.looked = self.meter.look(self.now(), self.wall())
        with self._lock:
            self._rights_at = float("-inf")
        return self.looked

    def accounts(self) -> Accounts:
        """For any thread. Where the store gives no answer it is what was read before."""
        with self._lock:
            began = self.steady()
            if began - self._rights_at >= RIGHTS_S:
                try:
                    self._kept = self._read(began)
                    self._rights_at = began
                except StoreError:
                    pass  # Whoever plans reads the store, too, and says what is wrong with it.
            return self._kept

    def _read(self, began: float) -> Accounts:
        terms = account_terms(self.settings())
        kept = self._kept.used if began < self._used_at else None
        found = read_accounts(self.meter.store, self.now(), terms, used=kept)
        if kept is None:
            self._used_at = began + USED_SHARE * (self.steady() - began)
        return found
