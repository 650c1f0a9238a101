"""The backend of a site that calls: acts go into the tray of the site, listings come out of it.

Nothing here reaches out: the site's agent fetches what it is to do. A site whose agent fell silent raises, as
any other that cannot be seen.
"""

from __future__ import annotations

import threading
from functools import partial

from glidepath.called.post import Post, digest_of, without_secrets
from glidepath.called.settings import CalledSettings
from glidepath.called.tray import asked, drained, listing_of, removed, windows_in, withdrawn
from glidepath.called.words import PAIRS_MAX
from glidepath.core.cycle import Outcome, Refused
from glidepath.core.provision.pilot import PilotSpec, Target
from glidepath.core.provision.sight import SiteListing, Window
from glidepath.core.quantity import Instant, OfferKey, PilotName, SiteName
from glidepath.core.text import one_line
from glidepath.core.units import shown_duration
from glidepath.ports import Finding, Place
from glidepath.store.engine import Store, StoreError, open_store

LIMIT_S = 20.0
_open_turn = threading.Lock()


class CalledBackend:
    """One site that calls. Nothing is opened before the first call."""

    def __init__(self, site: SiteName, settings: CalledSettings, place: Place) -> None:
        self.site = site
        self.limit_s = LIMIT_S
        self.settings = settings
        self._place = place
        self._store: Store | None = None
        self._windows: tuple[Window, ...] = ()

    def list(self, *, now: Instant) -> SiteListing:
        tray = self._post().tray(self.site)
        if tray.heard_at is None or tray.report is None:
            raise RuntimeError(f"no agent of `{self.site}` has called yet")
        age_s = max(0, now - tray.heard_at)
        if age_s > self.settings.silent_after:
            raise TimeoutError(f"the agent of `{self.site}` has not called for {shown_duration(age_s)}")
        self._windows = windows_in(self.site, tray.report.downtimes, tray.heard_at)
        if not tray.report.seen:
            raise RuntimeError(f"the agent of `{self.site}` cannot see it: {one_line(tray.report.why)}")
        return listing_of(tray, now, lapse_s=self.settings.lapse_after)

    def windows(self) -> tuple[Window, ...]:
        """Downtimes that the site's admin declared, as of the last listing."""
        return self._windows

    def submit(self, spec: PilotSpec) -> Outcome:
        if why := unsayable(spec):
            return Refused(why)
        change = partial(asked, spec=without_secrets(spec), digest=digest_of(spec))
        return self._post().change(self.site, change, hidden=spec.secrets, name=spec.name)

    def withdraw(self, target: Target) -> Outcome:
        change = partial(withdrawn, name=target.name, native_id=target.native_id)
        return self._post().change(self.site, change)

    def remove(self, target: Target) -> Outcome:
        change = partial(removed, name=target.name, native_id=target.native_id)
        return self._post().change(self.site, change)

    def drain(self, target: Target) -> Outcome:
        change = partial(drained, name=target.name, native_id=target.native_id)
        return self._post().change(self.site, change)

    def logs(self, name: PilotName, *, bytes_max: int) -> str:
        raise LookupError(f"what `{one_line(name)}` wrote is kept at its site, where its agent runs")

    def furnished(self, offer: OfferKey) -> bool:
        return self.settings.furnished

    def checkup(self, offers: object) -> tuple[Finding, ...]:
        """When the agent called last, and what it says."""
        about = f"site {self.site}"
        try:
            found = self._found()
        except StoreError as error:
            return (Finding(about, "fail", str(error)),)
        return tuple(Finding(about, *each) for each in found)

    def _found(self) -> tuple[tuple[str, str, str], ...]:
        if self._place.store_url.startswith("sqlite:///") and not self._place.home.exists():
            return (("warn", "its agent has never called", "`glidepath up` first, then start the agent"),)
        tray = self._post().tray(self.site)
        if tray.heard_at is None or tray.report is None:
            fix = f"`glidepath token issue {self.site}`, and start `glidepath agent` there"
            return (("warn", "its agent has never called", fix),)
        rows = []
        who = one_line(tray.report.agent) or "an agent"
        if tray.report.seen:
            rows.append(("ok", f"{who} has called {tray.calls} times and sees its site", ""))
        else:
            fix = "look at the agent's own words, at the site"
            rows.append(("fail", f"{who} cannot see its site: {one_line(tray.report.why)}", fix))
        if tray.last_refusal:
            said = (
                f"{tray.refused} of {tray.given} pilots were refused; the last: {one_line(tray.last_refusal)}"
            )
            rows.append(("warn", said, f"`glidepath explain {self.site}` tells what is done about it"))
        return tuple(rows)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _post(self) -> Post:
        with _open_turn:
            if self._store is None:
                self._store = open_store(self._place.store_url)
            return Post(self._store)


def unsayable(spec: PilotSpec) -> str:
    """Why a pilot cannot be described to an agent; empty where it can."""
    from pydantic import TypeAdapter, ValidationError

    from glidepath.called.words import Name

    try:
        TypeAdapter(Name).validate_python(str(spec.name))
    except ValidationError:
        return "the name of a pilot must be small letters, digits, `-` and `.`"
    if len(spec.join) > PAIRS_MAX or len(spec.secrets) > PAIRS_MAX:
        return "the pool says more than an agent can be told"
    return ""
