"""Preparing, starting and stopping, the same for every part: instances come in, states go out.

One run at a time works on one run folder. A start that fails is undone before it is told, with the ends of
the logs, and a stop that leaves something says what.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator

from bed.cache import Say, locked
from bed.leaks import marked, naming
from bed.machine import Machine
from bed.parts import Part
from bed.place import Instance, Place
from bed.running import State, log_ends, send, state_of
from bed.trouble import Trouble

POLL_S = 0.05
# Processes that were killed are gone at once; the rest is for a machine that is busy.
LEAVE_S_MAX = 20


@contextlib.contextmanager
def alone_in(place: Place, say: Say) -> Iterator[None]:
    """One run at a time in a run folder; the lock is in the cache, because a run folder leaves nothing."""
    name = "run-" + hashlib.sha256(str(place.run).encode()).hexdigest()[:12]
    with locked(place.cache / "locks" / name, say, f"the bed in {place.run}"):
        yield


def prepare(part: Part, machine: Machine, place: Place, say: Say) -> None:
    if part.prepared(place):
        say("; ".join([f"{part.name}: cached", *part.lacking(place)]))
        return
    refuse_where_it_cannot_be(part, machine, place)
    begun = time.monotonic()
    part.prepare(machine, place, say)
    say(f"{part.name}: prepared in {time.monotonic() - begun:.1f} s")


def refuse_where_it_cannot_be(part: Part, machine: Machine, place: Place) -> None:
    if reasons := part.obstacles(machine, place):
        raise Trouble(f"this machine cannot host `{part.name}`: {'; '.join(reasons)}")


def up(part: Part, instance: Instance, say: Say, start: Callable[[], State]) -> State:
    """The state of the instance, which is started where it is not up; `start` starts it and waits for it."""
    with alone_in(instance.place, say):
        state = state_of(instance)
        if state and state.alive():
            return state
        if not part.prepared(instance.place):
            prepare(part, Machine.here(), instance.place, say)
        refuse_where_it_cannot_be(part, Machine.here(), instance.place)
        remove(part, instance)  # What is left of a server that died must not meet the new one.
        instance.folder.mkdir(parents=True)
        for folder in (instance.place.run, instance.folder):
            folder.chmod(0o755)  # Servers and tools of other users must get there, whatever the umask.
        try:
            return start()
        except BaseException as error:
            logs = log_ends(instance.folder / "log")
            remove(part, instance)
            if isinstance(error, Trouble):
                raise Trouble(f"{error}\n{logs}") from error
            raise


def down(part: Part, instance: Instance, say: Say) -> bool:
    """Whether there was something to stop; afterwards there is nothing left of it, or trouble."""
    with alone_in(instance.place, say):
        there = instance.folder.exists() or bool(marked(instance.folder))
        remove(part, instance)
        return there


def remove(part: Part, instance: Instance) -> None:
    """Ends everything of an instance, takes its folder away, and looks whether something is left."""
    if instance.folder.exists() and not os.access(instance.folder, os.W_OK):
        raise Trouble(f"`{instance.folder}` belongs to another user; run this as the user who started it")
    part.down(instance)
    until = time.monotonic() + LEAVE_S_MAX
    while pids := marked(instance.folder):
        for pid in pids:
            send(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise Trouble(f"`{instance.name}`: still there after they were killed: {pids}")
        time.sleep(POLL_S)
    shutil.rmtree(instance.folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        instance.place.run.rmdir()  # The last one takes the run folder with it.
    # Not started by the bed, so not ended by it: it may be somebody's shell or another test's pilot.
    strangers = naming(str(instance.folder))
    if instance.folder.exists() or strangers:
        rest = [*map(str, strangers), *([f"folder {instance.folder}"] if instance.folder.exists() else [])]
        raise Trouble(f"`{instance.name}` is down, but something still uses it:\n  " + "\n  ".join(rest))
