"""Pause and resume: an operator's word about a pool, a site or an offer, kept in the store.

Safe to repeat: what is already so is said and is no failure. The controllers read it in their next cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from glidepath.cli.output import DRY_RUN
from glidepath.cli.session import Located, located, login, opened
from glidepath.cli.verb import Exit, Options, Verb, not_found

if TYPE_CHECKING:
    from glidepath.cli.session import Session
    from glidepath.core.provision.sight import Pause

NAME: Options = {
    "name": {"args": ("name",), "metavar": "NAME", "help": "its name, or `SITE/OFFER` for one offer"}
}
WHY: Options = {"why": {"args": ("--why",), "default": "", "metavar": "TEXT", "help": "what others are told"}}


def subject(kind: str, name: str, place: Located) -> str:
    """`pool:NAME`, `site:NAME` or `offer:KEY`; a name that is not configured is an error with a hint."""
    settings = place.settings
    if kind == "pool":
        if name not in settings.pools:
            raise not_found("pool", name, list(settings.pools))
        return f"pool:{name}"
    offers = [f"{site}/{offer}" for site, table in settings.sites.items() for offer in table.offers]
    if name in offers:
        return f"offer:{name}"
    if name not in settings.sites:
        raise not_found("site or offer", name, [*settings.sites, *offers])
    return f"site:{name}"


class _Word(Verb):
    kind: ClassVar[str]

    def run(self) -> int:
        place = located(self)
        about = subject(self.kind, self.given["name"], place)
        shown = about.replace(":", " `", 1) + "`"
        with opened(self, place=place, write=not self.given["dry_run"]) as session:
            paused = {pause.about: pause for pause in session.journal.pauses()}
            line = self.change(session, about, shown, paused.get(about))
        self.caller.say(line)
        return Exit.DONE

    def change(self, session: Session, about: str, shown: str, paused: Pause | None) -> str:
        raise NotImplementedError


class _Pause(_Word):
    options: ClassVar[Options] = {**NAME, **WHY, **DRY_RUN}

    def change(self, session: Session, about: str, shown: str, paused: Pause | None) -> str:
        drained = paused is not None and paused.drain
        if self.given["dry_run"]:
            more = "; it would not be drained any more" * drained
            return (
                f"{shown} is paused already{more}" if paused else f"would pause {shown}; nothing was changed"
            )
        session.journal.pause(about, login(), self.given["why"])
        if drained:
            return f"{shown} is paused and drained no more; pilots that were told to leave do so"
        return f"{shown} is paused" + (" already; the words are renewed" if paused else "")


class _Resume(_Word):
    options: ClassVar[Options] = {**NAME, **DRY_RUN}

    def change(self, session: Session, about: str, shown: str, paused: Pause | None) -> str:
        if not paused:
            return f"{shown} is not paused; nothing was changed"
        if self.given["dry_run"]:
            return f"would resume {shown}; nothing was changed"
        session.journal.resume(about)
        return f"{shown} is resumed"


class PauseSite(_Pause):
    """Pause a site or one of its offers: nothing more is asked for there, what runs goes on"""

    kind = "site"


class ResumeSite(_Resume):
    """Resume a site or an offer that was paused or drained"""

    kind = "site"


class PausePool(_Pause):
    """Pause a pool: no more pilots are asked for it, what runs goes on"""

    kind = "pool"


class ResumePool(_Resume):
    """Resume a pool that was paused"""

    kind = "pool"
