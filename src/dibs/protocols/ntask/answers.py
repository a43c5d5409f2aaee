"""ntask's policy, and its answers: one JSON object on stdout for a result or a failure, in ntask's words and codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.streams import complain, printable, speaks_utf8
from dibs.core.errors import DibsError, Held, IllegalMove, LostLock, NotFound, Refused, StoreError, Unconfirmed
from dibs.core.lifecycle import RULES
from dibs.core.policy import CanceledBlocker, Policy
from dibs.core.task import Holder, Status
from dibs.core.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from dibs.core.lifecycle import Verb
    from dibs.core.task import Json, Lease, Task
    from dibs.desk import Desk


SUCCESS, CONFLICT, MISCONFIGURED, LOST_LOCK, API_ERROR = 0, 2, 3, 4, 5

EXITS: Mapping[str, int] = {
    "CONFLICT": CONFLICT,
    "MISCONFIGURED": MISCONFIGURED,
    "CLI_MISSING": MISCONFIGURED,
    "INCOMPLETE_SUBTASKS": MISCONFIGURED,
    "LOST_LOCK": LOST_LOCK,
    "API_ERROR": API_ERROR,
}

# ntask's code for each of our errors. API_ERROR: try again. MISCONFIGURED: a person must correct the setup.
CODES: Mapping[str, str] = {
    "ERROR": "API_ERROR",
    **dict.fromkeys(
        ("REFUSED", "NOTHING_READY", "HELD", "WAITING", "NOT_FOR_YOU", "OVER_QUOTA", "OVER_LIMIT", "CHANGED"),
        "CONFLICT",
    ),
    "LOST_LOCK": "LOST_LOCK",
    "INCOMPLETE_SUBTASKS": "INCOMPLETE_SUBTASKS",
    "CLI_MISSING": "CLI_MISSING",
    **dict.fromkeys(("STORE_ERROR", "STORE_BUSY", "STORE_FULL", "STORE_UNAVAILABLE", "UNCONFIRMED"), "API_ERROR"),
    "SERVICE_UNAVAILABLE": "API_ERROR",
    **dict.fromkeys(("INVALID_INPUT", "PLAN_INVALID", "NOT_FOUND", "AMBIGUOUS_ID", "ILLEGAL_MOVE"), "MISCONFIGURED"),
    **dict.fromkeys(("BROKEN_RULE", "CYCLE", "ALREADY_EXISTS", "MISCONFIGURED", "UNSUPPORTED"), "MISCONFIGURED"),
    **dict.fromkeys(("NO_STORE", "STORE_READ_ONLY", "STORE_CORRUPT", "SCHEMA_TOO_NEW"), "MISCONFIGURED"),
    "STORE_REPLACED": "MISCONFIGURED",
}

NTASK = Policy(
    name="ntask",
    lease=timedelta(minutes=20),
    canceled_blocker=CanceledBlocker.RESOLVES,  # a parent does not wait for a canceled sub-task
    requeue_on_change=True,  # the least recently edited page comes first
    short_ids=False,  # 4 is TASK-4, never TASK-42
    words={
        Status.BACKLOG: "BACKLOG",
        Status.READY: "READY",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.REVIEW: "REVIEW",
        Status.DONE: "DONE",
        Status.CANCELED: "CANCELED",
        # ntask never sets these statuses, but other users of the same store may.
        Status.PAUSED: "PAUSED",
        Status.ESCALATED: "ESCALATED",
    },
    aliases={"CANCELLED": Status.CANCELED},
    exit_statuses={code: EXITS[ours] for code, ours in CODES.items()},
)

DEFAULT_PRIORITY = 5


def to_core(priority: float) -> float:
    """Convert a priority: in ntask higher numbers come first, in the core lower ones."""
    return -priority if priority else priority


from_core = to_core


def task_json(desk: Desk, task: Task, *, secrets: bool = False) -> dict[str, Json]:
    """Return a task in ntask's form, without empty keys.

    The lock token is shown only to the agent that claimed, because its bearer counts as the holder.
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
        "agent": lease and (lease.agent or None),
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
    odd = task.extra.get(NOTION)
    if isinstance(odd, dict):
        shows = odd.get("shows")
        told.update({_SHOWN[name]: said for name, said in shows.items()} if isinstance(shows, dict) else {})
        told["warnings"] = odd.get("warnings") or None
    return {key: value for key, value in told.items() if value not in (None, "")}


NOTION = "notion"  # an extra field: the oddities of the page, with its raw values
_SHOWN = {
    "status": "status",
    "holder": "claimed_by",
    "agent": "agent",
    "expires_at": "lock_expires",
    "service_class": "class",
    "finished_at": "done_at",
}


def status_of(task: Task) -> str:
    """Return the status as the page spells it, also if ntask does not know the word."""
    odd = task.extra.get(NOTION)
    shows = odd.get("shows") if isinstance(odd, dict) else None
    said = shows.get("status") if isinstance(shows, dict) else None
    if said == "":
        return "without a status"
    return str(said or NTASK.say(task.status))


def page_id(desk: Desk, task: Task) -> str:
    """Return the page's id; in other stores the task's id, so that the key always leads to the task."""
    return (task.origin or task.id) if in_notion(desk) else task.id


def in_notion(desk: Desk) -> bool:
    """Whether the store is Notion, the only one that assigns all ids itself."""
    return desk.capabilities.ids == "assigned"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)


def answer_task(desk: Desk, task: Task, *, secrets: bool = False) -> int:
    return answer({"task": task_json(desk, task, secrets=secrets)})


def answer(told: dict[str, Json]) -> int:
    _print({"ok": True, **told})
    return 0


def answer_failure(failure: Failure, secrets: tuple[str, ...] = ()) -> int:
    """Print the failure as JSON, and its message to stderr for readers of a log."""
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
    """Remove secrets from a message, which quotes other people's text and the caller's input."""
    for secret in secrets:
        message = message.replace(secret, "[secret]")
    return message


def _print(told: dict[str, Json]) -> None:
    """Print on one line; on a terminal, indented."""
    looked_at = sys.stdout.isatty()
    separators = (",", ": ") if looked_at else (",", ":")
    print(
        json.dumps(told, ensure_ascii=not speaks_utf8(), separators=separators, indent=2 if looked_at else None),
        flush=True,
    )


def warn(message: str) -> None:
    complain("ntask", message)


def warn_of_loss(task: Task, brought: Mapping[str, object]) -> None:
    """Warn if the database has no property for a value that was given."""
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


_SPREAD_MS = (500, 5000)  # spreads agents that lost the same race


class Failure(Exception):
    """A failed command: `code` is one of ntask's, `more` holds further keys of the answer."""

    def __init__(
        self, code: str, message: str, more: Mapping[str, Json] | None = None, *, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.more = dict(more or {})


def failure_of(error: DibsError | Failure) -> Failure:
    if isinstance(error, Failure):
        return error
    code = CODES[error.code]
    if isinstance(error, NotFound):
        return Failure(code, f"{error.message} 'ntask list' lists the tasks.")
    return conflict(error.message, wait=error.retry_after_ms) if code == "CONFLICT" else Failure(code, error.message)


def conflict(message: str, more: Mapping[str, Json] | None = None, *, wait: int | None = None) -> Failure:
    """Return a CONFLICT with a random delay, so that losers of a race do not collide again.

    `wait` replaces the delay if it is known when the task becomes claimable.
    """
    from random import SystemRandom

    return Failure("CONFLICT", message, more, retry_after_ms=wait or SystemRandom().randint(*_SPREAD_MS))


@contextmanager
def claiming(desk: Desk, ref: str | None, run: str, agent: str) -> Iterator[None]:
    """Translate errors of a claim. An unconfirmed one is reported with its token, so that the caller can release it."""
    try:
        yield
    except Unconfirmed as error:
        task: dict[str, Json] = {
            **_named(desk, ref, error),
            "agent_run": run,
            "agent": agent,
            "lock_token": error.token,
        }
        raise Failure("API_ERROR", f"{error.message} {_UNCONFIRMED}", {"task": task}) from None
    except Refused as error:
        found = None if ref is None else _now(desk, ref)
        if found is None:
            raise conflict(f"{error.message} {_NEXT}") from None
        raise _not_claimable(desk, found, error) from None


def _named(desk: Desk, ref: str | None, error: Unconfirmed) -> dict[str, Json]:
    """Return the task of an unconfirmed claim; if the store does not know it, the caller's name for it."""
    if error.task is None:
        return {"task_id": ref}
    return {"page_id": page_id(desk, error.task), "task_id": error.task.id}


_UNCONFIRMED = (
    "The claim was written but not confirmed: do not work on it. With the lock_token of this answer, "
    "run 'ntask heartbeat' to find out whether it is yours, or 'ntask release' to release it."
)
_NEXT = "Run 'ntask next' again to find another task."


def _not_claimable(desk: Desk, task: Task, error: Refused) -> Failure:
    more = {"task": task_json(desk, task)}
    if task.finished:
        return Failure("MISCONFIGURED", f"{task.id} is {status_of(task)}: it cannot be claimed.", more)
    if task.lease is not None and task.held(desk.now()):
        return conflict(f"{_holder(task.id, task.lease)} {_NEXT}", more)
    if isinstance(error, Held) and error.retry_after_ms:
        return conflict(f"{error.message} {_NEXT}", more, wait=error.retry_after_ms)
    if isinstance(error, IllegalMove) and task.status is not Status.ACTIVE:
        why = f" ({task.reason})" if task.reason else ""
        return conflict(f"{task.id} is {status_of(task)}{why}, not READY. {_NEXT}", more)
    return conflict(f"{error.message} {_NEXT}", more)


@contextmanager
def moving(desk: Desk, ref: str, verb: Verb) -> Iterator[None]:
    """Translate errors of a move."""
    try:
        yield
    except LostLock as error:
        raise lost(desk, ref, error) from None
    except Refused as error:
        found = _now(desk, ref)
        if found is None:
            raise
        raise _not_movable(desk, found, verb, error) from None


def lost(desk: Desk, ref: str, error: LostLock) -> Failure:
    found = _now(desk, ref)
    if found is None:
        return Failure("LOST_LOCK", error.message)
    return Failure("LOST_LOCK", f"{_what_became(desk, found)} {_STOP}", {"task": task_json(desk, found)})


_STOP = "Nothing was changed. Stop working on it; 'ntask next' finds another task."


def _what_became(desk: Desk, task: Task) -> str:
    """Describe a lost lock's task, read after the refusal."""
    lease = task.lease
    if lease is None:
        return f"Your lock on {task.id} is gone: it is {status_of(task)}."
    if task.held(desk.now()):
        return f"That lock token and run id do not, or no longer, hold {task.id}: {_holder(task.id, lease)}"
    return f"The lock on {task.id} has expired."


def _not_movable(desk: Desk, task: Task, verb: Verb, error: Refused) -> Failure:
    more = {"task": task_json(desk, task)}
    if task.lease is not None and not task.held(desk.now()):
        late = "is IN_PROGRESS, and its lock has expired: claim it first. Nothing was changed."
        return conflict(f"{task.id} {late}", more)
    if task.lease is not None:
        needed = "Only with the --run-id and --lock-token of its claim can it be moved on. Nothing was changed."
        return conflict(f"{_holder(task.id, task.lease)} {needed}", more)
    if not isinstance(error, IllegalMove):
        return Failure("MISCONFIGURED", error.message, more)
    sources = " or ".join(NTASK.say(rule.source) for rule in RULES if rule.verb is verb and rule.source in _OURS)
    told = f"{task.id} is {status_of(task)}; '{verb}' needs a task that is {sources}. Nothing was changed."
    return Failure("MISCONFIGURED", told, more)


_OURS = frozenset(Status) - {Status.PAUSED, Status.ESCALATED}


def _holder(task: str, lease: Lease) -> str:
    if lease.holder is Holder.HUMAN or lease.expires_at is None:
        return f"{task} is held by a person{f' ({lease.agent})' if lease.agent else ''}."
    run = f", run {lease.run}" if lease.run else ""
    return f"{task} is held by {lease.agent or 'an agent'}{run}, until {time_text(lease.expires_at)}."


def _now(desk: Desk, ref: str) -> Task | None:
    """Return the task after a refusal; None if it cannot be read."""
    try:
        return desk.get(ref)
    except (NotFound, StoreError):
        return None
