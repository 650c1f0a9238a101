"""Finds the few jobs whose ads cannot be fetched, so that all others still are.

A queue that fails to answer comes in; a queue that answers without the culprits goes out. An ad of several
megabytes breaks the whole answer that it is part of, if not each time, and anybody can submit one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from glidepath.condor.binding import ClassAd, HTCondorException
from glidepath.condor.ids import own_id
from glidepath.condor.reading import Queue
from glidepath.condor.refs import long_texts
from glidepath.condor.slotad import quoted

T = TypeVar("T")

# Each narrows by half; enough for a handful of culprits among thousands of owners.
TRIES_MAX = 60
# How long a culprit is left out before it is tried again; it may be gone.
AGAIN_S = 600.0
# A connection may fail once for reasons of its own: only who fails again after a moment is to blame.
PAUSE_S = 0.2
OWNERS = ("Owner", "JobStatus", "JobUniverse")


@dataclass(frozen=True, slots=True)
class Culprit:
    """An owner with clusters that cannot be fetched; none named means all of the owner's."""

    owner: str
    clusters: tuple[int, ...]
    since_s: float


class Isolation:
    def __init__(self, queue: Queue, *, mono: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._mono = queue, mono
        self.culprits: tuple[Culprit, ...] = ()

    def grouped(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        """All groups, without the jobs of culprits."""
        now = self._mono()
        self.culprits = tuple(each for each in self.culprits if now - each.since_s < AGAIN_S)
        try:
            return self.asked(lambda: self._queue.grouped(self._without(constraint), names))
        except HTCondorException:
            # Where the queue does not answer this either, it is not the fault of a job.
            rows = self.asked(lambda: self._queue.grouped("true", OWNERS))
            owners = sorted({owner for row in rows if isinstance(owner := row.get("Owner"), str)})
            found = self._found(constraint, names, owners)
            if not found:
                raise
            self.culprits += found
            return self.asked(lambda: self._queue.grouped(self._without(constraint), names))

    def unreadable(self) -> list[tuple[str, tuple[int, int]]]:
        """Whose jobs were left out, and which."""
        found = []
        for each in self.culprits:
            which = " || ".join(f"ClusterId == {cluster}" for cluster in each.clusters) or "true"
            theirs = f"Owner == {quoted(each.owner)} && ({which})"
            found += [(each.owner, own_id(ad)) for ad in self._plain(theirs, ("ClusterId", "ProcId"))]
        return found

    def _without(self, constraint: str) -> str:
        """A schedd asks this of each job and then of each group, which may have no number of a cluster."""
        owners = [f"Owner != {quoted(each.owner)}" for each in self.culprits if not each.clusters]
        skipped = [
            f"(ClusterId is undefined || ClusterId != {cluster})"
            for each in self.culprits
            for cluster in each.clusters
        ]
        return " && ".join([constraint, *owners, *skipped])

    def _found(self, constraint: str, names: Sequence[str], owners: list[str]) -> tuple[Culprit, ...]:
        tries = [TRIES_MAX]

        def fetched(some: list[str]) -> bool:
            any_of = " || ".join(f"Owner == {quoted(owner)}" for owner in some)
            return self._works(lambda: self._queue.grouped(f"({any_of}) && {constraint}", names))

        found = []
        for owner in narrowed(owners, fetched, tries):
            theirs = f"Owner == {quoted(owner)}"
            ads = self._plain(theirs, ("ClusterId",))
            clusters = sorted({own_id(ad)[0] for ad in ads})

            def read(some: list[int], theirs: str = theirs) -> bool:
                span = f"ClusterId >= {some[0]} && ClusterId <= {some[-1]}"
                return self._works(lambda: self._queue.plain(f"{theirs} && {span}", names))

            bad = narrowed(clusters, read, tries)
            if not tries[0]:
                found.append(Culprit(owner, (), self._mono()))
            elif bad:
                found.append(Culprit(owner, tuple(bad), self._mono()))
        return tuple(found)

    def _works(self, call: Callable[[], list[ClassAd]]) -> bool:
        """Also an answer that came through this time is at fault where it holds what breaks answers."""
        try:
            return not any(True for ad in self.asked(call) for _ in long_texts(ad, tuple(ad)))
        except HTCondorException:
            return False

    def _plain(self, constraint: str, names: Sequence[str]) -> list[ClassAd]:
        return self.asked(lambda: self._queue.plain(constraint, names))

    def asked(self, call: Callable[[], T]) -> T:
        """Asked once more where an answer broke off."""
        try:
            return call()
        except HTCondorException:
            time.sleep(PAUSE_S)
            return call()


def narrowed(items: Sequence[T], works: Callable[[list[T]], bool], tries: list[int]) -> list[T]:
    """Those without which everything works, by halving. With no tries left, all that are still in doubt."""
    found: list[T] = []
    doubted = [list(items)] if items else []
    while doubted:
        part = doubted.pop()
        if not tries[0]:
            found += part
            continue
        tries[0] -= 1
        if works(part):
            continue
        if len(part) == 1:
            found += part
        else:
            middle = len(part) // 2
            doubted += [part[:middle], part[middle:]]
    return found
