"""`glidepath serve`: the demand server alone, for sites that can only call out."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.session import located, opened
from glidepath.cli.verb import Exit, Noun, Options, Stop, Verb


class Serve(Verb):
    """Serve the sites that can only call out; `glidepath up` does so too where `serve.listen` is set"""

    options: ClassVar[Options] = {
        "listen": {
            "args": ("--listen",),
            "metavar": "HOST:PORT",
            "help": "where to listen (default: `serve.listen` of the configuration)",
        },
        "until_eof": {
            "args": ("--until-eof",),
            "action": "store_true",
            "help": "end when standard input is closed, as whoever started this does at its own end",
        },
    }

    def run(self) -> int:
        try:
            from glidepath.serve.run import Serving, serve
        except ImportError as error:
            raise Stop(f"{error}", hint="install `glidepath[web]`") from None
        from glidepath.config import Watcher, load

        place = located(self)
        listen = self.given["listen"] or place.settings.serve.listen
        if not listen:
            hint = 'set `listen = "127.0.0.1:8787"` in `[serve]`, or give `--listen`'
            raise Stop("the configuration says nothing about where to listen", code=Exit.USAGE, hint=hint)
        file = place.where.config
        watcher = Watcher(file, load(file)) if file else None
        with opened(self, place=place, create=True) as session:
            how = Serving(listen, place.where.home, self.given["until_eof"])
            return serve(place.settings, session.store, watcher, how=how, say=self.caller.say)


NOUN = Noun("serve", {"": Serve})
