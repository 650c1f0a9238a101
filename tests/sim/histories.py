"""A small live system, made up: its cycles end up in a journal as those of a real one would."""

from __future__ import annotations

from typing import Any

from glidepath.core.provision.offer import Limits, Offer, PolicyRule, PoolRules, Rules, SiteRules
from glidepath.core.quantity import Owner, PoolName, Resources, Shape, SiteName
from glidepath.sim.place import Behaviour, Matching
from glidepath.sim.scenario import Scenario, Workload
from glidepath.sim.workloads import KINDS

POOL = PoolName("pool")
ONE = Shape(Resources(1000, 1024))


def small_scenario(
    kind: str = "steady", *, policy: str = "seed", live_max: int = 60, **more: Any
) -> Scenario:
    offers = (
        Offer(SiteName("west"), "one", Resources(1000, 1024), idle_s=300, limits=Limits(live_max=live_max)),
    )
    rules = Rules(
        pools=(PoolRules(POOL),),
        sites=(SiteRules(SiteName("west"), offers),),
        policy=PolicyRule(policy),
        cycle_s_min=20,
        cycle_s_max=60,
    )
    options: dict[str, Any] = {
        "pools": (POOL,),
        "shapes": (ONE,),
        "owners": (Owner("ann"), Owner("ben")),
        "span_s": 7200,
    }
    options |= {"run_s_low": 60, "run_s_median": 300, "run_s_high": 900, **more}
    return Scenario(
        name="small",
        rules=rules,
        sites=(Behaviour(SiteName("west"), start_s=(30, 120), failing=20, nodes=0),),
        pools=(Matching(POOL, 30, reuse=True),),
        workload=Workload(kind, KINDS[kind].options(**options)),
        end_s=7200,
    )
