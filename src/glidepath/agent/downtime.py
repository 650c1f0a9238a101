"""Downtimes as the site's admin wrote them, as spans from now: a clock that is wrong stays at the site."""

from __future__ import annotations

from collections.abc import Iterable

from glidepath.agent.keep import Closed
from glidepath.called.words import SPAN_S_MAX, WINDOWS_MAX, Downtime
from glidepath.config.agent import DowntimeSettings


def downtimes_of(
    planned: Iterable[DowntimeSettings], closed: Closed | None, *, wall: float
) -> tuple[Downtime, ...]:
    """Those that are not over: of the file, and the one that was declared by command."""
    spans = [(each.start.timestamp(), each.end.timestamp(), each.why) for each in planned]
    if closed is not None:
        spans.append((closed.start_wall_s, closed.end_wall_s, closed.why))
    found = []
    for start, end, why in sorted(spans):
        in_s, for_s = max(0, int(start - wall)), int(end - max(start, wall))
        if for_s > 0:
            found.append(Downtime(in_s=min(in_s, SPAN_S_MAX), for_s=min(for_s, SPAN_S_MAX), why=why))
    return tuple(found[:WINDOWS_MAX])
