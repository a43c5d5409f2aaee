"""One of several that do the same acts, and another one soon after it is gone.

The lead is a task in a scope of its own, and to lead is to hold its lease. It requires a capability that no agent has
by accident. Who was stopped and wakes up late believes for a moment to lead still: what it does then must do no harm.
"""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import AlreadyExists, LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk


LEASE = timedelta(seconds=2)  # so long after the death of one who leads another can
_RENEW_AFTER = 0.6
_TASK = "lead"
_CAPABILITY = "leads"


class Lead:
    """One who would lead. `place` is the scope, `name` is for people to see who does."""

    def __init__(
        self,
        desk: Desk,
        place: str,
        name: str,
        *,
        lease: timedelta = LEASE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk.at(place, by=Actor(name), internal=True)
        self._lease = lease
        self._clock = clock
        self._token: str | None = None
        self._renewed = 0.0

    def have(self) -> bool:
        """Whether it is ours: kept if we had it, taken if nobody has."""
        asked = self._clock()
        if self._token is not None and asked - self._renewed < _RENEW_AFTER:
            return True
        if self._token is not None and not self._renew():
            self._token = None
        if self._token is None:
            self._token = self._take()
        self._renewed = asked
        return self._token is not None

    def give_up(self) -> None:
        """Leave it to the next one at once."""
        if self._token is not None:
            with suppress(LostLock):  # then it is somebody else's already
                self._desk.move(Verb.RELEASE, _TASK, token=self._token)
            self._token = None

    def _renew(self) -> bool:
        try:
            self._desk.renew(_TASK, self._token, lease=self._lease)
        except LostLock:
            return False
        return True

    def _take(self) -> str | None:
        if (token := self._claim()) is not None:
            return token
        try:
            self._desk.add([Draft("The lead", _TASK, requires=(_CAPABILITY,))])
        except AlreadyExists:
            return None
        return self._claim()

    def _claim(self) -> str | None:
        claimed = self._desk.claim(str(self._desk.by.agent), lease=self._lease, can=(_CAPABILITY,))
        lease = claimed[0].task.lease if claimed else None
        return None if lease is None else lease.token
