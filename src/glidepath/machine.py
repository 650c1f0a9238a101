"""The size of this machine, for the embedded default. Nothing comes in but a folder; whole numbers go out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def machine(home: Path) -> dict[str, int]:
    """CPUs that this process may use, memory, and disk free where the home is or will be."""
    near = next((path for path in (home, *home.parents) if path.exists()), Path("/"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory // 1024**2,
        "disk_mib": shutil.disk_usage(near).free // 1024**2,
    }
