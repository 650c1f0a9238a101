"""The API of jobs over HTTP: a request comes in, the desk is asked for somebody, JSON or a stream goes out.

Who asks is known before anything of the body is read. What they may see is decided at the desk alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from glidepath.core.text import one_line
from glidepath.jobs.caller import Caller
from glidepath.jobs.desk import LogAsked, ServedDesk
from glidepath.jobs.errors import Clash, DeskError, Forbidden, Unanswered, Unknown, Unusable
from glidepath.people.known import NotKnown
from glidepath.people.register import Register
from glidepath.serve.desk import Denied
from glidepath.serve.gather import Gather
from glidepath.serve.jobops import EVENT_STREAM, LOG_PATH
from glidepath.serve.jobwords import LogWish
from glidepath.serve.operation import PREFIX, Call, Operation, Reply, Together
from glidepath.serve.operations import OPERATIONS
from glidepath.serve.pace import Pace
from glidepath.serve.stream import Listener, Streams, log_headers
from glidepath.serve.wire import HEADERS, body_of, threaded

# A megabyte of arguments and all files of a job, as JSON writes them at its worst.
BODY_BYTES_MAX = 8 << 20
FAULTS_SHOWN_MAX = 20
TOKEN_CHARS_MAX = 16_384
QUERY_CHARS_MAX = 4096
STATUS: dict[type[DeskError], tuple[int, str]] = {
    Unknown: (404, "unknown"),
    Forbidden: (403, "forbidden"),
    Unusable: (422, "unusable"),
    Clash: (409, "clash"),
    Unanswered: (503, "unanswered"),
}
KINDS = {
    400: "unusable",
    401: "not known",
    404: "unknown",
    405: "unusable",
    408: "slow",
    413: "too long",
    422: "unusable",
    429: "too often",
    503: "unanswered",
}


class Knows(Protocol):
    """Who a token belongs to; a `NotKnown` where it is nobody's."""

    def kept(self, token_text: str, wall: float) -> Caller | None: ...

    def caller_of(self, token_text: str, wall: float) -> Caller: ...


class Misread(Exception):
    """A request that is not as described, with each place that is wrong."""

    def __init__(self, why: str, places: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(why)
        self.why, self.places = why, places


@dataclass(frozen=True, slots=True)
class Paces:
    """How often one may ask: whoever is known, and whoever is not."""

    people: Pace
    strangers: Pace

    def person(self, name: str) -> None:
        _slow_down(self.people, name)

    def stranger(self, address: str) -> None:
        _slow_down(self.strangers, address)


def _slow_down(pace: Pace, who: str) -> None:
    wait_s = pace.wait_s(who)
    if wait_s:
        raise Denied(429, f"too many calls; wait {wait_s:.0f} s")


@dataclass
class Api:
    """The endpoints of one server for jobs."""

    desk: ServedDesk
    people: Knows
    register: Register
    paces: Paces
    before: Callable[[], object] = lambda: None  # each call, on its thread: takes up changed settings
    wall: Callable[[], float] = time.time
    streams: Streams = field(init=False)

    def __post_init__(self) -> None:
        self.streams = Streams(self.desk)
        self._gathers = {
            each.name: Gather(partial(self._run_each, each.together))
            for each in OPERATIONS
            if each.together is not None
        }

    def routes(self) -> list[Route]:
        made = [Route(PREFIX + each.path, self._endpoint(each), methods=[each.method]) for each in OPERATIONS]
        return [*made, Route(PREFIX + LOG_PATH, self.log, methods=["GET"])]

    def _endpoint(self, operation: Operation) -> Any:
        async def endpoint(request: Request) -> Response:
            return await self.answer(operation, request)

        return endpoint

    async def answer(self, operation: Operation, request: Request) -> Response:
        caller = await self.caller(request)
        query = _query(operation.query, request)
        body = await _body(operation, request)
        key = request.headers.get("idempotency-key", "")
        call = Call(caller, self.desk, self.register, request.path_params, query, body, key)
        if operation.also and EVENT_STREAM in request.headers.get("accept", ""):
            return await self._stream(request, call)
        if operation.together is not None and operation.together.may(call):
            reply = await self._gathers[operation.name].ask(call)
        else:
            reply = await threaded(partial(self._run, operation, call))
        headers = {**HEADERS, **({"Location": reply.location} if reply.location else {})}
        return JSONResponse(reply.content, reply.status, headers)

    def _run(self, operation: Operation, call: Call) -> Reply:
        self.before()
        return operation.run(call)

    def _run_each(self, together: Together, calls: Sequence[Call]) -> Sequence[Reply | Exception]:
        self.before()
        return together.run(calls)

    async def log(self, request: Request) -> Response:
        """GET of what a rank wrote: a piece, or all that comes until its attempt is over."""
        caller = await self.caller(request)
        wish = _query(LogWish, request)
        assert isinstance(wish, LogWish)
        call = Call(caller, self.desk, self.register, request.path_params)
        asked = LogAsked(call.number("rank"), wish.stream == "stderr", wish.attempt, wish.offset, wish.bytes)
        job = call.number()
        piece = await threaded(partial(self.desk.log, caller, job, asked))
        if wish.follow:
            return self.streams.log(Listener(caller, partial(self.caller, request)), job, asked, piece)
        headers = {**HEADERS, **log_headers(piece)}
        return Response(piece.content, 200, headers, media_type="application/octet-stream")

    async def _stream(self, request: Request, call: Call) -> Response:
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) <= 18 else call.query.after
        job = call.number() if "job" in request.path_params else None
        # Whoever may not see the job hears so at once, and not in a stream.
        await threaded(partial(self.desk.events, call.caller, job=job, after=after, limit=1))
        return self.streams.events(Listener(call.caller, partial(self.caller, request)), job=job, after=after)

    async def caller(self, request: Request) -> Caller:
        """Who asks. All that is wrong with a token looks the same from outside."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        address = request.client.host if request.client else "?"
        try:
            if not token or len(token) > TOKEN_CHARS_MAX:
                raise NotKnown
            wall = self.wall()
            found = self.people.kept(token, wall)
            if found is None:
                found = await threaded(partial(self.people.caller_of, token, wall))
        except NotKnown as error:
            self.paces.stranger(address)
            raise Denied(401, str(error)) from None
        self.paces.person(found.name)
        return found


def _query(model: type[BaseModel] | None, request: Request) -> BaseModel | None:
    if len(request.url.query) > QUERY_CHARS_MAX:
        raise Misread(f"the query has more than {QUERY_CHARS_MAX} characters")
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Misread(f"the query says `{one_line(name)}` twice")
        given[name] = value
    if model is None:
        if given:
            raise Misread(f"the query has `{one_line(next(iter(given)))}`, and nothing is asked there")
        return None
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise misread("query", error) from None


async def _body(operation: Operation, request: Request) -> Any:
    raw = await body_of(request, BODY_BYTES_MAX)
    if not raw and not operation.body_needed:
        return None
    if operation.body is None:
        raise Misread("nothing is taken in a body there")
    try:
        said = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise Misread(f"the body is no JSON: {one_line(str(error))}") from None
    if not isinstance(said, Mapping):
        raise Misread("the body is not an object of JSON")
    if operation.reads is not None:
        return operation.reads(said)
    try:
        return operation.body.model_validate(said)
    except ValidationError as error:
        raise misread("body", error) from None


def misread(where: str, error: ValidationError) -> Misread:
    """Every mistake with its place. Nothing of what was sent is repeated beyond one short line."""
    places = tuple(
        (".".join(str(part) for part in each["loc"][:4]) or where, one_line(each["msg"], letters_max=200))
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    )
    first = "; ".join(f"`{one_line(place)}`: {why}" for place, why in places[:3])
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return Misread(f"the {where} is not as described: {first}{more}", places[:FAULTS_SHOWN_MAX])


def said(
    status: int,
    kind: str,
    why: str,
    places: tuple[tuple[str, str], ...] = (),
    *,
    hint: str = "",
    headers: Mapping[str, str] = HEADERS,
) -> Response:
    """Why something was not done, in the one form that all doors of the server have for it."""
    rows = [{"place": one_line(place), "why": each} for place, each in places]
    content = {"error": why, "kind": kind, "hint": hint, "places": rows}
    return JSONResponse(content, status, dict(headers))


async def desk_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DeskError)
    status, kind = STATUS[type(error)]
    return said(status, kind, error.why, getattr(error, "places", ()), hint=error.hint)


async def not_read(request: Request, error: Exception) -> Response:
    assert isinstance(error, Misread)
    return said(422, "unusable", error.why, error.places)


async def no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = KINDS.get(error.status_code, "unusable")
    return said(error.status_code, kind, error.detail, headers={**HEADERS, **(error.headers or {})})


HANDLERS: dict[Any, Any] = {DeskError: desk_error, Misread: not_read, HTTPException: no_route}
