"""The line that every measurement begins with: what was run, on which commit, on which machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def header(command: str) -> str:
    return f"$ {command}\ncommit {_commit()}; {_machine()}"


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, timeout=10
    )
    return found.stdout.strip() or "unknown"


def _machine() -> str:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"Python {platform.python_version()}, {_cpu()}, {os.cpu_count()} cores, {memory_gib:.0f} GiB"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def status_kib(name: str) -> int:
    """A line of what the kernel says of this program's memory: `VmRSS`, or `VmHWM` for the peak."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{name}:"))
