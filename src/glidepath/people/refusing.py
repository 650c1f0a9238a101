"""Why somebody may not change something, or what they name is not there: one sentence each."""

from __future__ import annotations

from collections.abc import Iterable

from glidepath.core.text import nearest, one_line
from glidepath.jobs.caller import Caller, Role
from glidepath.jobs.errors import Forbidden, Unknown


def only(caller: Caller, role: Role, what: str) -> None:
    if caller.role < role:
        raise Forbidden(
            f"only an {role.word} may {what}; the role of `{caller.name}` is `{caller.role.word}`"
        )


def unknown(kind: str, name: str, known: Iterable[str]) -> Unknown:
    near = nearest(name, known)
    return Unknown(f"no {kind} is named `{one_line(name)}`" + (f"; did you mean `{near}`?" if near else ""))
