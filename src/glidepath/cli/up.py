"""`glidepath up`: options come in, `UpOptions` go to `glidepath.up.run`, which does the rest."""

from __future__ import annotations

from typing import ClassVar

from glidepath.cli.verb import Noun, Options, Verb


class Up(Verb):
    """Start the controllers on this machine, and show live what they do and why

    Ctrl-C stops asking and ends the pilots, their jobs go back to the queue; a second Ctrl-C kills.
    """

    options: ClassVar[Options] = {
        "sample": {
            "args": ("--sample",),
            "action": "store_true",
            "help": "submit a few sample jobs of two shapes",
        },
        "until_idle": {
            "args": ("--until-idle",),
            "action": "store_true",
            "help": "end when no job waits or runs and the last pilot has left",
        },
        "shadow": {
            "args": ("--shadow",),
            "action": "store_true",
            "help": "read and decide beside another provisioner, do nothing, and report the difference",
        },
        "plain": {
            "args": ("--plain",),
            "action": "store_true",
            "help": "print lines instead of a live picture, also on a terminal",
        },
    }

    def run(self) -> int:
        from glidepath.cli.where import where

        place = where(self.caller.environ, home=self.given["home"], config=self.given["config"])
        self.logger.info("home %s (%s), configuration %s", place.home, place.home_from, place.config_from)
        # Imported here: these bring the store, the configuration and the terminal with them.
        from glidepath.cli.live import Lines, Picture
        from glidepath.running import UpOptions
        from glidepath.up import run

        options = UpOptions(
            config=place.config,
            home=place.home,
            sample=self.given["sample"],
            until_idle=self.given["until_idle"],
            shadow=self.given["shadow"],
        )
        plain = self.given["plain"] or not self.caller.draws
        return run(options, Lines() if plain else Picture())


NOUN = Noun("up", {"": Up})
