"""Reading the demand of a real schedd: ours beside "query every ad, evaluate, group", with the same binding.

`python -m bench.condor_demand` submits 100,000 idle jobs three times (20 shapes and 2,000 shapes, both with
three expression texts each, and 75,000 distinct texts), reads them both ways in processes of their own, and
prints seconds, peak memory and ratios. Both ways must find the same groups. It needs the bed's HTCondor.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.parts.condor import Pool

from bench.machine import header

JOBS = 100_000
TEXTS = 75_000
ROUNDS = 3
FASTER_MIN, SMALLER_MIN = 4.0, 5.0
SUBMIT_S_MAX = 900
MEASURE_S_MAX = 300
WATCH_S = 0.01
LIMITS = "\n".join(
    f"{name} = 10000000" for name in ("MAX_JOBS_PER_OWNER", "MAX_JOBS_SUBMITTED", "MAX_JOBS_PER_SUBMISSION")
)
SUBMIT = "executable = /bin/sleep\narguments = 600\ntransfer_executable = false\nrequest_disk = 1024\n"


@dataclass(frozen=True)
class Case:
    name: str
    shapes: int
    distinct: bool = False


CASES = (Case("20", 20), Case("2000", 2000), Case("75000 texts", 20, distinct=True))


def shapes(count: int) -> Iterable[tuple[int, int]]:
    return ((1 + n % 8, 512 + 4 * (n // 8)) for n in range(count))


def submissions(case: Case, jobs: int) -> tuple[str, ...]:
    """Submit files. Texts of a shape differ and amount to the same."""
    if not case.distinct:
        rows = [
            (cpus, text)
            for cpus, memory in shapes(case.shapes)
            for text in (f"{memory} * RequestCpus", f"RequestCpus * {memory}", str(memory * cpus))
        ]
        return (_submission(rows, jobs),)
    distinct = TEXTS * jobs // JOBS
    numbered = [(cpus, f"{memory} * RequestCpus + 0 * $(Process)") for cpus, memory in shapes(case.shapes)]
    alike = [(cpus, f"{memory} * RequestCpus") for cpus, memory in shapes(case.shapes)]
    return _submission(numbered, distinct), _submission(alike, jobs - distinct)


def _submission(rows: list[tuple[int, str]], jobs: int) -> str:
    listed = "\n".join(f"{cpus},{text}" for cpus, text in rows)
    asked = "request_cpus = $(c)\nrequest_memory = $(m)\n"
    return f"{SUBMIT}{asked}queue {jobs // len(rows)} c,m from (\n{listed}\n)\n"


def measured(way: str, address: str, *, memory: bool = False) -> dict[str, Any]:
    """One read in processes of its own; with `memory` their peak together, watching which makes it slower."""
    command = [sys.executable, "-m", "bench.condor_demand", "--way", way, "--address", address]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak_mib, deadline = 0.0, time.monotonic() + MEASURE_S_MAX
    while memory and run.poll() is None and time.monotonic() < deadline:
        peak_mib = max(peak_mib, _held_mib(run.pid))
        time.sleep(WATCH_S)
    out, err = run.communicate(timeout=MEASURE_S_MAX)
    if run.returncode:
        raise RuntimeError(err)
    found: dict[str, Any] = json.loads(out)
    return {**found, "peak_mib": peak_mib}


def _held_mib(pid: int) -> float:
    """By a process and its children, pages that they share counted once."""
    total_kib = 0
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in (str(pid), *children):
            rows = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
            total_kib += sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    except OSError:
        return 0.0  # One of them has just ended.
    return total_kib / 1024


def one_way(way: str, address: str) -> dict[str, Any]:
    """In a process of its own."""
    from glidepath.condor.reader import Reader
    from glidepath.condor.schedd import ScheddQueue

    queue = ScheddQueue(address)
    question = _question()  # Before the clock starts: it imports settings, which no child that reads does.
    began = time.perf_counter()
    if way == "ours":
        reader = Reader(queue)
        counts = Counter({key: row.idle for key, row in reader.read(question).tally.rows.items() if row.idle})
        took_s = time.perf_counter() - began
        again = time.perf_counter()
        changes = reader.read(question)
        extra = {"again_s": time.perf_counter() - again, "again_full": changes.full}
    else:
        counts, extra = _every_ad(queue, question), {}
        took_s = time.perf_counter() - began
    digest = hashlib.sha256(json.dumps(sorted((str(k), n) for k, n in counts.items())).encode()).hexdigest()
    groups = {"groups": len(counts), "jobs": sum(counts.values()), "digest": digest}
    return {"took_s": took_s, **groups, **extra}


def _question() -> Any:
    from glidepath.condor.reading import Question
    from glidepath.condor.settings import RUN_TIME_DEFAULT
    from glidepath.core.provision.offer import Offer
    from glidepath.core.quantity import Resources, SiteName

    sizes = {"small": Resources(2000, 4096, 10240), "big": Resources(64000, 262144, 102400)}
    offers = tuple(Offer(SiteName("a"), name, size) for name, size in sizes.items())
    return Question(offers=offers, terms={}, route="RequestK8SNamespace", run_names=RUN_TIME_DEFAULT)


def _every_ad(queue: Any, asked: Any) -> Counter[Any]:
    """What a provisioner does that thinks of nothing: every ad, each evaluated and matched; matches are
    remembered by requirements and request, as ours are."""
    from glidepath.condor.around import SELDOM
    from glidepath.condor.evaluate import owner_of, request_of, run_s_of
    from glidepath.condor.groups import Key
    from glidepath.condor.match import Matcher
    from glidepath.condor.reader import BASE_NAMES
    from glidepath.condor.refs import References

    matcher = Matcher(asked.offers, {}, route=asked.route, references=References())
    counts: Counter[Any] = Counter()
    for ad in queue.plain("JobStatus == 1", [*BASE_NAMES, *SELDOM, *asked.run_names]):
        owner_of(ad)
        request = request_of(ad)
        fit = matcher.fit(ad, request, now_s=0)
        counts[Key(request, fit.traits, run_s_of(ad, asked.run_names), fit.offers)] += 1
    return counts


def compared(case: Case, jobs: int) -> bool:
    """Both ways on one queue, in turns; the best of each, since all that disturbs makes slower."""
    with Pool("condor@bench") as pool:
        pool.up(extra_config=LIMITS, tied=True)
        began = time.monotonic()
        for text in submissions(case, jobs):
            path = pool.home("ann") / "jobs.sub"
            path.write_text(text)
            done = pool.run("condor_submit", "-terse", str(path), user="ann", timeout_s=SUBMIT_S_MAX)
            done.must("the jobs were not submitted")
        print(f"{case.name}: {jobs} jobs submitted in {time.monotonic() - began:.0f} s", flush=True)
        address = _address(pool)
        found: dict[str, list[dict[str, Any]]] = {"ours": [], "every ad": []}
        for _ in range(ROUNDS):
            for way, rows in found.items():
                rows.append(measured(way, address))
        peaks = {way: measured(way, address, memory=True)["peak_mib"] for way in found}
    best = {way: min(rows, key=lambda row: float(row["took_s"])) for way, rows in found.items()}
    for way, row in best.items():
        groups = f"{row['groups']} groups of {row['jobs']} jobs"
        print(f"  {way:9} {row['took_s']:6.2f} s {peaks[way]:6.0f} MiB, {groups}")
    again = min(row["again_s"] for row in found["ours"])
    ours, other = best["ours"], best["every ad"]
    faster, smaller = other["took_s"] / ours["took_s"], peaks["every ad"] / peaks["ours"]
    print(f"  {faster:.2f} times faster, {smaller:.1f} times less memory; changes alone in {again:.2f} s")
    if ours["digest"] != other["digest"]:
        print("  the groups differ")
        return False
    return faster >= 1.0 if case.distinct else faster >= FASTER_MIN and smaller >= SMALLER_MIN


def _address(pool: Pool) -> str:
    shown = pool.run("condor_status", "-schedd", "-af", "MyAddress").must("no schedd").out
    return shown.split()[0]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--only", choices=[case.name for case in CASES])
    parser.add_argument("--way", choices=("ours", "every ad"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.way:
        print(json.dumps(one_way(chosen.way, chosen.address)))
        return 0
    print(header("python -m bench.condor_demand"))
    met = [compared(case, chosen.jobs) for case in CASES if chosen.only in (None, case.name)]
    print("targets met" if all(met) else "targets missed")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
