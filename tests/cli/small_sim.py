"""A folder with a small scenario and small traces, for the verbs of the simulator."""

from __future__ import annotations

from pathlib import Path

SMALL = """\
[workload]
kind = "burst"
span = "20m"
jobs = 30
quiet = "1m"
period = "10m"
run_low = "20s"
run_median = "40s"
run_high = "90s"
"""
ROW = "{n} {at} 5 60 1 -1 -1 1 600 -1 1 7 1 1 1 -1 -1 -1\n"


def written(folder: Path) -> Path:
    here = folder / "here"
    here.mkdir()
    (here / "small.toml").write_text(SMALL)
    (here / "broken.toml").write_text(SMALL + "jbos = 3\n[faults]\nevictons = 1\n")
    (here / "jobs.swf").write_text("".join(ROW.format(n=n, at=20 * n) for n in range(60)))
    (here / "odd.swf").write_text(ROW.format(n=1, at=90) + ROW.format(n=2, at=30))
    return here
