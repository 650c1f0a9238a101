"""`storm`: a world made up from a number, with every fault at once. What survives hundreds of these holds.

A seed comes in, a scenario goes out: pools, sites with limits of every sort, shapes, owners, rates of faults.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from glidepath.core.provision.offer import Limits, Offer, OwnerRules, PolicyRule, PoolRules, Rules, SiteRules
from glidepath.core.quantity import Owner, PoolName, Resources, Shape, SiteName
from glidepath.sim.fault import NAMES
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario, Workload
from glidepath.sim.workloads import KINDS

POOLS = (PoolName("alpha"), PoolName("beta"))
OWNERS = tuple(Owner(name) for name in ("ann", "ben", "cleo", "dora", "eve"))
SHAPES = tuple(
    Shape(Resources(cpus * 1000, memory_mib, 0, gpus), traits)
    for cpus, memory_mib, gpus, traits in (
        (1, 1024, 0, ()),
        (1, 4096, 0, ()),
        (2, 2048, 0, ()),
        (4, 8192, 0, ()),
        (8, 8192, 0, ()),
        (1, 2048, 1, ()),
        (2, 2048, 0, (("arch", "arm64"),)),
        (3, 3072, 0, ()),
    )
)
# Of a thousand reads, acts, starts, writes or cycles, as each fault counts; so that a run of three hundred
# cycles meets each kind a few times and is not all faults.
RATES = {
    "blind-reads": 25,
    "lost-replies": 25,
    "late-effects": 25,
    "duplicate-effects": 25,
    "stale-lists": 40,
    "partial-pages": 15,
    "slow-starts": 30,
    "failing-starts": 40,
    "black-hole-nodes": 15,
    "black-hole-users": 10,
    "evictions": 40,
    "quota-cuts": 12,
    "schedd-silence": 5,
    "collector-emptied": 8,
    "clock-jumps": 10,
    "leader-paused": 8,
    "store-full": 8,
    "crashes": 8,
}
SPAN_S = 2600  # of arrivals; the rest of a run is for what was left


def storm(seed: int, *, only: tuple[str, ...] = NAMES) -> Scenario:
    draw = random.Random(f"storm {seed}")
    sites = tuple(_site(draw, name) for name in ("east", "north", "west"))
    rules = Rules(
        pools=(
            PoolRules(POOLS[0], Limits(live_max=draw.randint(70, 120))),
            PoolRules(POOLS[1], Limits(pending_max=draw.randint(30, 80)), hold_s=120, decay_s=300),
        ),
        sites=sites,
        owners=(OwnerRules(Owner("eve"), Limits(live_max=draw.randint(3, 12))),),
        policy=PolicyRule(draw.choice(("steady", "steady", "seed"))),
        cycle_s_min=10,
        cycle_s_max=60,
        limits=Limits(live_max=draw.randint(100, 160)),
    )
    behaviours = tuple(
        Behaviour(
            site.name,
            start_s=(draw.randint(0, 20), draw.randint(30, 200)),
            boot_s=(0, draw.randint(1, 40)),
            failing=draw.choice((0, 0, 20)),
            quota=draw.choice((None, draw.randint(20, 60))),
            nodes=draw.randint(3, 12),
            lag_s=draw.choice((0, 0, 30)),
        )
        for site in sites
    )
    matchings = (Matching(POOLS[0], 30, sources=2), Matching(POOLS[1], 20, reuse=True))
    kind = draw.choice(("burst", "steady", "two", "flapping"))
    return Scenario(
        name="storm",
        rules=rules,
        sites=behaviours,
        pools=matchings,
        workload=Workload(_KIND[kind], _options(draw, kind)),
        rates={name: RATES[name] for name in only},
        end_s=SPAN_S,
    )


def node_storm(seed: int) -> Scenario:
    """A storm over batch sites: jobs of several nodes that start as many pilots, and limits for each pool."""
    draw, calm = random.Random(f"nodes {seed}"), storm(seed)

    def on_nodes(site: SiteRules) -> SiteRules:
        several = {name: draw.randint(2, 4) for name in draw.sample(("small", "middle", "large"), 2)}
        offers = tuple(replace(offer, together=several.get(offer.name, 1)) for offer in site.offers)
        return replace(site, offers=offers, pool_limits=((POOLS[0], Limits(live_max=draw.randint(15, 50))),))

    rules = replace(calm.rules, sites=tuple(map(on_nodes, calm.rules.sites)))
    return replace(calm, name="node-storm", rules=rules)


_KIND = {"burst": "burst", "steady": "steady", "two": "long-tail", "flapping": "flapping"}


def _options(draw: random.Random, kind: str) -> Any:
    mix: dict[str, Any] = {
        "pools": POOLS,
        "shapes": SHAPES,
        "weights": (8, 6, 4, 2, 2, 3, 4, 3),
        "owners": OWNERS,
        "span_s": SPAN_S,
        "run_s_low": 20,
        "run_s_median": 150,
        "run_s_high": 600,
    }
    more: dict[str, dict[str, Any]] = {
        "burst": {"jobs": draw.randint(150, 400), "quiet_s": 60, "period_s": draw.randint(500, 900)},
        "steady": {"per_hour": draw.randint(1500, 4000)},
        "two": {"per_hour": draw.randint(1500, 4000)},
        "flapping": {"per_hour": draw.randint(2000, 6000)},
    }
    return KINDS[_KIND[kind]].options(**{**mix, **more[kind]})


def _site(draw: random.Random, name: str) -> SiteRules:
    site = SiteName(name)
    pairs = (("small", 1, 4096, 0), ("middle", 4, 16384, 0), ("large", 8, 16384, 1))
    offers = [
        Offer(
            site,
            each,
            Resources(cpus * 1000, memory_mib, 0, gpus),
            traits=(("arch", draw.choice(("x86_64", "arm64"))),),
            lifetime_s=draw.randint(1500, 5000),
            idle_s=draw.randint(60, 240),
            limits=Limits(
                live_max=draw.choice((None, draw.randint(10, 40))), pending_max=draw.choice((None, 15, 30))
            ),
            weight=draw.randint(10, 200),
            price_milli=draw.choice((0, 0, 500)),
        )
        for each, cpus, memory_mib, gpus in pairs
    ]
    offers.append(
        Offer(
            site,
            "fitted",
            Resources(8000, 16384, 0, 1),
            size_min=Resources(1000, 1024),
            step=Resources(1000, 1024),
            choices=(("arch", ("arm64", "x86_64")),),
            lifetime_s=4000,
            idle_s=120,
            limits=Limits(live_max=draw.randint(10, 30)),
        )
    )
    return SiteRules(
        site,
        tuple(sorted(offers, key=lambda offer: offer.key)),
        limits=Limits(
            live_max=draw.randint(40, 80),
            per_cycle_max=draw.choice((None, 8, 15)),
            per_s_max=draw.choice((None, None, 2)),
        ),
        listing_lag_s=draw.choice((0, 90)),
        appear_s_max=500,
        missing_s_max=400,
        pending_s_max=1200,
        patience_s=300,
        backoff_s=20,
        backoff_s_max=120,
        refused_s=60,
        quarantine_s=300,
    )
