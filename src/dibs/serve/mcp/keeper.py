"""Keeps what clients hold: one thread that renews every lease at a third of it, so that no model has to think of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dibs.core.errors import LostLock, StoreError
from dibs.core.task import Actor
from dibs.fleet.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from dibs.core.task import Task
    from dibs.desk import Desk

_OPEN_AGAIN = 1.0  # seconds after which a store that could not be opened is tried again
_LONGEST = 15.0  # seconds of rest at most: a machine that has slept looks soon after whether it came too late


class Hold:
    """A task in the hands of a client. `lost` says why it is not any more, once that is known."""

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


class Keeper:
    """The thread and its store begin with the first hold. `lost` is told of each hold that could not be kept."""

    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open = open_desk
        self._kept: dict[Hold, Callable[[Hold], None]] = {}
        self._attempts: dict[Hold, Attempt] = {}  # the thread's own
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._renewing: str | None = None  # the token of the renewal under way

    def keep(self, hold: Hold, lost: Callable[[Hold], None]) -> None:
        """From now on; whoever had the same token here before has it no more, and is told so."""
        with self._changed:
            before = [(other, self._kept.pop(other)) for other in [*self._kept] if other.token == hold.token]
            self._kept[hold] = lost
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dibs-keeper", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        for other, tell in before:
            if other is not hold:
                tell(other)

    def let_go(self, hold: Hold) -> None:
        """Renew it no more, and report nothing about it. Return when no renewal of it is under way.

        So the caller's next write is the last one. A renewal takes the store's own timeout at most.
        """
        with self._changed:
            self._kept.pop(hold, None)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._renewing != hold.token)

    def stop(self) -> None:
        """Begin no more renewals. Return when none is under way and the thread has closed its store."""
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
                self._tell(hold)

    def _due(self, desk: Desk) -> Hold | None:
        """The next to renew, marked as under way when it is time for it; None when the keeper is stopped."""
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

    def _tell(self, hold: Hold) -> None:
        with self._changed:
            lost = self._kept.pop(hold, None)
        if lost is not None:
            lost(hold)
