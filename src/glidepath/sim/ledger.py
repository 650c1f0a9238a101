"""The simulator's own books: waits of jobs, hours of pilots by cause, and every limit that was broken.

The world reports what truly happened, a `Score` goes out. It shares no arithmetic with the controller.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from glidepath.core.provision.offer import Limits, Offer, Rules
from glidepath.core.provision.pilot import PilotSpec
from glidepath.core.quantity import OfferKey, Owner
from glidepath.sim.score import CAUSES, Result, Score, Series, percentile
from glidepath.sim.thing import SimPilot

BROKEN_KEPT_MAX = 100
# Enough for any plot; a run of a year must not fill the memory.
SAMPLES_MAX = 20_000


@dataclass(slots=True)
class Ledger:
    rules: Rules
    jobs: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    asked: int = 0
    unused: int = 0
    overshoot: int = 0
    cost_micro: int = 0
    busy_s: int = 0  # pilot seconds: a pilot that is half claimed counts half
    waste_s: Counter[str] = field(default_factory=Counter)
    live: Counter[str] = field(default_factory=Counter)
    pending: Counter[str] = field(default_factory=Counter)  # not joined yet
    limits: dict[str, Limits] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    broken_count: int = 0
    series: Series = field(default_factory=Series)
    sample_every_s: int = 0
    everyone: Limits | None = None
    offers: dict[OfferKey, Offer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.rules
        self.offers = rules.offers()
        self.limits = {"overall": rules.limits}
        self.limits |= {f"site {site.name}": site.limits for site in rules.sites}
        self.limits |= {f"offer {offer.key}": offer.limits for site in rules.sites for offer in site.offers}
        self.limits |= {f"pool {pool.name}": pool.limits for pool in rules.pools}
        self.limits |= {
            f"pool {pool} at {site.name}": each for site in rules.sites for pool, each in site.pool_limits
        }
        self.limits |= {f"owner {owner.owner}": owner.limits for owner in rules.owners if owner.owner != "*"}
        self.everyone = next((o.limits for o in rules.owners if o.owner == Owner("*")), None)

    def breaks(self, what: str) -> None:
        self.broken_count += 1
        if len(self.broken) < BROKEN_KEPT_MAX:
            self.broken.append(what)

    def came(self, pilot: SimPilot) -> None:
        """A pilot is there now: counted against every limit, in the world itself."""
        self.asked += 1
        for scope in _scopes(pilot.spec):
            self.live[scope] += 1
            self.pending[scope] += 1
            limits = self.limits.get(scope)
            if limits is None and scope.startswith("owner ") and pilot.spec.owner:
                limits = self.everyone
            if limits is None:
                continue
            if limits.live_max is not None and self.live[scope] > limits.live_max:
                self.breaks(f"cap: {scope} has {self.live[scope]} live pilots, live_max is {limits.live_max}")
            if limits.pending_max is not None and self.pending[scope] > limits.pending_max:
                count = self.pending[scope]
                self.breaks(f"cap: {scope} has {count} pending pilots, pending_max is {limits.pending_max}")

    def joined(self, pilot: SimPilot) -> None:
        for scope in _scopes(pilot.spec):
            self.pending[scope] -= 1

    def left(self, pilot: SimPilot, now: int, cause: str) -> None:
        """A pilot is over; `cause` is what its hours before joining are booked under."""
        pilot.count(now)
        for scope in _scopes(pilot.spec):
            self.live[scope] -= 1
            self.pending[scope] -= pilot.joined_at is None
        size_milli = max(1, pilot.spec.size.cpu_milli)
        until = pilot.joined_at if pilot.joined_at is not None else now
        self.waste_s[cause if pilot.joined_at is None else "starting"] += until - pilot.asked_at
        self.waste_s["unclaimed"] += pilot.free_milli_s // size_milli
        if pilot.bad:
            self.waste_s["black hole"] += pilot.used_milli_s // size_milli
        else:
            self.busy_s += pilot.used_milli_s // size_milli
        if not pilot.jobs_run:
            self.unused += 1
        offer = self.offers.get(pilot.spec.offer)
        if offer is not None and pilot.joined_at is not None:
            self.cost_micro += offer.price_milli * 1000 * (now - pilot.started_at) // 3600

    def lost(self, pilot: SimPilot, spent_s: int, request_milli: int) -> None:
        """Work that has to be done again: its seconds were claimed and are of no use."""
        size_milli = max(1, pilot.spec.size.cpu_milli)
        if not pilot.bad:
            self.waste_s["lost"] += spent_s * request_milli // size_milli
            self.busy_s -= spent_s * request_milli // size_milli

    def sample(self, at_s: int, **counts: int) -> None:
        series = self.series
        if series.at_s and at_s - series.at_s[-1] < self.sample_every_s:
            return
        series.at_s.append(at_s)
        for name, count in counts.items():
            getattr(series, name).append(count)
        if len(series.at_s) >= SAMPLES_MAX:
            # Twice as coarse from now on, and looking back.
            for name in ("at_s", "waiting", "running", "coming", "unclaimed", "claimed", "wanted"):
                getattr(series, name)[:] = getattr(series, name)[::2]
            self.sample_every_s = max(1, self.sample_every_s * 2, series.at_s[1] - series.at_s[0])

    def result(self, *, scenario: str, policy: str, seed: int, cycles: int, span_s: int) -> Result:
        waits = tuple(sorted(self.waits.elements()))
        score = Score(
            scenario=scenario,
            policy=policy,
            seed=seed,
            cycles=cycles,
            span_s=span_s,
            jobs=self.jobs,
            started=len(waits),
            wait_median_s=percentile(waits, 0.5),
            wait_mean_s=sum(waits) / len(waits) if waits else 0.0,
            wait_p95_s=percentile(waits, 0.95),
            busy_h=self.busy_s / 3600,
            waste_h=tuple((cause, self.waste_s[cause] / 3600) for cause in CAUSES),
            asked=self.asked,
            unused=self.unused,
            overshoot=self.overshoot,
            limits_broken=self.broken_count,
            cost_milli=self.cost_micro // 1000,
        )
        return Result(score, self.series, waits)


def _scopes(spec: PilotSpec) -> tuple[str, ...]:
    at_site = f"pool {spec.pool} at {spec.site}"
    return (
        *("overall", f"site {spec.site}", f"offer {spec.offer}", f"pool {spec.pool}", f"owner {spec.owner}"),
        at_site,
    )
