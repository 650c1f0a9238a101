"""How soon a submitted job has its pilot asked for while 100,000 others wait, and what the schedd pays.

`python -m bench.condor_reaction` runs a whole `glidepath up` beside a real pool, submits jobs of new shapes
at odd moments, and takes the time from the start of `condor_submit` until the site was asked for the pilot.
The processor time of the schedd is compared with its time before glidepath ran. The published rules look
every 120 s (PRP) and every 300 s (pyglidein). It needs the bed's HTCondor.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bed.parts.condor import Pool

from bench.condor_demand import LIMITS, SUBMIT, SUBMIT_S_MAX
from bench.machine import header

WAITING = 100_000
SAMPLES = 20
P95_S_MAX = 5.0
SHARE_MAX = 0.05
BASELINE_S = 30
GAP_S = (4.0, 14.0)  # between two submissions, drawn at random so that they meet every phase of a cycle
WAIT_S_MAX = 60.0
POLL_S = 0.02
RIGHTS = ("ADVERTISE_STARTD", "ADVERTISE_MASTER")
CONFIG = """
[cycle]
min = "2s"
deadline = "15s"

[pools.bed]
collector = "{address}"

[pools.bed.condor]
trust_domain = "bed.example"
htcondor = "{tree}"

[pools.bed.condor.tokens]
file = "{token}"

[sites.here]
kind = "local"

[sites.here.offers.small]
cpus = 1
memory = "1GiB"
disk = "2GiB"
lifetime = "1h"
idle = "10s"

[sites.here.offers.small.condor]
lines = ["NETWORK_INTERFACE = 127.0.0.1"]
"""


def cpu_s(pids: list[int]) -> float:
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    return ticks / os.sysconf("SC_CLK_TCK")


def share(pool: Pool, span_s: float) -> float:
    began, used = time.monotonic(), cpu_s(pool.processes("schedd"))
    time.sleep(span_s)
    return (cpu_s(pool.processes("schedd")) - used) / (time.monotonic() - began)


def asked_at(home: Path, known: set[str], since: float) -> float:
    """When the site was asked for a pilot that was not there before: its specification is written first."""
    while time.time() - since < WAIT_S_MAX:
        folder = home / "pilots"
        fresh = [each for each in folder.iterdir() if each.name not in known] if folder.exists() else []
        for each in fresh:
            spec = each / "spec.json"
            if spec.exists():
                known.add(each.name)
                return spec.stat().st_mtime
        time.sleep(POLL_S)
    raise TimeoutError(f"no pilot was asked for within {WAIT_S_MAX:g} s")


def wait_in_vain(pool: Pool, count: int) -> None:
    """So many jobs that fit nowhere."""
    many = pool.home("ann") / "many.sub"
    many.write_text(f"{SUBMIT}request_memory = 1024 * 1024\nqueue {count}\n")
    done = pool.run("condor_submit", "-terse", str(many), user="ann", timeout_s=SUBMIT_S_MAX)
    done.must("the jobs that wait were not submitted")


def token_in(home: Path, pool: Pool) -> Path:
    token = home / "token"
    token.write_text(pool.token("glidepath-bed@bed.example", RIGHTS) + "\n")
    token.chmod(0o600)
    return token


def p95_of(took: list[float]) -> float:
    return took[min(len(took) - 1, int(0.95 * len(took)))]


def sampled(pool: Pool, home: Path, samples: int) -> list[float]:
    known: set[str] = set()
    took = []
    draw = random.Random(1)
    for number in range(samples):
        time.sleep(draw.uniform(*GAP_S))
        path = pool.home("ben") / "one.sub"
        # It runs until the end, so that no pilot is free for the next one.
        path.write_text(f"{SUBMIT}request_memory = {300 + number}\nqueue\n")
        known.update(each.name for each in (home / "pilots").glob("*"))
        began = time.time()
        pool.run("condor_submit", "-terse", str(path), user="ben").must("the job was not submitted")
        took.append(asked_at(home, known, began) - began)
        print(f"{number + 1} of {samples}: {took[-1]:.2f} s", file=sys.stderr, flush=True)
    return sorted(took)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    given = parser.parse_args(words)
    print(header("python -m bench.condor_reaction"))
    home = Path(tempfile.mkdtemp(prefix="gp-"))
    with Pool("condor@bench") as pool:
        pool.up(extra_config=LIMITS, tied=True)
        wait_in_vain(pool, given.waiting)
        token = token_in(home, pool)
        config = home / "glidepath.toml"
        config.write_text(CONFIG.format(address=pool.address, tree=pool.host_tree(), token=token))
        before = share(pool, BASELINE_S)
        command = [sys.executable, "-m", "glidepath", "up", "--home", str(home), "--config", str(config)]
        run = subprocess.Popen([*command, "--plain"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(10)
            began, used = time.monotonic(), cpu_s(pool.processes("schedd"))
            took = sampled(pool, home, given.samples)
            after = (cpu_s(pool.processes("schedd")) - used) / (time.monotonic() - began)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(60)
            shutil.rmtree(home, ignore_errors=True)
    p95 = p95_of(took)
    ours = after - before
    print(f"{given.waiting:,} jobs wait; {len(took)} submissions of new shapes at odd moments")
    print(f"from condor_submit to the pilot asked for: median {took[len(took) // 2]:.2f} s, p95 {p95:.2f} s")
    print(f"(target {P95_S_MAX:g} s; PRP looks every 120 s: {120 / p95:.0f}x; pyglidein every 300 s)")
    print(
        f"the schedd: {before:.1%} of a core before, {after:.1%} with glidepath and the jobs: {ours:.1%} more"
    )
    print(f"(target {SHARE_MAX:.0%})")
    return 0 if p95 <= P95_S_MAX and ours <= SHARE_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
