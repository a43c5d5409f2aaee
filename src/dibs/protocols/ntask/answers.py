"""What ntask prints: one JSON object on stdout, whatever happens."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from dibs.console.streams import complain, printable, speaks_utf8
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.protocols.ntask.policy import EXITS, NTASK, from_core

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.protocols.ntask.failures import Failure


def task_json(desk: Desk, task: Task, *, secrets: bool = False) -> dict[str, Json]:
    """A task as ntask's users know it; keys without a value are left out.

    The lock token is told to the one who claimed, and to nobody else: whoever shows it is taken for the holder.
    """
    lease = task.lease
    ended = task.status in {Status.BLOCKED, Status.CANCELED}  # both keep their reason in BlockerReason
    told: dict[str, Json] = {
        "page_id": page_id(desk, task),
        "task_id": task.id,
        "status": NTASK.say(task.status),
        "priority": from_core(task.priority),
        "class": task.service_class.upper(),
        "claimed_by": lease and lease.holder.upper(),
        "agent_run": lease and lease.run,
        "agent": lease and lease.agent,
        "lock_token": lease.token if lease and secrets else None,
        "lock_expires": _time(lease.expires_at if lease else None),
        "started_at": _time(task.started_at),
        "done_at": _time(task.finished_at if task.status is Status.DONE else None),
        "blocker_reason": task.reason if ended else None,
        "unblock_action": task.unblock_action,
        "next_check_at": _time(task.next_check_at),
        "parent_task_id": task.parent,
        "reason": None if ended else task.reason,
        "artifacts": "\n".join(task.artifacts),
        "title": task.title,
        "description": task.description,
    }
    return {key: value for key, value in told.items() if value not in (None, "")}


def page_id(desk: Desk, task: Task) -> str:
    """The page in Notion. Elsewhere the task's id, so that what reads this key finds the task there too."""
    return (task.origin or task.id) if in_notion(desk) else task.id


def in_notion(desk: Desk) -> bool:
    """Of all stores, only Notion gives the ids itself."""
    return desk.capabilities.ids == "assigned"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)


def answer_task(desk: Desk, task: Task, *, secrets: bool = False) -> int:
    return answer({"task": task_json(desk, task, secrets=secrets)})


def answer(told: dict[str, Json]) -> int:
    _print({"ok": True, **told})
    return 0


def answer_failure(failure: Failure, secrets: tuple[str, ...] = ()) -> int:
    """The same message on stderr too, for whoever reads only the log of a script."""
    message = without(printable(failure.message), secrets)
    error: dict[str, Json] = {"code": failure.code, "message": message}
    if failure.retry_after_ms is not None:
        error["retry_after_ms"] = failure.retry_after_ms
    told: dict[str, Json] = {"ok": False, "error": error, **failure.more}
    _print(told)
    if not sys.stdout.isatty():
        complain("ntask", message)
    return EXITS[failure.code]


def without(message: str, secrets: tuple[str, ...]) -> str:
    """A message quotes what others said, and what the caller typed: whoever that was may have said too much."""
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message


def _print(told: dict[str, Json]) -> None:
    """On one line; for a person at a terminal on several."""
    looked_at = sys.stdout.isatty()
    separators = (",", ": ") if looked_at else (",", ":")
    print(
        json.dumps(told, ensure_ascii=not speaks_utf8(), separators=separators, indent=2 if looked_at else None),
        flush=True,
    )


def warn(message: str) -> None:
    complain("ntask", message)


def warn_of_loss(task: Task, brought: Mapping[str, object]) -> None:
    """Optional properties may be missing in a database; that something found no place there is not kept quiet."""
    lost = [
        _PROPERTIES[name] for name, said in brought.items() if name in _PROPERTIES and said and not getattr(task, name)
    ]
    if lost:
        warn(f"not kept, because the database has no property for it: {', '.join(lost)}")


_PROPERTIES = {
    "reason": "BlockerReason",
    "unblock_action": "UnblockAction",
    "next_check_at": "NextCheckAt",
    "artifacts": "Artifacts",
}
