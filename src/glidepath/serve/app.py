"""The demand server as an application of HTTP: requests come in, the desk is asked, JSON goes out.

Every body has a bound, every caller a pace, and nothing that a caller sends is shown to another.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from glidepath.called.late import LateAnswer
from glidepath.serve.api import HANDLERS, KINDS, Api, said
from glidepath.serve.counter import EVERYBODY, Address, CounterDesk
from glidepath.serve.desk import Denied, Desk
from glidepath.serve.jsonrpc import BODY_BYTES_MAX as RPC_BYTES_MAX
from glidepath.serve.jsonrpc import RpcError, error_text, read_call, result_text
from glidepath.serve.openapi import document
from glidepath.serve.operations import OPERATIONS
from glidepath.serve.pace import Pace
from glidepath.serve.page import HEADERS as PAGE_HEADERS
from glidepath.serve.page import page
from glidepath.serve.wire import HEADERS, body_of, threaded
from glidepath.store.engine import StoreError
from glidepath.store.site_tokens import ADDRESS, spelled

# Of a report: twenty thousand pilots, each with its words.
BODY_BYTES_MAX = 8 << 20
# For those who show no token in force; a person who mistypes needs a few, a guesser gets nowhere.
STRANGERS_PER_MINUTE = 30
# Of one address, where the whole demand is open to all.
OPEN_PER_MINUTE = 120
Endpoint = Callable[[Request], Awaitable[Response]]


class Doorway:
    """The endpoints of one server."""

    def __init__(self, desk: Desk, jobs: Api | None) -> None:
        self.desk = desk
        self.jobs = jobs
        self.sites = Pace(desk.settings.serve.calls_per_minute, steady=time.monotonic)
        self.strangers = Pace(STRANGERS_PER_MINUTE, steady=time.monotonic)
        self.open_to_all = Pace(OPEN_PER_MINUTE, steady=time.monotonic)
        self.counter = CounterDesk(desk)

    async def call(self, request: Request) -> Response:
        """POST /api/v1/sites/SITE/call"""
        site = await self._site(request)
        body = await body_of(request, BODY_BYTES_MAX)
        answer = await threaded(partial(self.desk.called, site, body))
        status = 409 if isinstance(answer, LateAnswer) else 200
        return Response(answer.model_dump_json(), status, HEADERS, media_type="application/json")

    async def share(self, request: Request) -> Response:
        """GET /api/v1/sites/SITE: what the server holds for the site, in numbers"""
        site = await self._site(request)
        return JSONResponse(await threaded(partial(self.desk.share, site)), headers=HEADERS)

    async def alive(self, request: Request) -> Response:
        """GET /api/v1/alive"""
        return JSONResponse({"alive": True}, headers=HEADERS)

    async def openapi(self, request: Request) -> Response:
        """GET /api/v1/openapi.json"""
        return JSONResponse(document(OPERATIONS if self.jobs else ()), headers=HEADERS)

    async def rpc(self, request: Request) -> Response:
        """POST /sites/NAME-SECRET/jsonrpc, and /jsonrpc where the whole demand is open to all"""
        try:
            address = await self._address(request)
            call = read_call(await body_of(request, RPC_BYTES_MAX))
            result = await threaded(partial(self.counter.answer, address, call))
        except RpcError as error:
            return JSONResponse(error_text(error), 400, HEADERS)
        return JSONResponse(result_text(call.id, result), headers=HEADERS)

    async def page(self, request: Request) -> Response:
        """GET of the same addresses: for people"""
        site = (await self._address(request)).site
        everything = site == EVERYBODY
        read = self.counter.everything if everything else partial(self.counter.share, site)
        rows = await threaded(read)
        clients = await threaded(partial(self.desk.post.clients, site))
        said = {name: (wall_s, body.get("sums", {})) for name, (wall_s, body) in clients.items()}
        title = "Queue status" if everything else f"Share of {site}"
        return HTMLResponse(page(title, rows, said), headers=PAGE_HEADERS)

    async def _address(self, request: Request) -> Address:
        """Which site's address this is; none is told apart from one that was never there."""
        secret = request.path_params.get("secret")
        who = request.client.host if request.client else "?"
        if secret is None:
            if not self.desk.settings.serve.open:
                raise Denied(404, "each client has an address of its own; ask for one")
            self._slow_down(self.open_to_all, who)
            return Address(EVERYBODY)
        shown = spelled(secret)
        try:
            if shown is None:
                raise Denied(404, "there is nothing here")
            found, _ = await threaded(partial(self.desk.bearer, secret, shown.site, use=ADDRESS))
        except Denied:
            self._slow_down(self.strangers, who)
            raise Denied(404, "there is nothing here") from None
        self._slow_down(self.sites, found.id)
        return Address(found.site, found.id)

    async def _site(self, request: Request) -> str:
        """The site that calls, once it has shown that it is that site."""
        site = request.path_params["site"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        try:
            found, _ = await threaded(partial(self.desk.bearer, token, site))
        except Denied:
            self._slow_down(self.strangers, request.client.host if request.client else "?")
            raise
        self._slow_down(self.sites, found.id)
        return found.site

    @staticmethod
    def _slow_down(pace: Pace, caller: str) -> None:
        wait_s = pace.wait_s(caller)
        if wait_s:
            raise Denied(429, f"too many calls; wait {wait_s:.0f} s")


async def denied(request: Request, error: Exception) -> Response:
    assert isinstance(error, Denied)
    headers = {**HEADERS, **({"Retry-After": "10"} if error.status == 429 else {})}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    # What follows a body that was not read would be taken for the next request.
    headers["Connection"] = "close"
    return said(error.status, KINDS[error.status], error.why, headers=headers)


async def store_away(request: Request, error: Exception) -> Response:
    """Why is for the log of the server, not for a stranger."""
    return said(503, KINDS[503], "the store does not answer; call again")


def application(desk: Desk, jobs: Api | None = None) -> Starlette:
    doorway = Doorway(desk, jobs)
    routes: list[Any] = [
        *(jobs.routes() if jobs is not None else ()),
        Route("/api/v1/sites/{site:str}/call", doorway.call, methods=["POST"]),
        Route("/api/v1/sites/{site:str}", doorway.share, methods=["GET"]),
        Route("/sites/{secret:str}/jsonrpc", doorway.rpc, methods=["POST"]),
        Route("/sites/{secret:str}/", doorway.page, methods=["GET"]),
        Route("/sites/{secret:str}", doorway.page, methods=["GET"]),
        Route("/jsonrpc", doorway.rpc, methods=["POST"]),
        Route("/", doorway.page, methods=["GET"]),
        Route("/api/v1/alive", doorway.alive, methods=["GET"]),
        Route("/api/v1/openapi.json", doorway.openapi, methods=["GET"]),
    ]
    handlers: dict[Any, Any] = {Denied: denied, StoreError: store_away, **HANDLERS}
    return Starlette(routes=routes, exception_handlers=handlers)
