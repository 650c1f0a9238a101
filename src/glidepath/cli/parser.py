"""Words to options: the argument list of one verb comes in, its options as values go out.

argparse does the reading; its messages are replaced by ours, which name the literal, say what came back
and suggest the nearest word. Every mistake is a `Stop` with the exit code for wrong use.
"""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from glidepath.cli import argument
from glidepath.cli.text import did_you_mean
from glidepath.cli.verb import Exit, Options, Stop, Verb
from glidepath.core.text import one_line

# Accepted by every verb, and also before the noun and before the verb.
SHARED: Options = {
    "home": {
        "args": ("--home",),
        "metavar": "DIR",
        "help": "where glidepath keeps its things (default: $GLIDEPATH_HOME, then ~/.local/state/glidepath)",
    },
    "config": {
        "args": ("--config",),
        "metavar": "FILE",
        "help": "the configuration (default: $GLIDEPATH_CONFIG, then ~/.config/glidepath/glidepath.toml)",
    },
    "verbose": {
        "args": ("-v", "--verbose"),
        "action": "count",
        "default": 0,
        "help": "say more on stderr; twice for all, tracebacks included",
    },
    "quiet": {"args": ("-q", "--quiet"), "action": "count", "default": 0, "help": "say less on stderr"},
}
_TOLD = re.compile(r"argument (?P<name>[^:]+): (?P<what>.*)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """argparse with our words for what is wrong."""

    def error(self, message: str) -> NoReturn:
        hint = f"see `{self.prog} --help`"
        if match := _TOLD.fullmatch(message):
            name = match["name"].split("/")[-1]
            what = match["what"]
            if what.startswith("expected"):
                raise Stop(f"`{name}` needs a value", code=Exit.USAGE, hint=hint)
            raise Stop(f"`{name}`: {what}", code=Exit.USAGE, hint=hint)
        lacking = "the following arguments are required: "
        if message.startswith(lacking):
            message = f"`{self.prog}` needs {message.removeprefix(lacking)}"
        raise Stop(message, code=Exit.USAGE, hint=hint)


def options_of(verb: type[Verb]) -> Options:
    return {**verb.options, **SHARED}


def parser_of(prog: str, verb: type[Verb]) -> Parser:
    parser = Parser(
        prog=prog,
        description="\n".join(line.strip() for line in (verb.__doc__ or "").strip().splitlines()),
        usage=f"{prog} [options] -- COMMAND..." if verb.takes_command else None,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, option in options_of(verb).items():
        keywords = {key: value for key, value in option.items() if key != "args"}
        if choices := keywords.pop("choices", None):
            keywords["type"] = argument.one_of(choices)
            keywords.setdefault("metavar", "|".join(choices))
        if option["args"][0].startswith("-"):
            keywords["dest"] = name
        else:
            keywords.setdefault("metavar", name.upper())
            option = {**option, "args": (name,)}
        parser.add_argument(*option["args"], **keywords)
    return parser


def parsed(prog: str, verb: type[Verb], words: list[str]) -> dict[str, Any]:
    """The options of one call. What follows `--` is a job's command and is not looked at."""
    command: list[str] | None = None
    if verb.takes_command and "--" in words:
        place = words.index("--")
        words, command = words[:place], words[place + 1 :]
    parser = parser_of(prog, verb)
    found, strange = parser.parse_known_args(words)
    if strange:
        known = [name for option in options_of(verb).values() for name in option["args"] if name[0] == "-"]
        word = strange[0].split("=")[0]
        kind = "option" if word.startswith("-") else "argument"
        near = did_you_mean(word, known) if kind == "option" else ""
        hint = f"see `{prog} --help`"
        if verb.takes_command and command is None and not near:
            hint = f"put `--` before the command: `{prog} [options] -- COMMAND...`"
        raise Stop(f"unknown {kind} `{one_line(word)}`{near}", code=Exit.USAGE, hint=hint)
    options = vars(found)
    if verb.takes_command:
        options["command"] = command or []
    return options


def peeled(words: list[str]) -> tuple[list[str], list[str]]:
    """The shared options that stand in front, and the rest."""
    valued = {"--home", "--config", "-o", "--output"}
    place = 0
    while place < len(words):
        word = words[place]
        if word in valued:
            place += 2
        elif word.split("=")[0] in valued or re.fullmatch(r"-[vq]+|--verbose|--quiet|-o.+", word):
            place += 1
        else:
            break
    return words[:place], words[place:]
