"""Jobs of a cluster here whose use is counted."""

from __future__ import annotations

from pathlib import Path

from placed.test_placed_whole import SMALL, run


def submit(home: Path, *words: str, script: str) -> int:
    told = ("--queue", "interactive", "--time", "30m", *SMALL, *words)
    return int(run(home, "job", "submit", *told, "--", "sh", "-c", script).split()[-1])
