"""`make test`: lint, types and every group of tests, each within its budget of tests/budgets.toml.

Three lanes at the same time: one of groups that mostly compute, two of groups that mostly wait for real
servers and for whole programs. It prints what was run, how long it took and what was not run; under CI=true
anything not run is a failure.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPUTING = {
    "core": ["tests/core", "tests/test_tidy.py", "tests/test_suite.py"],
    "docs": ["tests/test_docs.py"],
    "config": ["tests/config", "tests/test_plugins.py"],
    "store": ["tests/store", "tests/journal"],
    "embedded": ["tests/embedded", "tests/backends"],
    "agent": ["tests/agent"],
    "people": ["tests/people"],
    "cli": ["tests/cli"],
    "sim": ["tests/sim"],
    "schedule": ["tests/schedule"],
    "placing": ["tests/placing"],
    "account": ["tests/account"],
    "notices": ["tests/notices"],
    "serve": ["tests/serve"],
    "jobs": ["tests/jobs"],
}
# The longest first, so that none of them is what both lanes wait for in the end.
WAITING = {
    "sites": ["tests/sites"],
    "scenes": ["tests/scenes"],
    "pilot": ["tests/pilot"],
    "kube": ["tests/kube"],
    "grid": ["tests/grid"],
    "placed": ["tests/placed"],
    "jobs-real": ["tests/jobs_real"],
    "calls": ["tests/calls"],
    "whole": ["tests/whole"],
    "bed": ["tests/bed"],
    "batch": ["tests/batch", "tests/batch_backend"],
    "remote": ["tests/remote"],
    "cloud": ["tests/cloud"],
    "condor": ["tests/condor"],
    "jobs-in-pods": ["tests/cluster_real"],
    "ranks": ["tests/ranks"],
}
WAITING_LANES = 2
# Five times the budget: beyond that a hang is a hang, and the rest should still be run.
KILL_FACTOR = 5
# So many failed tests of real servers are run again, alone, to tell why (docs/decisions/0035).
UNSTEADY_MAX = 3
ALONE_TIMES = 2
ALONE_S_MAX = 900
# What pytest returns when it ran to its end and tests failed; anything else is a failure of the run itself.
TESTS_FAILED = 1
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+\.py::[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
_COUNT = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")


@dataclass(frozen=True)
class Ran:
    name: str
    code: int
    took_s: float
    budget_s: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()  # tests by name
    named: int = 0  # lines that name them; a test and its clearing away may both fail
    unsteady: tuple[str, ...] = ()  # failed beside others, and then passed alone each time

    @property
    def told_apart(self) -> bool:
        """Whether tests failed, and nothing else, and each of them is known by name."""
        return self.code == TESTS_FAILED and self.named == self.failed > 0


def counted(name: str, code: int, text: str, *, took_s: float, budget_s: float) -> Ran:
    """What pytest says of a group in its last lines."""
    counts: dict[str, int] = {}
    for number, word in _COUNT.findall("\n".join(text.strip().splitlines()[-3:])):
        counts[word.removesuffix("s") if word.startswith("error") else word] = int(number)
    names = _FAILED.findall(text)
    return Ran(
        name,
        code,
        took_s,
        budget_s,
        passed=counts.get("passed", 0),
        failed=counts.get("failed", 0) + counts.get("error", 0),
        skipped=counts.get("skipped", 0),
        failures=tuple(dict.fromkeys(names)),
        named=len(names),
    )


def run(name: str, command: list[str], budget_s: float) -> Ran:
    print(f".. {name} (budget {budget_s:g} s)", flush=True)
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=budget_s * KILL_FACTOR, check=False
        )
        code, text = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        said = (
            error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout or ""
        )
        code, text = 1, f"{said}\n{name} was ended after {budget_s * KILL_FACTOR:g} s"
    took_s = time.monotonic() - started
    told = text if code else "\n".join(text.strip().splitlines()[-3:])
    print(f"== {name}: {took_s:.0f} s\n{told}", flush=True)
    return counted(name, code, text, took_s=took_s, budget_s=budget_s)


def pytest(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-rsfE", *words]


def unlisted(files: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Files of tests that are in no group, and would never be run."""
    places = tuple(groups)
    return sorted(
        name
        for name in files
        if not any(name == place or name.startswith(f"{place.rstrip('/')}/") for place in places)
    )


def looked_at_alone(rows: list[Ran], run: Callable[[str, list[str], float], Ran] = run) -> list[Ran]:
    """A few tests of real servers that failed beside two other lanes are run again with nothing beside them.

    It makes nothing good: one that then passes each time is named as unsteady, which tells where to look.
    """
    due = [row for row in rows if row.name in WAITING and row.told_apart]
    if sum(len(row.failures) for row in due) > UNSTEADY_MAX:
        return rows
    steady = set()
    for row in due:
        command = pytest("-m", "real", *row.failures)
        again = [run(f"{row.name}, alone", command, ALONE_S_MAX / KILL_FACTOR) for _ in range(ALONE_TIMES)]
        if {(each.code, each.passed, each.skipped) for each in again} == {(0, len(row.failures), 0)}:
            steady.add(row.name)
    return [replace(row, unsteady=row.failures) if row.name in steady else row for row in rows]


def main() -> int:
    # A shell that starts us in the background ignores Ctrl-C for all that we start; tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    places = [path for groups in (COMPUTING, WAITING) for paths in groups.values() for path in paths]
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    if lost := unlisted(files, places):
        print(f"in no group of tests/suite.py, so that nobody would run them: {', '.join(lost)}")
        return 1
    budgets = tomllib.loads((ROOT / "tests/budgets.toml").read_text())
    rows = [
        run("lint", [sys.executable, "-c", LINT], budgets["lint"]),
        run("types", [sys.executable, "-m", "mypy"], budgets["types"]),
        # A step of its own, so that what is built once counts against no group of tests.
        run("bed: prepare", [sys.executable, "bed/ctl", "prepare"], budgets["bed-prepare"]),
    ]
    computing, waiting = deque(COMPUTING.items()), deque(WAITING.items())

    def lane(*queues: deque[tuple[str, list[str]]]) -> list[Ran]:
        """One group after the other, of the first queue that has one left."""
        done = []
        for _ in range(len(COMPUTING) + len(WAITING)):
            for queue in queues:
                with contextlib.suppress(IndexError):
                    group, paths = queue.popleft()
                    break
            else:
                break
            done.append(run(group, pytest(*paths), budgets[group]))
        return done

    with ThreadPoolExecutor(max_workers=1 + WAITING_LANES) as lanes:
        under_way = [lanes.submit(lane, computing, waiting)]
        under_way += [lanes.submit(lane, waiting) for _ in range(WAITING_LANES)]
        for done in under_way:
            rows += done.result()
    return verdict(looked_at_alone(rows))


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
        words = ["FAILED" if row.code else "ok"]
        words += ["over its budget"] if over else []
        words += [f"{row.skipped} not run"] if row.skipped else []
        words += [f"failed beside others, passed {ALONE_TIMES} times alone: {name}" for name in row.unsteady]
        print(f"  {row.name:12} {row.took_s:6.1f} s of {row.budget_s:g}  {', '.join(words)}")
        if row.code or over or (ci and row.skipped):
            bad.append(row.name)
    passed, failed = sum(r.passed for r in rows), sum(r.failed for r in rows)
    skipped = sum(r.skipped for r in rows)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processor time of all: {(spent.ru_utime + spent.ru_stime) / 60:.0f} min")
    if bad:
        print(f"not good: {', '.join(bad)}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
