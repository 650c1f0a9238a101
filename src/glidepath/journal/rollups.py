"""Numbers for charts: cycles come in, lows, highs and totals per minute, hour and day go out.

A bucket that is still open is kept in memory and written whole with every cycle, in the cycle's own
transaction, so that a crash loses none of it. What is old goes: each span has its own bound.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Executable, delete, func, select

from glidepath.core.cycle import Seen
from glidepath.core.provision.offer import Rules
from glidepath.core.provision.pilot import Submit
from glidepath.journal.entry import Measure, Rollup
from glidepath.journal.frames import Cycle
from glidepath.store.engine import insert, storable
from glidepath.store.schema import rollups

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
# Two days of minutes, two months of hours, five years of days.
KEPT_S: Mapping[int, int] = {MINUTE_S: 2 * DAY_S, HOUR_S: 60 * DAY_S, DAY_S: 5 * 366 * DAY_S}
BUCKETS_PRUNED_MAX = 3000
ABOUT_LETTERS_MAX = 400
# Whoever draws a chart has fewer points across than this.
READ_ROWS_MAX = 100_000

# Made once: dozens of small bodies are written with every cycle.
_JSON = json.JSONEncoder(separators=(",", ":"))
Counts = dict[str, int]
Bucket = tuple[int, dict[str, list[int]]]  # samples; measure -> low, high, total


class OpenBuckets:
    """The buckets that still grow. Forgotten after a failed write, and then read back from the store."""

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[int, dict[str, Bucket]]] = {}
        self._said: Executable | None = None  # the same statement every time, and slow to put together

    def fold(self, connection: Connection, wall_s: float, samples: Mapping[str, Counts]) -> None:
        rows: list[dict[str, Any]] = []
        for span_s in KEPT_S:
            start_s = int(wall_s) // span_s * span_s
            found = self._buckets.get(span_s)
            if found is None or found[0] != start_s:
                found = (start_s, _stored(connection, span_s, start_s))
                self._buckets[span_s] = found
            for about, counts in samples.items():
                bucket = _grown(found[1].get(about, (0, {})), counts)
                found[1][about] = bucket
                body = _JSON.encode(bucket[1])
                key = {"span_s": span_s, "start_s": start_s, "about": about}
                rows.append({**key, "samples": bucket[0], "body": body})
        if rows:
            if self._said is None:
                said = insert(connection, rollups)
                update = {"samples": said.excluded.samples, "body": said.excluded.body}
                keys = ["span_s", "start_s", "about"]
                self._said = said.on_conflict_do_update(index_elements=keys, set_=update)
            connection.execute(self._said, rows)


def _grown(bucket: Bucket, counts: Counts) -> Bucket:
    samples, measures = bucket
    grown: dict[str, list[int]] = {}
    for name in {**measures, **counts}:
        count = counts.get(name, 0)
        # A measure that was not named before was nothing then, and counts as such.
        low, high, total = measures.get(name, [0 if samples else count, count, 0])
        grown[name] = [min(low, count), max(high, count), total + count]
    return samples + 1, grown


def _stored(connection: Connection, span_s: int, start_s: int) -> dict[str, Bucket]:
    query = select(rollups.c.about, rollups.c.samples, rollups.c.body)
    rows = connection.execute(query.where(rollups.c.span_s == span_s, rollups.c.start_s == start_s))
    return {about: (samples, json.loads(body)) for about, samples, body in rows}


def counted(cycle: Cycle, rules: Rules) -> dict[str, Counts]:
    """What is charted of one cycle, by pool and by offer."""
    return {
        storable(about, letters_max=ABOUT_LETTERS_MAX): counts
        for about, counts in (_pools(cycle) | _offers(cycle, rules)).items()
    }


def _pools(cycle: Cycle) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    unseen = {pool for pool, _, sight in cycle.snapshot.demand if not isinstance(sight, Seen)}
    for pool, _, sight in cycle.snapshot.demand:
        if not isinstance(sight, Seen) or pool in unseen:
            continue  # Half of a pool's demand would look like a fall of it.
        of_pool = counts.setdefault(f"pool:{pool}", {"idle": 0, "running": 0, "wait_s": 0})
        for demand in sight.value.demands:
            of_pool["idle"] += demand.idle
            of_pool["running"] += demand.running
            if demand.oldest_at is not None:
                of_pool["wait_s"] = max(of_pool["wait_s"], cycle.snapshot.now - demand.oldest_at)
    return counts


def _offers(cycle: Cycle, rules: Rules) -> dict[str, Counts]:
    """Live pilots by phase as they stood when the cycle began, pilots asked for, and the usual wait."""
    counts: dict[str, Counts] = {f"offer:{offer.key}": {} for site in rules.sites for offer in site.offers}
    for track in cycle.memory.tracks:
        if track.live:
            of_offer = counts.setdefault(f"offer:{track.offer}", {})
            of_offer[track.phase.value] = of_offer.get(track.phase.value, 0) + 1
    for action in cycle.plan.actions:
        if isinstance(action, Submit):
            of_offer = counts.setdefault(f"offer:{action.offer}", {})
            of_offer["asked"] = of_offer.get("asked", 0) + len(action.names)
    for health in cycle.memory.health:
        if health.latency_s and f"offer:{health.about}" in counts:
            counts[f"offer:{health.about}"]["wait_s"] = health.latency_s
    return counts


def read_rollups(connection: Connection, span_s: int, since_s: float, until_s: float) -> tuple[Rollup, ...]:
    if span_s not in KEPT_S:
        raise ValueError(
            f"roll-ups are kept per {', '.join(f'{kept} s' for kept in KEPT_S)}, not per {span_s} s"
        )
    query = (
        select(rollups.c.about, rollups.c.start_s, rollups.c.samples, rollups.c.body)
        .where(rollups.c.span_s == span_s, rollups.c.start_s > since_s - span_s, rollups.c.start_s < until_s)
        .order_by(rollups.c.start_s)
        .limit(READ_ROWS_MAX)
    )
    return tuple(
        Rollup(about, start_s, samples, {name: Measure(*three) for name, three in json.loads(body).items()})
        for about, start_s, samples, body in connection.execute(query)
    )


def prune_rollups(connection: Connection, now_wall_s: float) -> None:
    for span_s, kept_s in KEPT_S.items():
        of_span = rollups.c.span_s == span_s
        oldest_s = connection.execute(select(func.min(rollups.c.start_s)).where(of_span)).scalar()
        if oldest_s is not None:
            until_s = min(int(now_wall_s) - kept_s, oldest_s + BUCKETS_PRUNED_MAX * span_s)
            connection.execute(delete(rollups).where(of_span, rollups.c.start_s < until_s))
