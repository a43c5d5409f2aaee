"""One attempt of a worker at a claimed task: its lease while the command runs, and what the command's end means."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, LostLock, StoreError, StoreReplaced
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.scopes import is_internal
from dibs.core.times import backoff
from dibs.fleet.supervisor.protocol import Ending, clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from dibs.core.events import Event
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.supervisor.protocol import Report
    from dibs.stores.port import Moved

_TRIES = 12  # how often a renewal that failed is tried again within a lease
_MARGIN = 1.0  # seconds, at most, by which a lease is taken to be shorter than it is
_AGAIN = 1.0  # seconds at most between two tries to tell how it ended
_NEVER = float("inf")

# What a command does to its own task, with the token it was given. A person who overrules cancels, pauses or takes it.
_OWN_ENDS = frozenset({Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.RELEASE})


class Attempt:
    """Reckons the lease by our own clock from before it was asked for: so it is over here before it is at the store."""

    def __init__(self, desk: Desk, task: Task, lease: timedelta, asked_at: float) -> None:
        assert task.lease is not None
        self.task = task
        self.token = task.lease.token
        self.ended_as: Task | None = None  # its command has ended it by itself
        self._desk = desk
        self._lease = lease
        self._seconds = lease.total_seconds()
        self._begin(asked_at)

    def _begin(self, asked_at: float) -> None:
        self.until = asked_at + self._seconds - min(_MARGIN, self._seconds / 20)
        self._renew_at = asked_at + self._seconds / 3

    @property
    def renew_in(self) -> float:
        return max(0.0, self._renew_at - clock())

    def let_go(self) -> None:
        """No more renewals: it is lost, or ended already."""
        self._renew_at = _NEVER

    def keep(self) -> bool:
        """Renew if it is time; whether it is ours for longer now. LostLock: it is not ours any more."""
        asked_at = clock()
        if asked_at < self._renew_at:
            return False
        if asked_at >= self.until:
            self.let_go()  # too late to ask: its command is being ended
            return False
        return self.renew()

    def renew(self) -> bool:
        """Ask for another lease now, be it late; whether the store has heard it. LostLock: it is not ours any more.
        StoreReplaced: the store that holds it is gone."""
        asked_at = clock()
        try:
            self._desk.renew(self.task.id, self.token, lease=self._lease)
        except StoreReplaced:
            self.let_go()
            raise
        except StoreError:
            self._renew_at = clock() + self._seconds / _TRIES  # no answer; the lease goes on to its end
            return False
        except DibsError as error:
            self.let_go()
            if self._ended_itself():
                return False
            raise error if isinstance(error, LostLock) else LostLock(error.message) from error
        self._begin(asked_at)
        return True

    # How it ends

    def done(self, result: Json, then: ClaimRequest | None) -> Moved:
        return self._end(lambda: self._move(Verb.DONE, then=then, result=result))

    def fail(self, reason: str, first_pause: timedelta, then: ClaimRequest | None) -> Moved:
        pause = backoff(self.task.retries, first_pause)
        return self._end(lambda: self._move(Verb.FAIL, then=then, reason=reason, not_before=self._desk.now() + pause))

    def release(self, reason: str) -> Moved:
        return self._end(lambda: self._move(Verb.RELEASE, reason=reason))

    def _move(self, verb: Verb, **brings: object) -> Moved:
        return self._desk.move(verb, self.task.id, token=self.token, **brings)  # type: ignore[arg-type]  # as named above

    def _end(self, say: Callable[[], Moved]) -> Moved:
        """Say it until the store has heard; what it had heard already changes nothing. Not after the lease's end, and
        not to a store that was replaced."""
        while True:
            try:
                return say()
            except StoreReplaced:
                raise
            except StoreError:
                if clock() >= self.until:
                    raise
                time.sleep(max(0.0, min(_AGAIN, self._seconds / _TRIES, self.until - clock())))
            except LostLock:
                self._ended_itself()
                raise

    def _ended_itself(self) -> bool:
        """Whether this attempt was ended under its own token: by its command, then."""
        try:
            task = self._desk.get(self.task.id)
        except DibsError:
            return False
        if task.lease is None and task.attempt == self.task.attempt and task.ended in _OWN_ENDS:
            self.ended_as = task
        return self.ended_as is not None


_REASON_LINES = 10  # of what it complained about, the last
_REASON_LENGTH = 2000  # characters


def result_of(report: Report, token: str) -> Json:
    """The JSON object on its last line, else all of its text; never with the token in it. None: it was silent."""
    text = report.output.replace(token, "(token)").strip()
    found = _json_object(text.rpartition("\n")[2])
    if found is not None:
        return found
    if report.dropped:
        return f"(the {report.dropped} bytes before this were dropped)\n{text}"
    return text or None


def _json_object(line: str) -> dict[str, Json] | None:
    if not line.startswith("{"):
        return None
    try:
        found: dict[str, Json] = json.loads(line)
        checks.json_value("result", found)
    except (ValueError, RecursionError, InvalidInput):
        return None
    return found


def reason_of(report: Report, token: str) -> str:
    """How it ended, and the last it complained about."""
    said = [line.rstrip() for line in report.errors.replace(token, "(token)").splitlines() if line.strip()]
    complaint = "\n".join(said[-_REASON_LINES:])[-_REASON_LENGTH:]
    return f"{_ending_in_words(report)}: {complaint}" if complaint else _ending_in_words(report)


def _ending_in_words(report: Report) -> str:
    if report.ending is Ending.LIMIT:
        return f"it took longer than its time limit and was stopped after {report.seconds:.0f} s"
    if report.status < 0:
        return f"ended by {_signal_name(-report.status)}"
    return f"exit status {report.status}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals has no name
        return f"signal {number}"


_PAGE = 1000
_EVENTS_READ = 50  # events of a task, to learn how earlier attempts ended


def history(desk: Desk, *, anywhere: bool = False) -> Iterator[Event]:
    """All events of the scope, or of all the users' scopes, oldest first."""
    after = 0
    while page := desk.events(after=after, limit=_PAGE, anywhere=anywhere):
        yield from (event for event in page if not (anywhere and is_internal(event.scope)))
        after = page[-1].seq


def earlier_failures(desk: Desk, task: Task) -> list[str]:
    """How earlier attempts at a task that was just claimed have failed, as far as it is on record."""
    if task.attempt == 1 or not desk.capabilities.history:
        return []
    try:
        events = desk.events(ref=task.id, last=_EVENTS_READ)
    except StoreError:
        return []  # good to know, and no more than that
    failed = (event for event in events if event.verb == Verb.FAIL and event.outcome is Outcome.OK)
    return [event.reason for event in failed if event.reason]
