"""What the demand server does for a caller, whatever carried the words: who it is, what it gets.

A token and a body come in, an answer goes out as a value. It refuses to know HTTP and files.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from glidepath.called.late import LateAnswer
from glidepath.called.post import Late, Post
from glidepath.called.settings import CalledSettings
from glidepath.called.tray import Step, Terms
from glidepath.called.words import Orders, Report
from glidepath.config import ConfigError, Settings, Watcher, kind_settings
from glidepath.config.tables import rebuilt
from glidepath.core.quantity import SiteName
from glidepath.journal.carried import CarriedClock
from glidepath.store.engine import Store, StoreError
from glidepath.store.site_tokens import AGENT, SiteToken, SiteTokens

KIND = "called"
CONFIG_LOOK_S = 2.0
FAULTS_SHOWN_MAX = 3


class Denied(Exception):
    """Why a caller gets nothing: the status that HTTP has for it, and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass
class Desk:
    """One server's view of the store and the configuration."""

    store: Store
    settings: Settings
    watcher: Watcher | None = None
    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    _terms: dict[str, Terms] = field(default_factory=dict)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.post = Post(self.store)
        self.tokens = SiteTokens(self.store)
        self.clock = CarriedClock(self.store, wall=self.wall, steady=self.steady)
        # SQLite lets one write at a time and makes the others sleep and try again; here they stand in line.
        self.turn = threading.Lock()
        self._terms = terms_of(self.settings)

    def bearer(self, text: str, site: str, *, use: str = AGENT) -> tuple[SiteToken, str]:
        """The token of this site. All that is wrong looks the same from outside."""
        found = self.tokens.bearer(text, use=use, wall=self.wall()) if text else None
        if found is None or found[0].site != site:
            raise Denied(401, "no token of this site that is in force")
        return found

    def called(self, site: str, body: bytes | str) -> Orders | LateAnswer:
        """One call of a site that has shown who it is."""
        terms = self.terms(site)
        try:
            report = Report.model_validate_json(body)
        except ValidationError as error:
            raise Denied(422, faults(error)) from None
        foreign = [pilot.offer for pilot in report.pilots if not pilot.offer.startswith(f"{site}/")]
        if foreign:
            raise Denied(422, f"the report of `{site}` lists a pilot of another site")
        with self.turn:
            answer = self.post.call(
                SiteName(site), report, now=self.clock().now(), wall=self.wall(), terms=terms
            )
        if isinstance(answer, Late):
            return LateAnswer(ticket=answer.ticket, nonce=report.nonce)
        return answer

    def share(self, site: str) -> dict[str, int | str | None]:
        """A site's own numbers, and nobody else's."""
        self.terms(site)
        tray = self.post.tray(SiteName(site))
        steps = Counter(request.step.value for request in tray.requests)
        age_s = None if tray.heard_at is None else max(0, self.clock().now() - tray.heard_at)
        return {
            "site": site,
            "heard_s_ago": age_s,
            "waiting": steps[Step.ASKED],
            "given": steps[Step.GIVEN] + steps[Step.TAKEN],
            "given_ever": tray.given,
            "refused_ever": tray.refused,
            "last_refusal": tray.last_refusal,
        }

    def terms(self, site: str) -> Terms:
        self.current()
        terms = self._terms.get(site)
        if terms is None:
            raise Denied(404, f"no site `{site}` that calls is configured")
        return terms

    def current(self) -> Settings:
        """The settings in force, read again where their file has changed."""
        if self.watcher is None or self.steady() - self._looked_at < CONFIG_LOOK_S:
            return self.settings
        self._looked_at = self.steady()
        found = self.watcher.poll()
        if found is not None and not isinstance(found, ConfigError):
            self.settings = found.settings
            self._terms = terms_of(found.settings)
        return self.settings


def terms_of(settings: Settings) -> dict[str, Terms]:
    """The terms of every site that calls."""
    found = {}
    for name, table in settings.sites.items():
        if table.kind == KIND:
            own = rebuilt(CalledSettings, kind_settings(table))
            found[name] = Terms(own.lapse_after, own.silent_after, own.call_again)
    return found


def faults(error: ValidationError) -> str:
    """What is wrong with a body, by its place; nothing of what it said is repeated."""
    places = [
        f"`{'.'.join(str(part) for part in each['loc'][:4]) or 'body'}`: {each['type']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    more = f" and {len(places) - FAULTS_SHOWN_MAX} more" if len(places) > FAULTS_SHOWN_MAX else ""
    return f"the body is not as described in the API: {'; '.join(places[:FAULTS_SHOWN_MAX])}{more}"


def drop_folders(settings: Settings, home: Path) -> dict[str, Path]:
    return {site: home / Path(folder).expanduser() for site, folder in sorted(settings.serve.drops.items())}


__all__ = ["Denied", "Desk", "StoreError", "drop_folders", "faults", "terms_of"]
