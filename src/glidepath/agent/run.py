"""The agent as a program: turn after turn until it is told to stop, or once for a cron job.

A server that is away is asked less and less often, and nothing is done meanwhile. Pilots are left alone when
the agent ends: they are the site's, and the next agent finds them.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from glidepath.agent.downtime import downtimes_of
from glidepath.agent.drop import DropExchange
from glidepath.agent.exchange import CutOff, Exchange, HttpExchange
from glidepath.agent.keep import Keep
from glidepath.agent.turn import Agent, Turned
from glidepath.clock import SteadyClock
from glidepath.config.agent import LoadedAgent, agent_kind_settings
from glidepath.core.provision.offer import Limits
from glidepath.core.quantity import SiteName
from glidepath.plugins import BACKENDS, load
from glidepath.ports import WORLD_ERRORS, Backend, BackendKind, Place

# After something was done the server is told soon: its jobs wait for the news.
SOON_S = 2.0
# A one-shot tells what came of its orders, and of the orders that this brought, and then it is enough.
TURNS_ONCE_MAX = 3
# Agents that were started together must not call together for ever.
JITTER = 0.1
# Of a daemon that turns every second: longer than any machine lasts.
TURNS_MAX = 1 << 40

Say = Callable[[str], None]


@dataclass(slots=True)
class Told:
    """Whether we were told to stop."""

    stop: threading.Event

    @contextmanager
    def watched(self) -> Iterator[Told]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        old = {number: signal.signal(number, lambda *_: self.stop.set()) for number in numbers}
        try:
            yield self
        finally:
            for number, before in old.items():
                signal.signal(number, before)


def agent_of(loaded: LoadedAgent, home: Path) -> Agent:
    """The parts put together; nothing is opened or asked yet."""
    settings = loaded.settings
    kind = cast("BackendKind", load(BACKENDS, settings.kind))
    backend: Backend = kind(SiteName(settings.site), agent_kind_settings(settings), Place(home, ""))
    exchange: Exchange
    if settings.drop:
        exchange = DropExchange(loaded.drop_path, settings.site, loaded.token_path)
    else:
        assert settings.server is not None
        exchange = HttpExchange(
            settings.server,
            settings.site,
            loaded.token_path,
            ca_file=settings.ca_file,
            timeout_s=float(settings.timeout),
        )
    keep = Keep(home)
    agent = Agent(backend, exchange, keep, SteadyClock(), limits=_limits(loaded))
    agent.downtimes = lambda: downtimes_of(settings.downtimes, keep.closed(), wall=time.time())
    return agent


def _limits(loaded: LoadedAgent) -> Limits:
    own = loaded.settings.limits
    return Limits(own.live_max, own.pending_max, own.per_cycle_max, own.per_second_max)


def once(agent: Agent, say: Say) -> int:
    """For cron: call, do, and say what came of it. An exit code."""
    for _ in range(TURNS_ONCE_MAX):
        try:
            turned = agent.turn()
        except CutOff as error:
            say(str(error))
            return 1
        except WORLD_ERRORS as error:
            say(f"{error}; nothing was started")
            return 1
        _tell(turned, say)
        if turned.waiting or not turned.acted:
            return 0
    return 0


def forever(agent: Agent, loaded: LoadedAgent, say: Say, *, told: Told) -> int:
    """Until we are told to stop, or the server does not know us any more."""
    poll_s, longest_s = float(loaded.settings.poll), float(loaded.settings.poll_max)
    wait_s = poll_s
    said = ""
    for _ in range(TURNS_MAX):
        try:
            turned = agent.turn()
        except WORLD_ERRORS as error:
            # Also where we are cut off: a new token may come, and calling now and then is cheap.
            wait_s = min(longest_s, max(poll_s, wait_s * 2))
            if str(error) != said:
                said = str(error)
                say(f"{said}; nothing is started until the server answers")
        else:
            if said:
                say("the server answers again")
                said = ""
            _tell(turned, say)
            wait_s = max(poll_s, float(turned.call_again_s))
        soon = not said and turned.acted
        if told.stop.wait(SOON_S if soon else wait_s * random.uniform(1 - JITTER, 1 + JITTER)):
            return 0
    return 0


def _tell(turned: Turned, say: Say) -> None:
    for line in turned.said:
        say(line)
    if turned.waiting:
        say("the answer to the last report is still to come")
