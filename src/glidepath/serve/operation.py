"""One thing that the API can be asked for: what comes in, who runs it, what goes out. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import ServedDesk
from glidepath.jobs.errors import Unknown
from glidepath.people.register import Register

PREFIX = "/api/v1"
NUMBER_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class Call:
    """One request of somebody who has shown who they are."""

    caller: Caller
    desk: ServedDesk
    register: Register
    path: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    body: Any = None
    key: str = ""

    def number(self, name: str = "job") -> int:
        text = self.path[name]
        if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
            raise Unknown(f"there is no such {name}: numbers look like `42`")
        return int(text)


@dataclass(frozen=True, slots=True)
class Reply:
    content: Any
    status: int = 200
    location: str = ""


Run = Callable[[Call], Reply]


@dataclass(frozen=True, slots=True)
class Together:
    """How calls of one operation are done many at a time, where they may be; a refusal is of one of them."""

    may: Callable[[Call], bool]
    run: Callable[[Sequence[Call]], Sequence[Reply | Exception]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked for. `run` may wait for the store and is called on a thread."""

    name: str
    method: str
    path: str
    summary: str
    run: Run
    answer: type[BaseModel]
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    reads: Callable[[Any], Any] | None = None  # of a body that has a reader of its own
    body_needed: bool = False
    statuses: tuple[int, ...] = (200,)
    together: Together | None = None
    also: str = ""  # another type of answer, streamed by whoever serves

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))
