"""The ways out of the settings in force: whether one may be used now, and a letter on its way."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from glidepath.config.notices import NoticesSettings
from glidepath.notices.address import NotThere, Resolve, reach_of, target_of
from glidepath.notices.hook import Hooks
from glidepath.notices.mail import Mails
from glidepath.notices.sending import Fault, Sent, Undone
from glidepath.notices.words import Letter
from glidepath.store.notices import Way

NO_MAIL = "this glidepath sends no mail; an operator adds `[notices.smtp]` to its settings"
NO_WEBHOOKS = "this glidepath calls no webhooks; an operator sets `webhooks = true` in `[notices]`"


def closed(settings: NoticesSettings, target: str) -> str:
    """Why the settings do not let anything out there, whatever its state; empty where they do."""
    if "://" in target:
        return "" if settings.webhooks else NO_WEBHOOKS
    if settings.smtp is None:
        return NO_MAIL
    domains = settings.smtp.to_domains
    if target.rpartition("@")[2].lower() in domains:
        return ""
    return f"this glidepath sends mail only to addresses of {', '.join(f'`{domain}`' for domain in domains)}"


@dataclass(frozen=True)
class Ways:
    """For any thread; `settings` are asked for each letter."""

    settings: Callable[[], NoticesSettings]
    wall: Callable[[], float]
    resolve: Resolve = socket.getaddrinfo

    def open(self, way: Way) -> bool:
        return not closed(self.settings(), way.target)

    def send(self, way: Way, letter: Letter) -> Sent:
        settings = self.settings()
        if why := closed(settings, way.target):
            return Undone(why, Fault.OURS)
        if not way.webhook:
            assert settings.smtp is not None
            return Mails(settings.smtp).send(way.target, letter, wall_s=self.wall())
        try:
            target = target_of(way.target)
        except NotThere as error:
            return Undone(str(error))
        hooks = Hooks(reach_of(settings), self.wall, settings.ca_file, self.resolve)
        return hooks.post(target, way.secret, letter.id, letter.body(way.person))
