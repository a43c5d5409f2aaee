"""What ntask prints: one JSON object on stdout, for a result as for a failure, in ntask's own words and codes."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.console.streams import complain, printable, speaks_utf8
from dibs.core.errors import DibsError, Held, IllegalMove, LostLock, NotFound, Refused, StoreError, Unconfirmed
from dibs.core.lifecycle import RULES
from dibs.core.task import Holder, Status
from dibs.core.times import time_text
from dibs.protocols.ntask.policy import CODES, EXITS, NTASK, from_core

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from dibs.core.lifecycle import Verb
    from dibs.core.task import Json, Lease, Task
    from dibs.desk import Desk


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
        told["warnings"] = odd.get("warnings")
    return {key: value for key, value in told.items() if value not in (None, "")}


NOTION = "notion"  # among a task's extra fields: what is odd about its page, and the raw values that it shows
_SHOWN = {
    "status": "status",
    "holder": "claimed_by",
    "agent": "agent",
    "expires_at": "lock_expires",
}


def status_of(task: Task) -> str:
    """Its status in the words of the page, also where those mean nothing to ntask."""
    odd = task.extra.get(NOTION)
    shows = odd.get("shows") if isinstance(odd, dict) else None
    said = shows.get("status") if isinstance(shows, dict) else None
    return str(said or NTASK.say(task.status))


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


_SPREAD_MS = (500, 5000)  # agents that lost the same race come back one by one


class Failure(Exception):
    """How a command ends that came to nothing: `code` is one of ntask's, `more` are the keys beside the error."""

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
        return Failure(code, f"{error.message} 'ntask list' shows what there is.")
    return conflict(error.message, wait=error.retry_after_ms) if code == "CONFLICT" else Failure(code, error.message)


def conflict(message: str, more: Mapping[str, Json] | None = None, *, wait: int | None = None) -> Failure:
    """The loser of a race waits for a moment of its own: agents that read the same list would meet again otherwise.

    `wait` is how long the task itself is not to be had, where that is known.
    """
    from random import SystemRandom

    return Failure("CONFLICT", message, more, retry_after_ms=wait or SystemRandom().randint(*_SPREAD_MS))


@contextmanager
def claiming(desk: Desk, ref: str | None, run: str, agent: str) -> Iterator[None]:
    """Tell why a claim failed; one that may stand after all is told with its token, to be released or tried again."""
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
    """The task of a claim that nobody could confirm; only where the store does not know it, as the caller called it."""
    if error.task is None:
        return {"task_id": ref}
    return {"page_id": page_id(desk, error.task), "task_id": error.task.id}


_UNCONFIRMED = (
    "The claim was written but not confirmed: do not work on it. With the lock_token of this answer, "
    "'ntask heartbeat' tells whether it is yours, and 'ntask release' gives it back."
)
_NEXT = "Run 'ntask next' again to find another task."


def _not_claimable(desk: Desk, task: Task, error: Refused) -> Failure:
    more = {"task": task_json(desk, task)}
    if task.finished:
        return Failure("MISCONFIGURED", f"{task.id} is {status_of(task)}: there is nothing left to claim.", more)
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
    """Tell why a task could not be moved."""
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
    """Read after the refusal. That the caller's lock is gone is certain; this is what can be said about it."""
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
    told = f"{task.id} is {status_of(task)}; '{verb}' is for what is {sources}. Nothing was changed."
    return Failure("MISCONFIGURED", told, more)


_OURS = frozenset(Status) - {Status.PAUSED, Status.ESCALATED}


def _holder(task: str, lease: Lease) -> str:
    if lease.holder is Holder.HUMAN or lease.expires_at is None:
        return f"{task} is held by a person{f' ({lease.agent})' if lease.agent else ''}."
    run = f", run {lease.run}" if lease.run else ""
    return f"{task} is held by {lease.agent or 'an agent'}{run}, until {time_text(lease.expires_at)}."


def _now(desk: Desk, ref: str) -> Task | None:
    """The task as it is after a refusal, if it can still be read: what to say is not worth another error."""
    try:
        return desk.get(ref)
    except (NotFound, StoreError):
        return None
