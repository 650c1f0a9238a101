"""`glidepath up`: the controllers on this machine, from the first lock to the last pilot.

Options come in, an exit code goes out. Everything is opened here and closed here; deciding and doing happen
in the loop. One process owns a store: on SQLite a second one is told who, on PostgreSQL it stands by.
"""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import ExitStack
from pathlib import Path

from glidepath.assembly import close_doors, doors_of, memory_after
from glidepath.clock import Moment, SteadyClock
from glidepath.config import ConfigError, Loaded, Settings, Watcher, default_settings, load, partitions_of
from glidepath.journal.entry import Entry
from glidepath.journal.journal import Journal
from glidepath.machine import machine
from glidepath.plugins import PluginError
from glidepath.ports import Place
from glidepath.provisioner import Provisioner
from glidepath.pulse import Pulse
from glidepath.running import Controllers, Signals, UpOptions, sleep_until
from glidepath.store.engine import Store, StoreError, StoreUnwritable, open_store
from glidepath.store.jobs import number_on
from glidepath.store.lease import Held, take
from glidepath.store.migrations import migrate
from glidepath.view import View

# A leader that is paused for longer than this loses the store to one that stands by.
LEASE_S = 30.0
STAND_BY_S = 5.0
# An older store is brought up to date in this time, and a server that is not there is told.
START_S_MAX = 600.0
# Asking for the lease once more, by a server that takes its time.
ASK_AGAIN_S_MAX = 120.0


def holder() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()} pid {os.getpid()}"


def loaded(options: UpOptions) -> tuple[Settings, Loaded | None]:
    if options.config is None:
        return default_settings(**machine(options.home)), None
    found = load(options.config)
    return found.settings, found


def store_url_of(settings: Settings, home: Path) -> str:
    return settings.store.url or f"sqlite:///{home / 'glidepath.db'}"


def run(options: UpOptions, view: View) -> int:
    try:
        with Signals().watched() as signals, ExitStack() as closing:
            closing.callback(view.close)
            return _run(options, view, signals, closing)
    except ConfigError as error:
        for problem in error.problems:
            view.say(str(problem))
        view.say("the configuration is not usable; nothing was started")
        return 2
    except (StoreError, PluginError, OSError, ValueError) as error:
        view.say(f"{error}")
        return 1


def _run(options: UpOptions, view: View, signals: Signals, closing: ExitStack) -> int:
    settings, found = loaded(options)
    options.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    pulse = _pulse(options, closing)
    pool_url = store_url_of(settings, options.home)
    # A shadow keeps its own journal: it must not touch that of the one it watches.
    url = f"sqlite:///{options.home / 'shadow.db'}" if options.shadow else pool_url
    store = closing.enter_context(open_store(url))
    migrate(store)
    number_on(store, options.home)
    lease = _owner(store, view, signals, pulse)
    if lease is None:
        return 0 if signals.count else 1
    closing.callback(lease.release)
    if not options.shadow:
        pulse.start(owner=True)
    journal = Journal(store, hold=lease.hold)
    last = _last_entry(journal, view)
    clock = SteadyClock(_pool_moment(pool_url) if options.shadow else last.moment if last else None)
    up = Controllers(
        options=options,
        view=view,
        signals=signals,
        settings=settings,
        watcher=Watcher(options.config, found) if options.config else None,
        place=Place(options.home, pool_url, partitions_of(settings), ours=lease.check),
        store=store,
        lease=lease,
        journal=journal,
        clock=clock,
        memory=memory_after(last, clock.now(), cycle=_newest(journal)),
        last=last,
        beat=pulse.beat,
    )
    return up.run()


def _pulse(options: UpOptions, closing: ExitStack) -> Pulse:
    """Beats from here on; a shadow's is not told, since its home is that of another."""
    pulse = Pulse(options.home)
    pulse.beat("opening the store", START_S_MAX)
    if not options.shadow:
        closing.callback(pulse.stop)
        pulse.start()
    return pulse


def _pool_moment(url: str) -> Moment | None:
    """The time that the watched glidepath goes by; its jobs and slots carry instants of that timeline."""
    try:
        with open_store(url, read_only=True) as store:
            migrate(store)
            headers = Journal(store).headers(limit=1)
            return headers[0].moment if headers else None
    except StoreError:
        return None


def plan_once(options: UpOptions) -> Entry:
    """Look at everything and decide as the next cycle would, without doing or recording anything."""
    settings, _ = loaded(options)
    url = store_url_of(settings, options.home)
    with open_store(url, read_only=True) as store:
        migrate(store)
        journal = Journal(store)
        last = journal.latest()
        clock = SteadyClock(last.moment if last else None)
        memory = memory_after(last, clock.now())
        place = Place(options.home, url, partitions_of(settings))
        doors, rules, policy = doors_of(settings, place, clock, journal.pauses, store=store)
        provisioner = Provisioner(doors, rules, policy)
        try:
            snapshot = provisioner.observe(memory)
            picture = provisioner.look(snapshot, memory)
            plan = provisioner.check(picture, provisioner.decide(picture))
        finally:
            close_doors(doors)
        return Entry(plan.cycle, clock.moment(), journal.version, snapshot, memory, rules, plan, None)


def _owner(store: Store, view: View, signals: Signals, pulse: Pulse) -> Held | None:
    """The lease of the store. SQLite has one owner and says who; PostgreSQL lets others stand by."""
    told = ""
    while not signals.count:
        pulse.beat(f"standing by: {told}" if told else "asking for the store", ASK_AGAIN_S_MAX)
        try:
            found = take(store, holder(), ttl_s=LEASE_S)
        except StoreUnwritable as error:
            if not told:
                raise
            # Whoever stands by is needed most when the server has just been away.
            why = f"{error}"
        else:
            if isinstance(found, Held):
                return found
            if store.path is not None:
                view.say(
                    f"another glidepath owns this store: {found.holder} (`{store.path}`); nothing was started"
                )
                return None
            why = f"{found.holder} owns the store"
        if why != told:
            told = why
            view.say(f"standing by: {why}")
        sleep_until(STAND_BY_S, lambda: bool(signals.count))
    return None


def _last_entry(journal: Journal, view: View) -> Entry | None:
    try:
        last = journal.latest()
        if last is not None:
            journal.recover(last)
        return last
    except (ValueError, LookupError) as error:
        view.say(f"the journal's last cycle cannot be read ({error}); starting without memory")
        return None


def _newest(journal: Journal) -> int:
    """The number of the newest kept cycle, also when its contents cannot be read."""
    headers = journal.headers(limit=1)
    return headers[0].cycle if headers else 0
