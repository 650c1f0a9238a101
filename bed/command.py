"""Runs other programs: argument lists and a time limit come in, their output goes out.

A program that does not end in time is killed with everything in its process group. Nothing goes through a
shell of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bed.trouble import Trouble

# What is repeated of a program's own words: the end of it, where the cause stands.
TOLD_LETTERS_MAX = 2000


@dataclass(frozen=True)
class Ended:
    """How a program ended; `code` is negative where a signal ended it."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str

    def must(self, what: str) -> Ended:
        """Itself, where it went well; otherwise the trouble named by `what`."""
        if self.code != 0:
            raise Trouble(f"{what}: `{self.words[0]}` ended with {self.code}: {told(self.err or self.out)}")
        return self


def told(text: str) -> str:
    """The end of a program's output, without control letters: it goes to a terminal."""
    shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in text.strip())
    return shown[-TOLD_LETTERS_MAX:] or "it said nothing"


def run(
    words: Sequence[str],
    *,
    limit_s: float,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    given: str | None = None,
) -> Ended:
    """Runs one program to its end, or kills it and everything in its group after `limit_s`."""
    with subprocess.Popen(
        list(words),
        env=None if environ is None else dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate(given, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            raise Trouble(f"`{' '.join(words)[:200]}` did not end in {limit_s:g} s and was killed") from error
        finally:
            # Also after Ctrl-C: an interrupted build must leave nothing running.
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
    return Ended(tuple(words), child.returncode, out, err)


def alone(*words: str) -> list[str]:
    """The command in private mount and PID namespaces that end with whoever started them.

    Its mounts are never seen by the machine, and killing its first program ends all of it, so that neither an
    interrupted build nor a killed test run can leave a mount or a daemon behind.
    """
    return ["setpriv", "--pdeathsig=KILL", "--", *namespaces(*words)]


def namespaces(*words: str) -> list[str]:
    """The command in private mount and PID namespaces that end with their first program."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private", "--", *words]
