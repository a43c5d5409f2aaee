"""Tasks and events as lines for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.streams import clean, clean_lines, paint, table
from dibs.core.fields import STATED, Kind
from dibs.core.messages import command
from dibs.core.task import LinkKind, ServiceClass, Status, remark, status_word
from dibs.core.times import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from dibs.agent import Overview
    from dibs.core.events import Event
    from dibs.core.task import Claimed, Input, Link, Task

_COLOURS = {
    Status.READY: "32",
    Status.ACTIVE: "36",
    Status.REVIEW: "35",
    Status.BLOCKED: "33",
    Status.ESCALATED: "31",
    Status.PAUSED: "33",
    Status.BACKLOG: "2",
    Status.DONE: "2",
    Status.CANCELED: "2",
}
_WAITING = "33"
_BOLD = "1"
_FAINT = "2"


def task_table(tasks: Sequence[Task], now: datetime, *, scoped: bool = False, indent: int = 0) -> list[str]:
    if not tasks:
        return []
    names = [f"{task.scope}/{task.id}" if scoped else task.id for task in tasks]
    rows = [
        (name, status_word(task, now), rank(task), task.title, remark(task, now))
        for name, task in zip(names, tasks, strict=True)
    ]
    colours = [
        _WAITING if word == "waiting" else _COLOURS[task.status]
        for task, (_, word, *_) in zip(tasks, rows, strict=True)
    ]
    return table(("ID", "STATUS", "PRI", "TITLE", ""), rows, colours, indent)


def rank(task: Task) -> str:
    """Priority, marked where class or a user's word puts the task ahead or behind."""
    mark = {ServiceClass.EXPEDITE: "!!", ServiceClass.FIXED_DATE: "!", ServiceClass.INTANGIBLE: "~"}
    return f"{mark.get(task.service_class, '')}{'^' if task.override else ''}{task.priority:g}"


def overview_lines(seen: Overview, now: datetime, most: int) -> list[str]:
    """One screen for one agent: every part has a heading, also when it is empty."""
    counts = {**seen.counts.by_status, Status.READY: seen.counts.by_status.get(Status.READY, 0) - seen.counts.waiting}
    waiting = [f"{seen.counts.waiting} waiting"] if seen.counts.waiting else []
    total = ", ".join([*(f"{counts[each]} {each}" for each in Status if counts.get(each)), *waiting]) or "no tasks yet"
    lines = [f"{paint(clean(seen.agent), _BOLD)}: {total}"]
    parts = (
        ("you hold", seen.held, "nothing; 'dibs claim' takes the next task"),
        ("ready for you", seen.ready, "nothing; 'dibs add TITLE' adds a task"),
        ("blocked", seen.blocked, "nothing"),
        ("waits for a person", seen.people, "nothing"),
    )
    for title, tasks, nothing in parts:
        lines += ["", paint(title, _BOLD), *(task_table(tasks[:most], now, indent=2) or [f"  {nothing}"])]
        if len(tasks) > most:
            lines.append(f"  and {len(tasks) - most} more")
    return lines


def task_lines(task: Task, now: datetime) -> list[str]:
    """Everything one would ask about a task."""
    head = f"{paint(task.id, _BOLD)}  {clean(task.title)}"
    state = f"  {paint(status_word(task, now), _COLOURS[task.status])}"
    note = remark(task, now)
    lines = [head, f"{state}  {clean(note)}" if note else state]
    facts = (
        ("priority", rank(task)),
        ("class", task.service_class if task.service_class is not ServiceClass.STANDARD else None),
        *_said(task),
        ("attempt", str(task.attempt) if task.attempt else None),
        ("retries", f"{task.retries} of {task.max_retries}" if task.max_retries is not None else None),
        ("to unblock", task.unblock_action),
        ("check again", _utc(task.next_check_at)),
        ("not before", _utc(task.not_before)),
        ("created", _utc(task.created_at)),
        ("finished", _utc(task.finished_at)),
        ("artifacts", ", ".join(task.artifacts)),
        ("result", _json(task.result) if task.result is not None else None),
        ("extra", _json(task.extra) if task.extra else None),
    )
    lines += [f"  {paint(f'{name:<12}', _FAINT)}{clean(value)}" for name, value in facts if value]
    return lines + body_lines(task)


def _said(task: Task) -> Iterator[tuple[str, str | None]]:
    """The task's own fields, in short lines."""
    for field in STATED:
        value = getattr(task, field.name)
        if field.kind == Kind.NAMES:
            yield field.name, ", ".join(value)
        elif field.options and field.optional and isinstance(value, str):
            yield field.called, value


def body_lines(task: Task) -> list[str]:
    lines = []
    if task.description:
        lines += ["", *(f"  {line}" for line in clean_lines(task.description))]
    if task.steps:
        lines += ["", *(f"  {number}. {clean(step)}" for number, step in enumerate(task.steps, start=1))]
    return lines


def link_lines(task: Task, links: Iterable[Link]) -> list[str]:
    """The links of one task in both directions."""
    words = {
        (LinkKind.BLOCKS, True): "blocked by",
        (LinkKind.BLOCKS, False): "blocks",
        (LinkKind.FEEDS_INTO, True): "fed by",
        (LinkKind.FEEDS_INTO, False): "feeds into",
        (LinkKind.PARALLEL_OK, True): "beside",
        (LinkKind.PARALLEL_OK, False): "beside",
    }
    groups: dict[str, list[str]] = {}
    for link in links:
        mine = link.task == task.id
        groups.setdefault(words[link.kind, mine], []).append(link.on if mine else link.task)
    return [f"  {paint(f'{word:<12}', _FAINT)}{', '.join(ids)}" for word, ids in groups.items()]


def claimed_lines(claimed: Claimed) -> list[str]:
    """The text for a worker: the task, its token, its inputs, and how to finish."""
    task, lease = claimed.task, claimed.task.lease
    if lease is None:
        return []
    left = f"for {in_words(lease.expires_at - lease.claimed_at)}" if lease.expires_at else "no time limit"
    lines = [f"{paint(task.id, _BOLD)}  {clean(task.title)}"]
    lines += [f"  {paint(f'{name:<12}', _FAINT)}{value}" for name, value in (
        ("held by", f"{clean(lease.agent)}, attempt {lease.attempt}, {left}"),
        ("token", lease.token),
    )]  # fmt: skip
    lines += body_lines(task) + input_lines(claimed.inputs)
    where = () if task.scope == "default" else ("--scope", task.scope)
    done = command("dibs", "done", task.id, *where, "--token", lease.token)
    lines += ["", paint(f"  when finished: {done}", _FAINT)]
    return lines


def input_lines(inputs: Iterable[Input]) -> list[str]:
    lines = []
    for one in inputs:
        given = [clean(artifact) for artifact in one.artifacts]
        if one.result is not None:
            given.insert(0, clean(_json(one.result)))
        if given:
            lines.append(f"  {paint('from', _FAINT)} {one.id} ({clean(one.title)}): {'; '.join(given)}")
    return ["", *lines] if lines else []


def event_table(events: Sequence[Event], indent: int = 0) -> list[str]:
    if not events:
        return []
    rows = [
        (
            _when(event.at) or "",
            event.verb + ("" if event.outcome == "ok" else f" {event.outcome}"),
            event.task,
            event.agent or "",
            f"{event.source or '·'} → {event.target}" if event.target and event.target != event.source else "",
            _told(event),
        )
        for event in events
    ]
    return table(("WHEN (UTC)", "WHAT", "TASK", "WHO", "", ""), rows, indent=indent)


def _told(event: Event) -> str:
    parts = [event.reason.partition("\n")[0]] if event.reason else []
    parts += [_detail(name, value) for name, value in event.detail.items() if value not in (None, False)]
    parts += [f"{name} changed" for name, value in event.detail.items() if value is None and event.verb == "edit"]
    return ", ".join(parts)


def _detail(name: str, value: object) -> str:
    """An edit shows old and new values; other events show their facts."""
    if isinstance(value, list | tuple) and len(value) == 2:  # noqa: PLR2004 - old and new
        return f"{name}: {_brief(value[0])} → {_brief(value[1])}"
    return name if value is True else f"{name} {value}"


def _brief(value: object) -> str:
    return "none" if value in (None, [], "") else str(value)


def _when(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def _utc(moment: datetime | None) -> str | None:
    return None if moment is None else f"{_when(moment)} UTC"


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
