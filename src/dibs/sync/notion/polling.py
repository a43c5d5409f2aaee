"""Looking at Notion again and again for those who want it, each at their own pace, and at once where a webhook rings.

Whoever polls, on however many hosts: one sync of a sender runs at a time, and five in all. A look that finds nothing
costs one or two requests and counts for nothing; what it finds is a sync, and counts.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from dibs.core.errors import DibsError, Held
from dibs.core.scopes import SYNC
from dibs.sync.notion.turn import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dibs.desk import Desk
    from dibs.sync.notion.report import Report

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
