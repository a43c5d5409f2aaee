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
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.desk import mint_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

LEASE = timedelta(seconds=2)  # so long after the death of one who leads another can
_RENEW_AFTER = 0.6
_TASK = "lead"
_CAPABILITY = "leads"


class Lead:
    """One who would lead. `place` is the scope, `name` is for people to see who does."""

    def __init__(
        self,
        store: Store,
        place: str,
        name: str,
        *,
        lease: timedelta = LEASE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._place = place
        self._by = Actor(name)
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
                self._move(Verb.RELEASE)
            self._token = None

    def _renew(self) -> bool:
        try:
            self._move(Verb.RENEW)
        except LostLock:
            return False
        return True

    def _move(self, verb: Verb) -> None:
        lease = self._lease if verb is Verb.RENEW else None
        self._store.move(
            Move(verb, _TASK, self._place, self._by, token=self._token, lease=lease), CanceledBlocker.RESOLVES
        )

    def _take(self) -> str | None:
        request = ClaimRequest(
            str(self._by.agent), (mint_token(),), self._place, lease=self._lease, can=frozenset({_CAPABILITY})
        )
        if self._store.claim(request):
            return request.tokens[0]
        try:
            self._store.add(self._place, [Draft("The lead", _TASK, requires=(_CAPABILITY,))], [], self._by)
        except AlreadyExists:
            return None
        return request.tokens[0] if self._store.claim(request) else None
