"""Whether plans are made by machine code: how much is to be planned comes in, the environment is set or not.

The compiler takes a minute the first time on a machine and seconds to be loaded each time. That pays for
many nodes and jobs; a handful is planned sooner without. It must be said before the scheduler is imported.
"""

from __future__ import annotations

import os
import sys

# With so few jobs a plan takes less than the machine code for it takes to be loaded.
JOBS_FEW = 300


def spare(jobs: int) -> None:
    """Do without machine code where few jobs are to be planned, unless the environment says otherwise."""
    if jobs <= JOBS_FEW and "numba" not in sys.modules:
        os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
