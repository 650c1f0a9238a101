"""What a verb works with: the configuration in force, the open store, the jobs and the journal in it.

Options and environment come in, open doors go out and are closed at the end. The world's failures become
one line with what to do. It refuses to start anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from glidepath.cli.verb import Caller, Exit, Stop, Verb
from glidepath.cli.where import Where, where
from glidepath.clock import iso as iso

if TYPE_CHECKING:
    from glidepath.clock import SteadyClock
    from glidepath.config import ConfigError, Settings
    from glidepath.core.quantity import Instant
    from glidepath.jobs.stored import StoredDesk
    from glidepath.journal.entry import Entry
    from glidepath.journal.journal import Journal
    from glidepath.store.engine import Store
    from glidepath.store.jobs import JobStore

START = "start it with `glidepath up`"
PROBLEMS_SHOWN_MAX = 100


@dataclass(frozen=True)
class Located:
    """The home and the settings in force; nothing is opened yet."""

    where: Where
    settings: Settings

    @property
    def store_url(self) -> str:
        return self.settings.store.url or f"sqlite:///{self.where.home / 'glidepath.db'}"

    @property
    def store_file(self) -> Path | None:
        """The file of the store, where it is a file."""
        scheme, found, path = self.store_url.partition(":///")
        return Path(path) if found and scheme == "sqlite" else None


@dataclass(frozen=True)
class Session:
    """An open store and what is in it."""

    located: Located
    store: Store
    wall: Callable[[], float]
    sleep: Callable[[float], None]

    @property
    def where(self) -> Where:
        return self.located.where

    @cached_property
    def jobs(self) -> JobStore:
        from glidepath.store.jobs import JobStore

        return JobStore(self.store, self.clock)

    @cached_property
    def desk(self) -> StoredDesk:
        from glidepath.jobs.stored import StoredDesk

        place = self.located
        return StoredDesk(place.settings, self.store, place.where.home, wall=self.wall, sleep=self.sleep)

    @cached_property
    def clock(self) -> SteadyClock:
        """The timeline of the controllers, carried on from what they last wrote down."""
        from glidepath.journal.carried import CarriedClock

        return CarriedClock(self.store, wall=self.wall)()

    @cached_property
    def journal(self) -> Journal:
        from glidepath.journal.journal import Journal

        return Journal(self.store)

    def at_wall(self, wall_s: float) -> Instant:
        return self.clock.at_wall(wall_s)

    def latest(self) -> Entry:
        """The last cycle; where there is none, the next step is named."""
        entry = self.journal.latest()
        if entry is None:
            raise Stop("nothing has been decided yet: the journal is empty", hint=START)
        return entry


def located(verb: Verb) -> Located:
    """Find the home and read the configuration; every problem of it is told at once."""
    from glidepath.config import ConfigError, default_settings, load
    from glidepath.machine import machine

    place = where(verb.caller.environ, home=verb.given["home"], config=verb.given["config"])
    verb.logger.info("home: %s (from %s)", place.home, place.home_from)
    verb.logger.info("configuration: %s (from %s)", place.config or "none", place.config_from)
    if place.config is None:
        return Located(place, default_settings(**machine(place.home)))
    try:
        return Located(place, load(place.config).settings)
    except ConfigError as error:
        raise refused(verb.caller, error, "configuration") from None


def refused(caller: Caller, error: ConfigError, what: str) -> Stop:
    """Every problem of a file is told; the end that says how many there were."""
    for problem in error.problems[:PROBLEMS_SHOWN_MAX]:
        caller.say(str(problem))
    count = len(error.problems)
    many = "1 problem" if count == 1 else f"{count} problems"
    return Stop(f"the {what} has {many}; nothing was done", code=Exit.USAGE)


@contextmanager
def opened(
    verb: Verb, *, place: Located | None = None, write: bool = False, create: bool = False
) -> Iterator[Session]:
    """The store of this home. Only a verb that brings something new may make one."""
    place = place or located(verb)
    file = place.store_file
    if not create and file is not None and not file.exists():
        raise Stop(f"there is no store at `{file}` yet", hint=START, code=Exit.NOT_FOUND)
    # Imported here: the database toolkit is most of the start-up time of these verbs.
    from glidepath.store.engine import StoreError, open_store
    from glidepath.store.jobs import number_on
    from glidepath.store.migrations import migrate

    if create and file is not None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with open_store(place.store_url, read_only=not (write or create)) as store:
            migrate(store)
            if create:
                number_on(store, place.where.home)
            yield Session(place, store, verb.caller.wall, verb.caller.sleep)
    except StoreError as error:
        raise Stop(str(error)) from error


def login() -> str:
    """The name of the caller by the uid of this process; a variable of the environment could be anyone's."""
    import os
    import pwd

    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid{uid}"
