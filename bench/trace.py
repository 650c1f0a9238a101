"""A trace of ten million rows, read to the end: rows per second, and its memory, which must not grow.

The rows are made up by a child and come through a pipe, so that no file of a gigabyte is needed.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.machine import header
from glidepath.core.quantity import PoolName, Resources, Shape
from glidepath.sim.swf import SwfOptions, SwfTrace

GROWTH_MIB_MAX = 16
FIRST = 100_000  # by then everything that stays is there


def write_rows(pipe: Path, rows: int) -> None:
    with pipe.open("w", encoding="ascii") as out:
        out.write("; made up\n")
        for number in range(rows):
            out.write(
                f"{number + 1} {number // 3} 5 {60 + number % 900} 1 -1 2048 1 3600 4096 1 {number % 200} "
                "1 1 1 1 -1 -1\n"
            )


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args(argv)
    print(header("python -m bench.trace"))
    with tempfile.TemporaryDirectory() as folder:
        pipe = Path(folder, "trace.swf")
        os.mkfifo(pipe)
        child = os.fork()
        if child == 0:
            try:
                write_rows(pipe, options.rows)
            finally:
                os._exit(0)
        shape = Shape(Resources(1000, 1024))
        early_mib, count, started = 0.0, 0, time.monotonic()
        for _ in SwfTrace(pipe, SwfOptions(pool=PoolName("pool"), shape=shape)):
            count += 1
            if count == min(FIRST, options.rows):
                early_mib = peak_mib()
        took_s = time.monotonic() - started
        os.waitpid(child, 0)
    grown_mib = peak_mib() - early_mib
    print(f"{count:,} rows in {took_s:.0f} s: {count / took_s:,.0f} rows/s")
    print(
        f"peak memory {early_mib:.0f} MiB after {FIRST:,} rows, {grown_mib:.1f} MiB more at the end "
        f"(target: at most {GROWTH_MIB_MAX} MiB more)"
    )
    return 0 if count == options.rows and grown_mib <= GROWTH_MIB_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
