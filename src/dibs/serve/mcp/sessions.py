"""One client at the desk: who it is, what it holds, and what it has not been told yet.

A token is the session's to carry, not the model's: it is bound to the attempt, so two sessions under one agent's name
have nothing in common. A model may still show a token, to go on with what an earlier session of its own has claimed.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from dibs.core.errors import DibsError, Held, InvalidInput, LostLock
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE
from dibs.core.task import Actor, Claimed, Task
from dibs.desk import Desk
from dibs.serve.access import ALL, Right
from dibs.serve.mcp.keeper import Hold, Keeper
from dibs.serve.problems import Forbidden


class Who(NamedTuple):
    """Who a session belongs to, as the record has it, and on what terms it takes tasks.

    `grace` is how long what it holds stays its own after the session has ended.
    """

    agent: str
    run: str
    scope: str = "default"
    sender: str | None = None
    can: tuple[str, ...] = ()
    lease: timedelta = NATIVE.lease
    grace: timedelta = timedelta(minutes=2)
    rights: frozenset[Right] = ALL


class Meant(NamedTuple):
    """The task that is spoken of, with the proof there is, and the hold if this session has it."""

    task: str
    token: str | None
    hold: Hold | None


class Session:
    """Used by one tool call at a time, and by the keeper's thread beside it."""

    def __init__(self, who: Who, keeper: Keeper) -> None:
        self.who = who
        self._keeper = keeper
        self._holds: dict[str, Hold] = {}
        self._lost: dict[str, str] = {}  # why, by task: for whoever speaks of it once more
        self._news: list[str] = []
        self._lock = threading.Lock()

    def at(self, desk: Desk) -> Desk:
        """The same store's desk, for this client."""
        return desk.at(self.who.scope, by=Actor(self.who.agent, self.who.run))

    def insist(self, right: Right) -> None:
        if not {right, Right.ADMIN} & self.who.rights:
            raise Forbidden(f"That needs the right '{right}', which this client's token does not have.")

    # Having

    @property
    def holds(self) -> list[Hold]:
        with self._lock:
            return list(self._holds.values())

    def take(self, claimed: Claimed, asked_at: float) -> None:
        self._have(Hold(claimed.task, self.who.lease, asked_at))

    def adopt(self, meant: Meant, task: Task, asked_at: float) -> None:
        """Go on with what another session has claimed, whose token was shown and found good.

        Not every store tells it again: what was shown is what counts.
        """
        if meant.hold is None and meant.token is not None and task.lease is not None:
            proven = task._replace(lease=task.lease._replace(token=meant.token))
            self._have(Hold(proven, self.who.lease, asked_at))

    def _have(self, hold: Hold) -> None:
        """Should an earlier attempt at the same task be held, that is over."""
        with self._lock:
            before = self._holds.get(hold.task.id)
            self._holds[hold.task.id] = hold
            self._lost.pop(hold.task.id, None)
        if before is not None:
            self._keeper.let_go(before)
        self._keeper.keep(hold, self._gone)

    def _gone(self, hold: Hold) -> None:
        """The keeper's word: it was lost, or ended under its own token elsewhere, by a command in a shell."""
        with self._lock:
            if self._holds.get(hold.task.id) is hold:
                del self._holds[hold.task.id]
                if hold.lost is not None:
                    self._lost[hold.task.id] = hold.lost
                    self._news.append(hold.lost)

    def news(self) -> str | None:
        """What was lost since it was last asked."""
        with self._lock:
            news, self._news = self._news, []
        return " ".join(news) or None

    # Speaking of a task

    def meant(self, desk: Desk, task: str | None, token: str | None) -> Meant:
        """Which task is spoken of: the one named, or the one that is held."""
        ref = self._only() if task is None else task
        if ref not in self._holds and ref not in self._lost and token is None:
            ref = desk.resolve(ref)
        hold = self._holds.get(ref)
        if token is not None:
            return Meant(ref, token, hold if hold is not None and hold.token == token else None)
        if hold is None and ref in self._lost:
            raise LostLock(self._lost[ref])
        return Meant(ref, None if hold is None else hold.token, hold)

    def _only(self) -> str:
        held = list(self._holds)
        if len(held) == 1:
            return held[0]
        if held:
            raise InvalidInput(f"You hold {len(held)} tasks: {', '.join(held)}. Say which with 'task'.")
        if self._news:
            raise LostLock(self._news[-1])
        raise InvalidInput("You hold no task in this session. Claim one first, or say which with 'task' and 'token'.")

    def insist_new(self, task: str) -> None:
        if task in self._holds:
            raise Held(f"You hold {task} already; go on with it.", holder=self.who.agent)

    @contextmanager
    def ending(self, meant: Meant) -> Iterator[None]:
        """While it is told how a task ends, nobody renews it. What was refused is held on to, what was lost is not."""
        if meant.hold is not None:
            self._keeper.let_go(meant.hold)
        try:
            yield
        except LostLock:
            self._drop(meant)
            raise
        except BaseException:
            if meant.hold is not None:
                self._keeper.keep(meant.hold, self._gone)
            raise
        self._drop(meant)

    @contextmanager
    def checking(self, meant: Meant) -> Iterator[None]:
        """While the store is asked whether a task is still held. What was lost is told at once, not a second time."""
        try:
            yield
        except LostLock:
            if meant.hold is not None:
                self._keeper.let_go(meant.hold)
            self._drop(meant)
            raise

    def _drop(self, meant: Meant) -> None:
        with self._lock:
            if meant.hold is not None and self._holds.get(meant.task) is meant.hold:
                del self._holds[meant.task]

    # The end

    def end(self, desk: Desk) -> list[DibsError]:
        """Nothing is renewed any more. What is still held is given back, or kept for as long as the grace is.

        What could not be told is returned: those leases go on to their own end.
        """
        desk, troubles = self.at(desk), []
        for hold in self.holds:
            self._keeper.let_go(hold)
            try:
                self._leave(desk, hold)
            except LostLock:
                continue  # somebody has it by now
            except DibsError as error:
                troubles.append(error)
        self._holds.clear()
        return troubles

    def _leave(self, desk: Desk, hold: Hold) -> None:
        if self.who.grace:
            desk.renew(hold.task.id, hold.token, lease=min(self.who.grace, hold.lease))
        else:
            desk.move(Verb.RELEASE, hold.task.id, token=hold.token, reason="the session that held it has ended")
