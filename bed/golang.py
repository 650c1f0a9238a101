"""Builds programs from Go modules: a recipe comes in, one program goes out.

The recipe is a folder with go.mod and go.sum, which name every module and its checksum. What is fetched and
compiled is kept in a folder of the caller's, so that an interrupted build goes on where it stopped. Where
modules come from is the machine's own setting. The build runs behind everything else.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bed.cache import Say
from bed.command import run, told
from bed.machine import Machine
from bed.trouble import Trouble
from bed.versions import FILE

# Ten minutes of Kubernetes on two busy cores; an hour is a machine that is asked for too much at once.
BUILD_S_MAX = 3600
DOWNLOAD_S_MAX = 1200
# How often a long build says how far it is.
TELL_S = 20.0
COMPILED = re.compile(r"[\w.~/-]+")
SAID_LINES_MAX = 40


def obstacles(machine: Machine, least: tuple[int, ...]) -> list[str]:
    """Why this machine cannot build it; nothing where it can."""
    wanted = f"it is built from its source by Go {'.'.join(map(str, least))} or later"
    if not machine.go:
        return [f"no `go`, and {wanted}"]
    return [] if machine.go >= least else [f"Go {'.'.join(map(str, machine.go))}, and {wanted}"]


def must_name(recipe: Path, module: str, version: str) -> None:
    """Refuses a recipe that builds another version than the one file of versions says."""
    lines = (recipe / "go.mod").read_text(encoding="utf-8").splitlines()
    if not any([module, version] == line.removeprefix("require").split()[:2] for line in lines):
        raise Trouble(f"`{recipe / 'go.mod'}` does not name {module} {version}; mend it or {FILE}")


def environ(folder: Path) -> dict[str, str]:
    """The caller's own, because it says where modules come from, with folders of the bed and no C."""
    own = {
        "GOMODCACHE": str(folder / "mod"),
        "GOCACHE": str(folder / "build"),
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    return {"HOME": "/", **os.environ, **own}


def build(program: Path, recipe: Path, *, link: str, folder: Path, say: Say, package: str = ".") -> None:
    """Builds one program; `link` goes to the linker, `folder` keeps what is fetched and compiled."""
    flags = ["-mod=readonly", "-modcacherw"]
    listed = ["go", "list", *flags, "-deps", package]
    say(f"{program.name}: fetching modules")
    # Listing what is needed fetches just that; a whole download would take ten times as much.
    shown = run(listed, environ=environ(folder), folder=recipe, limit_s=DOWNLOAD_S_MAX)
    count = len(shown.must(f"the modules of `{program.name}` could not be had").out.split())
    say(f"{program.name}: compiling {count} packages, behind everything else on this machine")
    # Go itself is not left behind by a killed run; what it started ends with its own package.
    words = ["setpriv", "--pdeathsig=KILL", "--", "nice", "-n", "19", "go", "build", *flags]
    compiled = watched(
        [*words, "-buildvcs=false", "-trimpath", "-v", "-ldflags", link, "-o", str(program), package],
        environ=environ(folder),
        folder=recipe,
        tell=lambda number: say(f"{program.name}: compiled {number} packages"),
    )
    say(f"{program.name}: compiled {compiled} packages and linked them")


def watched(
    words: Sequence[str], *, environ: Mapping[str, str], folder: Path, tell: Callable[[int], None]
) -> int:
    """Runs a Go build to its end and tells from time to time how many packages it has named; that number."""
    lines: list[str] = []
    number, told_at = 0, time.monotonic()
    with subprocess.Popen(
        list(words),
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        late = threading.Timer(BUILD_S_MAX, _end, [child])
        late.start()
        try:
            assert child.stderr is not None
            for line in child.stderr:  # Ends with the build, which ends at its time limit.
                lines = [*lines[-SAID_LINES_MAX:], line]
                number += bool(COMPILED.fullmatch(line.strip()))
                if time.monotonic() - told_at >= TELL_S:
                    tell(number)
                    told_at = time.monotonic()
            child.wait()
        finally:
            overdue = not late.is_alive()
            late.cancel()
            _end(child)  # Also after Ctrl-C: an interrupted build must leave nothing running.
    if overdue:
        raise Trouble(f"`go build` did not end in {BUILD_S_MAX} s; run it again, it goes on where it was")
    if child.returncode != 0:
        raise Trouble(f"`go build` ended with {child.returncode}: {told(''.join(lines))}")
    return number


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
