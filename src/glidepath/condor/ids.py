"""Numbers of jobs and when they were submitted: ads come in, plain numbers go out.

Anything that is not a whole number reads as nothing; a schedd's answer is not believed to be well formed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any

from glidepath.condor.binding import ClassAd
from glidepath.condor.groups import JobId

# Clusters whose time of submission is asked for in one read; those between are as old as their neighbours.
QDATES_ASKED_MAX = 2_000
QDATES_KEPT_MAX = 50_000

_BOTH = re.compile(r"(\d{1,10})\.(\d{1,10})(?: \.\.\.)? (\d{1,10})\.(\d{1,10})")
_ID = re.compile(r"(\d{1,10})\.(\d{1,10})")


class Submitted:
    """When clusters of jobs were submitted, by the schedd's clock."""

    def __init__(self) -> None:
        self.last = 0  # the highest cluster that was asked about
        self._at: dict[int, int] = {}
        self._sorted: list[int] = []

    def keep(self, cluster: int, stamp: int) -> None:
        if stamp > 0:
            if len(self._at) > QDATES_KEPT_MAX:
                self._at.clear()
                self.last = 0
            self._at[cluster] = stamp
            self._sorted = []

    def at(self, cluster: int, otherwise: int) -> int:
        """Of the cluster itself, or of the nearest one before it, or after it."""
        if cluster in self._at or not self._at:
            return self._at.get(cluster, otherwise)
        self._sorted = self._sorted or sorted(self._at)
        place = bisect_left(self._sorted, cluster)
        return self._at[self._sorted[max(0, place - 1)]]


def whole_of(ad: ClassAd, name: str) -> int:
    value: Any = ad.get(name)
    return value if type(value) is int else 0


def own_id(ad: ClassAd) -> JobId:
    return (whole_of(ad, "ClusterId"), whole_of(ad, "ProcId"))


def group_ids(ad: ClassAd) -> tuple[JobId, JobId]:
    """The first and the last job of a group, as the schedd names them."""
    text = ad.get("JobIds")
    if not isinstance(text, str):
        return ((0, 0), (0, 0))
    both = _BOTH.fullmatch(text)  # as nearly all are written
    if both is not None:
        a, b, c, d = both.groups()
        return ((int(a), int(b)), (int(c), int(d)))
    found = [(int(a), int(b)) for a, b in _ID.findall(text)]
    return (min(found), max(found)) if found else ((0, 0), (0, 0))
