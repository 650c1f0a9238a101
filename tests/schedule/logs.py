"""Logs for the tests of the schedule: made-up ones always, the public ones where their folder is."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from glidepath.sim.rerun.trace import Trace

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(os.environ.get("GLIDEPATH_TRACES") or ROOT.parent / "shared" / "traces")
# The published tables can only be made from the public logs, which are not part of the project.
PUBLIC = FOLDER.is_dir()

SDSC = "SDSC-SP2-1998-4.2-cln.swf.gz"
CTC = "CTC-SP2-1996-3.1-cln.swf.gz"
HPC2N = "HPC2N-2002-2.2-cln.swf.gz"
LUBLIN_1 = "lublin_256.swf.gz"
LUBLIN_2 = "lublin_256_new2.swf.gz"


def log_of(*jobs: tuple[int, int, int, int], users: tuple[int, ...] = ()) -> Trace:
    """Jobs as (submit, run, limit, processors), in order of arrival."""
    columns = np.array(jobs, np.int64).reshape(-1, 4)
    user = np.array(users or [1] * len(jobs), np.int64)
    return Trace(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], user)


@st.composite
def logs(draw: st.DrawFn, *, procs_max: int = 8, jobs_max: int = 40) -> Trace:
    """Crowded little logs: many jobs at the same instant, limits too long and too short, jobs of no time."""
    job = st.tuples(
        st.integers(0, 6),
        st.integers(0, 12),
        st.integers(1, 15),
        st.integers(1, procs_max),
        st.integers(0, 3),
    )
    drawn = draw(st.lists(job, min_size=1, max_size=jobs_max))
    columns = np.array(drawn, np.int64)
    return Trace(np.cumsum(columns[:, 0]), *(columns[:, at] for at in (1, 2, 3, 4)))


def crowd(seed: int, jobs: int, procs: int) -> Trace:
    """A long made-up log with a queue that grows and drains."""
    draw = np.random.default_rng(seed)
    gaps = draw.exponential(60, jobs).astype(np.int64)
    run = draw.lognormal(5, 2, jobs).astype(np.int64)
    limit = np.maximum(1, run * draw.integers(1, 6, jobs))
    size = np.minimum(procs, 2 ** draw.integers(0, 6, jobs))
    return Trace(np.cumsum(gaps), run, limit, size.astype(np.int64), draw.integers(0, 20, jobs))
