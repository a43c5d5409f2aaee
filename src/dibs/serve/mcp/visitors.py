"""Who is at the desk over HTTP: found by the session they opened, or by the token of what they hold."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio

from dibs.core import checks
from dibs.core.duration import parse_duration
from dibs.core.errors import DibsError, NotFound
from dibs.core.policy import NATIVE
from dibs.core.sender import sender_hash_of
from dibs.desk import mint_id
from dibs.fleet.minder.words import clock
from dibs.serve.desks import Desks
from dibs.serve.mcp.keeper import Keeper
from dibs.serve.mcp.sessions import Session, Who
from dibs.serve.problems import Forbidden

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.requests import Request

    from dibs.desk import Desk
    from dibs.serve.access import Caller

IDLE = 1800.0  # seconds after which somebody of whom nothing was heard is taken to be gone
_THREADS = 4
_SOMEONE = "someone"

_log = logging.getLogger("dibs.serve")


def who_asks(request: Request, usual_scope: str) -> Who:
    """Who has a token is who it says; at this machine, whoever the address says they are."""
    caller: Caller = request.scope["dibs.caller"]
    said = request.query_params
    agent = said.get("agent")
    if caller.agent is not None and agent not in {None, caller.agent}:
        raise Forbidden("This token is another agent's.")
    return Who(
        checks.name_of("agent", caller.agent or agent or _SOMEONE),
        f"mcp-{mint_id()}",
        caller.scope(said.get("scope"), usual_scope),
        _sender(said.get("sender_hash"), caller),
        checks.names("capability", said.getlist("can")),
        checks.lease(parse_duration(said["lease"])) if "lease" in said else NATIVE.lease,
        rights=caller.rights,
    )


def _sender(said: str | None, caller: Caller) -> str | None:
    return sender_hash_of(said) if caller.at_this_machine and said is not None else caller.sender


class _Visitor:
    """One of them. Its calls are answered one after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn = anyio.Lock()
        self.streams = 0
        self.heard_at = clock()

    def is_gone(self) -> bool:
        return not self.streams and clock() - self.heard_at > IDLE

    def belongs_to(self, who: Who) -> bool:
        mine = self.session.who
        return (mine.agent, mine.sender, mine.scope) == (who.agent, who.sender, who.scope)


class Visitors:
    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._desks = Desks(open_desk, size=_THREADS)
        self._keeper = Keeper(open_desk)
        self._known: dict[str, _Visitor] = {}  # by session or by token; made anew with each change
        self._lock = threading.Lock()

    def insist(self, session: str, who: Who) -> None:
        """A session is of use to whoever opened it; to others it is as if there were none."""
        known = self._known.get(session)
        if known is not None and not known.belongs_to(who):
            raise NotFound("There is no such session.")

    async def attend(
        self, who: Who, session: str | None, token: str | None, work: Callable[[Desk, Session], Any]
    ) -> Any:
        visitor = self._visitor(who, session, token)

        def at_desk(desk: Desk) -> Any:
            """Who it was is noted here, on the desk's thread: that is done even if nobody waits for the answer."""
            try:
                return work(desk, visitor.session)
            finally:
                self._remember(visitor, session)

        async with visitor.turn:
            visitor.heard_at = clock()
            return await self._desks.borrow(at_desk)

    def _visitor(self, who: Who, session: str | None, token: str | None) -> _Visitor:
        """The rights are those of the request: a token may have been replaced by one that is good for less."""
        name, fresh = session or token, _Visitor(Session(who, self._keeper))
        if name is None:
            return fresh
        with self._lock:
            known = self._known.get(name, fresh)
            if session is None and not known.belongs_to(who):
                known = fresh  # a token that is good is good for whoever shows it
            self._known = {**self._known, name: known}
        known.session.who = known.session.who._replace(rights=who.rights)
        return known

    def _remember(self, visitor: _Visitor, session: str | None) -> None:
        """By its session, if it has one; else by every token it holds now, and by no other."""
        names = {session} if session is not None else {hold.token for hold in visitor.session.holds}
        with self._lock:
            others = {name: known for name, known in self._known.items() if known is not visitor}
            self._known = others | dict.fromkeys(names, visitor)

    @contextmanager
    def there(self, session: str | None) -> Iterator[None]:
        """While a request of this session is open."""
        visitor = self._known.get(session or "")
        if visitor is None:
            yield
            return
        visitor.streams += 1
        try:
            yield
        finally:
            visitor.streams -= 1
            visitor.heard_at = clock()

    # The end

    async def send_off_idle(self) -> None:
        for name in [name for name, visitor in self._known.items() if visitor.is_gone()]:
            await self.send_off(name)

    async def send_off(self, name: str) -> None:
        """What could not be told is in the log: those leases go on to their own end."""
        with self._lock:
            visitor = self._known.get(name)
            self._known = {each: known for each, known in self._known.items() if each != name}
        if visitor is None or not visitor.session.holds:
            return
        try:
            troubles = await self._desks.borrow(visitor.session.end)
        except DibsError as error:
            troubles = [error]
        for trouble in troubles:
            _log.warning("at the end of a session: %s", trouble.message)

    async def close(self) -> None:
        """The server ends, its visitors do not: their leases go on, and their tokens are good at the next server."""
        await anyio.to_thread.run_sync(self._keeper.stop)
        await anyio.to_thread.run_sync(self._desks.close)
