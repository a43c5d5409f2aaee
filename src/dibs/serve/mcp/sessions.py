"""Sessions: a client and its leases, the thread that renews them, and all clients over HTTP.

The session keeps the token of a claim, so the model need not. A token belongs to one attempt: two sessions under one
agent's name share nothing. A model may present a token to resume a task that its earlier session claimed.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from dibs.core import checks
from dibs.core.errors import DibsError, Held, InvalidInput, LostLock, NotFound, StoreError
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE
from dibs.core.sender import sender_hash_of
from dibs.core.task import Actor, Claimed, Task
from dibs.core.times import parse_duration
from dibs.desk import Desk, mint_id
from dibs.fleet.attempt import Attempt
from dibs.fleet.supervisor.protocol import clock
from dibs.identity import client_agent
from dibs.serve.access import ALL_RIGHTS, Right, lacks
from dibs.serve.desks import Desks
from dibs.serve.problems import Forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

    from dibs.serve.access import Caller

_OPEN_AGAIN = 1.0  # seconds between two tries to open the store
_LONGEST = 15.0  # seconds of rest at most, so that a machine that slept soon notices expired leases


class Hold:
    """A task that a client holds. `lost` says why it no longer does, once that is known."""

    def __init__(self, task: Task, lease: timedelta, asked_at: float) -> None:
        assert task.lease is not None
        self.task = task
        self.token = task.lease.token
        self.lease = lease
        self.asked_at = asked_at
        self.lost: str | None = None

    def __repr__(self) -> str:
        """Without the token: it is a secret."""
        return f"Hold({self.task.scope}/{self.task.id} attempt {self.task.attempt})"


class LeaseRenewer:
    """Renews each lease at a third of its time, on one thread that starts with the first hold."""

    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open = open_desk
        self._kept: dict[Hold, Callable[[Hold], None]] = {}
        self._attempts: dict[Hold, Attempt] = {}  # used by the thread alone
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._renewing: str | None = None  # the token being renewed

    def keep(self, hold: Hold, lost: Callable[[Hold], None]) -> None:
        """Renew a hold from now on, and call `lost` if that fails. An earlier hold of the same token is lost."""
        with self._changed:
            before = [(other, self._kept.pop(other)) for other in [*self._kept] if other.token == hold.token]
            self._kept[hold] = lost
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dibs-renewer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        for other, tell in before:
            if other is not hold:
                tell(other)

    def let_go(self, hold: Hold) -> None:
        """Stop renewing a hold, and report nothing about it. Return when no renewal of it is in progress.

        The caller's next write is then the last one. A renewal takes at most the store's timeout.
        """
        with self._changed:
            self._kept.pop(hold, None)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._renewing != hold.token)

    def stop(self) -> None:
        """Begin no more renewals. Return when none is in progress and the thread has closed its store."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            try:
                with self._open() as desk:
                    self._renew_all(desk)
            except StoreError:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped, _OPEN_AGAIN)

    def _renew_all(self, desk: Desk) -> None:
        while (hold := self._due(desk)) is not None:
            try:
                self._attempts[hold].renew()
                ended = self._attempts[hold].ended_as is not None
            except LostLock as error:
                hold.lost, ended = error.message, True
            finally:
                with self._changed:
                    self._renewing = None
                    self._changed.notify_all()
            if ended:
                self._report_loss(hold)

    def _due(self, desk: Desk) -> Hold | None:
        """Wait until a hold is due, mark it as being renewed and return it; None when the renewer is stopped."""
        with self._changed:
            while not self._stopped:
                self._attempts = {hold: self._attempt(desk, hold) for hold in self._kept}
                first = min(self._attempts, key=lambda hold: self._attempts[hold].renew_in, default=None)
                rest = _LONGEST if first is None else self._attempts[first].renew_in
                if first is not None and not rest:
                    self._renewing = first.token
                    return first
                self._changed.wait(min(rest, _LONGEST))
        return None

    def _attempt(self, desk: Desk, hold: Hold) -> Attempt:
        known = self._attempts.get(hold)
        if known is not None:
            return known
        lease = hold.task.lease
        assert lease is not None
        own = desk.at(hold.task.scope, by=Actor(lease.agent, lease.run))
        return Attempt(own, hold.task, hold.lease, hold.asked_at)

    def _report_loss(self, hold: Hold) -> None:
        with self._changed:
            lost = self._kept.pop(hold, None)
        if lost is not None:
            lost(hold)


class Identity(NamedTuple):
    """The owner of a session, as events name it, and the terms of its claims.

    `grace` is how long it keeps its tasks after the session has ended. A client that is not `named` is called after its
    program and session.
    """

    agent: str
    run: str
    scope: str = "default"
    sender: str | None = None
    can: tuple[str, ...] = ()
    lease: timedelta = NATIVE.lease
    grace: timedelta = timedelta(minutes=2)
    rights: frozenset[Right] = ALL_RIGHTS
    named: bool = True


class CallTarget(NamedTuple):
    """The task of a call, its token if known, and the hold if this session has it."""

    task: str
    token: str | None
    hold: Hold | None


class Session:
    """A client and the tasks it holds. One tool call at a time uses it, and the renewer's thread."""

    def __init__(self, who: Identity, renewer: LeaseRenewer) -> None:
        self.who = who
        self._renewer = renewer
        self._holds: dict[str, Hold] = {}
        self._lost: dict[str, str] = {}  # task: why it was lost
        self._news: list[str] = []
        self._lock = threading.Lock()

    def at(self, desk: Desk) -> Desk:
        """The same store's desk, for this client."""
        return desk.at(self.who.scope, by=Actor(self.who.agent, self.who.run))

    def may(self, right: Right | None) -> bool:
        return bool({right, Right.ADMIN} & self.who.rights)

    def require(self, right: Right, suffices: Right | None = None) -> None:
        if not (self.may(right) or self.may(suffices)):
            raise lacks(right)

    # Holding

    @property
    def holds(self) -> list[Hold]:
        with self._lock:
            return list(self._holds.values())

    def take(self, claimed: Claimed, asked_at: float) -> None:
        self._have(Hold(claimed.task, self.who.lease, asked_at))

    def adopt(self, meant: CallTarget, task: Task, asked_at: float) -> None:
        """Hold a task that another session claimed, once the store has accepted its token.

        Keep the presented token, because not every store returns it.
        """
        if meant.hold is None and meant.token is not None and task.lease is not None:
            proven = task._replace(lease=task.lease._replace(token=meant.token))
            self._have(Hold(proven, self.who.lease, asked_at))

    def _have(self, hold: Hold) -> None:
        """Hold this attempt, and drop an earlier one at the same task."""
        with self._lock:
            before = self._holds.get(hold.task.id)
            self._holds[hold.task.id] = hold
            self._lost.pop(hold.task.id, None)
        if before is not None:
            self._renewer.let_go(before)
        self._renewer.keep(hold, self._gone)

    def _gone(self, hold: Hold) -> None:
        """Drop a hold that was lost, or that another process ended with its token."""
        with self._lock:
            if self._holds.get(hold.task.id) is hold:
                del self._holds[hold.task.id]
                if hold.lost is not None:
                    self._lost[hold.task.id] = hold.lost
                    self._news.append(hold.lost)

    def news(self) -> str | None:
        """The losses since the last call, as text."""
        with self._lock:
            news, self._news = self._news, []
        return " ".join(news) or None

    # The task of a call

    def meant(self, desk: Desk, task: str | None, token: str | None) -> CallTarget:
        """The task of a call: the named one, or the only one held."""
        ref = self._only() if task is None else task
        if ref not in self._holds and ref not in self._lost and token is None:
            ref = desk.resolve(ref)
        hold = self._holds.get(ref)
        if token is not None:
            return CallTarget(ref, token, hold if hold is not None and hold.token == token else None)
        if hold is None and ref in self._lost:
            raise LostLock(self._lost[ref])
        return CallTarget(ref, None if hold is None else hold.token, hold)

    def _only(self) -> str:
        held = list(self._holds)
        if len(held) == 1:
            return held[0]
        if held:
            raise InvalidInput(f"You hold {len(held)} tasks: {', '.join(held)}. Name one with 'task'.")
        if self._news:
            raise LostLock(self._news[-1])
        raise InvalidInput("This session holds no task. Claim one first, or give 'task' and 'token'.")

    def refuse_if_held(self, task: str) -> None:
        if task in self._holds:
            raise Held(f"You already hold {task}; continue with it.", holder=self.who.agent)

    @contextmanager
    def ending(self, meant: CallTarget) -> Iterator[None]:
        """Stop renewing while the end of a task is written. Resume if the write is refused; drop a lost hold."""
        if meant.hold is not None:
            self._renewer.let_go(meant.hold)
        try:
            yield
        except LostLock:
            self._drop(meant)
            raise
        except BaseException:
            if meant.hold is not None:
                self._renewer.keep(meant.hold, self._gone)
            raise
        self._drop(meant)

    @contextmanager
    def checking(self, meant: CallTarget) -> Iterator[None]:
        """Drop the hold when the store reports the lease as lost, so that the loss is reported once."""
        try:
            yield
        except LostLock:
            if meant.hold is not None:
                self._renewer.let_go(meant.hold)
            self._drop(meant)
            raise

    def _drop(self, meant: CallTarget) -> None:
        with self._lock:
            if meant.hold is not None and self._holds.get(meant.task) is meant.hold:
                del self._holds[meant.task]

    # The end

    def end(self, desk: Desk) -> list[DibsError]:
        """Stop all renewals. Release the tasks still held, or keep them for the grace period.

        Return the errors of failed writes: those leases will expire.
        """
        desk, troubles = self.at(desk), []
        for hold in self.holds:
            self._renewer.let_go(hold)
            try:
                self._leave(desk, hold)
            except LostLock:
                continue  # another agent holds it
            except DibsError as error:
                troubles.append(error)
        self._holds.clear()
        return troubles

    def _leave(self, desk: Desk, hold: Hold) -> None:
        if self.who.grace:
            desk.renew(hold.task.id, hold.token, lease=min(self.who.grace, hold.lease))
        else:
            desk.move(Verb.RELEASE, hold.task.id, token=hold.token, reason="the session that held it has ended")


# Clients over HTTP

IDLE = 1800.0  # seconds without a request or stream after which a client counts as gone
_THREADS = 4

_log = logging.getLogger("dibs.serve")


def identity_of(request: Request, usual_scope: str, session: str | None = None, client: str | None = None) -> Identity:
    """The owner that the token names; without tokens, the one that the query parameters name.

    An unnamed client is called after its program and session; without a session, the name is for one call.
    """
    caller: Caller = request.scope["dibs.caller"]
    said = request.query_params
    agent = said.get("agent")
    if caller.agent is not None and agent not in {None, caller.agent}:
        raise Forbidden("This token was made for another agent. Use your own token.")
    named = caller.agent or agent
    return Identity(
        checks.name_of("agent", named or client_agent(client, session or mint_id())),
        f"mcp-{mint_id()}" if caller.run is None else f"mcp-{mint_id()}-{caller.run}",
        caller.scope(said.get("scope"), usual_scope),
        _sender(said.get("sender_hash"), caller),
        checks.names("capability", said.getlist("can")),
        checks.lease(parse_duration(said["lease"])) if "lease" in said else NATIVE.lease,
        rights=caller.rights,
        named=bool(named),
    )


def _sender(said: str | None, caller: Caller) -> str | None:
    return sender_hash_of(said) if caller.at_this_machine and said is not None else caller.sender


class _HttpClient:
    """A client over HTTP. Its calls are answered one after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = anyio.Lock()
        self.streams = 0
        self.heard_at = clock()

    def is_gone(self) -> bool:
        return not self.streams and clock() - self.heard_at > IDLE

    def belongs_to(self, who: Identity) -> bool:
        """Whether these are the same. A client without a name is known by its session or its token alone."""
        mine = self.session.who
        alike = mine.agent == who.agent if who.named else not mine.named
        return alike and (mine.sender, mine.scope) == (who.sender, who.scope)


class HttpClients:
    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._desks = Desks(open_desk, size=_THREADS)
        self._renewer = LeaseRenewer(open_desk)
        self._known: dict[str, _HttpClient] = {}  # by session or by token; replaced with each change
        self._lock = threading.Lock()

    def require_owner(self, session: str, who: Identity) -> None:
        """Raise NotFound if another client opened this session."""
        known = self._known.get(session)
        if known is not None and not known.belongs_to(who):
            raise NotFound("This session does not exist or has ended. Start a new one.")

    async def attend(
        self, who: Identity, session: str | None, token: str | None, work: Callable[[Desk, Session], Any]
    ) -> Any:
        client = self._client(who, session, token)

        def at_desk(desk: Desk) -> Any:
            """The client is remembered on the desk's thread, so also if its request was canceled."""
            try:
                return work(desk, client.session)
            finally:
                self._remember(client, session)

        async with client.turn:
            client.heard_at = clock()
            return await self._desks.borrow(at_desk)

    def _client(self, who: Identity, session: str | None, token: str | None) -> _HttpClient:
        """The client of a request, with the rights of its token now: a newer token may grant fewer."""
        name, fresh = session or token, _HttpClient(Session(who, self._renewer))
        if name is None:
            return fresh
        with self._lock:
            known = self._known.get(name, fresh)
            if session is None and not known.belongs_to(who):
                known = fresh  # a valid token is enough proof
            self._known = {**self._known, name: known}
        known.session.who = known.session.who._replace(rights=who.rights)
        return known

    def _remember(self, client: _HttpClient, session: str | None) -> None:
        """Find this client by its session in future, or else by the tokens it holds now."""
        names = {session} if session is not None else {hold.token for hold in client.session.holds}
        with self._lock:
            others = {name: known for name, known in self._known.items() if known is not client}
            self._known = others | dict.fromkeys(names, client)

    @contextmanager
    def there(self, session: str | None) -> Iterator[None]:
        """Keep the client of this session alive while a request of it is open."""
        client = self._known.get(session or "")
        if client is None:
            yield
            return
        client.streams += 1
        try:
            yield
        finally:
            client.streams -= 1
            client.heard_at = clock()

    # The end

    async def send_off_idle(self) -> None:
        for name in [name for name, client in self._known.items() if client.is_gone()]:
            await self.send_off(name)

    async def send_off(self, name: str) -> None:
        """End the session of a client. Writes that fail are logged: those leases expire by themselves."""
        with self._lock:
            client = self._known.get(name)
            self._known = {each: known for each, known in self._known.items() if each != name}
        if client is None or not client.session.holds:
            return
        try:
            troubles = await self._desks.borrow(client.session.end)
        except DibsError as error:
            troubles = [error]
        for trouble in troubles:
            _log.warning("at the end of a session: %s", trouble.message)

    async def close(self) -> None:
        """Stop. Clients keep their leases, and their tokens are valid at the next server."""
        await anyio.to_thread.run_sync(self._renewer.stop)
        await anyio.to_thread.run_sync(self._desks.close)
