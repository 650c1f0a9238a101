"""EASY of AccaSim, as its own documentation has it used. Run by the interpreter of `.venv-bench`.

A log, a machine and an empty folder come in as JSON; jobs, processor seconds and the mean wait go out, in one
line of JSON. Its rows are read before the clock starts, and it writes no results, which would only slow it
down. It knows nothing of glidepath, whose libraries are not there.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

ROWS_MAX = 10_000_000
# It was written for a Python that still had these names here.
for _name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
    setattr(collections, _name, getattr(collections.abc, _name))


def from_memory(reader: Any) -> None:
    """All rows are read and parsed now, and handed over later."""
    rows = []
    for _ in range(ROWS_MAX):
        if not reader.submission_enabled:
            break
        rows.append(reader._read(0))
    waiting = iter([row for row in rows if row])

    def handed(_now: int = 0) -> Any:
        row = next(waiting, None)
        if row is None:
            reader.stop_submission()
        return row

    reader.submission_enabled, reader._read = True, handed


def main(words: list[str]) -> int:
    given = json.loads(words[-1])
    folder = Path(given["folder"])
    machine = {"groups": {"node": {"core": given["cores"]}}, "resources": {"node": given["nodes"]}}
    # No memory: with it, this version of its EASY divides by zero.
    machine |= {"equivalence": {"processor": {"core": 1}}, "start_time": 0}
    (folder / "machine.json").write_text(json.dumps(machine))
    base = "accasim.base"
    easy = importlib.import_module(f"{base}.scheduler_class").EASYBackfilling
    first_fit = importlib.import_module(f"{base}.allocator_class").FirstFit
    simulator = importlib.import_module(f"{base}.simulator_class").Simulator(
        given["log"],
        str(folder / "machine.json"),
        easy(first_fit()),
        RESULTS_FOLDER_PATH=str(folder / "results"),
        scheduling_output=False,
        statistics_output=False,
        show_statistics=False,
        LOG_LEVEL="ERROR",
    )
    logging.disable(logging.CRITICAL)
    from_memory(simulator.reader)
    events = simulator.mapper
    used = time.process_time()
    simulator.start_simulation()
    cpu_s = time.process_time() - used
    waits = events.wtimes
    found = {"jobs": len(waits), "cpu_s": cpu_s, "wait_s_mean": sum(waits) / len(waits)}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
