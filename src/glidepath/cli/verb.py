"""What every verb shares: its options, its caller, the answer it gives and the ways it can end.

A verb has the shape of `htcondor_cli`: a class whose `options` hold `argparse.add_argument` keywords,
made with a logger and the parsed options. It refuses to know how an answer is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

if TYPE_CHECKING:
    from logging import Logger

Item = Mapping[str, Any]
Options = dict[str, dict[str, Any]]


class Exit(IntEnum):
    """0 to 2 agree with `htcondor`; 130 is what a shell expects after Ctrl-C."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INCOMPLETE = 3
    NOT_FOUND = 4
    INTERRUPTED = 130


class Stop(Exception):
    """An end that people read: what happened, what came back, and what to do."""

    def __init__(self, message: str, *, code: Exit = Exit.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def not_found(what: str, name: str, known: list[str], *, hint: str = "") -> Stop:
    from glidepath.cli.text import did_you_mean
    from glidepath.core.text import one_line

    message = f"no {what} is named `{one_line(name)}`{did_you_mean(name, known)}"
    return Stop(message, code=Exit.NOT_FOUND, hint=hint)


@dataclass(frozen=True)
class Caller:
    """Who called, as values: a test hands over its own streams, environment and clock."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    sleep: Callable[[float], None]
    wall: Callable[[], float]

    @property
    def draws(self) -> bool:
        """Whether stdout may be redrawn and emphasised."""
        return self.out.isatty() and "NO_COLOR" not in self.environ

    def say(self, line: str) -> None:
        """Talk, on stderr, so that a pipe carries only data."""
        from glidepath.core.text import one_line

        print(one_line(line, letters_max=LINE_LETTERS_MAX), file=self.err)


# A reason with its numbers is a sentence, not a page.
LINE_LETTERS_MAX = 2000


@dataclass(frozen=True)
class Column:
    """One column of a table: its title, what it shows of an item, and whether only `wide` has it."""

    title: str
    show: Callable[[Item], object]
    wide: bool = False
    right: bool = False


@dataclass(frozen=True)
class Source:
    """Where an answer came from, how old that is, and what is wrong with it, if anything."""

    name: str
    age_s: int | None = None
    state: str = "seen"  # or unseen, stale, partial, failing
    why: str = ""

    def __str__(self) -> str:
        from glidepath.core.units import shown_duration

        age = "" if self.age_s is None else f" {shown_duration(self.age_s)}"
        if self.state == "seen":
            return f"{self.name}{age} old" if age else self.name
        return f"{self.name} {self.state.upper()}{age}" + (f" ({self.why})" if self.why else "")


@dataclass(frozen=True)
class Answer:
    """What a verb found out. Tables are for people and may change; items are the stable contract."""

    kind: str
    items: tuple[Item, ...]
    columns: tuple[Column, ...] = ()
    sources: tuple[Source, ...] = ()
    lines: tuple[str, ...] | None = None  # for people, instead of a table
    nothing: str = ""  # said on stderr where there is no item
    notes: tuple[str, ...] = ()  # what else should be known, below a table
    name: Callable[[Item], object] = field(default=lambda item: item["name"])

    @property
    def complete(self) -> bool:
        return all(source.state == "seen" for source in self.sources)


class Verb:
    """Base of all verbs: `run` does the work and returns the exit code."""

    options: ClassVar[Options] = {}
    takes_command: ClassVar[bool] = False  # the words after `--` belong to a job

    def __init__(self, logger: Logger, *, caller: Caller, **options: Any) -> None:
        self.logger = logger
        self.caller = caller
        self.given = options

    def run(self) -> int:
        raise NotImplementedError

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring is the help text; a verb without one is a bug."""
        assert cls.__doc__, f"the verb {cls.__name__} says nothing about itself"
        return cls.__doc__.strip().splitlines()[0]


@dataclass(frozen=True)
class Noun:
    """A noun with its verbs; where there is only one thing to do, the verb has the empty name."""

    name: str
    verbs: Mapping[str, type[Verb]]
