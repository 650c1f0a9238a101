"""The keys of a provider as they stand: asked for one by its id, they are read when it is time, not sooner.

A reading is one thread with all it may wait for; nobody waits for it but those whose key is not there, and of
them only a few and not for long. While the provider is silent the old keys go on, up to a stated age.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock, Thread

import jwt

from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.people.keyset import KeySet, OddKeys, key_set
from glidepath.people.known import Refused

# Keys that were withdrawn are gone after this.
FRESH_S = 600.0
# Whoever makes up ids of keys makes us ask the provider no more often than this.
AGAIN_S = 60.0
WAIT_S_MAX = 5.0
WAITING_MAX = 8
# A reading may hang in ways that no timeout reaches; then another is tried beside it.
READING_S_MAX = 60.0
READINGS_MAX = 4


@dataclass
class ProviderKeys:
    """For any number of threads."""

    read: Callable[[], bytes]
    last_s: float
    steady: Callable[[], float] = time.monotonic
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("glidepath.people"))
    wait_s_max: float = WAIT_S_MAX

    def __post_init__(self) -> None:
        # In one value, so that nobody sees new keys with an old age.
        self._known: tuple[KeySet, float] = (KeySet({}), float("-inf"))
        self._tried_at = float("-inf")
        self._readings: list[Thread] = []
        self._lock = Lock()
        self._waiting = BoundedSemaphore(WAITING_MAX)

    def key(self, id: str, algorithm: str) -> jwt.PyJWK:
        """That of an id, or without one the only one for the algorithm.

        Raises `Refused` where there is no such key, or none is known for sure any more.
        """
        key = self._kept(id, algorithm)
        if key is None:
            self._wait(self._read_again())
            key = self._kept(id, algorithm)
        elif self.steady() - self._known[1] >= FRESH_S:
            self._read_again()
        if key is not None:
            return key
        known, read_at = self._known
        if not known.keys and not known.unnamed:
            raise Refused("the keys of the provider are not known")
        if self.steady() - read_at >= self.last_s:
            raise Refused(f"the keys of the provider are older than {shown_duration(int(self.last_s))}")
        if not id:
            count = f"{len(known.fit(algorithm)) or 'no'} keys for {algorithm}"
            raise Refused(f"it does not say by `kid` which key signed it, and the provider has {count}")
        raise Refused(f"the provider has no key `{one_line(id, letters_max=60)}`")

    def _kept(self, id: str, algorithm: str) -> jwt.PyJWK | None:
        known, read_at = self._known
        if self.steady() - read_at >= self.last_s:
            return None
        if id:
            return known.keys.get(id)
        fit = known.fit(algorithm)
        return fit[0] if len(fit) == 1 else None

    def _read_again(self) -> Thread | None:
        """The reading that is under way, a new one where it is time for it, or none."""
        with self._lock:
            self._readings = [reading for reading in self._readings if reading.is_alive()]
            tried_s = self.steady() - self._tried_at
            if self._readings and (tried_s < READING_S_MAX or len(self._readings) >= READINGS_MAX):
                return self._readings[-1]
            if tried_s < AGAIN_S:
                return None
            self._tried_at = self.steady()
            reading = Thread(target=self._take_up, name="keys of the provider", daemon=True)
            self._readings.append(reading)
            reading.start()
            return reading

    def _wait(self, reading: Thread | None) -> None:
        if reading is None or not self._waiting.acquire(blocking=False):
            return
        try:
            reading.join(self.wait_s_max)
        finally:
            self._waiting.release()

    def _take_up(self) -> None:
        asked_at = self.steady()
        try:
            found = key_set(self.read())
        except (OSError, OddKeys) as error:
            self.log.warning("the keys of the provider could not be read: %s", error)
            return
        for why in found.passed_over:
            self.log.info("of the keys of the provider one is passed over: %s", why)
        with self._lock:
            if asked_at > self._known[1]:
                self._known = (found, asked_at)
