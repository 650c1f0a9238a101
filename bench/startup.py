"""`glidepath --help` beside a bare `python -c pass`, interleaved; target at most 80 ms more."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from bench.machine import header

OVER_MS_MAX = 80


def took_ms(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    return (time.perf_counter() - started) * 1000


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args(argv)
    print(header("python -m bench.startup"))
    bare, ours = [], []
    for _ in range(options.runs):
        bare.append(took_ms([sys.executable, "-c", "pass"]))
        ours.append(took_ms([sys.executable, "-m", "glidepath", "--help"]))
    over = statistics.median(ours) - statistics.median(bare)
    print(
        f"bare python: median {statistics.median(bare):.0f} ms; glidepath --help: median "
        f"{statistics.median(ours):.0f} ms, best {min(ours):.0f} ms; {over:.0f} ms more "
        f"(target {OVER_MS_MAX} ms)"
    )
    return 0 if over <= OVER_MS_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
