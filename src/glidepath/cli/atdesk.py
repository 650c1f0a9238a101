"""The desk for a verb: every question about jobs goes there, in the name of whoever sits here.

Whoever can open the store is an admin of it, under the name of their login. A question that is not answered
ends the verb with one line and the exit code for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glidepath.cli.session import Located, login, opened
from glidepath.cli.verb import Exit, Stop, Verb

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.jobs.desk import JobDesk
    from glidepath.jobs.errors import DeskError


def me() -> Caller:
    from glidepath.jobs.caller import Caller, Role

    return Caller(login(), Role.ADMIN)


def stopped(error: DeskError) -> Stop:
    """The end of a verb whose question was not answered."""
    from glidepath.jobs.errors import Unknown, Unusable

    if isinstance(error, Unknown):
        more = f"; {error.hint}" if error.hint else ""
        return Stop(f"{error.why}{more}", code=Exit.NOT_FOUND)
    code = Exit.USAGE if isinstance(error, Unusable) else Exit.FAILED
    return Stop(error.why, code=code, hint=error.hint)


@contextmanager
def at_desk(
    verb: Verb, *, place: Located | None = None, write: bool = False, create: bool = False
) -> Iterator[tuple[JobDesk, Caller]]:
    from glidepath.jobs.errors import DeskError

    with opened(verb, place=place, write=write, create=create) as session:
        try:
            yield session.desk, me()
        except DeskError as error:
            raise stopped(error) from None
