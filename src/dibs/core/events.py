"""Events: one row of the audit log for each transition and each claim attempt, worded alike in every store."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.task import Actor, Json, Status, Task, Unset


class Outcome(StrEnum):
    """How it ended: `lost` is a holder who came too late, `refused` anyone who may not, or not now."""

    OK = "ok"
    LOST = "lost"
    REFUSED = "refused"


# A server notes the token of a request behind the run: 'night-token-3f9k…', or 'token-3f9k…' where no run is named.
TOKEN_MARK = "token-"  # noqa: S105 - a mark, not a secret
_TOKEN_ID = 12


def token_of(run: str | None) -> str | None:
    """The id of the token under which something was asked for; None without a server's token."""
    before, mark, token = (run or "").rpartition(TOKEN_MARK)
    marked = mark and len(token) == _TOKEN_ID and token.isalnum() and (not before or before.endswith("-"))
    return token if marked else None


def without_token(run: str | None) -> str | None:
    """A run as the agent named it."""
    if run is None or token_of(run) is None:
        return run
    return run[: -len(TOKEN_MARK) - _TOKEN_ID].removesuffix("-") or None


OTHER_VERBS = frozenset({"add", "edit", "link", "unlink", "import", "repair", "configure", "assign"})


class Event(NamedTuple):
    """`verb` is a lifecycle verb, one of OTHER_VERBS, or a protocol's own. `seq` is given by the store."""

    at: datetime
    scope: str
    task: str
    verb: str
    outcome: Outcome = Outcome.OK
    agent: str | None = None
    run: str | None = None
    attempt: int | None = None
    source: Status | None = None
    target: Status | None = None
    reason: str | None = None
    detail: Mapping[str, Json] = {}
    seq: int = 0


_LONG = frozenset({"description", "steps", "extra"})


def claimed(task: Task, held: Task, request: ClaimRequest) -> Event:
    before = task.lease
    detail: dict[str, Json] = {} if before is None else {"taken_from": before.agent, "forced": request.force}
    return Event(
        held.updated_at, task.scope, task.id, Verb.CLAIM, Outcome.OK, request.agent, request.run, held.attempt,
        task.status, held.status, None, detail,
    )  # fmt: skip


def claim_refused(task: Task, request: ClaimRequest, error: DibsError, now: datetime) -> Event:
    return Event(
        now, task.scope, task.id, Verb.CLAIM, Outcome.REFUSED, request.agent, request.run, task.attempt,
        task.status, task.status, error.code,
    )  # fmt: skip


def given_up(task: Task, after: Task) -> Event:
    """An expired lease with no retry left."""
    agent = task.lease.agent if task.lease else None
    return Event(
        after.updated_at, task.scope, task.id, Verb.EXHAUST, Outcome.OK, agent, None, task.attempt,
        task.status, after.status, after.reason,
    )  # fmt: skip


def moved(task: Task, after: Task, asked: Move) -> Event:
    agent = asked.by.agent or (task.lease.agent if task.lease else None)
    verb = Verb.EXHAUST if asked.verb is Verb.FAIL and after.status is Status.ESCALATED else asked.verb
    return Event(
        after.updated_at, task.scope, task.id, verb, Outcome.OK, agent, asked.by.run, task.attempt or None,
        task.status, after.status, asked.reason, _along(asked),
    )  # fmt: skip


def _along(asked: Move) -> dict[str, Json]:
    """Details that the task may lose later: undo restores them."""
    if asked.merged_into is not None:
        return {"merged_into": asked.merged_into}
    told: dict[str, Json] = {"forced": True} if asked.force else {}
    if asked.verb is Verb.BLOCK:
        lost = {"unblock_action": asked.unblock_action, "next_check_at": _plain(asked.next_check_at)}
        told |= {name: value for name, value in lost.items() if value is not None}
    return told


def move_refused(
    task: Task, asked: Move, error: DibsError, now: datetime, detail: Mapping[str, Json] | None = None
) -> Event:
    outcome = Outcome.LOST if isinstance(error, LostLock) else Outcome.REFUSED
    return Event(
        now, task.scope, task.id, asked.verb, outcome, asked.by.agent, asked.by.run, task.attempt or None,
        task.status, task.status, error.code, detail or {},
    )  # fmt: skip


def edited(task: Task, changes: Mapping[str, object], by: Actor, now: datetime, why: str | Unset) -> Event:
    """The old and new values of changed fields; long texts only by name."""
    told: dict[str, Json] = {
        name: None if name in _LONG else [_plain(getattr(task, name)), _plain(new)] for name, new in changes.items()
    }
    return Event(
        now,
        task.scope,
        task.id,
        "edit",
        agent=by.agent,
        run=by.run,
        reason=why if isinstance(why, str) else None,
        detail=told,
    )


def assigned(task: Task, after: Task, by: Actor) -> Event:
    return Event(
        after.updated_at, task.scope, task.id, "assign", Outcome.OK, by.agent, by.run, task.attempt or None,
        task.status, after.status, None, {"from": task.assigned_to, "to": after.assigned_to},
    )  # fmt: skip


def configured(scope: str, changes: Mapping[str, Json], by: Actor, now: datetime) -> Event:
    """The names of changed settings, without their values, which may be secret."""
    given = sorted(name for name, value in changes.items() if value is not None)
    gone = sorted(name for name, value in changes.items() if value is None)
    detail: dict[str, Json] = {word: names for word, names in (("set", given), ("removed", gone)) if names}
    return Event(now, scope, "", "configure", agent=by.agent, run=by.run, detail=detail)


def _plain(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [str(item) for item in value]
    from dibs.core.times import time_text

    return time_text(value) if isinstance(value, datetime) else str(value)
