"""One attempt of a worker at a claimed task: its lease while the command runs, and the report of its end."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, LostLock, StoreError, StoreReplaced
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.task import is_internal
from dibs.core.times import backoff
from dibs.fleet.supervisor.protocol import Ending, clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta

    from dibs.core.events import Event
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.output import Mask
    from dibs.fleet.supervisor.protocol import Report
    from dibs.stores.port import Moved

    Extra = Mapping[str, Json]  # extra fields to set with the task's end

_TRIES = 12  # renewals tried within a lease if the store fails
_MARGIN = 1.0  # seconds, at most, by which the lease ends here before it ends in the store
_AGAIN = 1.0  # seconds, at most, between two reports of the result
_NEVER = float("inf")

# The ways a command may end its own task, with its token. Only a person cancels, pauses or takes it.
_OWN_ENDS = frozenset({Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.RELEASE})


class Attempt:
    """Counts the lease by the local clock, from before the request, so it ends here before it ends in the store."""

    def __init__(self, desk: Desk, task: Task, lease: timedelta, asked_at: float) -> None:
        assert task.lease is not None
        self.task = task
        self.token = task.lease.token
        self.ended_as: Task | None = None  # its command has ended the task
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
        """Stop renewing: the attempt is lost or has ended."""
        self._renew_at = _NEVER

    def keep(self) -> bool:
        """Renew when it is time. True: renewed. Raise LostLock if another agent has the task."""
        asked_at = clock()
        if asked_at < self._renew_at:
            return False
        if asked_at >= self.until:
            self.let_go()  # too late: the command is being ended
            return False
        return self.renew()

    def renew(self) -> bool:
        """Renew now. False: no answer from the store.

        Raise LostLock if another agent has the task, and StoreReplaced if the store is gone.
        """
        asked_at = clock()
        try:
            self._desk.renew(self.task.id, self.token, lease=self._lease)
        except StoreReplaced:
            self.let_go()
            raise
        except StoreError:
            self._renew_at = clock() + self._seconds / _TRIES  # no answer: the lease runs on to its end
            return False
        except DibsError as error:
            self.let_go()
            if self.has_ended():
                return False
            raise error if isinstance(error, LostLock) else LostLock(error.message) from error
        self._begin(asked_at)
        return True

    # Ends

    def done(self, result: Json, then: ClaimRequest | None, extra: Extra) -> Moved:
        return self._end(lambda: self._move(Verb.DONE, then=then, result=result, extra=extra))

    def fail(self, reason: str, first_pause: timedelta, then: ClaimRequest | None, extra: Extra) -> Moved:
        pause = backoff(self.task.retries, first_pause)
        return self._end(
            lambda: self._move(Verb.FAIL, then=then, reason=reason, not_before=self._desk.now() + pause, extra=extra)
        )

    def block(self, reason: str, action: str, extra: Extra) -> Moved:
        return self._end(lambda: self._move(Verb.BLOCK, reason=reason, unblock_action=action, extra=extra))

    def release(self, reason: str, extra: Extra) -> Moved:
        return self._end(lambda: self._move(Verb.RELEASE, reason=reason, extra=extra))

    def _move(self, verb: Verb, **brings: object) -> Moved:
        return self._desk.move(verb, self.task.id, token=self.token, **brings)  # type: ignore[arg-type]  # as named above

    def _end(self, say: Callable[[], Moved]) -> Moved:
        """Report until the store answers; a repeated report changes nothing.

        Give up when the lease ends, or if the store was replaced.
        """
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
                self.has_ended()
                raise

    def has_ended(self) -> bool:
        """Whether the command ended the task with the attempt's token."""
        try:
            task = self._desk.get(self.task.id)
        except DibsError:
            return False
        if task.lease is None and task.attempt == self.task.attempt and task.ended in _OWN_ENDS:
            self.ended_as = task
        return self.ended_as is not None


_REASON_LINES = 10  # the last lines of stderr
_REASON_LENGTH = 2000  # characters


def result_of(report: Report, token: str, mask: Mask) -> Json:
    """The JSON object on the last line, else the whole text; None without output. Secrets are masked."""
    text = mask.whole(report.output.replace(token, "(token)")).strip()
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


def reason_of(report: Report, token: str, mask: Mask) -> str:
    """The exit status and the last lines of stderr, with secrets masked."""
    text = mask.whole(report.errors.replace(token, "(token)"))
    said = [line.rstrip() for line in text.splitlines() if line.strip()]
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
_EVENTS_READ = 50  # events of a task, to find how earlier attempts ended


def history(desk: Desk, *, anywhere: bool = False) -> Iterator[Event]:
    """All events of the scope, or of all the users' scopes, oldest first."""
    after = 0
    while page := desk.events(after=after, limit=_PAGE, anywhere=anywhere):
        yield from (event for event in page if not (anywhere and is_internal(event.scope)))
        after = page[-1].seq


def earlier_failures(desk: Desk, task: Task) -> list[str]:
    """The recorded failures of earlier attempts at a claimed task."""
    if task.attempt == 1 or not desk.capabilities.history:
        return []
    try:
        events = desk.events(ref=task.id, last=_EVENTS_READ)
    except StoreError:
        return []  # only additional information
    failed = (event for event in events if event.verb == Verb.FAIL and event.outcome is Outcome.OK)
    return [event.reason for event in failed if event.reason]
