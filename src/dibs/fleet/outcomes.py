"""How attempts ended: the result or the reason of a command's failure, and the events of earlier attempts."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import InvalidInput, StoreError
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.scopes import is_internal
from dibs.fleet.supervisor.protocol import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.events import Event
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.supervisor.protocol import Report


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
