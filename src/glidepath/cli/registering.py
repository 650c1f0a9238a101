"""What the verbs about people and projects share: the register as whoever sits here may change it.

Whoever can open the store is an admin of it, under the name of their login. A change is told in a sentence on
stderr; on stdout is the item, for those who ask for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from glidepath.cli.atdesk import me, stopped
from glidepath.cli.output import DRY_RUN, OUTPUT, Reader, drawn
from glidepath.cli.session import Session, located, opened
from glidepath.cli.verb import Answer, Exit, Options, Verb

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.people.register import Register

PERSON: Options = {"name": {"args": ("name",), "metavar": "NAME", "help": "the name of a person"}}
PROJECT: Options = {"project": {"args": ("project",), "metavar": "PROJECT", "help": "the name of a project"}}


@contextmanager
def registering(
    verb: Verb, *, write: bool = False, create: bool = False
) -> Iterator[tuple[Register, Caller]]:
    with opened(verb, write=write, create=create) as session, told():
        yield register_of(session), me()


def register_of(session: Session) -> Register:
    from glidepath.people.register import Register

    return Register(session.store, session.wall, at_wall=lambda wall: session.clock.at_wall(wall))


@contextmanager
def told() -> Iterator[None]:
    """What the register refuses ends the verb."""
    from glidepath.jobs.errors import DeskError

    try:
        yield
    except DeskError as error:
        raise stopped(error) from None


@contextmanager
def imagined(verb: Verb) -> Iterator[tuple[Register, Caller]]:
    """A register with nobody in it, for what would be where there is no store yet."""
    from glidepath.store.engine import open_store
    from glidepath.store.migrations import migrate

    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/nobody.db") as store, told():
        migrate(store)
        yield register_of(Session(located(verb), store, verb.caller.wall, verb.caller.sleep)), me()


class Change(Verb):
    """Base of the verbs that change something: the item that came of it, and the sentence about it."""

    kind: ClassVar[str]
    creates: ClassVar[bool] = False  # whether it may make a store where there is none
    options: ClassVar[Options] = {**DRY_RUN, **OUTPUT}

    @property
    def dry(self) -> bool:
        return bool(self.given["dry_run"])

    def change(self, register: Register, caller: Caller) -> dict[str, Any]:
        raise NotImplementedError

    def said(self, item: dict[str, Any]) -> str:
        raise NotImplementedError

    def lines(self, item: dict[str, Any]) -> tuple[str, ...]:
        """What is on stdout for people."""
        return ()

    def register(self) -> AbstractContextManager[tuple[Register, Caller]]:
        file = located(self).store_file
        if self.creates and self.dry and file is not None and not file.exists():
            return imagined(self)
        return registering(self, write=not self.dry, create=self.creates and not self.dry)

    def run(self) -> int:
        with self.register() as (register, caller):
            item = self.change(register, caller)
        answer = Answer(self.kind, (item,), lines=self.lines(item))
        self.caller.out.write(drawn(answer, self.given["output"], self.caller))
        self.caller.say(f"nothing was changed; otherwise: {self.said(item)}" if self.dry else self.said(item))
        return Exit.DONE


class Look(Reader):
    """Base of the verbs that only look."""

    options: ClassVar[Options] = Reader.options

    def answer(self) -> Answer:
        with registering(self) as (register, caller):
            return self.found(register, caller)

    def found(self, register: Register, caller: Caller) -> Answer:
        raise NotImplementedError
