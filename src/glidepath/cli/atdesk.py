"""The desk for a verb: every question about jobs goes there, in the name of whoever sits here.

Whoever can open the store is an admin of it, under the name of their login; at a server far away one is
whoever the token says. A question that is not answered ends the verb with one line and its exit code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glidepath.cli.session import Located, login, opened
from glidepath.cli.verb import Exit, Options, Stop, Verb
from glidepath.cli.where import token_file

if TYPE_CHECKING:
    from glidepath.jobs.caller import Caller
    from glidepath.jobs.desk import JobDesk
    from glidepath.jobs.errors import DeskError


SERVER: Options = {
    "server": {
        "args": ("--server",),
        "metavar": "URL",
        "help": "ask a server far away, as whoever the token in $GLIDEPATH_TOKEN_FILE belongs to "
        "(default: $GLIDEPATH_SERVER, else this home)",
    }
}


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


def server_of(verb: Verb) -> str:
    """The server that is meant; empty for this home. A home or a configuration that is named means here."""
    given = verb.given
    if given["server"] or given["home"] or given["config"]:
        return given["server"] or ""
    return verb.caller.environ.get("GLIDEPATH_SERVER", "")


@contextmanager
def at_desk(
    verb: Verb, *, place: Located | None = None, write: bool = False, create: bool = False
) -> Iterator[tuple[JobDesk, Caller]]:
    from glidepath.jobs.errors import DeskError

    if server := server_of(verb):
        from glidepath.jobs.far import FarDesk

        try:
            yield FarDesk(server, token_file(verb.caller.environ), sleep=verb.caller.sleep), me()
        except DeskError as error:
            raise stopped(error) from None
        return
    with opened(verb, place=place, write=write, create=create) as session:
        try:
            yield session.desk, me()
        except DeskError as error:
            raise stopped(error) from None
