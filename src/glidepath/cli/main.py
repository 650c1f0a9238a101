"""`glidepath NOUN VERB`: the words of one call come in, an exit code goes out.

Finds the verb, reads its options, runs it, and turns every end into one line on stderr and a code. Imports
only what the verb at hand needs, so that help is there at once.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

from glidepath.cli.nouns import NOUNS, PLURALS
from glidepath.cli.text import did_you_mean
from glidepath.cli.verb import Caller, Exit, Noun, Stop, Verb
from glidepath.core.text import one_line, visible

if TYPE_CHECKING:
    from logging import Logger

PROG = "glidepath"


def main(argv: list[str] | None = None, *, caller: Caller | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    caller = caller or Caller(sys.stdout, sys.stderr, os.environ, time.sleep, time.time)
    try:
        code = run(words, caller)
        caller.out.flush()
        return code
    except Stop as stop:
        _detail(words, caller)
        caller.say(f"{PROG}: {stop}")
        if stop.hint:
            caller.say(f"hint: {stop.hint}")
        return stop.code
    except KeyboardInterrupt:
        if caller.err.isatty():
            print(file=caller.err)  # The prompt must not stand behind a line of progress.
        return Exit.INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed(caller)
    except OSError as error:
        _detail(words, caller)
        caller.say(f"{PROG}: {error.strerror or error}" + (f": `{error.filename}`" if error.filename else ""))
        return Exit.FAILED


def _detail(words: list[str], caller: Caller) -> None:
    """The traceback, for those who asked for all: one line is enough for everybody else."""
    own = words[: words.index("--")] if "--" in words else words
    if sum(word.count("v") for word in own if word in ("-v", "-vv", "-vvv", "--verbose")) > 1:
        from traceback import format_exc

        caller.err.write(visible(format_exc(), keep="\n"))


def run(words: list[str], caller: Caller) -> int:
    """Nouns and verbs are found by hand: argparse would import and build all of them to read one."""
    if words and words[0] in ("-V", "--version"):
        from glidepath import __version__

        print(f"{PROG} {__version__}", file=caller.out)
        return Exit.DONE
    from glidepath.cli.parser import parsed, parser_of, peeled

    front, rest = peeled(words)
    if not rest or rest[0] in ("-h", "--help", "help"):
        return _top_help(caller, asked=bool(rest))
    name, noun = noun_of(rest[0])
    more, rest = peeled(rest[1:])
    if "" in noun.verbs:
        prog, verb = f"{PROG} {name}", noun.verbs[""]
    elif not rest or rest[0] in ("-h", "--help", "help"):
        return _noun_help(caller, noun, asked=bool(rest))
    else:
        prog, verb, rest = f"{PROG} {name} {rest[0]}", verb_of(noun, rest[0]), rest[1:]
    own = rest[: rest.index("--")] if "--" in rest else rest
    if "-h" in own or "--help" in own:
        caller.out.write(parser_of(prog, verb).format_help())
        return Exit.DONE
    options = parsed(prog, verb, front + more + rest)
    logger = logger_of(options["verbose"] - options["quiet"], caller)
    return verb(logger, caller=caller, **options).run()


def noun_of(word: str) -> tuple[str, Noun]:
    name = PLURALS.get(word, word)
    if name not in NOUNS:
        near = did_you_mean(word, [*NOUNS, *PLURALS])
        message = f"there is no noun `{one_line(word)}`{near}"
        raise Stop(message, code=Exit.USAGE, hint=f"`{PROG} --help` lists them")
    noun: Noun = import_module(f"glidepath.cli.{NOUNS[name].module}").NOUN
    return name, noun


def verb_of(noun: Noun, word: str) -> type[Verb]:
    if word in noun.verbs:
        return noun.verbs[word]
    kind = "option" if word.startswith("-") else "verb"
    near = did_you_mean(word, list(noun.verbs))
    message = f"`{noun.name}` has no {kind} `{one_line(word)}`{near}"
    raise Stop(message, code=Exit.USAGE, hint=f"its verbs are {', '.join(noun.verbs)}")


def commands() -> list[tuple[str, str, str]]:
    """Every noun and verb with its line of help; imports all of them, so only for documents and tests."""
    found = []
    for name in NOUNS:
        noun = noun_of(name)[1]
        found += [(name, verb, cls.summary()) for verb, cls in noun.verbs.items()]
    return found


def _top_help(caller: Caller, *, asked: bool) -> int:
    lines = ["glidepath brings compute to waiting jobs, and tells people when and why", ""]
    lines += [f"usage: {PROG} NOUN VERB [NAME] [options]", ""]
    width = max(len(name) for name in NOUNS) + 2
    for name, entry in NOUNS.items():
        lines.append(f"  {name:<{width}}{entry.help}")
        if entry.verbs:
            lines.append(f"  {'':<{width}}{', '.join(entry.verbs)}")
    lines += ["", f"`{PROG} NOUN VERB --help` explains one; `{PROG} --version` says which this is"]
    lines += ["exit codes: 0 done, 1 failed, 2 wrong use, 3 incomplete (--strict, site drain), 4 not found"]
    print("\n".join(lines), file=caller.out if asked else caller.err)
    return Exit.DONE if asked else Exit.USAGE


def _noun_help(caller: Caller, noun: Noun, *, asked: bool) -> int:
    lines = [f"{noun.name}: {NOUNS[noun.name].help}", "", f"usage: {PROG} {noun.name} VERB [options]", ""]
    lines += [f"  {name:<11}{verb.summary()}" for name, verb in noun.verbs.items()]
    print("\n".join(lines), file=caller.out if asked else caller.err)
    return Exit.DONE if asked else Exit.USAGE


def logger_of(loudness: int, caller: Caller) -> Logger:
    """Talk to stderr: warnings by default, more with each `-v`, less with each `-q`."""
    import logging

    class Line(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(super().format(record), keep="\n")

    logger = logging.getLogger("glidepath")
    # Replaced, not added: a second call in one process must not talk to the first one's stream.
    logger.handlers.clear()
    shown = logging.StreamHandler(caller.err)
    shown.setFormatter(Line("%(message)s"))
    logger.addHandler(shown)
    steps = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    logger.setLevel(steps[max(0, min(loudness + 2, len(steps) - 1))])
    return logger


def _pipe_closed(caller: Caller) -> int:
    """The reader has gone, for example `| head`. No error, and the interpreter must not call it one."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), caller.out.fileno())
    except (OSError, ValueError):
        pass
    return Exit.DONE
