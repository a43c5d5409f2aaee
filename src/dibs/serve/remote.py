"""The port over HTTP: other processes use this server as their store (`dibs.stores.http`).

Their desk applies the rules of a desk; here an operation is checked again, against the rights of its caller and as a
value from outside, and carried out once under its key. `RULES` has an entry for each operation: one that is not there
cannot be asked for. To let a new operation of the port through, add its rule.

A token that names an agent speaks for that agent only. Of other agents' leases it sees no proof.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from starlette.responses import Response

from dibs import __version__
from dibs.core import checks
from dibs.core.errors import AlreadyExists, DibsError, InvalidInput, NotFound, StoreReplaced
from dibs.core.events import without_token
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import (
    INBOX,
    LEAD,
    MAIL,
    OUTBOX,
    TOKENS,
    UNSET,
    Actor,
    Claimed,
    Edit,
    Holder,
    Status,
    Task,
    is_internal,
)
from dibs.serve.access import Right, check_follow_ups, lacks
from dibs.serve.idempotency import IdempotentAnswers, idempotency_key, inputs_of
from dibs.serve.live import Stream, Wakeups
from dibs.serve.problems import Forbidden, MethodNotAllowed, problem
from dibs.serve.requests import MOST_BYTES, read_json
from dibs.stores.http import wire
from dibs.stores.port import NO_TERMS, EventQuery, Query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from starlette.types import Receive, Scope, Send

    from dibs.core.events import Event
    from dibs.core.task import Json, Link
    from dibs.desk import Desk
    from dibs.serve.access import Caller
    from dibs.serve.app import Api

_MOST_PLANNED = 256 << 20  # bytes of a body with a plan or a whole store


class Invocation:
    """An operation with its arguments and its caller. Its rule may change the arguments."""

    def __init__(self, operation: wire.Operation, arguments: dict[str, Any], caller: Caller) -> None:
        self.operation = operation
        self.arguments = arguments
        self.caller = caller

    def require(self, right: Right, what: str = "This") -> None:
        if not self.caller.may(right):
            raise lacks(right, what)

    def scope(self, named: str | None) -> str | None:
        """The scope, if the caller may use it. None is every scope, or the only one of a token."""
        caller = self.caller
        if named is None:
            if caller.scopes is None:
                return None
            if len(caller.scopes) == 1:
                return next(iter(caller.scopes))
            raise Forbidden("This token is for some scopes only. Name one of them.")
        scope = checks.name_of("scope", named)
        if scope == TOKENS:
            self.require(Right.ADMIN, "The list of tokens")
        elif caller.scopes is not None and scope not in caller.scopes and not self._own(scope, caller.scopes):
            raise Forbidden("This token is not valid for that scope.")
        return scope

    def _own(self, scope: str, scopes: frozenset[str]) -> bool:
        """Whether an internal scope belongs to the caller: its letters, and helpers of its scopes."""
        if not is_internal(scope):
            return False
        if scope.startswith(MAIL):
            return scope == f"{MAIL}{self.caller.agent}" or self.operation.name == "add"
        return any(scope == f"{kind}{own}" for kind in (INBOX, OUTBOX, LEAD) for own in scopes)

    def agent(self, named: str) -> str:
        """The agent, if the caller may speak for it."""
        own = self.caller.agent
        if (own is not None and named != own) or self.caller.sender is not None:
            raise Forbidden("This token was made for another agent and cannot act as this one.")
        return checks.name_of("agent", named)

    def by(self, actor: Actor) -> Actor:
        """The actor that events name."""
        agent = None if actor.agent is None else self.agent(actor.agent)
        return Actor(agent or self.caller.agent, self.caller.run_of(checks.optional_name("run", actor.run)))


def perform(desk: Desk, asked: Invocation) -> Any:
    """Check an operation and carry it out."""
    RULES[asked.operation.name](asked, desk)
    named = dict(asked.arguments)
    values = [named.pop(name) for name in asked.operation.positional if name in named]
    if asked.operation.spread is not None:
        values += named.pop(asked.operation.spread)
    answer = desk.carry_out(asked.operation.name, values, named)
    if asked.operation.name == "describe" and not asked.caller.may(Right.ADMIN):
        answer = {fact: text for fact, text in answer.items() if fact != "place"}  # a path or host of the server
    if asked.operation.name == "scopes" and asked.caller.scopes is not None:
        answer = [scope for scope in answer if scope in asked.caller.scopes]
    return answer if asked.caller.token_id is None else shown(answer, asked.caller)


def shown(value: Any, caller: Caller) -> Any:
    """A value as this caller may see it: without the tokens of other agents' leases.

    A lease shows the run that its holder named; events also show the token.
    """
    if isinstance(value, Task):
        lease = value.lease
        if lease is not None:
            own = caller.may(Right.ADMIN) or (caller.agent is not None and lease.agent == caller.agent)
            lease = lease._replace(token=lease.token if own else "", run=without_token(lease.run))
        return value._replace(lease=lease, spent_token=value.spent_token if caller.may(Right.ADMIN) else None)
    if not isinstance(value, tuple | list):
        return value
    inside = [shown(each, caller) for each in value]
    make = getattr(type(value), "_make", type(value))  # a named tuple, or a plain one, or a list
    return make(inside)


# Rules

Rule = Callable[[Invocation, "Desk"], None]


def _needs(right: Right, *, everywhere: bool = False) -> Rule:
    def rule(asked: Invocation, _desk: Desk) -> None:
        asked.require(right)
        if everywhere and asked.caller.scopes is not None:
            raise Forbidden("This concerns all scopes, and this token is for some scopes only.")
        said = asked.arguments
        if "scope" in said:
            said["scope"] = asked.scope(said["scope"])
        if "by" in said:
            said["by"] = asked.by(said["by"])

    return rule


def _query(asked: Invocation, _desk: Desk) -> None:
    asked.require(Right.READ)
    query = asked.arguments["query"]
    asked.arguments["query"] = query._replace(scope=asked.scope(query.scope))


def _peek(asked: Invocation, _desk: Desk) -> None:
    asked.require(Right.READ)
    request = asked.arguments["request"]
    asked.arguments["request"] = request._replace(scope=asked.scope(request.scope), only=checks.only(request.only))


def _claiming(asked: Invocation, request: ClaimRequest) -> ClaimRequest:
    asked.require(Right.CLAIM)
    if request.holder is Holder.HUMAN:
        asked.require(Right.ADMIN if request.force else Right.PLAN, "Holding a task as a person")
    checks.tokens(request.tokens, len(request.ids) or len(request.tokens))
    return request._replace(
        agent=asked.agent(request.agent),
        scope=asked.scope(request.scope),
        ids=checks.different(request.ids),
        run=asked.caller.run_of(checks.optional_name("run", request.run)),
        can=frozenset(checks.names("capability", request.can)),
        only=checks.only(request.only),
    )


def _claim(asked: Invocation, _desk: Desk) -> None:
    asked.arguments["request"] = _claiming(asked, asked.arguments["request"])


def _moving(asked: Invocation, move: Move, desk: Desk) -> Move:
    """Allow a move of the holder, by token or, where the policy allows it, by name; or of a planner."""
    asked.require(Right.CLAIM)
    move = checks.move(move)._replace(scope=str(asked.scope(move.scope)), by=asked.by(move.by))
    checks.possible(move.id)
    if move.force:
        asked.require(Right.ADMIN, "Overruling a holder")
    if move.assigned_to is not UNSET:
        asked.require(Right.PLAN, "Assigning a task")
    if move.token is None and not asked.caller.may(Right.PLAN):
        token = _held(asked, desk, move.scope, move.id) if move.named else None
        if token is None:
            asked.require(Right.PLAN, "Changing a task without the token of its lease")
        move = move._replace(token=token)  # the name proved the holder; from here on the token does
    return move


def _held(asked: Invocation, desk: Desk, scope: str, task: str) -> str | None:
    """The token of the caller's own lease of a task; None if it does not hold it."""
    lease = desk.carry_out("get", (scope, task), {}).lease
    return None if lease is None or lease.agent != asked.caller.agent else str(lease.token)


def _moves(asked: Invocation, moves: Iterable[Move], on_cancel: CanceledBlocker, desk: Desk) -> list[Move]:
    made = [_moving(asked, move, desk) for move in moves]
    if on_cancel is CanceledBlocker.CASCADES and any(move.verb is Verb.CANCEL for move in made):
        asked.require(Right.PLAN, "Canceling what depends on a task")
    return made


def _move(asked: Invocation, desk: Desk) -> None:
    said = asked.arguments
    if "move" in said:
        (said["move"],) = _moves(asked, [said["move"]], said["on_cancel"], desk)
    else:
        said["moves"] = _moves(asked, said["moves"], said["on_cancel"], desk)
    if said.get("then") is not None:
        said["then"] = _claiming(asked, said["then"])


def _add(asked: Invocation, desk: Desk) -> None:
    """A planner adds any tasks, a worker follow-ups, and letters."""
    asked.require(Right.PLAN if asked.caller.sender is not None else Right.CLAIM)
    said, terms = asked.arguments, asked.arguments.get("terms", NO_TERMS)
    said["scope"] = scope = str(asked.scope(said["scope"]))
    said["drafts"] = [checks.draft(draft) for draft in said["drafts"]]
    said["links"] = _checked(said["links"])
    said["by"] = asked.by(said["by"])
    if not asked.caller.may(Right.PLAN) and not scope.startswith(MAIL):
        check_follow_ups(said["drafts"], said["links"])
    said["terms"] = terms._replace(ending=tuple(_moves(asked, terms.ending, terms.on_cancel, desk)))


_BESIDE = frozenset({"extra", "keep", "was", "why"})


def _amend(asked: Invocation, desk: Desk) -> None:
    """A planner edits. A holder sets extra fields of its task; a reader edits its letters."""
    said = asked.arguments
    asked.require(Right.CLAIM)
    said["scope"] = scope = str(asked.scope(said["scope"]))
    edit: Edit = checks.edit(said["edit"])
    said |= {"edit": edit, "by": asked.by(said["by"])}
    checks.possible(said["task"])
    if asked.caller.may(Right.PLAN) or scope == f"{MAIL}{asked.caller.agent}":
        return
    changed = {name for name, value in zip(edit._fields, edit, strict=True) if value is not UNSET}
    if not changed <= _BESIDE or _held(asked, desk, scope, said["task"]) is None:
        asked.require(Right.PLAN, "Editing a task")


def _link(asked: Invocation, desk: Desk) -> None:
    _needs(Right.PLAN)(asked, desk)
    asked.arguments["links"] = _checked(asked.arguments["links"])


def _checked(links: Sequence[Link]) -> list[Link]:
    """The links, if they are valid. The store refuses a link from a task to itself as a cycle."""
    for link in links:
        checks.link(link._replace(on="") if link.task == link.on else link)
    return list(links)


def _record(asked: Invocation, _desk: Desk) -> None:
    asked.require(Right.CLAIM)
    event = checks.told(asked.arguments["event"])
    by = asked.by(Actor(event.agent, event.run))
    asked.arguments["event"] = event._replace(scope=str(asked.scope(event.scope)), agent=by.agent, run=by.run)


def _register(asked: Invocation, _desk: Desk) -> None:
    asked.require(Right.CLAIM)
    asked.arguments["agent"] = asked.agent(asked.arguments["agent"])


def _enrol(asked: Invocation, desk: Desk) -> None:
    """Only a planner sets limits, also its own."""
    _needs(Right.PLAN, everywhere=True)(asked, desk)
    if "profile" in asked.arguments:
        asked.arguments["profile"] = checks.profile(asked.arguments["profile"])


def _assign(asked: Invocation, desk: Desk) -> None:
    _needs(Right.PLAN)(asked, desk)
    for scope, task in asked.arguments["asked"].tasks:
        asked.scope(scope)
        checks.possible(task)


def _vectors(asked: Invocation, desk: Desk) -> None:
    _needs(Right.PLAN)(asked, desk)
    asked.arguments["vectors"] = checks.vectors(asked.arguments["vectors"])


def _configure(asked: Invocation, desk: Desk) -> None:
    _needs(Right.ADMIN)(asked, desk)
    asked.arguments["changes"] = checks.settings(asked.arguments["changes"])


_read, _all_of_it = _needs(Right.READ), _needs(Right.ADMIN, everywhere=True)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("now", "get", "match", "links", "graph", "counts", "scopes", "describe"), _read),
    **dict.fromkeys(("fleet.agents", "fleet.members", "vectors.kept", "vectors.similar"), _read),
    **dict.fromkeys(("prune", "dump", "restore", "replace", "check", "examine"), _all_of_it),
    **dict.fromkeys(("find", "events"), _query),
    **dict.fromkeys(("move", "move_all"), _move),
    **dict.fromkeys(("link", "unlink"), _link),
    **dict.fromkeys(("fleet.register", "fleet.deregister"), _register),
    **dict.fromkeys(("fleet.enrol", "fleet.dismiss"), _enrol),
    "peek": _peek,
    "claim": _claim,
    "add": _add,
    "amend": _amend,
    "apply_plan": _needs(Right.PLAN),
    "record": _record,
    "fleet.assign": _assign,
    "vectors.keep": _vectors,
    "output.read": _read,
    "output.append": _needs(Right.CLAIM),
    "settings.read": _needs(Right.ADMIN),
    "settings.change": _configure,
}


# Answers


class StoreApi:
    """Answers the requests under `wire.PATH`."""

    def __init__(self, api: Api, open_desk: Callable[[], Desk], secret: bytes | None) -> None:
        self._api = api
        self._secret = secret
        self._answers = IdempotentAnswers()
        self._serves: str | None = None
        self.wakeups = Wakeups(open_desk)

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        name = scope["path"].removeprefix(wire.PATH)
        scope["dibs.route"] = f"store/{name}" if name in RULES or name in {wire.HELLO, wire.WAIT} else "store/other"
        caller: Caller = scope["dibs.caller"]
        if name == wire.WAIT:
            return self._wait(scope, caller)
        if scope["method"] != "POST":
            raise MethodNotAllowed.but(["POST"])
        headers: dict[str, str] = scope["dibs.headers"]
        most = _MOST_PLANNED if caller.may(Right.PLAN) else MOST_BYTES
        body = await read_json(headers, receive, most)
        if self._serves is None:
            self._serves = await self._api.desks.borrow(lambda desk: desk.describe().get("id", ""))
        if headers.get(wire.STORE.lower(), self._serves) != self._serves:
            raise StoreReplaced(
                "This server has another store than the one that was opened. Nothing was written. Start again to use "
                "the new one."
            )
        answer = await self._hello(caller) if name == wire.HELLO else await self._asked(name, body, headers, caller)
        answer.headers[wire.STORE] = self._serves
        return answer

    async def _asked(self, name: str, body: Any, headers: Mapping[str, str], caller: Caller) -> Response:
        operation = wire.operation(name) if name in RULES else None
        if operation is None:
            raise NotFound(f"This server has no operation '{name[:40]}'. It may be older than the client.")
        asked = Invocation(operation, operation.read_arguments(body), caller)
        if missing := [each for each in _required(operation) if each not in asked.arguments]:
            raise InvalidInput(f"'{name}' lacks {', '.join(missing)}.")
        if name in wire.LONG:
            return LongAnswer(lambda progress: self._long(asked, body, headers, progress))
        again = wire.AGAIN.lower() in headers
        try:
            told = await self._once(asked, body, headers, lambda desk: _answered(desk, asked, again=again))
        except DibsError as error:
            if hasattr(error, "token"):
                return problem(error, wire.secret_error_json)
            raise
        if name not in wire.READS:
            self._api.hub.hurry()
        return Response(told, media_type="application/json")

    async def _once(
        self, asked: Invocation, body: Any, headers: Mapping[str, str], work: Callable[[Desk], bytes]
    ) -> bytes:
        """The answer; a repeated request gets its first answer."""
        key = headers.get(wire.KEY.lower())
        if key is None or asked.operation.name in wire.READS:
            return await self._api.desks.borrow(work)
        who = asked.caller.name
        known = idempotency_key(key, [who, asked.operation.name, body], self._secret)
        return await self._answers.answer(who, known, lambda: self._api.desks.borrow(work))

    async def _long(
        self, asked: Invocation, body: Any, headers: Mapping[str, str], progress: Callable[[int], None]
    ) -> bytes | IO[bytes]:
        if asked.operation.yields:
            return await self._api.desks.borrow(lambda desk: _spooled(desk, asked, progress))
        if asked.operation.reports:
            asked.arguments["progress"] = progress
        return await self._once(asked, body, headers, lambda desk: _answered(desk, asked))

    async def _hello(self, caller: Caller) -> Response:
        def look(desk: Desk) -> bytes:
            rights = tuple(sorted(caller.rights)) if caller.token_id is not None else ()
            there = tuple(part for part in wire.PARTS if desk.has_part(part))
            hello = wire.ServedStore(desk.capabilities, there, __version__, caller.agent, rights)
            return _encoded({"value": wire.written(wire.codec(wire.ServedStore), hello)})

        return Response(await self._api.desks.borrow(look), media_type="application/json")

    def _wait(self, scope: Scope, caller: Caller) -> Response:
        if scope["method"] != "GET":
            raise MethodNotAllowed.but(["GET"])
        if not caller.may(Right.READ):
            raise lacks(Right.READ)
        scope["dibs.live"] = True
        return Stream(self.wakeups.follow(self._api.hub.closing), self._api.metrics)


def _required(operation: wire.Operation) -> list[str]:
    return [name for name in operation.parameters if name not in _OPTIONAL]


_OPTIONAL = frozenset({"terms", "then", "held", "unable", "claimable"})


def _answered(desk: Desk, asked: Invocation, *, again: bool = False) -> bytes:
    answer = perform_again(desk, asked) if again else perform(desk, asked)
    return _encoded({"value": wire.written(asked.operation.answer, answer)})


# Repeated requests whose first server has stopped, or was another one. The store shows what they did.


def perform_again(desk: Desk, asked: Invocation) -> Any:
    """Carry out an operation, unless the store shows that it was done: then return its outcome."""
    match asked.operation.name:
        case "claim":
            RULES["claim"](asked, desk)
            return _claimed(desk, asked.arguments["request"]) or perform(desk, asked)
        case "add":
            return _added_again(desk, asked)
        case "record":
            return None if _recorded(desk, asked.arguments["event"]) else perform(desk, asked)
    return perform(desk, asked)


def _claimed(desk: Desk, request: ClaimRequest) -> list[Claimed]:
    """The tasks held under the tokens of this request, which only this request knows."""
    query = Query(request.scope, (Status.ACTIVE,), agent=request.agent)
    held = [
        task
        for task in desk.carry_out("find", (query,), {})
        if task.lease is not None and task.lease.token in request.tokens
    ]
    return [Claimed(task, inputs_of(desk.at(task.scope, internal=True), task)) for task in held]


def _added_again(desk: Desk, asked: Invocation) -> Any:
    """Return the tasks if they exist as this request would add them: ids from a key belong to one request."""
    try:
        return perform(desk, asked)
    except AlreadyExists:
        scope, drafts = asked.arguments["scope"], asked.arguments["drafts"]
        found = [desk.carry_out("get", (scope, draft.id), {}) for draft in drafts]
        if all(task.title == draft.title for task, draft in zip(found, drafts, strict=True)):
            return found
        raise


_LATELY = 200  # events among which a remark that was sent twice is looked for


def _recorded(desk: Desk, event: Event) -> bool:
    """Whether the newest events include this one. Its time is the client's reading of the store's clock."""
    query = EventQuery(event.scope, event.task or None, last=_LATELY)
    same = (event.verb, event.reason, event.agent)
    return any(
        (each.verb, each.reason, each.agent) == same and each.detail == event.detail and each.at >= event.at
        for each in desk.carry_out("events", (query,), {})
    )


def _encoded(document: Json) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


_REPORT_EVERY = 1000


def _spooled(desk: Desk, asked: Invocation, progress: Callable[[int], None]) -> IO[bytes]:
    """All items of an answer in a file, so that a slow client holds no desk."""
    write = wire.codec("Record")
    file = TemporaryFile()  # noqa: SIM115 - the answer closes it
    try:
        for number, item in enumerate(perform(desk, asked), 1):
            file.write(_encoded({"item": wire.written(write, item)}) + b"\n")
            if not number % _REPORT_EVERY:
                progress(number)
        file.write(b'{"value":null}\n')
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


_SPEAK_EVERY = 2.0
_CHUNK = 256 << 10


class LongAnswer(Response):
    """An answer in lines: progress, then the value or the error. The client always gets one."""

    media_type = "application/x-ndjson"

    def __init__(self, work: Callable[[Callable[[int], None]], Any]) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in self._parts():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _parts(self) -> AsyncIterator[bytes]:
        loop, reports = asyncio.get_running_loop(), asyncio.Queue[int]()
        working = asyncio.ensure_future(self._work(lambda done: _report(loop, reports, done)))
        while not working.done():
            report = asyncio.ensure_future(reports.get())
            await asyncio.wait({working, report}, timeout=_SPEAK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            if report.done():
                yield _progress(report.result())
            else:
                report.cancel()
                yield b"\n"
        while not reports.empty():
            yield _progress(reports.get_nowait())
        try:
            answer = working.result()
        except DibsError as error:
            yield _encoded({"error": wire.secret_error_json(error)}) + b"\n"
            return
        if isinstance(answer, bytes):
            yield answer + b"\n"
            return
        with answer:
            while chunk := answer.read(_CHUNK):
                yield chunk


def _report(loop: asyncio.AbstractEventLoop, reports: asyncio.Queue[int], done: int) -> None:
    loop.call_soon_threadsafe(reports.put_nowait, done)


def _progress(done: int) -> bytes:
    return _encoded({"progress": done}) + b"\n"
