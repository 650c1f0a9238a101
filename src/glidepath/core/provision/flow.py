"""Flow: how many jobs of each group come to wait, counted over the last half hour.

Fresh demand and the flows before it come in, flows go out. A backlog met at the first look did not arrive
just now and is not counted. What cannot be seen changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from glidepath.core.provision.demand import Demand, Group
from glidepath.core.provision.quick import quick
from glidepath.core.quantity import Instant, PoolName, Shape

# Long enough to see a rate through the noise of single jobs, short enough that a morning is not the night.
SPAN_S = 1800


@quick
@dataclass(frozen=True, slots=True)
class Flow:
    """Jobs that came to wait in the span that began at `since`, and in the one before it."""

    pool: PoolName
    shape: Shape
    run_s_max: int | None
    idle: int  # when last seen
    since: Instant
    risen: int = 0
    before: int = 0
    variant: str = ""

    @property
    def group(self) -> Group:
        return (self.pool, self.shape, self.run_s_max, self.variant)

    def arriving(self, now: Instant, over_s: int) -> int:
        """So many jobs come to wait in `over_s` seconds, at the rate of the last span."""
        into_s = min(SPAN_S, max(0, now - self.since))
        risen = self.risen + self.before * (SPAN_S - into_s) // SPAN_S
        return risen * over_s // SPAN_S


def flowed(
    flows: Iterable[Flow],
    demands: Iterable[Demand],
    now: Instant,
    *,
    unseen: Collection[PoolName],
    known: Collection[PoolName],
) -> tuple[Flow, ...]:
    """The flows after one more look. `known` are the pools that were seen not long ago."""
    old = {flow.group: flow for flow in flows}
    after: list[Flow] = []
    for demand in demands:
        if demand.pool in unseen:
            continue
        flow = old.pop(demand.group, None)
        if demand.pool not in known:
            flow = None
        if flow is None:
            if demand.idle:
                after.append(_first(demand, now, demand.idle if demand.pool in known else 0))
            continue
        after.append(_next(flow, demand.idle, now))
    for flow in old.values():
        if flow.pool not in known and flow.pool not in unseen:
            continue
        # Nothing of the group is left; its rate is forgotten when it has run dry.
        still = flow if flow.pool in unseen else _next(flow, 0, now)
        if still.risen or still.before or flow.pool in unseen:
            after.append(still)
    return tuple(after)


def _first(demand: Demand, now: Instant, risen: int) -> Flow:
    pool, shape, run_s_max, variant = demand.group
    return Flow(pool, shape, run_s_max, demand.idle, now, risen, variant=variant)


def _next(flow: Flow, idle: int, now: Instant) -> Flow:
    pool, shape, run_s_max, variant = flow.group
    risen = max(0, idle - flow.idle)
    if now - flow.since < SPAN_S:
        if idle == flow.idle:
            return flow
        risen += flow.risen
        return Flow(pool, shape, run_s_max, idle, flow.since, risen, flow.before, variant)
    before = flow.risen if now - flow.since < 2 * SPAN_S else 0
    return Flow(pool, shape, run_s_max, idle, now, risen, before, variant)
