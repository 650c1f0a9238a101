"""Policies side by side on one unlimited site: a real grid trace, and four made-up workloads.

One shape of one core, no limits, pilots that live for ever, start delay uniform 30 to 300 s, 2 % of starts
fail, pilots leave after 600 s without work, matching at random every 60 s. Several seeds each: the median and
the spread. The trace is read from `../shared/traces`, or from the folder that GLIDEPATH_TRACES names.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.machine import header
from glidepath.core.provision.offer import Offer, PolicyRule
from glidepath.core.quantity import Resources, Shape, SiteName
from glidepath.sim.builtin import FOR_EVER_S, ONE_CORE, POOL, grid, one_open_site
from glidepath.sim.scenario import Scenario, Workload
from glidepath.sim.score import Result, Spread, spread
from glidepath.sim.study import simulated
from glidepath.sim.workloads import KINDS

ROOT = Path(__file__).parent.parent
TRACE = "LCG-2005-1.swf.gz"
OFF = 10**6  # Limits of the published systems are switched off, as all others are.
WAIT_MAX, WASTE_MAX, ASKED_MAX = 0.35, 0.90, 1.8
LARGE = Resources(8000, 32768)
DAY_S = 86400


@dataclass(frozen=True)
class Row:
    """One rule at one cadence."""

    policy: str
    cycle_s: int
    numbers: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.policy} {self.cycle_s} s"


BASE = Row("seed", 120)
ROWS = (
    BASE,
    Row("seed", 10),
    Row("prp", 120, (("max_submit_pods_per_cluster", OFF),)),
    Row("glideinwms", 60),
    Row("pyglidein", 300, (("max_total_jobs", OFF),)),
    Row("one-to-one", 10),
    Row("steady", 10),
)
OURS, RIVAL = ROWS[-1], ROWS[-2]


def scenario(name: str) -> Scenario | None:
    if name == "lcg-2005":
        folder = Path(os.environ.get("GLIDEPATH_TRACES") or ROOT.parent / "shared" / "traces")
        return grid(folder / TRACE) if (folder / TRACE).exists() else None
    place = one_open_site()
    kind = KINDS[name]
    common: dict[str, Any] = {
        "pools": (POOL,),
        "span_s": DAY_S,
        "run_s_low": 60,
        "run_s_median": 600,
        "run_s_high": 7200,
    }
    if name == "two-kinds":
        site = place.rules.sites[0]
        large = Offer(SiteName("grid"), "large", LARGE, lifetime_s=FOR_EVER_S, idle_s=600)
        rules = replace(place.rules, sites=(replace(site, offers=(*site.offers, large)),))
        place = replace(place, rules=rules)
        common["shapes"] = (Shape(ONE_CORE), Shape(LARGE))
        common["run_s_median"], common["run_s_high"] = 300, 900
    else:
        common["shapes"] = (Shape(ONE_CORE),)
    workload = Workload(name, kind.options(**common))
    return Scenario(name, place.rules, place.sites, place.pools, workload, end_s=DAY_S)


def one(name: str, row: Row, seed: int) -> tuple[Row, Result, float]:
    found = scenario(name)
    assert found is not None
    started = time.process_time()
    done = simulated(found, seed, policy=PolicyRule(row.policy, row.numbers), cycle_s=row.cycle_s)
    assert not done.broken, done.broken
    return row, done.result, time.process_time() - started


def of(results: list[Result], number: str) -> Spread:
    return spread(results, lambda score: float(getattr(score, number)))


def shown(found: Spread) -> str:
    return f"{found.mid:,.1f} ({found.low:,.1f} to {found.high:,.1f})"


def table(found: dict[Row, list[Result]]) -> None:
    base = found.get(BASE)
    print("| rule | mean wait, s | p95, s | waste, h | pilots asked | wait | waste | asked |")
    print("|---|---|---|---|---|---|---|---|")
    for row in ROWS:
        if row not in found:
            continue
        results = found[row]
        ratios = [
            f"{of(results, number).mid / of(base, number).mid:.2f}x" if base else ""
            for number in ("wait_mean_s", "wasted_h", "asked")
        ]
        numbers = ("wait_mean_s", "wait_p95_s", "wasted_h", "asked")
        cells = [shown(of(results, number)) for number in numbers]
        print(f"| {row.name} | {' | '.join([*cells, *ratios])} |")


def verdict(found: dict[Row, list[Result]]) -> bool:
    """Whether the targets on the trace are met, each said."""
    if not {OURS, RIVAL, BASE} <= found.keys():
        return False

    def ratio(number: str, to: Row) -> float:
        return of(found[OURS], number).mid / of(found[to], number).mid

    wait, waste = ratio("wait_mean_s", BASE), ratio("wasted_h", BASE)
    asked = ratio("asked", BASE)
    rival_wait, rival_waste = ratio("wait_mean_s", RIVAL), ratio("wasted_h", RIVAL)
    checks = [
        (f"wait {wait:.3f} of seed (at most {WAIT_MAX})", wait <= WAIT_MAX),
        (f"waste {waste:.3f} of seed (at most {WASTE_MAX})", waste <= WASTE_MAX),
        (f"pilots asked {asked:.3f} of seed (at most {ASKED_MAX})", asked <= ASKED_MAX),
        (f"wait {rival_wait:.3f} of one-to-one (below 1)", rival_wait < 1),
        (f"waste {rival_waste:.3f} of one-to-one (below 1)", rival_waste < 1),
    ]
    for said, met in checks:
        print(f"steady: {said}: {'met' if met else 'MISSED'}")
    return all(met for _, met in checks)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=["burst", "steady", "sine", "two-kinds", "lcg-2005"])
    parser.add_argument("--rows", nargs="*", default=[row.name for row in ROWS], help='such as "seed 120 s"')
    options = parser.parse_args(argv)
    print(header("python -m bench.policies"))
    good = True
    for name in options.only:
        if scenario(name) is None:
            print(
                f"\n{name}: the trace {TRACE} is not there; set GLIDEPATH_TRACES to its folder: NOT MEASURED"
            )
            good = False
            continue
        found: dict[Row, list[Result]] = {}
        with ProcessPoolExecutor(options.jobs) as pool:
            # The slowest first, so that no core waits for one of them at the end.
            rows = sorted((row for row in ROWS if row.name in options.rows), key=lambda row: row.cycle_s)
            tasks = [
                pool.submit(one, name, row, seed) for row in rows for seed in range(1, options.seeds + 1)
            ]
            for task in as_completed(tasks):
                row, result, cpu_s = task.result()
                score = result.score
                found.setdefault(row, []).append(result)
                print(
                    f"{name}, {row.name}, seed {score.seed}: wait {score.wait_mean_s:.1f} s, waste "
                    f"{score.wasted_h:,.0f} h, asked {score.asked:,}, {score.cycles:,} cycles, {cpu_s:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
        jobs = next(iter(found.values()))[0].score.jobs
        print(f"\n{name}: {jobs:,} jobs, {options.seeds} seeds")
        table(found)
        if name == "lcg-2005":
            good &= verdict(found)
        sys.stdout.flush()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
