"""`decide` alone on grouped demand: 100,000 idle jobs in 2,000 shapes, 50 sites of 2 offers, 10,000 pilots.

Prints the median of 20, the peak of memory over the baseline, and a digest of the plan; run under two
values of PYTHONHASHSEED the digest must be the same, which `main` checks by running itself again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import subprocess
import sys
import time
import tracemalloc

from bench.machine import header
from glidepath.core.cycle import Plan, Seen
from glidepath.core.provision.decide import decide
from glidepath.core.provision.demand import Demand, DemandSight
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.offer import Limits, Offer, PoolRules, Rules, SiteRules, kind_for
from glidepath.core.provision.picture import look
from glidepath.core.provision.pilot import SitePilot, SiteState, Slot
from glidepath.core.provision.policies.steady import Steady
from glidepath.core.provision.remember import remember
from glidepath.core.provision.sight import PoolSlots, SiteListing, Snapshot
from glidepath.core.quantity import (
    Instant,
    Owner,
    PilotName,
    PoolName,
    Resources,
    Shape,
    SiteName,
    SourceName,
)

MEDIAN_S_MAX = 0.2
PEAK_MIB_MAX = 200
POOL = PoolName("ospool")
NOW = Instant(1_000_000)


def world(seed: int) -> tuple[Snapshot, Memory, Rules]:
    draw = random.Random(seed)
    sites = tuple(_site(n) for n in range(50))
    rules = Rules(pools=(PoolRules(POOL),), sites=sites)
    demands = _demands(draw, rules)
    pilots, slots = _pilots(draw, rules)
    listings = tuple(
        (site.name, Seen(NOW, SiteListing(tuple(p for p in pilots if p.offer.startswith(f"{site.name}/")))))
        for site in sites
    )
    snapshot = Snapshot(
        now=NOW,
        demand=((POOL, SourceName("ap1"), Seen(NOW, DemandSight(demands))),),
        slots=((POOL, Seen(NOW, PoolSlots(slots))),),
        sites=listings,
    )
    # One cycle earlier the same pilots were already known: the steady state, not the first look.
    memory = Memory("bench", Instant(NOW - 10_000))
    picture = look(snapshot, memory, rules)
    memory = remember(picture, Plan(1, NOW, (), 10), (), rules)
    return snapshot, memory, rules


def _site(n: int) -> SiteRules:
    name = SiteName(f"site{n:02d}")
    small = Offer(name, "small", Resources(8000, 16384, 100_000), limits=Limits(live_max=150, pending_max=20))
    large = Offer(
        name,
        "large",
        Resources(48000, 196_608, 500_000, n % 3),
        traits=(("arch", "x86_64"),),
        limits=Limits(live_max=100, pending_max=10),
        price_milli=n * 10,
    )
    return SiteRules(name, (small, large), limits=Limits(live_max=220, per_cycle_max=50))


def _demands(draw: random.Random, rules: Rules) -> tuple[Demand, ...]:
    shapes: set[Shape] = set()
    while len(shapes) < 2000:
        cpus = draw.choice((1, 1, 2, 4, 8, 16, 32))
        shapes.add(
            Shape(Resources(cpus * 1000, draw.randrange(512, 64 * 1024, 64), 1000, draw.choice((0, 0, 0, 1))))
        )
    offers = tuple(rules.offers().values())
    return tuple(
        Demand(
            pool=POOL,
            shape=shape,
            idle=50,
            running=draw.randrange(50),
            oldest_at=Instant(NOW - draw.randrange(10_000)),
            owners=((Owner(f"user{place % 97}"), 50),),
            run_s_max=draw.choice((None, 3600, 4 * 3600)),
            fits=tuple(sorted(offer.key for offer in offers if kind_for(offer, shape))),
        )
        for place, shape in enumerate(sorted(shapes))
    )


def _pilots(draw: random.Random, rules: Rules) -> tuple[tuple[SitePilot, ...], tuple[Slot, ...]]:
    pilots, slots = [], []
    offers = sorted(rules.offers().values(), key=lambda offer: offer.key)
    for n in range(10_000):
        offer = offers[n % len(offers)]
        name = PilotName(f"gp-old-{n:05d}")
        running = draw.random() < 0.95
        state = SiteState.RUNNING if running else SiteState.PENDING
        asked = Instant(NOW - draw.randrange(60, 800))
        pilots.append(SitePilot(name, offer.key, POOL, offer.size, state, asked, asked, offer.traits))
        if running:
            free = draw.choice((0, 0, 0, 1, 2, 4)) * 1000
            room = Resources(free, free * 2, offer.size.disk_mib if free else 0)
            claims = (offer.size.cpu_milli - free) // 1000
            slots.append(Slot(name, room, claims, ends_at=Instant(NOW + draw.randrange(1000, 50_000))))
    return tuple(pilots), tuple(slots)


def digest(plan: object) -> str:
    return hashlib.sha256(repr(plan).encode()).hexdigest()[:16]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digest-only", action="store_true")
    options = parser.parse_args(argv)
    snapshot, memory, rules = world(options.seed)
    if options.digest_only:
        print(digest(decide(look(snapshot, memory, rules), rules, Steady())))
        return 0
    print(header("python -m bench.decide"))
    looks, decides = [], []
    for _ in range(20):
        start = time.perf_counter()
        picture = look(snapshot, memory, rules)
        middle = time.perf_counter()
        plan = decide(picture, rules, Steady())
        decides.append(time.perf_counter() - middle)
        looks.append(middle - start)
    tracemalloc.start()
    plan = decide(look(snapshot, memory, rules), rules, Steady())
    peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    both = [a + b for a, b in zip(looks, decides, strict=True)]
    digests = {_digest_under(seed, options.seed) for seed in ("0", "12345")} | {digest(plan)}
    asked = sum(len(getattr(action, "names", ())) for action in plan.actions)
    print(
        f"look + decide, median of 20: {statistics.median(both):.3f} s "
        f"(look {statistics.median(looks):.3f}, decide {statistics.median(decides):.3f}; "
        f"target {MEDIAN_S_MAX} s)"
    )
    print(f"peak memory over baseline: {peak_mib:.0f} MiB (target {PEAK_MIB_MAX} MiB)")
    print(f"{len(plan.decisions)} decisions, {asked} pilots asked for; plan {' '.join(sorted(digests))}")
    same = len(digests) == 1
    print("the same plan under PYTHONHASHSEED 0 and 12345" if same else "PLANS DIFFER between hash seeds")
    return 0 if same and statistics.median(both) <= MEDIAN_S_MAX and peak_mib <= PEAK_MIB_MAX else 1


def _digest_under(hash_seed: str, seed: int) -> str:
    command = [sys.executable, "-m", "bench.decide", "--digest-only", "--seed", str(seed)]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=True, timeout=120
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
