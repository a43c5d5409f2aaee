"""One sync of a sender at a time, five of all senders, ten an hour: kept as tasks, for what that takes tasks have.

Each sender has a standing task in a scope of its own, leased to the sync that runs; a sync that died is over when its
lease is. Beside it lies what the next sync has to know, written only by who holds it. Five more tasks are the places.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.duration import in_words
from dibs.core.errors import AlreadyExists, DibsError, Held, NotFound, OverQuota
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE
from dibs.core.scopes import SYNC
from dibs.core.task import Actor, Draft, Edit
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dibs.core.task import Json, Task
    from dibs.desk import Desk

_PLACES = f"{SYNC}places"  # the scope of the places
_ID = "notion"
_CAN = "syncs-notion"  # what no agent says it can, so that none claims these tasks by accident
_RUNS = "runs"
AT_ONCE = 5
HOURLY = 10
_HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=2)
_RENEW = 30.0  # seconds after which it is time to


class Turn:
    """The right to sync one sender now. `go_on` is called all along the way; it ends what has lost its right."""

    def __init__(self, desk: Desk, task: Task, places: Desk, place: Task, ticks: Callable[[], float]) -> None:
        self._desk, self._task, self._places, self._place = desk, task, places, place
        self._ticks, self._renewed = ticks, ticks()
        self.state: Mapping[str, Json] = task.extra
        self.learned: Mapping[str, Json] = {}  # what the next one is to know

    def go_on(self) -> None:
        """Keep the turn; LostLock where it took so long that it went to another."""
        if self._ticks() - self._renewed > _RENEW:
            self._desk.renew(self._task.id, _token(self._task), lease=LEASE)
            self._places.renew(self._place.id, _token(self._place), lease=LEASE)
            self._renewed = self._ticks()

    def count(self) -> None:
        """This one counts: refuse it where there have been too many within an hour."""
        now = self._desk.now()
        told = self.state.get(_RUNS)
        runs = [time_from(str(each)) for each in told] if isinstance(told, list) else []
        recent = [each for each in runs if each > now - _HOUR]
        if len(recent) >= HOURLY:
            left = recent[0] + _HOUR - now
            raise OverQuota(
                f"At most {HOURLY} syncs an hour are made for one sender; there is room for another in "
                f"{in_words(left)}.",
                retry_after_ms=left // timedelta(milliseconds=1) + 1,
            )
        self._desk.edit(self._task.id, Edit(keep={_RUNS: [time_text(each) for each in (*recent, now)]}))

    def close(self) -> None:
        self._places.move(Verb.RELEASE, self._place.id, token=_token(self._place))
        self._desk.move(Verb.RELEASE, self._task.id, token=_token(self._task), extra=self.learned)


@contextmanager
def turn(desk: Desk, sender: str, name: str, ticks: Callable[[], float]) -> Iterator[Turn]:
    """Take it, and give it back. Held where another is at it."""
    by, policy = Actor(name), NATIVE._replace(short_ids=False)
    mine = desk.at(SYNC + sender, policy=policy, by=by, internal=True)
    places = desk.at(_PLACES, policy=policy, by=by, internal=True)
    place = _take_place(places, name)
    try:
        task = _take(mine, name)
    except DibsError:
        places.move(Verb.RELEASE, place.id, token=_token(place))
        raise
    taken = Turn(mine, task, places, place, ticks)
    try:
        yield taken
    except BaseException:
        with suppress(DibsError):  # what went wrong first is told; a turn that is not given back ends with its lease
            taken.close()
        raise
    taken.close()


def _take(desk: Desk, name: str) -> Task:
    try:
        return _claimed(desk, name)
    except NotFound:
        _make(desk, _ID)
        return _claimed(desk, name)


def _claimed(desk: Desk, name: str) -> Task:
    try:
        return desk.claim(name, refs=[_ID], lease=LEASE, can=[_CAN])[0].task
    except Held as held:
        raise Held(
            "Another sync of this sender is going on. Wait for it, and try again.", retry_after_ms=held.retry_after_ms
        ) from None


def _take_place(places: Desk, name: str) -> Task:
    found = places.claim(name, lease=LEASE, can=[_CAN])
    if not found:  # all are taken, or there are none yet
        _make(places, *(f"place-{number}" for number in range(1, AT_ONCE + 1)))
        found = places.claim(name, lease=LEASE, can=[_CAN])
    if not found:
        raise Held(f"{AT_ONCE} syncs are going on, and more are not made at once. Try again in a moment.")
    return found[0].task


def _make(desk: Desk, *ids: str) -> None:
    try:
        desk.add([Draft(f"Sync with Notion ({id_})", id=id_, requires=(_CAN,), origin="notion") for id_ in ids])
    except AlreadyExists:
        return


def _token(task: Task) -> str | None:
    return task.lease.token if task.lease else None
