"""The application: the API, the board and MCP, behind one guard, and the thread that reads chat messages.

A request to the API is read whole, then answered at a desk, then sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from functools import cache
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, unquote

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from dibs import __version__
from dibs.core.errors import DibsError, InvalidInput, Misconfigured, NotFound
from dibs.core.task import Actor
from dibs.desk import mint_id
from dibs.serve.access import Right, lacks, token_refused
from dibs.serve.api import chat, desk, tasks
from dibs.serve.api.schemas import COMPONENTS
from dibs.serve.desks import Desks
from dibs.serve.idempotency import IdempotentAnswers, idempotency_key
from dibs.serve.live import Hub
from dibs.serve.metrics import Metrics, measure, ready
from dibs.serve.problems import MethodNotAllowed, problem, status_of
from dibs.serve.remote import StoreApi
from dibs.serve.requests import SCOPE, ApiRequest, object_schema, read_fields, read_json, read_query
from dibs.serve.webhooks import Deliverer
from dibs.stores.http.wire import PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.serve.access import AccessControl, Caller
    from dibs.serve.mcp.transports import MountedApp
    from dibs.serve.requests import Call, Field, Route


T = TypeVar("T")

ACTOR = "x-dibs-actor"  # the agent that events name, if no token names one
_STREAM = "text/event-stream"


class Api:
    """Answers requests to the API. Ids and tokens derived from a key cannot be guessed without `secret`."""

    def __init__(self, desks: Desks, hub: Hub, metrics: Metrics, scope: str, secret: bytes | None) -> None:
        self.desks = desks
        self.hub = hub
        self.metrics = metrics
        self.scope = scope
        self._secret = secret
        self._answers = IdempotentAnswers()
        self._router = Router(ROUTES)

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        path: str = scope["raw_path"].decode("latin-1")
        route, values = self._router.find(scope["method"], path.removeprefix(BASE))
        scope["dibs.route"] = route.path
        request = await self._read(scope, receive, route, values)
        if route.live is not None and _STREAM in request.headers.get("accept", ""):
            scope["dibs.live"] = True
            return await route.live(self, request)
        if route.serve is not None:
            document = await route.serve(self, request)
            return Response(_encoded(document), route.status, media_type="application/json")
        body = await self._acted(request)
        if route.method != "GET":
            self.hub.hurry()
        return Response(body, route.status, media_type="application/json")

    async def _acted(self, request: ApiRequest) -> bytes:
        act = request.route.act
        if act is None:
            raise AssertionError("a route has act or serve")

        async def act_at_desk() -> bytes:
            return await self.at_desk(request, lambda call: _encoded(act(call)))

        if request.key is None:
            return await act_at_desk()
        return await self._answers.answer(request.caller.name, request.key, act_at_desk)

    async def at_desk(self, request: ApiRequest, work: Callable[[Call], T]) -> T:
        """Run `work` on a desk's thread. It gets everything it needs, and its result needs no desk."""

        def sit_down(desk: Desk) -> T:
            return work(request.at(desk.at(request.scope, by=request.by)))

        return await self.desks.borrow(sit_down)

    async def _read(self, request: Scope, receive: Receive, route: Route, path: dict[str, str]) -> ApiRequest:
        caller: Caller = request["dibs.caller"]
        headers: dict[str, str] = request["dibs.headers"]
        if not route.open_to(caller):
            raise lacks(route.suffices or route.right)
        given = parse_qsl(request["query_string"].decode("latin-1"), keep_blank_values=True)
        query = read_query((SCOPE, *route.query), given)
        scope = caller.scope(query.pop("scope", None), self.scope)
        sent = None if route.body is None else await read_json(headers, receive)
        body = {} if route.body is None else read_fields(route.body, sent)
        by = Actor(caller.agent or _text(headers, ACTOR), caller.run)
        named = None if route.method == "GET" else _text(headers, "idempotency-key")
        parts = [caller.name, scope, route.method, route.path, path, given, sent]
        key = None if named is None else idempotency_key(named, parts, self._secret)
        kept: dict[str, str] = {header: headers[header] for header in ("accept", "last-event-id") if header in headers}
        return ApiRequest(route, caller, scope, by, path, query, body, kept, key)


def _text(headers: Mapping[str, str], name: str) -> str | None:
    """Headers are bytes; ours are UTF-8."""
    value = headers.get(name)
    if value is None:
        return None
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"The header {name} is not valid UTF-8.") from None


def _encoded(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


# The guard

_log = logging.getLogger("dibs.serve")
_AUDITED = frozenset({401, 403, 421, 429})

_MISTAKE = "The server has a bug; its log has the details."
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)

LAST_HEADERS = (*HEADERS, (b"connection", b"close"))  # of a draining server: the client should connect to another one


class Guard:
    def __init__(self, app: ASGIApp, access: AccessControl, metrics: Metrics) -> None:
        self._app = app
        self._access = access
        self._metrics = metrics
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = _Answering(send, LAST_HEADERS if self.draining else HEADERS)
        began = time.monotonic()
        try:
            await self._let_in(scope, receive, answering)
        except ClientDisconnect:  # the client has left
            return
        except asyncio.CancelledError:
            caller: Caller | None = scope.get("dibs.caller")
            if caller is None or caller.token_id not in self._access.revoked:
                raise
            await answering.end(problem(token_refused()), scope, receive)
        except DibsError as error:
            self._note(scope, error)
            await answering.instead(problem(error), scope, receive)
        except Exception:  # noqa: BLE001 - the log has it, and the client an answer
            _log.exception("a mistake in the server")
            await answering.instead(problem(DibsError(_MISTAKE)), scope, receive)
        finally:
            seconds = None if scope.get("dibs.live") else time.monotonic() - began
            route = scope.get("dibs.route", "other")
            self._metrics.answered(route, _known(scope["method"]), answering.status, seconds)

    async def _let_in(self, scope: Scope, receive: Receive, answering: _Answering) -> None:
        headers = scope["dibs.headers"] = _first_of_each(scope["headers"])
        self._access.check_origin(scope["method"], headers)
        if public(scope["path"]):
            await self._app(scope, receive, answering)
            return
        caller = scope["dibs.caller"] = await self._access.admit(headers, (scope.get("client") or ("?",))[0])
        if caller.token_id is None:
            await self._app(scope, receive, answering)
            return
        with self._access.revoked.watching(caller.token_id):
            await self._app(scope, receive, answering)

    def _note(self, scope: Scope, error: DibsError) -> None:
        """Log a refused request, without the token it presented."""
        if (status := status_of(error)) in _AUDITED:
            caller = scope.get("dibs.caller")
            who = (caller.agent or caller.sender or "this machine") if caller else "a caller without a valid token"
            address = (scope.get("client") or ("?",))[0]
            request = f"{_known(scope['method'])} {scope['path'][:200]!r}"
            _log.warning("refused %s %s: %s from %s, as %s", status, error.code, request, address, who)
        self._metrics.refused(error.code)


def _first_of_each(headers: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(headers)}


def public(path: str) -> bool:
    """Whether a path needs no token: the files of the board and the liveness check, which show no data."""
    return path == "/health" or not path.startswith(_KEPT)


_KEPT = ("/api", "/mcp", "/metrics", "/health", "/openapi.json")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _known(method: str) -> str:
    """The method, or "other" for a made-up one, so that metrics stay small."""
    return method if method in _METHODS else "other"


class _Answering:
    """Adds the security headers to an answer, and remembers whether it has begun."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._headers]}
        await self._send(message)

    async def instead(self, answer: Response, scope: Scope, receive: Receive) -> None:
        """Send this answer instead. If another one has begun, break that off."""
        if self.status:
            raise ConnectionAbortedError("an answer was broken off")
        await answer(scope, receive, self)

    async def end(self, answer: Response, scope: Scope, receive: Receive) -> None:
        """Send this answer instead. If another one has begun, it is a stream: end it."""
        if self.status:
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await answer(scope, receive, self)


# Chat

_AGAIN = 5.0  # seconds until the next try


class ChatTimer:
    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open_desk = open_desk
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from dibs.chat.conversation.inbox import can_chat

        while not self._stop.is_set():
            try:
                with self._open_desk() as desk:
                    if not can_chat(desk):
                        return
                    self._watch(desk.at(desk.scope, by=Actor("chat")))
            except DibsError as error:
                _log.warning("chat: %s", error.message)
            except Exception:  # noqa: BLE001 - logged, then tried again
                _log.exception("chat: a mistake in the timer")
            self._stop.wait(_AGAIN)

    def _watch(self, desk: Desk) -> None:
        from dibs.chat.conversation.delivery import Deliverer
        from dibs.chat.conversation.reader import watch
        from dibs.chat.opening import chosen_reader, chosen_unify

        deliverer = Deliverer(desk, chosen_unify())
        watch(desk, chosen_reader(desk), deliverer, _quiet, _log.warning, self._stop.wait)


def _quiet(_what: object) -> None:
    """The sender gets the message; the server prints nothing."""


# The application

_BOARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "board", "static")


class Application:
    """The ASGI application, with the threads that end with it."""

    def __init__(self, open_desk: Callable[[], Desk], scope: str, access: AccessControl) -> None:
        self.metrics = Metrics()
        self.desks = Desks(open_desk)
        self.hub = Hub(open_desk, self.metrics)
        self.api = Api(self.desks, self.hub, self.metrics, scope, access.secret)
        self.stores = StoreApi(self.api, open_desk, access.secret)
        self._timer = ChatTimer(open_desk)
        self._webhooks = Deliverer(open_desk, access.secrets, f"server-{mint_id()}")
        self._mcp = _LazyMcp(open_desk, scope, self.hub)
        self._access = access
        self._open_desk = open_desk
        self._board = GZipMiddleware(StaticFiles(directory=_BOARD, html=True, check_dir=False))
        self._guarded = Guard(self._find, access, self.metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._guarded(scope, receive, send)

    async def _find(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path.startswith(PATH):
            await (await self.stores.answer(scope, receive))(scope, receive, send)
        elif path.startswith(f"{BASE}/"):
            answer = await self.api.answer(scope, receive)
            await answer(scope, receive, send)
        elif path in _PAGES:
            scope["dibs.route"] = path
            await (await self._page(scope, path))(scope, receive, send)
        elif path == "/mcp" or path.startswith("/mcp/"):
            await self._mcp(scope, receive, send)
        else:
            await self._static(scope, receive, send)

    async def _page(self, scope: Scope, path: str) -> Response:
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed.but(["GET"])
        if path == "/health":
            draining = self._guarded.draining
            return JSONResponse({"status": "draining" if draining else "ok"}, 503 if draining else 200)
        if not scope["dibs.caller"].may(Right.READ):
            raise lacks(Right.READ)
        if path == "/openapi.json":
            return JSONResponse(openapi())
        scope["dibs.caller"].scope(self.api.scope, self.api.scope)  # these metrics are of the server's scope
        if path == "/metrics":
            return Response(await self._measured(), media_type="text/plain; version=0.0.4")
        return JSONResponse(await ready(self.api))

    async def _measured(self) -> str:
        where = self.api.scope
        counts, ages, trends = await self.desks.borrow(lambda desk: measure(desk.at(where)))
        return self.metrics.text(where, counts, ages, trends)

    async def _static(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._board(scope, receive, send)
        except HTTPException as error:
            if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                raise MethodNotAllowed.but(["GET"]) from None
            raise NotFound("This address does not exist.") from None

    async def _live(self, receive: Receive, send: Send) -> None:
        """Answer the messages of the ASGI lifespan."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.hub.start()
                self._timer.start()
                self._webhooks.start()
                if self._access.locked:
                    self._access.revoked.start(self._open_desk)
            else:
                await self._close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    def drain(self) -> None:
        """Answer requests as before, but report that the server is leaving and close each answered connection."""
        self._guarded.draining = True

    def end_streams(self) -> None:
        """End the streams of events, and let other requests finish."""
        self.hub.close()

    async def _close(self) -> None:
        self.end_streams()
        await self._mcp.close()
        await asyncio.to_thread(self._timer.close)
        await asyncio.to_thread(self._webhooks.close)
        await asyncio.to_thread(self._access.revoked.close)
        await asyncio.to_thread(self.stores.wakeups.close)
        await asyncio.to_thread(self.hub.join)
        await asyncio.to_thread(self.desks.close)


_PAGES = frozenset({"/health", "/health/ready", "/metrics", "/openapi.json"})


_MCP = frozenset({"mcp", "mcp_types", "pydantic", "httpx", "anyio"})


class _LazyMcp:
    """Loads MCP at the first request for it: most servers never get one."""

    def __init__(self, open_desk: Callable[[], Desk], scope: str, hub: Hub) -> None:
        self._open_desk = open_desk
        self._scope = scope
        self._hub = hub
        self._mounted: MountedApp | None = None
        self._running: asyncio.Task[None] | None = None
        self._ready = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._ready:
            self._mounted = self._mounted or await self._start()
        await self._mounted.app(scope, receive, send)

    async def _start(self) -> MountedApp:
        try:
            make = import_module("dibs.serve.mcp.transports").mcp_app
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _MCP:
                raise
            raise Misconfigured("MCP is not installed here: pip install 'dibs[mcp]'.") from None
        mounted: MountedApp = make(self._open_desk, self._scope)
        started = asyncio.Event()

        async def run() -> None:
            async with mounted.running():
                started.set()
                await self._hub.closing.wait()

        self._running = asyncio.ensure_future(run())
        await started.wait()
        return mounted

    async def close(self) -> None:
        if self._running is not None:
            await self._running


BASE = "/api/v1"
ROUTES: tuple[Route, ...] = (
    *tasks.ROUTES,
    *chat.ROUTES,
    *desk.ROUTES,
)


class _Node:
    """A part of a path: the parts that may follow it, and the routes that end here."""

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, tuple[Route, tuple[str, ...]]] = {}


class Router:
    """Finds the route of a request. It splits paths before it decodes them, so an id may contain a slash."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._top = _Node()
        for route in routes:
            self._enter(route)

    def _enter(self, route: Route) -> None:
        place, names = self._top, []
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part.strip("{}"))
                place.any = place = place.any or _Node()
            else:
                place = place.named.setdefault(part, _Node())
        place.routes[route.method] = route, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        place: _Node | None = self._top
        values = []
        for part in raw_path.split("/")[1:]:
            if place is None:
                break
            if part not in place.named and place.any is not None and part:
                values.append(unquote(part, errors="surrogateescape"))
                place = place.any
            else:
                place = place.named.get(part)
        if place is None or not place.routes:
            raise NotFound("This address does not exist. /openapi.json lists all addresses.")
        if method not in place.routes:
            raise MethodNotAllowed.but(place.routes)
        route, names = place.routes[method]
        return route, dict(zip(names, values, strict=True))


_PROBLEM: dict[str, Json] = {
    "description": "The error, and what to do next",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_KEY: dict[str, Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "your name for this request: repeated under it, the request is done once",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


@cache
def openapi() -> dict[str, Json]:
    paths: dict[str, dict[str, Json]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dibs",
            "version": __version__,
            "description": "Hands out work to fleets of AI agents.",
        },
        "servers": [{"url": BASE}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route) -> dict[str, Json]:
    parameters = [_parameter(field) for field in (SCOPE, *route.query)]
    parts = [part.strip("{}") for part in route.path.split("/") if part.startswith("{")]
    parameters += [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    told: dict[str, Json] = {
        "operationId": route.name,
        "summary": route.about,
        "description": f"Needs the right `{route.right}`" + (f" or `{route.suffices}`." if route.suffices else "."),
        "parameters": parameters if route.method == "GET" else [*parameters, _KEY],
        "responses": {str(route.status): _answer(route), "default": _PROBLEM},
    }
    if route.body is not None:
        needed = any(field.required for field in route.body)
        told["requestBody"] = {
            "required": needed,
            "content": {"application/json": {"schema": object_schema(route.body)}},
        }
    return told


def _answer(route: Route) -> dict[str, Json]:
    content: dict[str, Json] = {"application/json": {"schema": route.answer}}
    if route.live is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "As asked", "content": content}


def _parameter(field: Field) -> dict[str, Json]:
    schema = field.kind.schema
    told: dict[str, Json] = {"name": field.name, "in": "query", "description": field.about, "schema": schema}
    return told | {"style": "form", "explode": False} if schema.get("type") == "array" else told
