"""The API: authorisation, versions, rate limits, routes and faults; `handlers` answers the requests."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.lab.emulator import handlers
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


# Seconds, or a range of seconds.
Span: TypeAlias = float | tuple[float, float]

USUAL = "as usual"
DROP = "drop"
GARBAGE = "garbage"


class Fault(NamedTuple):
    """How one request goes: a delay, its work or none, another delay, then an answer or none.

    `answer` is USUAL, an error code, DROP (the connection closes), or GARBAGE (the body is not JSON).
    """

    wait: float = 0.0
    commit: bool = True
    wait_after: float = 0.0
    answer: str = USUAL


KINDS = {
    "conflict": Fault(commit=False, answer="conflict_error"),
    "unavailable": Fault(commit=False, answer="service_unavailable"),
    "unavailable_after_commit": Fault(answer="service_unavailable"),
    "overload": Fault(commit=False, answer="service_overload"),
    "internal_error": Fault(commit=False, answer="internal_server_error"),
    "bad_gateway": Fault(commit=False, answer="bad_gateway"),
    "gateway_timeout": Fault(commit=False, answer="gateway_timeout"),
    "gateway_timeout_after_commit": Fault(answer="gateway_timeout"),
    "rate_limited": Fault(commit=False, answer="rate_limited"),
    "hang_then_commit": Fault(wait=5.0),
    "commit_then_hang": Fault(wait_after=5.0),
    "hang": Fault(wait=5.0, commit=False, answer=DROP),
    "drop": Fault(commit=False, answer=DROP),
    "drop_after_commit": Fault(answer=DROP),
    "garbage": Fault(answer=GARBAGE),
}
# Kinds that apply to writes only, so a rate of them spares reads.
_OF_WRITES = frozenset({"conflict", *(kind for kind in KINDS if "commit" in kind)})
KNOBS = frozenset(
    {
        *("query_lag", "stale_reads", "latency_before", "latency_after", "rates"),
        *("requests_per_minute", "retry_after", "result_cap", "drop_seconds"),
    }
)


class Target(NamedTuple):
    """Selects requests by method and by a part of the path; None matches any."""

    method: str | None
    path: str | None

    def fits(self, method: str, path: str) -> bool:
        return self.method in {None, method} and (self.path is None or self.path in path)


class Hold:
    """A request that is stopped before or after its work until the test releases it."""

    def __init__(self, target: Target, *, after_commit: bool) -> None:
        self.target = target
        self.after_commit = after_commit
        self.arrived = threading.Event()
        self.released = threading.Event()

    def wait_for_arrival(self, timeout: float = 10.0) -> None:
        if not self.arrived.wait(timeout):
            raise TimeoutError("no matching request arrived in time")

    def release(self) -> None:
        self.released.set()


class _LimitedFault:
    def __init__(self, target: Target, fault: Fault, times: int, skip: int) -> None:
        self.target = target
        self.fault = fault
        self.times = times
        self.skip = skip


class Faults:
    """The faults of an emulator: attributes change all requests, `next` and `hold` single ones; `clear` removes all."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)  # noqa: S311 - the same seed selects the same requests
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self.query_lag = 0.0  # seconds that queries and searches lag behind
        self.stale_reads = 0.0  # the same for GET of a page
        self.latency_before: Span = 0.0
        self.latency_after: Span = 0.0
        self.rates: dict[str, float] = {}  # kind → share of requests that get it
        self.requests_per_minute: int | None = None  # per token; Notion's own limit is 180
        self.retry_after = 1  # seconds, sent with faults; the rate limit sends the real time
        self.result_cap = 10_000
        self.drop_seconds = True  # keep dates with a time to the minute
        self._once: list[_LimitedFault] = []
        self._holds: list[Hold] = []

    def set(self, knobs: Mapping[str, Any]) -> None:
        """Set several attributes by name."""
        for name, value in knobs.items():
            if name not in KNOBS:
                raise ValueError(f"no such knob: {name}; there are {', '.join(sorted(KNOBS))}")
            self._check(name, value)
        for name, value in knobs.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def _check(self, name: str, value: Any) -> None:
        if name == "rates":
            for kind in value:
                _known(kind)

    def next(
        self,
        kind: str,
        *,
        method: str | None = None,
        path: str | None = None,
        seconds: float | None = None,
        times: int = 1,
        skip: int = 0,
    ) -> None:
        """Give this fault to the next `times` matching requests, after `skip`."""
        fault = _known(kind)
        if seconds is not None:
            after = fault.wait_after > 0 or (fault.wait == 0 and kind.endswith("commit"))
            fault = fault._replace(wait_after=seconds) if after else fault._replace(wait=seconds)
        with self._lock:
            self._once.append(_LimitedFault(Target(method, path), fault, times, skip))

    def hold(self, method: str | None = None, path: str | None = None, *, after_commit: bool = False) -> Hold:
        held = Hold(Target(method, path), after_commit=after_commit)
        with self._lock:
            self._holds.append(held)
        return held

    def pick(self, method: str, path: str, *, writes: bool) -> tuple[Fault, Hold | None]:
        """Choose the fault of a request."""
        with self._lock:
            held = next((hold for hold in self._holds if hold.target.fits(method, path)), None)
            if held is not None:
                self._holds.remove(held)
            fault = self._single(method, path) or self._unlucky(writes=writes) or Fault()
            before, after = self._seconds(self.latency_before), self._seconds(self.latency_after)
        return fault._replace(wait=fault.wait + before, wait_after=fault.wait_after + after), held

    def _single(self, method: str, path: str) -> Fault | None:
        once = next((one for one in self._once if one.target.fits(method, path)), None)
        if once is None:
            return None
        if once.skip:
            once.skip -= 1
            return None
        once.times -= 1
        if once.times <= 0:
            self._once.remove(once)
        return once.fault

    def _unlucky(self, *, writes: bool) -> Fault | None:
        for kind, share in self.rates.items():
            if (writes or kind not in _OF_WRITES) and self._rng.random() < share:
                return KINDS[kind]
        return None

    def _seconds(self, span: Span) -> float:
        return self._rng.uniform(*span) if isinstance(span, tuple) else span


def _known(kind: str) -> Fault:
    if kind not in KINDS:
        raise ValueError(f"no such fault: {kind}; there are {', '.join(sorted(KINDS))}")
    return KINDS[kind]


class Served(NamedTuple):
    """A request and its outcome. `template` is the path without ids; status 0 means no answer."""

    method: str
    template: str
    path: str
    status: int
    at: datetime
    bot_id: str | None
    version: str | None


class Requests:
    """The requests to the API, in the order of their answers."""

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
    """A fixed window per bot, which opens with its first request."""

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
    """One request to a handler: `ids` from the path, `query` from the address, `body` an object or empty."""

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
        """How a GET sees a page: now, or `stale_reads` seconds ago."""
        return Reader(self.workspace, self._past(self.faults.stale_reads))

    def lagging(self) -> Reader:
        """How a query sees the pages: recent writes may be missing."""
        return Reader(self.workspace, self._past(self.faults.query_lag))

    def _past(self, seconds: float) -> View:
        return as_of(self.workspace.clock() - timedelta(seconds=seconds)) if seconds > 0 else latest

    def shapes(self, reader: Reader | None = None) -> Shapes:
        return Shapes(self.workspace, reader or self.now(), self.version)

    def paged(self, place: str, find: Callable[[], Found], part: str = "body") -> Piece:
        """Return the requested part of a list: from the cursor, or from a new result."""
        said = self.body if part == "body" else {name: values[-1] for name, values in self.query.items()}
        size, cursor = page_size(said, part), start_cursor(said, part)
        if cursor is not None:
            return self.cursors.resume(place, cursor, size)
        return self.cursors.first(find(), size)

    def only(self, source: DataSource) -> list[str] | None:
        """The properties selected by `filter_properties`, by id; None means all."""
        asked = self.query.get("filter_properties", []) + self.query.get("filter_properties[]", [])
        known = [source.find(name) or source.properties.get(plain_property_id(name)) for name in asked]
        return [prop.id for prop in known if prop is not None] if asked else None


Handler: TypeAlias = Callable[[Call], dict[str, Any]]
_ALWAYS, _BEFORE, _SINCE = "always", "before", "since"  # relative to the version that introduced data sources


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
    """Return the first route that matches, and its path parameters; `users/me` precedes `users/{id}`."""
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
    """A request with a known token and route."""

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
        self._rng = Random(seed + 1)  # noqa: S311 - request ids and cursors, no secrets
        self._cursors = Cursors(self._rng)
        self._rate = RateLimit()
        self.requests = Requests()

    def answer(self, request: Request) -> Answer | None:
        """Answer a request; None closes the connection."""
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
        """Delay, work, delay and answer, as the fault demands."""
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
        if b"\\ud" in request.body.lower():  # half a surrogate pair cannot be encoded again
            json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ApiError.known("invalid_json") from None
    if not isinstance(said, dict):
        raise should("body", "an object", said)
    return said
