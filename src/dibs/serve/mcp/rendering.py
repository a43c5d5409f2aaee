"""Tasks as a model reads them: a row for each in a list, all of one when it is asked for, and never too much."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dibs.core.events import Outcome
from dibs.core.fields import SETS
from dibs.core.task import LinkKind, remark, status_word
from dibs.fleet.attempt import earlier_failures
from dibs.serve.mcp import models
from dibs.serve.mcp.models import Brief, ClaimedTask, Row
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from dibs.core.events import Event
    from dibs.core.task import Claimed, Input, Json, Link, Task
    from dibs.desk import Desk

# Bytes, as they say more about tokens than characters do: an answer is to stay below 25,000 tokens in any script.
WHOLE = 40_000
TEXT = 12_000
_LINE = 500
_SHORT = 200
_MANY = 20
_EVENTS = 8
_READ = 50  # events of a task, among which remarks are looked for


def row(task: Task, now: datetime) -> Row:
    about = cut(remark(task, now), _SHORT) or None
    return Row(id=task.id, title=task.title, status=status_word(task, now), priority=task.priority, about=about)


def rows(tasks: Iterable[Task], now: datetime) -> list[Row]:
    return [row(task, now) for task in tasks]


def brief(desk: Desk, task: Task, offset: int = 0) -> Brief:
    """A whole task, with its links and its latest events."""
    now = desk.now()
    parts = [child.id for child in desk.find(Query(desk.scope, parent=task.id, limit=_MANY))]
    events = desk.events(ref=task.id, last=_EVENTS) if desk.capabilities.history else []
    said = _task_fields(task, desk.links(task.id) if desk.capabilities.links else [], offset)
    history = [cut(_event_line(event), _LINE) for event in events] or None
    return Brief(**dict(row(task, now)), **said, parts=parts or None, history=history)


def mine(desk: Desk, claimed: Claimed, lease: timedelta) -> ClaimedTask:
    """A claimed task, with everything a model needs to begin."""
    task, now = claimed.task, desk.now()
    assert task.lease is not None
    said = _task_fields(task, [], 0)
    return ClaimedTask(
        **dict(row(task, now)),
        **said,
        token=task.lease.token,
        minutes=round(lease.total_seconds() / 60, 2),
        inputs=[_input(one) for one in claimed.inputs[:_MANY]] or None,
        notes=_notes(desk, task) or None,
        failed_before=[cut(why, _LINE) for why in earlier_failures(desk, task)[-_EVENTS:]] or None,
    )


def _task_fields(task: Task, links: Sequence[Link], offset: int) -> dict[str, Any]:
    text = cut(task.description[offset:], TEXT)
    left = task.description[offset:] != text
    gates = [link for link in links if link.kind is not LinkKind.PARALLEL_OK]
    return {
        **{name: _few(getattr(task, name)) for name in Brief.model_fields if name in SETS},
        "description": text.removesuffix(_CUT) or None,
        "more_at": offset + len(text.removesuffix(_CUT)) if left else None,
        "steps": _few(task.steps),
        "needs": _few([link.on for link in gates if link.task == task.id]),
        "needed_by": _few([link.task for link in gates if link.on == task.id]),
        "parent": task.parent,
        "category": task.category,
        "deliverable": task.deliverable,
        "spec": task.spec_ref,
        "ref": task.ref,
        "assigned_to": task.assigned_to,
        "attempt": task.attempt or None,
        "result": value(task.result),
        "artifacts": _few(task.artifacts),
        "extra": value(task.extra) if task.extra else None,
    }


def _input(given: Input) -> models.Input:
    return models.Input(id=given.id, title=given.title, result=value(given.result), artifacts=_few(given.artifacts))


def _notes(desk: Desk, task: Task) -> list[str]:
    """The latest comments on a task, such as progress notes of earlier attempts."""
    if not desk.capabilities.history:
        return []
    remarks = [event for event in desk.events(ref=task.id, last=_READ) if event.verb == "comment" and event.reason]
    return [cut(f"{event.agent or 'someone'}: {event.reason}", _LINE) for event in remarks[-_EVENTS:]]


def _event_line(event: Event) -> str:
    who = f" by {event.agent}" if event.agent else ""
    outcome = "" if event.outcome is Outcome.OK else f" ({event.outcome})"
    why = f": {event.reason}" if event.reason else ""
    return f"{event.at:%Y-%m-%d %H:%M} {event.verb}{outcome}{who}{why}"


_CUT = "…"
_NEVER_CUT = frozenset({"id", "next", "token", "description", "needs", "needed_by", "unblocked", "critical_path"})


def cut(text: str, most: int) -> str:
    """The text, cut to at most this many bytes."""
    raw = text.encode()
    return text if len(raw) <= most else raw[:most].decode(errors="ignore") + _CUT


def value(given: Json) -> Json:
    """A result; a long one is cut, as text."""
    if given is None:
        return None
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return given if len(text.encode()) <= TEXT else cut(text, TEXT)


def fitted(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, with its longest texts cut until it fits."""
    for most in _SHORTER:
        if len(json.dumps(answer, ensure_ascii=False).encode()) <= WHOLE:
            break
        answer = _shortened(answer, most)
    return answer


_SHORTER = (4000, 1000, 300, 100)


def _shortened(part: Any, most: int) -> Any:
    if isinstance(part, str):
        return cut(part, most)
    if isinstance(part, list):
        return [_shortened(each, most) for each in part]
    if isinstance(part, dict):
        return {name: each if name in _NEVER_CUT else _shortened(each, most) for name, each in part.items()}
    return part


def _few(texts: Sequence[str]) -> list[str] | None:
    shown = [cut(text, _LINE) for text in texts[:_MANY]]
    if len(texts) > _MANY:
        shown.append(f"{_CUT} and {len(texts) - _MANY} more")
    return shown or None
