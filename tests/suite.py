"""`make test`: lint, types and every group of tests, each within its budget of tests/budgets.toml.

Two lanes at the same time: groups that mostly compute, and those that mostly wait for real servers. It
prints what was run, how long it took and what was not run; under CI=true anything not run is a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPUTING = {
    "core": ["tests/core", "tests/test_tidy.py"],
    "docs": ["tests/test_docs.py"],
    "config": ["tests/config", "tests/test_plugins.py"],
    "store": ["tests/store", "tests/journal"],
    "embedded": ["tests/embedded", "tests/backends"],
    "cli": ["tests/cli"],
    "sim": ["tests/sim"],
    "schedule": ["tests/schedule"],
    "whole": ["tests/whole"],
}
WAITING = {
    "bed": ["tests/bed"],
    "condor": ["tests/condor"],
    "pilot": ["tests/pilot"],
    "grid": ["tests/grid"],
    "kube": ["tests/kube"],
    "scenes": ["tests/scenes"],
}
# Five times the budget: beyond that a hang is a hang, and the rest should still be run.
KILL_FACTOR = 5


@dataclass(frozen=True)
class Ran:
    name: str
    code: int
    took_s: float
    budget_s: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def run(name: str, command: list[str], budget_s: float) -> Ran:
    print(f".. {name} (budget {budget_s:g} s)", flush=True)
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=budget_s * KILL_FACTOR, check=False
        )
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        code, text = 1, f"{error.stdout or ''}\n{name} was ended after {budget_s * KILL_FACTOR:g} s"
    took_s = time.monotonic() - started
    told = text if code else "\n".join(text.strip().splitlines()[-3:])
    print(f"== {name}: {took_s:.0f} s\n{told}", flush=True)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|errors|skipped)", text)}
    return Ran(
        name,
        code,
        took_s,
        budget_s,
        counts.get("passed", 0),
        counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0),
        counts.get("skipped", 0),
    )


def main() -> int:
    budgets = tomllib.loads((ROOT / "tests/budgets.toml").read_text())
    python = [sys.executable, "-m"]
    rows = [
        run("lint", [sys.executable, "-c", LINT], budgets["lint"]),
        run("types", [*python, "mypy"], budgets["types"]),
        # A step of its own, so that what is built once counts against no group of tests.
        run("bed: prepare", [sys.executable, "bed/ctl", "prepare"], budgets["bed-prepare"]),
    ]

    def lane(groups: dict[str, list[str]]) -> list[Ran]:
        return [
            run(group, [*python, "pytest", "-rs", *paths], budgets[group]) for group, paths in groups.items()
        ]

    with ThreadPoolExecutor(max_workers=2) as lanes:
        for done in lanes.map(lane, (COMPUTING, WAITING)):
            rows += done
    return verdict(rows)


LINT = """
import subprocess, sys
for words in (["check", "."], ["format", "--check", "--quiet", "."]):
    code = subprocess.run([sys.executable, "-m", "ruff", *words]).returncode
    if code: sys.exit(code)
"""


def verdict(rows: list[Ran]) -> int:
    ci = os.environ.get("CI") == "true"
    bad = []
    for row in rows:
        over = row.took_s > row.budget_s
        words = ["ok" if row.code == 0 else "FAILED"]
        words += ["over its budget"] if over else []
        words += [f"{row.skipped} not run"] if row.skipped else []
        print(f"  {row.name:12} {row.took_s:6.1f} s of {row.budget_s:g}  {', '.join(words)}")
        if row.code or over or (ci and row.skipped):
            bad.append(row.name)
    passed, failed = sum(r.passed for r in rows), sum(r.failed for r in rows)
    skipped = sum(r.skipped for r in rows)
    if bad:
        print(f"not good: {', '.join(bad)}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
