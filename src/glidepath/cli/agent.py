"""`glidepath agent`: what runs at a site that can only call out, and how its admin closes and opens it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from glidepath.cli import argument
from glidepath.cli.session import refused
from glidepath.cli.verb import Exit, Noun, Options, Stop, Verb
from glidepath.cli.where import where

if TYPE_CHECKING:
    from glidepath.config.agent import LoadedAgent

FILE: Options = {
    "file": {
        "args": ("file",),
        "metavar": "FILE",
        "help": "the agent's own settings, such as `agent.toml`",
    }
}


class _AtSite(Verb):
    def loaded(self) -> tuple[LoadedAgent, Path]:
        """The settings and the folder in which this site's agent keeps its things."""
        from glidepath.config import ConfigError
        from glidepath.config.agent import load_agent

        try:
            found = load_agent(Path(self.given["file"]).expanduser().absolute())
        except ConfigError as error:
            raise refused(self.caller, error, "agent's file") from None
        place = where(self.caller.environ, home=self.given["home"], config=None)
        return found, place.home / "agents" / found.settings.site


class Run(_AtSite):
    """Run the agent of a site: it calls the demand server, and starts the pilots that it is told to start

    It opens no port. With `--once` it calls, does what it is told, says so and ends, as a cron job should.
    """

    options: ClassVar[Options] = {
        **FILE,
        "once": {"args": ("--once",), "action": "store_true", "help": "one round, for cron"},
        "drop": {
            "args": ("--drop",),
            "metavar": "DIR",
            "help": "exchange signed files in this folder instead of calling the server",
        },
    }

    def run(self) -> int:
        import threading
        from dataclasses import replace

        from glidepath.agent.run import Told, agent_of, forever, once
        from glidepath.plugins import PluginError

        loaded, home = self.loaded()
        if self.given["drop"]:
            drop = str(Path(self.given["drop"]).expanduser().absolute())
            changed = loaded.settings.model_copy(update={"drop": drop, "server": None})
            loaded = replace(loaded, settings=changed)
        try:
            agent = agent_of(loaded, home)
        except (PluginError, ValueError) as error:
            raise Stop(f"the backend of `{loaded.settings.site}` could not be made: {error}") from None
        with agent.keep.alone() as alone:
            if not alone:
                raise Stop(f"another agent of `{loaded.settings.site}` runs in `{home}`")
            if self.given["once"]:
                return once(agent, self.caller.say)
            with Told(threading.Event()).watched() as told:
                return forever(agent, loaded, self.caller.say, told=told)


class Close(_AtSite):
    """Declare a downtime: the server asks for nothing here meanwhile, and pilots end before it begins"""

    options: ClassVar[Options] = {
        **FILE,
        "for_s": {
            "args": ("--for",),
            "type": argument.duration,
            "required": True,
            "metavar": "SPAN",
            "help": "how long it lasts, such as `4h`",
        },
        "in_s": {
            "args": ("--in",),
            "type": argument.duration,
            "default": 0,
            "metavar": "SPAN",
            "help": "how soon it begins (default: now)",
        },
        "why": {"args": ("--why",), "default": "", "metavar": "TEXT", "help": "what others are told"},
    }

    def run(self) -> int:
        from glidepath.agent.keep import Closed, Keep
        from glidepath.core.text import one_line
        from glidepath.core.units import shown_duration

        loaded, home = self.loaded()
        start = self.caller.wall() + self.given["in_s"]
        Keep(home).close(
            Closed(
                start_wall_s=start, end_wall_s=start + self.given["for_s"], why=one_line(self.given["why"])
            )
        )
        begins = f"in {shown_duration(self.given['in_s'])}" if self.given["in_s"] else "now"
        self.caller.say(
            f"`{loaded.settings.site}` closes {begins} for {shown_duration(self.given['for_s'])}; "
            "the agent tells it with its next call"
        )
        return Exit.DONE


class Open(_AtSite):
    """End a downtime that was declared with `close`"""

    options: ClassVar[Options] = FILE

    def run(self) -> int:
        from glidepath.agent.keep import Keep

        loaded, home = self.loaded()
        ended = Keep(home).open()
        about = f"`{loaded.settings.site}`"
        self.caller.say(f"{about} is open again" if ended else f"{about} was not closed; nothing was changed")
        return Exit.DONE


NOUN = Noun("agent", {"run": Run, "close": Close, "open": Open})
