"""The API: who asks, in which version, how often, for what; then the fault that is due, the work, and the answer."""

import json
import threading
from http import HTTPStatus
from random import Random
from typing import Any, NamedTuple

from dibs.lab.emulator import routes
from dibs.lab.emulator.calls import Call
from dibs.lab.emulator.clock import http_date
from dibs.lab.emulator.errors import VERSIONS, ApiError, missing_version, should, unknown_version
from dibs.lab.emulator.faults import DROP, GARBAGE, USUAL, Faults, Hold
from dibs.lab.emulator.ids import new_id
from dibs.lab.emulator.limits import RateLimit, check_payload
from dibs.lab.emulator.model import User
from dibs.lab.emulator.paging import Cursors
from dibs.lab.emulator.requests import Requests, Served
from dibs.lab.emulator.routes import Route
from dibs.lab.emulator.wire import Answer, Request, json_answer
from dibs.lab.emulator.workspace import Workspace

PREFIX = "/v1/"
_HELD = 0.05
_COME_BACK = frozenset({"rate_limited", "service_overload"})


class Asked(NamedTuple):
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
        route, ids = routes.find(request.method, request.path)
        bot: User | None = None
        try:
            with self._workspace.lock:
                bot = self._authorised(request)
                version = _version(request)
                self._rate.count(bot.id, self._workspace.clock(), self._faults.requests_per_minute)
            if route is None or not route.knows(version):
                raise ApiError.known("invalid_request_url")
            answered = self._carry_out(Asked(request, route, ids, bot, version, request_id))
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

    def _carry_out(self, asked: Asked) -> Answer | None:
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

    def _work(self, asked: Asked) -> Answer:
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
