"""What a server is made of, and how a request goes through it: read whole, then answered at a desk, then sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl

from starlette.responses import Response

from dibs.core.errors import InvalidInput
from dibs.core.task import Actor
from dibs.serve.calls import SCOPE, Asked
from dibs.serve.idempotency import Once, name_of
from dibs.serve.reading import read_json
from dibs.serve.refusals import Forbidden
from dibs.serve.requests import read_fields, read_query
from dibs.serve.table import BASE, ROUTES, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import Receive, Scope

    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.serve.callers import Caller
    from dibs.serve.calls import Call, Route
    from dibs.serve.desks import Desks
    from dibs.serve.live import Hub
    from dibs.serve.metrics import Metrics

T = TypeVar("T")

ACTOR = "x-dibs-actor"  # who acts, for the record, where no token says it
_STREAM = "text/event-stream"


class Site:
    """`secret` is what nobody outside knows, so that what follows from a key cannot be guessed."""

    def __init__(self, desks: Desks, hub: Hub, metrics: Metrics, scope: str, secret: bytes | None) -> None:
        self.desks = desks
        self.hub = hub
        self.metrics = metrics
        self.scope = scope
        self._secret = secret
        self._once = Once()
        self._table = Table(ROUTES)

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        path: str = scope["raw_path"].decode("latin-1")
        route, values = self._table.find(scope["method"], path.removeprefix(BASE))
        scope["dibs.route"] = route.path
        asked = await self._read(scope, receive, route, values)
        if route.live is not None and _STREAM in asked.headers.get("accept", ""):
            scope["dibs.live"] = True
            return await route.live(self, asked)
        if route.serve is not None:
            document = await route.serve(self, asked)
            return Response(_encoded(document), route.status, media_type="application/json")
        body = await self._acted(asked)
        if route.method != "GET":
            self.hub.hurry()
        return Response(body, route.status, media_type="application/json")

    async def _acted(self, asked: Asked) -> bytes:
        act = asked.route.act
        if act is None:
            raise AssertionError("an entry of the table answers in one way or another")

        async def act_at_desk() -> bytes:
            return await self.at_desk(asked, lambda call: _encoded(act(call)))

        if asked.name is None:
            return await act_at_desk()
        return await self._once.answer(asked.caller.name, asked.name, act_at_desk)

    async def at_desk(self, asked: Asked, work: Callable[[Call], T]) -> T:
        """Done on a desk's thread: everything that is needed comes along, and what comes back needs no desk."""

        def sit_down(desk: Desk) -> T:
            return work(asked.at(desk.at(asked.scope, by=asked.by)))

        return await self.desks.borrow(sit_down)

    async def _read(self, request: Scope, receive: Receive, route: Route, path: dict[str, str]) -> Asked:
        caller: Caller = request["dibs.caller"]
        headers: dict[str, str] = request["dibs.headers"]
        if not caller.may(route.right):
            raise Forbidden(f"This needs the right '{route.right}', which this token does not have.")
        given = parse_qsl(request["query_string"].decode("latin-1"), keep_blank_values=True)
        query = read_query((SCOPE, *route.query), given)
        scope = caller.scope(query.pop("scope", None), self.scope)
        sent = None if route.body is None else await read_json(headers, receive)
        body = {} if route.body is None else read_fields(route.body, sent)
        by = Actor(caller.agent or _text(headers, ACTOR))
        key = None if route.method == "GET" else _text(headers, "idempotency-key")
        parts = [caller.name, scope, route.method, route.path, path, given, sent]
        name = None if key is None else name_of(key, parts, self._secret)
        kept: dict[str, str] = {header: headers[header] for header in ("accept", "last-event-id") if header in headers}
        return Asked(route, caller, scope, by, path, query, body, kept, name)


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
