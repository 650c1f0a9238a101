"""Whether plans are made by machine code: how much is to be planned comes in, and what was made here before.

The compiler takes a minute of a processor the first time on a machine. Until that is done, beside and at the
lowest priority, plans are made by the same loops as they are written: a hundred times slower, and at once.
Whether it was done is known by a mark beside the machine code. It must be said before the scheduler is
imported; `NUMBA_DISABLE_JIT` in the environment says it for good, 1 for never and 0 for always.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# With so few jobs a plan takes less than the machine code for it takes to be loaded.
JOBS_FEW = 300
STOP_S_MAX = 5.0
LOWEST = 19
PR_SET_PDEATHSIG = 1
_SCHEDULE = Path(__file__).parent / "core" / "schedule"
_WORD = "NUMBA_DISABLE_JIT"
_FOLDER = "NUMBA_CACHE_DIR"


def spare(jobs: int) -> bool:
    """Do without machine code where few jobs are to be planned, or where it would have to be made first.

    Whether that is so. Nothing changes once the scheduler has been imported.
    """
    if _WORD in os.environ or "glidepath.core.schedule.placing" in sys.modules:
        return False
    if jobs > JOBS_FEW and is_made():
        return False
    from glidepath.core.schedule.compiled import leave_plain

    leave_plain()
    return True


def is_made() -> bool:
    """Whether machine code for this program was made on this machine."""
    try:
        return _mark_path().exists()
    except PackageNotFoundError:
        return False


def _mark() -> str:
    """What machine code is good for: program, compiler, processor."""
    found = hashlib.sha256(version("numba").encode())
    found.update(f"{sys.version} {_processor()}".encode())
    for path in sorted(_SCHEDULE.glob("*.py")):
        about = path.stat()
        found.update(f"{path.name} {about.st_mtime_ns} {about.st_size}".encode())
    return found.hexdigest()[:16]


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split("\n")
        return "".join(
            sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
        )
    return ""


def _mark_path() -> Path:
    """Where numba keeps its own, so that whoever throws that away throws the mark away, too."""
    folder = os.environ.get(_FOLDER)
    return Path(folder or _SCHEDULE / "__pycache__") / f"glidepath-{_mark()}.made"


def keep_in(home: Path) -> None:
    """Where the program's own folder cannot be written, machine code is kept in the home."""
    if not os.access(_SCHEDULE, os.W_OK):
        os.environ.setdefault(_FOLDER, str(home / "machine-code"))


def make(parent: int) -> None:
    """What the child does, behind everything else on this machine: it runs every loop, which makes it."""
    os.nice(LOWEST)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    from glidepath.core.schedule.rehearsal import rehearse

    rehearse()
    path = _mark_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


class Making:
    """Machine code, made by a child where it is not there, and taken up then. `look` now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun = False
        self._child: subprocess.Popen[bytes] | None = None

    def look(self, *, wanted: bool) -> None:
        """Never waits. By the thread that lives as long as we do: the child ends with it."""
        if not self._begun and wanted:
            self._begun = True
            self._begin()
        child = self._child
        if child is None or child.poll() is None:
            return
        self._child = None
        if child.returncode:
            why = f"its compiler ended with code {child.returncode}"
            self._say(f"plans are made without machine code, which could not be made: {why}")
            return
        self._taken_up()

    def _begin(self) -> None:
        if find_spec("numba") is None:
            return
        if is_made():
            self._taken_up()
            return
        self._say(
            "machine code for plans is made beside, once on this machine and for about a minute; until then "
            "plans are made without it"
        )
        self._child = subprocess.Popen(
            [sys.executable, "-c", f"from glidepath.machinecode import make; make({os.getpid()})"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _taken_up(self) -> None:
        # Loading takes a second or two, in which plans go on.
        threading.Thread(target=self._take_up, name="machine code", daemon=True).start()

    def _take_up(self) -> None:
        from glidepath.core.schedule.compiled import take_up
        from glidepath.core.schedule.rehearsal import rehearse

        take_up()
        rehearse()
        self._say("plans are made by machine code from now on")

    def stop(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait(STOP_S_MAX)
