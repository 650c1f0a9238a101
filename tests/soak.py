"""`make soak`: the small closed world of the core's tests under many more seeds, for as long as one likes.

Prints the seed of a failure first and the line that repeats it; exits with 1 then.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from core.test_worlds import history


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=300)
    options = parser.parse_args(argv)
    started = time.monotonic()
    for seed in range(options.first, options.first + options.seeds):
        try:
            history(seed, cycles=options.cycles, lag_s=300 * (seed % 2))
        except AssertionError as error:
            print(f"seed {seed} failed: {error}")
            print(f"repeat it: python -m tests.soak --first {seed} --seeds 1 --cycles {options.cycles}")
            return 1
        if sys.stderr.isatty():
            print(f"\r\x1b[K{seed - options.first + 1} of {options.seeds} seeds", end="", file=sys.stderr)
    print(
        f"\n{options.seeds} seeds of {options.cycles} cycles: no breach, {time.monotonic() - started:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
