"""glidepath beside unmodified COBalD/TARDIS 0.9.0, in worlds of the same seeds, in real time.

`python -m bench.tardis` starts every arm in a world of its own, several at once as `--beside` says, and
prints for each what became of the jobs and of the cores. A burst takes ten minutes, a load half an hour.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.machine import header
from bench.tardis.arms import ARMS, TARDIS, Run
from bench.tardis.world import BOOT_S, MATCH_S, RUN_S, SCENARIOS

BOUND_S = 10 + BOOT_S + MATCH_S + RUN_S  # of a burst: a look, a boot, a match, a run
SHARE_OF_BOUND_MAX = 1.15
IDLE_MAX = 0.15
SEEDS = {"burst": 5, "steady": 2, "sine": 2}
LOOK_S = 1.0


def measured(runs: list[Run], beside: int) -> list[dict[str, Any]]:
    """All of them, so many at a time, in their order."""
    waiting, going, found = list(runs), [], []
    try:
        while waiting or going:
            while waiting and len(going) < beside:
                going.append(waiting.pop(0))
                going[-1].start()
            for run in [each for each in going if each.over]:
                going.remove(run)
                run.stop()
                path = run.folder / "measures.json"
                found.append({"arm": run.arm, **json.loads(path.read_text())})
                print(json.dumps(found[-1]), file=sys.stderr, flush=True)
            time.sleep(LOOK_S)
    finally:
        for run in going:
            run.stop()
    return found


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| scenario | arm | seeds | done | all done after (s) | mean wait (s) | idle share | workers |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        for arm in ARMS:
            of = [row for row in rows if (row["scenario"], row["arm"]) == (scenario, arm)]
            if not of:
                continue
            done = f"{sum(row['done'] for row in of)} of {sum(row['jobs'] for row in of)}"
            # Of a burst all workers are seen to their end; of a load, what is there when the last job ends.
            idle = [row["idle_share_end" if scenario == "burst" else "idle_share"] for row in of]
            lasted = [row["done_s"] for row in of if row["done_s"] is not None]
            waits = [row["wait_s_mean"] for row in of if row["wait_s_mean"] is not None]
            cells = [scenario, arm, len(of), done, _span(lasted, 0), _span(waits, 1)]
            cells += [_span([100 * each for each in idle], 1) + " %", _span([r["workers"] for r in of], 0)]
            lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return lines


def _span(values: list[float], digits: int) -> str:
    """Median, and from least to most."""
    if not values:
        return "never"
    shown = [f"{each:,.{digits}f}" for each in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})" if len(values) > 1 else shown[0]


def verdict(rows: list[dict[str, Any]]) -> bool:
    """Whether every burst of ours was done in time and at its price."""
    ours = [row for row in rows if row["arm"] == "glidepath" and row["scenario"] == "burst"]
    good = True
    for row in ours:
        ratio = row["done_s"] / BOUND_S if row["done_s"] is not None else float("inf")
        met = ratio <= SHARE_OF_BOUND_MAX and row["idle_share_end"] <= IDLE_MAX
        good = good and met
        print(
            f"burst, seed {row['seed']}: {ratio:.2f} of the bound of {BOUND_S:.0f} s (target "
            f"{SHARE_OF_BOUND_MAX}), {row['idle_share_end']:.1%} idle (target {IDLE_MAX:.0%}): "
            f"{'met' if met else 'MISSED'}"
        )
    return good


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, action="append")
    parser.add_argument("--arm", choices=ARMS, action="append")
    parser.add_argument("--seeds", type=int, help="how many; by default five of a burst, two of a load")
    parser.add_argument("--beside", type=int, default=8, help="worlds at the same time")
    parser.add_argument("--keep", type=Path, help="a folder in which logs and measures stay")
    given = parser.parse_args(words)
    if not TARDIS.exists():
        print("there is no .venv-tardis; `make tardis` makes it", file=sys.stderr)
        return 1
    print(header("python -m bench.tardis"))
    top = given.keep or Path(tempfile.mkdtemp(prefix="gp-tardis-"))
    runs = [
        Run(arm, scenario, seed, top / f"{scenario}-{seed}-{arm.replace(' ', '-')}")
        for scenario in given.scenario or SCENARIOS
        for seed in range(1, (given.seeds or SEEDS[scenario]) + 1)
        for arm in given.arm or ARMS
    ]
    rows = measured(runs, given.beside)
    print("\n".join(table(rows)))
    good = verdict(rows)
    if given.keep is None:
        for run in runs:
            run.clear()
        top.rmdir()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
