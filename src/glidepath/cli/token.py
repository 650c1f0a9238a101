"""`glidepath token`: tokens of sites that call, issued and shown once, listed, and revoked one by one."""

from __future__ import annotations

from typing import Any, ClassVar

from glidepath.cli.output import DRY_RUN, Reader
from glidepath.cli.session import iso, located, login, opened
from glidepath.cli.verb import Answer, Column, Exit, Noun, Options, Verb, not_found

COLUMNS = (
    Column("ID", lambda item: item["name"]),
    Column("SITE", lambda item: item["site"]),
    Column("USE", lambda item: item["use"]),
    Column("ISSUED", lambda item: item["issued"]),
    Column("BY", lambda item: item["by"], wide=True),
    Column("USED", lambda item: item["used"] or "never"),
    Column("REVOKED", lambda item: item["revoked"] or ""),
    Column("NOTE", lambda item: item["note"], wide=True),
)


class Issue(Verb):
    """Issue a token for a site and print it; it is shown this once and kept nowhere

    With `--address` it is the part of an address, for clients that can be told nothing else.
    """

    options: ClassVar[Options] = {
        "site": {"args": ("site",), "metavar": "SITE", "help": "the site that is to call with it"},
        "address": {
            "args": ("--address",),
            "action": "store_true",
            "help": "for an address: `/sites/TOKEN/jsonrpc`, as clients of pyglidein use",
        },
        "note": {"args": ("--note",), "default": "", "metavar": "TEXT", "help": "who has it, for people"},
        **DRY_RUN,
    }

    def run(self) -> int:
        from glidepath.store.site_tokens import ADDRESS, AGENT, SiteTokens

        place = located(self)
        called = sorted(name for name, site in place.settings.sites.items() if site.kind == "called")
        if self.given["site"] not in called:
            hint = 'add `[sites.NAME]` with `kind = "called"`'
            raise not_found("site that calls", self.given["site"], called, hint=hint)
        if self.given["dry_run"]:
            self.caller.say(f"would issue a token for `{self.given['site']}`; nothing was changed")
            return Exit.DONE
        with opened(self, place=place, create=True) as session:
            token, text = SiteTokens(session.store).issue(
                self.given["site"],
                use=ADDRESS if self.given["address"] else AGENT,
                by=login(),
                note=self.given["note"],
                wall=self.caller.wall(),
            )
        print(text, file=self.caller.out)
        self.caller.say(
            f"token {token.id} of `{token.site}`; revoke it with `glidepath token revoke {token.id}`"
        )
        return Exit.DONE


class List(Reader):
    """List the tokens of sites: when each was issued, used and revoked"""

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        from glidepath.store.site_tokens import SiteTokens

        with opened(self) as session:
            items = tuple(_item(token) for token in SiteTokens(session.store).list())
        return Answer("TokenList", items, COLUMNS, nothing="no token was issued yet")


class Revoke(Verb):
    """Revoke a token: whoever has it is cut off at once, others are not touched"""

    options: ClassVar[Options] = {
        "id": {"args": ("id",), "metavar": "ID", "help": "its id, as `glidepath token list` shows it"},
        **DRY_RUN,
    }

    def run(self) -> int:
        from glidepath.store.site_tokens import SiteTokens

        with opened(self, write=not self.given["dry_run"]) as session:
            tokens = SiteTokens(session.store)
            known = {token.id: token for token in tokens.list()}
            token = known.get(self.given["id"])
            if token is None:
                raise not_found("token", self.given["id"], list(known))
            shown = f"token {token.id} of `{token.site}`"
            if token.revoked_wall_s is not None:
                self.caller.say(f"{shown} is revoked already")
            elif self.given["dry_run"]:
                self.caller.say(f"would revoke {shown}; nothing was changed")
            else:
                tokens.revoke(token.id, wall=self.caller.wall())
                self.caller.say(f"{shown} is revoked")
        return Exit.DONE


def _item(token: Any) -> dict[str, Any]:
    return {
        "name": token.id,
        "site": token.site,
        "use": token.use,
        "note": token.note,
        "by": token.by,
        "issued": iso(token.issued_wall_s),
        "used": iso(token.used_wall_s),
        "revoked": iso(token.revoked_wall_s),
    }


NOUN = Noun("token", {"issue": Issue, "list": List, "revoke": Revoke})
