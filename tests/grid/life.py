"""`python -m grid.life`: a glidepath that kills itself before or after one chosen side effect, for a test.

The doors are the real ones; one of them, or the journal, is wrapped by something that ends this very process
with SIGKILL. Without a point to die at it runs its cycles and says what it decided.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glidepath.assembly import doors_of, memory_after
from glidepath.clock import SteadyClock
from glidepath.config import load, partitions_of
from glidepath.core.cycle import Did, Plan
from glidepath.core.provision.memory import Memory
from glidepath.core.provision.pilot import PilotAction
from glidepath.core.provision.sight import Snapshot
from glidepath.journal.journal import Journal
from glidepath.loop import run_cycle
from glidepath.ports import Place
from glidepath.provisioner import Provisioner
from glidepath.store.engine import open_store
from glidepath.store.migrations import migrate

PACE_S = 1.0


class Fate:
    """Dies at `before` or `after` the first of the named effects; with no name it never does."""

    def __init__(self, when: str, effect: str) -> None:
        self.when, self.effect = when, effect

    def through(self, effect: str, call: Callable[[], Any]) -> Any:
        if effect == self.effect and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = call()
        if effect == self.effect and self.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return done


class DyingBackend:
    """A real backend whose writes go through a fate."""

    def __init__(self, real: Any, fate: Fate) -> None:
        self._real, self._fate = real, fate
        self.site, self.limit_s = real.site, real.limit_s

    def list(self, *, now: Any) -> Any:
        return self._real.list(now=now)

    def submit(self, spec: Any) -> Any:
        return self._fate.through("submit", lambda: self._real.submit(spec))

    def withdraw(self, target: Any) -> Any:
        return self._fate.through("withdraw", lambda: self._real.withdraw(target))

    def remove(self, target: Any) -> Any:
        return self._fate.through("clear", lambda: self._real.remove(target))

    def drain(self, target: Any) -> Any:
        return self._fate.through("drain", lambda: self._real.drain(target))

    def logs(self, name: Any, *, bytes_max: int) -> str:
        return str(self._real.logs(name, bytes_max=bytes_max))


class DyingRecorder:
    def __init__(self, journal: Journal, clock: SteadyClock, provisioner: Provisioner, fate: Fate) -> None:
        self.journal, self.clock, self.provisioner, self.fate = journal, clock, provisioner, fate

    def planned(self, snapshot: Snapshot, memory: Memory, plan: Plan[PilotAction]) -> None:
        def write() -> None:
            rules = self.provisioner.rules
            self.journal.planned(self.clock.moment(), snapshot, memory, rules=rules, plan=plan)

        # A cycle without a thing to do is written too; the one that matters is the one that acts.
        self.fate.through("planned" if plan.actions else "", write)

    def acted(self, plan: Plan[PilotAction], outcomes: tuple[Did, ...]) -> None:
        self.fate.through("acted" if plan.actions else "", lambda: self.journal.acted(plan.cycle, outcomes))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--cycles", type=int, default=60)
    parser.add_argument("--when", default="")
    parser.add_argument("--effect", default="none")
    given = parser.parse_args(words)
    settings = load(given.config).settings
    url = f"sqlite:///{given.home}/glidepath.db"
    fate = Fate(given.when, given.effect)
    with open_store(url) as store:
        migrate(store)
        journal = Journal(store)
        last = journal.latest()
        clock = SteadyClock(last.moment if last else None)
        memory = memory_after(last, clock.now())
        place = Place(given.home, url, partitions_of(settings))
        doors, rules, policy = doors_of(settings, place, clock, journal.pauses, store=store)
        doors.backends = {site: DyingBackend(real, fate) for site, real in doors.backends.items()}
        provisioner = Provisioner(doors, rules, policy)
        recorder = DyingRecorder(journal, clock, provisioner, fate)
        if last is not None and last.outcomes is None:
            provisioner.again(last.plan, last.rules)
            memory = memory_after(last, clock.now())
        for _ in range(given.cycles):
            cycle = run_cycle(provisioner, recorder, memory)
            memory = cycle.memory
            told = {"actions": [type(action).__name__ for action in cycle.plan.actions]}
            told["pilots"] = [f"{track.name} {track.phase}" for track in memory.tracks]
            print(json.dumps(told), flush=True)
            time.sleep(PACE_S)
        for pool in doors.pools.values():
            close = getattr(pool, "close", None)
            if close is not None:
                close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
