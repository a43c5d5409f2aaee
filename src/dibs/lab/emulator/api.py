"""The API: authorisation, versions, rate limits and routes; then the fault that is due, the handler, and the answer."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.lab.emulator import handlers
from dibs.lab.emulator.faults import DROP, GARBAGE, USUAL, Faults, Hold
from dibs.lab.emulator.model import (
    INSERT,
    INSERT_COMMENTS,
    READ,
    READ_COMMENTS,
    UPDATE,
    VERSIONS,
    ApiError,
    DataSource,
    User,
    http_date,
    invalid,
    missing_version,
    new_id,
    plain_property_id,
    should,
    unknown_version,
    whole_id,
)
from dibs.lab.emulator.query import Cursors, Found, Piece, page_size, start_cursor
from dibs.lab.emulator.rendering import NEW, Reader, Shapes, View, as_of, latest
from dibs.lab.emulator.server import Answer, Request, json_answer

if TYPE_CHECKING:
    from dibs.lab.emulator.workspace import Workspace


class Served(NamedTuple):
    """A request and how it ended. `template` is the path with its ids left out; status 0 is no answer at all."""

    method: str
    template: str
    path: str
    status: int
    at: datetime
    bot_id: str | None
    version: str | None


class Requests:
    """Those of the API, in the order of their answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: list[Served] = []

    def add(self, served: Served) -> None:
        with self._lock:
            self._served.append(served)

    def clear(self) -> None:
        with self._lock:
            self._served.clear()

    def count(self, method: str | None = None, template: str | None = None, status: int | None = None) -> int:
        return sum(
            method in {None, one.method} and template in {None, one.template} and status in {None, one.status}
            for one in self
        )

    def __iter__(self) -> Iterator[Served]:
        with self._lock:
            return iter(list(self._served))

    def __len__(self) -> int:
        return len(self._served)


RATE_WINDOW = timedelta(seconds=60)
PAYLOAD_LIMIT = 500 * 1024


class RateLimit:
    """A fixed window for each bot: it opens with the first request and is spent at any pace."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[datetime, int]] = {}

    def count(self, bot_id: str, now: datetime, limit: int | None) -> None:
        if limit is None:
            return
        opened, used = self._windows.get(bot_id, (now, 0))
        if now >= opened + RATE_WINDOW:
            opened, used = now, 0
        if used >= limit:
            left = (opened + RATE_WINDOW - now).total_seconds()
            raise ApiError.known("rate_limited", retry_after=max(1, math.ceil(left)))
        self._windows[bot_id] = (opened, used + 1)


def check_payload(size: int) -> None:
    if size > PAYLOAD_LIMIT:
        raise invalid(f"body failed validation: body size should be ≤ `{PAYLOAD_LIMIT}` bytes, instead was `{size}`.")


class Call(NamedTuple):
    """`ids` are the path's parameters by name, `query` the address's, `body` is an object or empty."""

    workspace: Workspace
    faults: Faults
    cursors: Cursors
    bot: User
    version: str
    ids: dict[str, str]
    query: dict[str, list[str]]
    body: dict[str, Any]

    def id(self, name: str) -> str:
        found = whole_id(self.ids[name])
        if found is None:
            raise should(f"path.{name}", "a valid uuid", self.ids[name])
        return found

    def now(self) -> Reader:
        return Reader(self.workspace, latest)

    def stale(self) -> Reader:
        """How a GET sees a page: as it is, or as it was a while ago."""
        return Reader(self.workspace, self._past(self.faults.stale_reads))

    def lagging(self) -> Reader:
        """How a query sees the pages: what was written of late is not in its index yet."""
        return Reader(self.workspace, self._past(self.faults.query_lag))

    def _past(self, seconds: float) -> View:
        return as_of(self.workspace.clock() - timedelta(seconds=seconds)) if seconds > 0 else latest

    def shapes(self, reader: Reader | None = None) -> Shapes:
        return Shapes(self.workspace, reader or self.now(), self.version)

    def paged(self, place: str, find: Callable[[], Found], part: str = "body") -> Piece:
        """The piece asked for: where the cursor says to go on, or else of what is found now."""
        said = self.body if part == "body" else {name: values[-1] for name, values in self.query.items()}
        size, cursor = page_size(said, part), start_cursor(said, part)
        if cursor is not None:
            return self.cursors.resume(place, cursor, size)
        return self.cursors.first(find(), size)

    def only(self, source: DataSource) -> list[str] | None:
        """The properties that `filter_properties` asks for, by id; None is all."""
        asked = self.query.get("filter_properties", []) + self.query.get("filter_properties[]", [])
        known = [source.find(name) or source.properties.get(plain_property_id(name)) for name in asked]
        return [prop.id for prop in known if prop is not None] if asked else None


Handler: TypeAlias = Callable[[Call], dict[str, Any]]
_ALWAYS, _BEFORE, _SINCE = "always", "before", "since"  # before or since the version with data sources


class Route(NamedTuple):
    method: str
    template: str
    handler: Handler
    capability: str | None
    writes: bool = False
    age: str = _ALWAYS

    def knows(self, version: str) -> bool:
        return self.age == _ALWAYS or (version >= NEW) == (self.age == _SINCE)


ROUTES = (
    Route("GET", "/v1/pages/{page_id}", handlers.retrieve_page, READ),
    Route("PATCH", "/v1/pages/{page_id}", handlers.update_page, UPDATE, writes=True),
    Route("POST", "/v1/pages", handlers.create_page, INSERT, writes=True),
    Route("POST", "/v1/pages/{page_id}/move", handlers.move_page, UPDATE, writes=True, age=_SINCE),
    Route("GET", "/v1/pages/{page_id}/properties/{property_id}", handlers.retrieve_property, READ),
    Route("POST", "/v1/data_sources/{data_source_id}/query", handlers.query_source, READ, age=_SINCE),
    Route("GET", "/v1/data_sources/{data_source_id}", handlers.retrieve_source, READ, age=_SINCE),
    Route("PATCH", "/v1/data_sources/{data_source_id}", handlers.update_source, UPDATE, writes=True, age=_SINCE),
    Route("POST", "/v1/databases/{database_id}/query", handlers.query_database, READ, age=_BEFORE),
    Route("GET", "/v1/databases/{database_id}", handlers.retrieve_database, READ),
    Route("PATCH", "/v1/databases/{database_id}", handlers.update_database, UPDATE, writes=True),
    Route("POST", "/v1/databases", handlers.create_database, INSERT, writes=True),
    Route("GET", "/v1/blocks/{block_id}/children", handlers.list_blocks, READ),
    Route("PATCH", "/v1/blocks/{block_id}/children", handlers.append_blocks, INSERT, writes=True),
    Route("GET", "/v1/blocks/{block_id}", handlers.retrieve_block, READ),
    Route("PATCH", "/v1/blocks/{block_id}", handlers.update_block, UPDATE, writes=True),
    Route("DELETE", "/v1/blocks/{block_id}", handlers.delete_block, UPDATE, writes=True),
    Route("GET", "/v1/comments", handlers.list_comments, READ_COMMENTS),
    Route("POST", "/v1/comments", handlers.create_comment, INSERT_COMMENTS, writes=True),
    Route("GET", "/v1/comments/{comment_id}", handlers.retrieve_comment, READ_COMMENTS),
    Route("PATCH", "/v1/comments/{comment_id}", handlers.update_comment, INSERT_COMMENTS, writes=True),
    Route("DELETE", "/v1/comments/{comment_id}", handlers.delete_comment, INSERT_COMMENTS, writes=True),
    Route("GET", "/v1/users/me", handlers.retrieve_me, None),
    Route("GET", "/v1/users", handlers.list_users, None),
    Route("GET", "/v1/users/{user_id}", handlers.retrieve_user, None),
    Route("POST", "/v1/search", handlers.search, READ),
)

_BY_METHOD = {
    (method, length): [
        (route, route.template.split("/"))
        for route in ROUTES
        if route.method == method and route.template.count("/") == length
    ]
    for method, length in {(route.method, route.template.count("/")) for route in ROUTES}
}


def find_route(method: str, path: str) -> tuple[Route | None, dict[str, str]]:
    """The route of a request, and what its path names; the first that fits, so that `users/me` is no user's id."""
    words = path.split("/")
    for route, template in _BY_METHOD.get((method, len(words) - 1), ()):
        pairs = list(zip(template, words, strict=True))
        if all((wanted[:1] == "{" and word) or wanted == word for wanted, word in pairs):
            return route, {wanted[1:-1]: word for wanted, word in pairs if wanted[:1] == "{"}
    return None, {}


PREFIX = "/v1/"
_HELD = 0.05
_COME_BACK = frozenset({"rate_limited", "service_overload"})


class RoutedRequest(NamedTuple):
    """A request that is known to be someone's, and to lead somewhere."""

    request: Request
    route: Route
    ids: dict[str, str]
    bot: User
    version: str
    request_id: str


class Api:
    def __init__(self, workspace: Workspace, faults: Faults, stopping: threading.Event, seed: int) -> None:
        self._workspace = workspace
        self._faults = faults
        self._stopping = stopping
        self._rng = Random(seed + 1)  # noqa: S311  (request ids and cursors, no secrets)
        self._cursors = Cursors(self._rng)
        self._rate = RateLimit()
        self.requests = Requests()

    def answer(self, request: Request) -> Answer | None:
        """None: the connection closes without a word."""
        request_id = new_id(self._rng)
        route, ids = find_route(request.method, request.path)
        bot: User | None = None
        try:
            with self._workspace.lock:
                bot = self._authorised(request)
                version = _version(request)
                self._rate.count(bot.id, self._workspace.clock(), self._faults.requests_per_minute)
            if route is None or not route.knows(version):
                raise ApiError.known("invalid_request_url")
            answered = self._carry_out(RoutedRequest(request, route, ids, bot, version, request_id))
        except ApiError as error:
            answered = self._refusal(error, request_id)
        self._note(request, route.template if route else request.path, bot, answered)
        return answered

    def _authorised(self, request: Request) -> User:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bot = self._workspace.bot_with(token.strip()) if scheme.lower() == "bearer" else None
        if bot is None:
            raise ApiError.known("unauthorized")
        return bot

    def _carry_out(self, asked: RoutedRequest) -> Answer | None:
        """Wait, work, wait, answer: as the fault that is due has it."""
        request = asked.request
        fault, held = self._faults.pick(request.method, request.path, writes=asked.route.writes)
        self._wait(fault.wait, held, after_commit=False)
        answered = self._work(asked) if fault.commit else None
        self._wait(fault.wait_after, held, after_commit=True)
        if self._stopping.is_set() or fault.answer == DROP:
            return None
        if fault.answer == USUAL or (answered is not None and answered.status != HTTPStatus.OK):
            return answered
        if fault.answer == GARBAGE:
            return Answer(HTTPStatus.OK, b'{"object": "page", "id": ', (("Content-Type", "application/json"),))
        raise ApiError.known(fault.answer, self._faults.retry_after if fault.answer in _COME_BACK else None)

    def _wait(self, seconds: float, held: Hold | None, *, after_commit: bool) -> None:
        if seconds > 0:
            self._stopping.wait(seconds)
        if held is not None and held.after_commit is after_commit:
            held.arrived.set()
            while not held.released.wait(_HELD) and not self._stopping.is_set():
                pass

    def _work(self, asked: RoutedRequest) -> Answer:
        capability, request = asked.route.capability, asked.request
        try:
            if capability is not None and capability not in asked.bot.capabilities:
                raise ApiError.known("restricted_resource")
            tools = (self._workspace, self._faults, self._cursors)
            call = Call(*tools, asked.bot, asked.version, asked.ids, request.query, _body(request))
            with self._workspace.lock:
                said = asked.route.handler(call)
        except ApiError as error:
            return self._refusal(error, asked.request_id)
        return self._said(HTTPStatus.OK, {**said, "request_id": asked.request_id}, asked.request_id)

    def _refusal(self, error: ApiError, request_id: str) -> Answer:
        retry = (("Retry-After", str(error.retry_after)),) if error.retry_after is not None else ()
        return self._said(error.status, error.body(request_id), request_id, retry)

    def _said(
        self, status: int, said: dict[str, Any], request_id: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> Answer:
        date = http_date(self._workspace.clock())
        return json_answer(status, said, (("Date", date), ("x-notion-request-id", request_id), *headers))

    def _note(self, request: Request, template: str, bot: User | None, answered: Answer | None) -> None:
        status = answered.status if answered else 0
        version = request.headers.get("notion-version")
        at = self._workspace.clock()
        bot_id = bot.id if bot else None
        self.requests.add(Served(request.method, template, request.path, status, at, bot_id, version))


def _version(request: Request) -> str:
    version = request.headers.get("notion-version")
    if not version:
        raise missing_version()
    if version not in VERSIONS:
        raise unknown_version(version)
    return version


def _body(request: Request) -> dict[str, Any]:
    check_payload(len(request.body))
    if not request.body:
        return {}
    try:
        said = json.loads(request.body)
        if b"\\ud" in request.body.lower():  # half a character cannot be written down again
            json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError.known("invalid_json") from None
    if not isinstance(said, dict):
        raise should("body", "an object", said)
    return said
