"""When a sync runs: one of a sender at a time, five of all senders, ten an hour; polling; webhooks that wake it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from dibs.core.errors import AlreadyExists, DibsError, Held, NotFound, OverQuota
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE
from dibs.core.scopes import SYNC
from dibs.core.task import Actor, Draft, Edit
from dibs.core.times import in_words, time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.sync.notion.report import Report

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


LOOK_ROUND = 5.0  # seconds between looks at who is due
_LONGEST = timedelta(minutes=15).total_seconds()  # that somebody whose syncs fail has to wait
_SENDER_DIGITS = 64


class Subscribers(Protocol):
    """Who wants to be polled, and how it is done; from many threads at once."""

    def intervals(self) -> dict[str, float]:
        """Sender → seconds between two looks."""
        ...

    def poll(self, sender: str, pages: Iterable[str]) -> Report:
        """One look, on a connection of its own."""
        ...

    def sender_of(self, page: str) -> str | None:
        """Whose row a page is, as Notion says now: nobody's is '', and of what is gone nobody knows."""
        ...


def known_senders(desk: Desk) -> list[str]:
    """Those who have tasks, or have synced before."""
    found = {scope.removeprefix(SYNC) for scope in desk.scopes(internal=True)}
    return sorted(scope for scope in found if len(scope) == _SENDER_DIGITS)


class Poller:
    """`tell` gets what was found, `trouble` what went wrong; `ticks` is the time."""

    def __init__(
        self,
        subscribers: Subscribers,
        tell: Callable[[Report], None],
        trouble: Callable[[str], None],
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._subscribers, self._tell, self._trouble, self._ticks = subscribers, tell, trouble, ticks
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._in_vain: dict[str, int] = {}
        self._busy: set[str] = set()
        self._rung: set[str] = set()  # pages that a webhook spoke of
        self._bell = threading.Event()
        self._stopped = False

    def ring(self, page: str) -> None:
        """A page has changed: look at once."""
        with self._lock:
            self._rung.add(page)
        self._bell.set()

    def stop(self) -> None:
        """End `watch`, from another thread; syncs that are under way are finished first."""
        self._stopped = True
        self._bell.set()

    def watch(self) -> None:
        """Look round until stopped."""
        with ThreadPoolExecutor(AT_ONCE, "notion-sync") as pool:
            while not self._stopped:
                self.look_round(lambda sender, pages: pool.submit(self._one, sender, pages))
                self._bell.wait(LOOK_ROUND)
                self._bell.clear()

    def look_round(self, start: Callable[[str, tuple[str, ...]], object]) -> None:
        """Start who is due."""
        try:
            intervals = self._subscribers.intervals()
            rung = self._whose(intervals)
        except DibsError as error:
            self._trouble(error.message)
            return
        for sender, interval in intervals.items():
            with self._lock:
                idle = sender not in self._busy
                if idle and (sender in rung or self._ticks() >= self._due.get(sender, 0.0)):
                    self._busy.add(sender)
                    self._due[sender] = self._ticks() + interval
                    start(sender, tuple(rung.pop(sender, ())))
        with self._lock:
            self._rung.update(page for pages in rung.values() for page in pages)  # their turn comes

    def _whose(self, intervals: dict[str, float]) -> dict[str, list[str]]:
        with self._lock:
            pages, self._rung = self._rung, set()
        found: dict[str, list[str]] = {}
        for page in pages:
            sender = self._subscribers.sender_of(page)
            for each in intervals if sender is None else [sender]:  # gone, and maybe anybody's
                found.setdefault(each, []).append(page)
        return {sender: those for sender, those in found.items() if sender in intervals}

    def _one(self, sender: str, pages: tuple[str, ...]) -> None:
        """Trouble with one sender keeps no other waiting, and the longer it lasts the less often it is tried."""
        try:
            report = self._subscribers.poll(sender, pages)
        except Held:
            self._put_off(sender, LOOK_ROUND)  # somebody else is at it, or all places are taken
        except DibsError as error:
            self._trouble(f"The rows of {sender[:12]}… could not be synced: {error.message}")
            wait = error.retry_after_ms / 1000 if error.retry_after_ms else self._patience(sender)
            self._put_off(sender, wait)
        except Exception as error:  # noqa: BLE001 - it is told, and tried again later
            self._trouble(f"The rows of {sender[:12]}… could not be synced ({type(error).__name__}).")
            self._put_off(sender, self._patience(sender))
        else:
            self._in_vain.pop(sender, None)
            if report.eventful:
                self._tell(report)
        finally:
            with self._lock:
                self._busy.discard(sender)

    def _patience(self, sender: str) -> float:
        self._in_vain[sender] = self._in_vain.get(sender, 0) + 1
        return float(min(_LONGEST, LOOK_ROUND * 2 ** self._in_vain[sender]))

    def _put_off(self, sender: str, seconds: float) -> None:
        with self._lock:
            self._due[sender] = self._ticks() + seconds
