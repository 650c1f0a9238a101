"""`glidepath config`: check a configuration, show the one in force, print what every key means.

It refuses to know any key itself; `glidepath.config` does. Nothing is started and nothing is changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.output import OUTPUT, drawn
from glidepath.cli.session import located
from glidepath.cli.verb import Answer, Exit, Noun, Options, Stop, Verb, not_found
from glidepath.cli.where import where
from glidepath.core.text import one_line

if TYPE_CHECKING:
    from glidepath.config import Problem, Settings, pyglidein

# Whose configurations can be read, and how large a file of theirs may be.
IMPORTED = ("prp", "pyglidein")
FILE_BYTES_MAX = 1 << 20
FILE: Options = {
    "file": {
        "args": ("file",),
        "nargs": "?",
        "metavar": "FILE",
        "help": "the file (default: the one in force)",
    }
}


class Check(Verb):
    """Check a configuration and name every problem at once, with its file and line

    Exits with 2 when there is one. A warning is about something that is allowed and hardly meant.
    """

    options: ClassVar[Options] = {**FILE, **OUTPUT}

    def run(self) -> int:
        from glidepath.config import ConfigError, default_settings, load
        from glidepath.machine import machine

        asked = self.given["file"] or self.given["config"]
        place = where(self.caller.environ, home=self.given["home"], config=asked)
        warned: tuple[Problem, ...] = ()
        try:
            if place.config:
                loaded = load(place.config)
                settings, warned = loaded.settings, loaded.warnings
            else:
                settings = default_settings(**machine(place.home))
        except ConfigError as error:
            self.show(error.problems, "problem", ())
            count = len(error.problems)
            self.caller.say("1 problem" if count == 1 else f"{count} problems")
            return Exit.USAGE
        said = f"{place.config or 'the embedded default'}: no problem, {counted(settings)}"
        self.show(warned, "warning", (said,))
        return Exit.DONE

    def show(self, found: tuple[Problem, ...], level: str, more: tuple[str, ...]) -> None:
        items = tuple(
            {
                "file": one.file,
                "line": one.line,
                "key": one.key,
                "message": one.message,
                "hint": one.hint,
                "level": level,
            }
            for one in found
        )
        mark = "" if level == "problem" else f"{level}: "
        lines = (*(f"{mark}{one}" for one in found), *more)
        answer = Answer("ConfigProblemList", items, lines=lines, name=lambda item: item["key"])
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))


def counted(settings: Settings) -> str:
    offers = sum(len(site.offers) for site in settings.sites.values())
    parts: list[tuple[int, Any]] = [
        (len(settings.pools), "pool"),
        (len(settings.sites), "site"),
        (offers, "offer"),
    ]
    return ", ".join(f"{count} {word}" if count == 1 else f"{count} {word}s" for count, word in parts)


class Show(Verb):
    """Show the configuration in force, defaults included, as TOML"""

    def run(self) -> int:
        from glidepath.config import show

        place = located(self)
        origin = str(place.where.config or place.where.config_from)
        self.caller.out.write(show(place.settings, origin))
        return Exit.DONE


class Reference(Verb):
    """Print the reference of all keys, in Markdown"""

    def run(self) -> int:
        from glidepath.config import reference

        self.caller.out.write(reference())
        return Exit.DONE


class Import(Verb):
    """Print a configuration made from that of another provisioner

    Nothing is written: look at it, then put it where `glidepath config check` finds no fault with it.
    """

    options: ClassVar[Options] = {
        "from": {
            "args": ("from",),
            "metavar": "FROM",
            "help": "whose configuration it is: `prp` or `pyglidein`",
        },
        "files": {"args": ("files",), "nargs": "+", "metavar": "FILE", "help": "its files, the first first"},
        "secrets": {
            "args": ("--secrets",),
            "metavar": "FILE",
            "help": "pyglidein's file of secrets; refused where others can read it, and never printed",
        },
    }

    def run(self) -> int:
        from glidepath.config import prp, pyglidein

        kind, files = self.given["from"], self.given["files"]
        if kind not in IMPORTED:
            raise not_found("provisioner", kind, list(IMPORTED))
        found: prp.Imported | pyglidein.Imported
        try:
            if kind == "prp":
                found = prp.imported([(name, _content(name)) for name in files])
            else:
                found = _pyglidein(files, self.given["secrets"])
        except (prp.PrpError, pyglidein.PyglideinError) as error:
            for line in str(error).splitlines():
                self.caller.say(line)
            return Exit.USAGE
        self.caller.out.write(found.text)
        for note in found.notes:
            self.caller.say(f"note: {note}")
        return Exit.DONE


def _pyglidein(files: list[str], secrets: str | None) -> pyglidein.Imported:
    """One file, and that of its secrets, which is looked at and not repeated."""
    from glidepath.config import pyglidein

    if len(files) != 1:
        raise Stop("a client of pyglidein has one file", code=Exit.USAGE, hint="name its `cluster.config`")
    if secrets is not None:
        try:
            mode = Path(secrets).stat().st_mode
        except OSError as error:
            raise Stop(f"{one_line(secrets)}: {error.strerror}", code=Exit.USAGE) from None
        if mode & 0o077:
            hint = f"chmod 600 {one_line(secrets)}, and get new secrets"
            raise Stop(f"`{one_line(secrets)}` can be read by others; nothing was imported", hint=hint)
        _content(secrets)
    path = Path(files[0]).expanduser().absolute()
    return pyglidein.imported(str(path), _content(files[0]))


def _content(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Stop(f"{one_line(name)}: {error.strerror}", code=Exit.USAGE) from None
    if len(content) > FILE_BYTES_MAX:
        raise Stop(f"{one_line(name)}: larger than {FILE_BYTES_MAX >> 20} MiB", code=Exit.USAGE)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Stop(f"{one_line(name)}: no text", code=Exit.USAGE) from None


NOUN = Noun("config", {"check": Check, "show": Show, "reference": Reference, "import": Import})
