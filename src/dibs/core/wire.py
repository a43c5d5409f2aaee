"""Tasks, links, settings and events as JSON: what `--json` prints and what an export holds.

Unset fields are left out. Tokens are left out unless asked for: they are their holders' secrets.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.events import Event, Outcome, token_of
from dibs.core.fields import FIELDS, LISTS, Kind
from dibs.core.task import Holder, Input, Lease, Link, LinkKind, ServiceClass, Status, Task
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.core.fleet import Member
    from dibs.core.plan import PlanChanges
    from dibs.core.scores import Scores
    from dibs.core.settings import Setting
    from dibs.core.task import Claimed, Json

GIT = "git"  # the extra field with the branch of the task's worktree and its changes
_ALWAYS = frozenset({"scope", "id", "title", "status", "service_class", "priority", "attempt"})


def task_json(task: Task, *, secrets: bool = False) -> dict[str, Json]:
    out: dict[str, Json] = {}
    for name, value in zip(Task._fields, task, strict=True):
        if name == "lease":
            if task.lease is not None:
                out["lease"] = lease_json(task.lease, secrets=secrets)
        elif name == "spent_token":
            if secrets and task.spent_token is not None:
                out[name] = task.spent_token
        elif name in _ALWAYS or value != Task._field_defaults.get(name):
            out[name] = _plain(value)
    git = task.extra.get(GIT)
    if isinstance(git, dict) and "branch" in git:
        out[GIT] = git
        out["extra"] = {name: value for name, value in task.extra.items() if name != GIT}
        if not out["extra"]:
            del out["extra"]
    return out


def lease_json(lease: Lease, *, secrets: bool = False) -> dict[str, Json]:
    out = {name: _plain(value) for name, value in zip(Lease._fields, lease, strict=True) if value is not None}
    if not secrets:
        del out["token"]
    return out


def claimed_json(claimed: Claimed) -> dict[str, Json]:
    """What the one who claimed gets to see: the token is theirs."""
    lease = claimed.task.lease
    out: dict[str, Json] = {"task": task_json(claimed.task)}
    if lease is not None:
        out["token"] = lease.token
    if claimed.inputs:
        out["inputs"] = inputs_json(claimed)
    return out


def inputs_json(claimed: Claimed) -> list[Json]:
    return [_tuple_json(given, Input._field_defaults) for given in claimed.inputs]


def link_json(link: Link) -> dict[str, Json]:
    return _tuple_json(link, {"weight": 1.0, "confidence": 1.0})


def event_json(event: Event) -> dict[str, Json]:
    """An event, with the id of the token under which a server was asked, if there was one."""
    token = token_of(event.run)
    return _tuple_json(event, Event._field_defaults) | ({} if token is None else {"token_id": token})


def member_json(member: Member, now: datetime) -> dict[str, Json]:
    times = {"enrolled_at": time_text(member.enrolled_at), "seen_at": time_text(member.seen_at)}
    return {**member._asdict(), **times, "can": list(member.can), "present": member.present(now)}


def scores_json(found: Scores) -> dict[str, Json]:
    return {
        "since": None if found.since is None else time_text(found.since),
        "agents": [
            {
                "agent": one.agent,
                "finished": one.finished,
                "failed": one.failed,
                "lost": one.lost,
                "median_seconds": None if one.duration is None else one.duration.total_seconds(),
                "points": one.points,
            }
            for one in found.tallies
        ],
    }


def changes_json(changes: PlanChanges, *, dry_run: bool) -> dict[str, Json]:
    return {
        "dry_run": dry_run,
        "inserted": [planned.draft.id for planned in changes.insert],
        "updated": changes.updated,
        "removed": changes.remove,
        "skipped_done": changes.skipped_done,
        "skipped_active": changes.skipped_active,
        "skipped_canceled": changes.skipped_canceled,
        "linked": len(changes.link),
        "unlinked": len(changes.unlink),
    }


def _tuple_json(item: Any, defaults: Mapping[str, object]) -> dict[str, Json]:
    fields = zip(item._fields, item, strict=True)
    return {name: _plain(value) for name, value in fields if name not in defaults or value != defaults[name]}


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, tuple):
        return list(value)
    plain: Json = value.value if isinstance(value, Status | ServiceClass | Holder | LinkKind | Outcome) else value
    return plain


def task_from_json(data: Mapping[str, Any], mint_token: Callable[[], str]) -> Task:
    """Read an exported task. A lease without its token gets a random one, so it can only expire."""
    if isinstance(data, dict) and GIT in data:
        git = data[GIT]
        data = {name: value for name, value in data.items() if name != GIT}
        data["extra"] = {**(data.get("extra") or {}), GIT: git}
    values = _read(data, _TASK_FIELDS, Task)
    lease = values.get("lease")
    if lease is not None:
        read = {"run": None, "expires_at": None, "token": mint_token(), **_read(lease, _LEASE_FIELDS, Lease)}
        values["lease"] = _built(Lease, read)
    task: Task = _built(Task, values)
    if not _agrees(task):
        raise InvalidInput(f"task '{task.id}': status, attempt, lease and finished_at do not agree")
    return task._replace(
        id=checks.identifier(task.id),
        scope=checks.name_of("scope", task.scope),
        title=checks.title(task.title),
        priority=checks.priority(task.priority),
    )


def _agrees(task: Task) -> bool:
    """Only an active task has a lease, of its latest attempt; only a finished one an end; only a person no limit."""
    lease = task.lease
    if lease is not None and (
        lease.attempt != task.attempt or (lease.holder is Holder.HUMAN) != (not lease.expires_at)
    ):
        return False
    ended = task.finished == (task.finished_at is not None)
    return ended and (task.status is Status.ACTIVE) == (lease is not None) and min(task.attempt, task.retries) >= 0


def link_from_json(data: Mapping[str, Any]) -> Link:
    link: Link = _built(Link, _read(data, _LINK_FIELDS, Link))
    return checks.link(link)


def setting_from_json(data: Mapping[str, Any]) -> Setting:
    from dibs.core.settings import Setting

    setting: Setting = _built(Setting, _read(data, _SETTING_FIELDS, Setting))
    return setting._replace(name=checks.name_of("setting", setting.name))


def event_from_json(data: Mapping[str, Any]) -> Event:
    said = {name: value for name, value in data.items() if name != "token_id"} if isinstance(data, dict) else data
    event: Event = _built(Event, _read(said, _EVENT_FIELDS, Event))
    return event


def _built(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError:
        missing = [name for name in kind._fields if name not in kind._field_defaults and name not in values]
        raise InvalidInput(f"{kind.__name__.lower()} lacks {', '.join(missing)}") from None


def _read(data: Any, fields: Mapping[str, Callable[[Any], Any]], kind: Any) -> dict[str, Any]:
    what = kind.__name__.lower()
    if not isinstance(data, dict):
        raise InvalidInput(f"a {what} is an object")
    values: dict[str, Any] = {}
    for name, value in data.items():
        reader = fields.get(name)
        if reader is None:
            raise InvalidInput(f"a {what} has no field '{name}'")
        if value is None and kind._field_defaults.get(name, ...) is None:
            continue
        try:
            values[name] = reader(value)
        except (ValueError, TypeError, OverflowError):
            raise InvalidInput(f"a {what}'s '{name}' cannot be {value!r}"[:200]) from None
    return values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return checks.text("text", value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(_text(item) for item in value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 63:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _time(value: Any) -> datetime:
    return time_from(_text(value))


def _json(value: Any) -> Any:
    checks.json_value("result", value)
    return value


def _set(value: Any) -> Any:
    if value is None:
        raise TypeError
    return _json(value)


_READ_KIND: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME, Kind.ID), _text),
    **dict.fromkeys(LISTS, _texts),
    Kind.NUMBER: _number,
    Kind.COUNT: _whole,
    Kind.FLAG: _flag,
    Kind.TIME: _time,
    Kind.STATUS: Status,
    Kind.CLASS: ServiceClass,
    Kind.JSON: _json,
    Kind.OBJECT: checks.extra,
    Kind.LEASE: dict,
}
_TASK_FIELDS: Mapping[str, Callable[[Any], Any]] = {field.name: _READ_KIND[field.kind] for field in FIELDS}

_LEASE_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("token", "agent", "run"), _text),
    **dict.fromkeys(("claimed_at", "expires_at"), _time),
    "attempt": _whole,
    "holder": Holder,
}

_LINK_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("task", "on", "detected_by"), _text),
    **dict.fromkeys(("weight", "confidence"), _number),
    "kind": LinkKind,
}

_SETTING_FIELDS: Mapping[str, Callable[[Any], Any]] = {"name": _text, "value": _set}

_EVENT_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("scope", "task", "verb", "agent", "run", "reason"), _text),
    **dict.fromkeys(("attempt", "seq"), _whole),
    **dict.fromkeys(("source", "target"), Status),
    "at": _time,
    "outcome": Outcome,
    "detail": checks.extra,
}
