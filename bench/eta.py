"""Start-time estimates on the waits of a real cluster: how near they are, and how well their ranges hold.

The last 30 % of the days are told. The targets are judged on trees grown once, from the jobs that had started
before those days, with ranges stretched by what the ranges told before missed. Shown beside it: one range for
all, the median of the same limit and size, and trees grown anew each day. "By noon" those learn from all that
had started when the job was asked about; "by submission" only from what had started when it was submitted.
Read from `../shared/traces`, or from the folder GLIDEPATH_TRACES names.
"""

from __future__ import annotations

import csv
import gzip
import sys
import time
from datetime import datetime

import numpy as np

from bench.machine import header
from bench.rerun import FOLDER
from glidepath.core.schedule.eta import Calibration
from glidepath.sim.rerun.graham import split_of, waits_of
from glidepath.sim.rerun.telling import (
    TEST_SHARE,
    constant,
    grouped,
    told_as_submitted,
    told_by_day,
    told_once,
)

GRAHAM = "mila-slurm-graham-2021-0506-waits.csv.gz"
NARVAL = "mila-narval_true_start_time_vs_slurm_estimate.csv.gz"
WAYS = (
    ("one range for all", constant),
    ("limit and size", grouped),
    ("ours, grown once at the split", told_once),
    ("ours, by what started by noon", told_by_day),
    ("ours, by what started by submission", told_as_submitted),
)
JUDGED = told_once
WITHIN_2_MIN, WITHIN_3_MIN, INSIDE_MIN, INSIDE_MAX, WIDTH_MAX = 0.45, 0.62, 0.75, 0.85, 0.7


def narval() -> None:
    """Slurm's own estimates of another cluster; when they were asked for is not in the file."""
    with gzip.open(FOLDER / NARVAL, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    off_s = [
        (
            datetime.fromisoformat(row["true_start_time"])
            - datetime.fromisoformat(row["estimate_start_time"])
        ).total_seconds()
        for row in rows
    ]
    late = sorted(off_s)
    print(
        f"\nSlurm's `--test-only` on Narval, {len(late)} jobs: started {late[len(late) // 2]:.0f} s after "
        f"its estimate in the median, from {late[0]:.0f} to {late[-1]:.0f} s; half of them were more than "
        f"{np.median(np.abs(late)):.0f} s off"
    )


def main(_words: list[str]) -> int:
    print(header("python -m bench.eta"))
    if not (FOLDER / GRAHAM).is_file():
        print("the log is not there; set GLIDEPATH_TRACES to the folder of public logs: NOT MEASURED")
        return 1
    began = time.process_time()
    waits = waits_of(FOLDER / GRAHAM)
    split = split_of(waits, TEST_SHARE)
    print(f"{len(waits.wait_s):,} jobs read in {time.process_time() - began:.0f} s of processor time")
    print(f"{'':36}within 2   within 3   inside 80 %   width of constant's   seconds")
    width, met = 0.0, False
    for name, tell in WAYS:
        began = time.process_time()
        found = tell(waits, split)
        took_s = time.process_time() - began
        width = width or found.width
        verdict = ""
        if name.startswith("ours"):
            verdict = "   met" if holds(found, width) else "   MISSED"
        if tell is JUDGED:
            met = holds(found, width)
        print(
            f"{name:<36}{found.within_2:>8.1%}{found.within_3:>11.1%}{found.inside:>14.1%}"
            f"{found.width / width:>22.2f}{took_s:>10.1f}{verdict}",
            flush=True,
        )
        if verdict:
            early, late = found.early_s / 3600, found.late_s / 3600
            print(f"  {found.told:,} told; median of the early {early:.1f} h, of the late {late:.1f} h")
    narval()
    print(f"grown once at the split: targets {'met' if met else 'MISSED'}")
    return 0 if met else 1


def holds(found: Calibration, constant_width: float) -> bool:
    return (
        found.within_2 >= WITHIN_2_MIN
        and found.within_3 >= WITHIN_3_MIN
        and INSIDE_MIN <= found.inside <= INSIDE_MAX
        and found.width <= WIDTH_MAX * constant_width
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
