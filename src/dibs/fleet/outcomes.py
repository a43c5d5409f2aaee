"""What a command has said, as a result for those that waited for it, or as the reason why it failed."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.fleet.supervisor.protocol import Ending

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.fleet.supervisor.protocol import Report

_REASON_LINES = 10  # of what it complained about, the last
_REASON_LENGTH = 2000  # characters


def result_of(report: Report, token: str) -> Json:
    """The JSON object on its last line, else all of its text; never with the token in it. None: it was silent."""
    text = report.output.replace(token, "(token)").strip()
    found = _object(text.rpartition("\n")[2])
    if found is not None:
        return found
    if report.dropped:
        return f"(the {report.dropped} bytes before this were dropped)\n{text}"
    return text or None


def _object(line: str) -> dict[str, Json] | None:
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
    return f"{_how(report)}: {complaint}" if complaint else _how(report)


def _how(report: Report) -> str:
    if report.ending is Ending.LIMIT:
        return f"it took longer than its time limit and was stopped after {report.seconds:.0f} s"
    if report.status < 0:
        return f"ended by {_name(-report.status)}"
    return f"exit status {report.status}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # one of the real-time signals has no name
        return f"signal {number}"
