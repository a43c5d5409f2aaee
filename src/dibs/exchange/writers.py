"""Our tasks in other tools' formats: a Markdown checklist, CSV, and GitHub's JSON."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from dibs.core.task import LinkKind, Status, order_key
from dibs.core.times import time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.task import Json, Task

    Comments = Mapping[str, Sequence[Event]]  # by task


def _links(graph: Graph) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The prerequisites and the inputs of each task."""
    needs: dict[str, list[str]] = {}
    feeds: dict[str, list[str]] = {}
    for link in sorted(graph.links, key=lambda link: (link.task, link.on)):
        if link.kind is LinkKind.BLOCKS:
            needs.setdefault(link.task, []).append(link.on)
        elif link.kind is LinkKind.FEEDS_INTO:
            feeds.setdefault(link.task, []).append(link.on)
    return needs, feeds


# CSV

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COLUMNS = (
    "id", "title", "status", "reason", "priority", "category", "labels", "assigned_to", "parent", "blocked_by",
    "feeds_from", "description", "deliverable", "steps", "spec", "ref", "not_before", "created_at", "updated_at",
    "started_at", "finished_at", "finished_by", "result",
)  # fmt: skip


def write_csv(graph: Graph, _comments: Comments) -> str:
    """One row a task. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    needs, feeds = _links(graph)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for task in sorted(graph.tasks, key=order_key):
        cells = {
            **task._asdict(),
            "spec": task.spec_ref,
            "labels": ", ".join(task.labels),
            "blocked_by": ", ".join(needs.get(task.id, ())),
            "feeds_from": ", ".join(feeds.get(task.id, ())),
            "steps": "\n".join(task.steps),
            "result": _result(task.result),
        }
        writer.writerow([_cell(cells[name]) for name in _COLUMNS])
    return out.getvalue()


def _result(result: Json) -> str:
    """The text, quoted only if an import would take it for JSON."""
    if result is None:
        return ""
    if isinstance(result, str):
        try:
            json.loads(result)
        except (ValueError, RecursionError):
            return result
    return json.dumps(result, ensure_ascii=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = time_text(value) if hasattr(value, "astimezone") else str(value)  # type: ignore[arg-type]  # a datetime
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


# Markdown

_HEADINGS = (
    (Status.ACTIVE, "In progress"), (Status.READY, "Ready"), (Status.REVIEW, "In review"),
    (Status.ESCALATED, "Needs a person"), (Status.BLOCKED, "Blocked"), (Status.PAUSED, "On hold"),
    (Status.BACKLOG, "Backlog"), (Status.DONE, "Done"), (Status.CANCELED, "Canceled"),
)  # fmt: skip
_BOXES = {Status.DONE: "x", Status.CANCELED: "-"}


def write_markdown(graph: Graph, comments: Comments) -> str:
    """A checklist by status, parts below their wholes. A hidden comment keeps what a checklist cannot say."""
    needs, feeds = _links(graph)
    tasks = sorted(graph.tasks, key=order_key)
    here = {task.id for task in tasks}
    parts: dict[str, list[Task]] = {}
    for task in tasks:
        if task.parent in here and task.parent is not None:
            parts.setdefault(task.parent, []).append(task)
    lines = ["# Tasks"]
    for status, heading in _HEADINGS:
        roots = [task for task in tasks if task.status is status and task.parent not in here]
        if roots:
            lines += ["", f"## {heading}", ""]
        waiting = [(task, 0) for task in reversed(roots)]
        while waiting:
            task, depth = waiting.pop()
            lines += _bullet(task, "    " * depth, needs, feeds, comments.get(task.id, ()))
            waiting += [(part, depth + 1) for part in reversed(parts.get(task.id, []))]
    return "\n".join(lines) + "\n"


def _bullet(
    task: Task, indent: str, needs: Mapping[str, Sequence[str]], feeds: Mapping[str, Sequence[str]],
    comments: Iterable[Event],
) -> list[str]:  # fmt: skip
    said: dict[str, Json] = {"id": task.id}
    if task.status not in {Status.READY, Status.DONE, Status.CANCELED}:
        said["status"] = task.status.value
    if task.priority != 2:  # noqa: PLR2004 - the default
        said["priority"] = task.priority
    others: tuple[tuple[str, Json], ...] = (
        ("reason", task.reason),
        ("category", task.category),
        ("labels", list(task.labels)),
        ("spec", task.spec_ref),
        ("ref", task.ref),
        ("assigned_to", task.assigned_to),
        ("blocked_by", list(needs.get(task.id, ()))),
        ("feeds_from", list(feeds.get(task.id, ()))),
    )
    said |= {name: value for name, value in others if value}
    said["created_at"] = time_text(task.created_at)
    if task.finished_at is not None:
        said["finished_at"] = time_text(task.finished_at)
    title = f"{indent}- [{_BOXES.get(task.status, ' ')}] {task.title} <!-- dibs {_hidden(said)} -->"
    body = task.description.split("\n") if task.description else []
    body += [_comment(comment) for comment in comments]
    return [title, *(f"{indent}    {line}" if line.strip() else "" for line in body)]


def _comment(comment: Event) -> str:
    """On one line."""
    said: dict[str, Json] = {"at": time_text(comment.at)}
    if comment.agent:
        said["by"] = comment.agent
    text = " ".join((comment.reason or "").split())
    return f"> {comment.agent or 'unknown'}: {text} <!-- comment {_hidden(said)} -->"


def _hidden(fields: Mapping[str, Json]) -> str:
    """JSON that cannot end its comment."""
    return json.dumps(fields, ensure_ascii=False).replace("--", "-\\u002d").replace(">", "\\u003e")


# GitHub


def write_github(graph: Graph, comments: Comments) -> str:
    """The JSON that `gh issue list --json …` prints. The body ends with a hidden comment: id and prerequisites."""
    needs, _ = _links(graph)
    tasks = sorted(graph.tasks, key=lambda task: (task.created_at, task.id))
    number = {task.id: place for place, task in enumerate(tasks, start=1)}
    return json.dumps([_issue(task, number, needs.get(task.id, ()), comments.get(task.id, ())) for task in tasks],
                      ensure_ascii=False, indent=1) + "\n"  # fmt: skip


def _issue(task: Task, number: Mapping[str, int], needs: Sequence[str], comments: Iterable[Event]) -> dict[str, Json]:
    own: dict[str, Json] = {"id": task.id, "priority": task.priority}
    if needs:
        own["needs"] = list(needs)
    if task.parent:
        own["parent"] = task.parent
    if not task.finished and task.status is not Status.READY:
        own["status"] = task.status.value
    waits = ", ".join(f"#{number[on]}" for on in needs if on in number)
    body = task.description.strip()
    body += f"\n\nDepends on {waits}" if waits else ""
    canceled = task.status is Status.CANCELED
    return {
        "number": number[task.id],
        "title": task.title,
        "body": f"{body}\n\n<!-- dibs {_hidden(own)} -->".lstrip(),
        "state": "CLOSED" if task.finished else "OPEN",
        "stateReason": ("NOT_PLANNED" if canceled else "COMPLETED") if task.finished else "",
        "labels": [{"name": label} for label in task.labels],
        "assignees": [{"login": task.assigned_to}] if task.assigned_to else [],
        "milestone": {"title": task.spec_ref} if task.spec_ref else None,
        "issueType": {"name": task.category} if task.category else None,
        "createdAt": time_text(task.created_at),
        "updatedAt": time_text(task.updated_at),
        "closedAt": time_text(task.finished_at) if task.finished_at else None,
        "url": task.ref,
        "comments": [
            {"author": {"login": comment.agent or ""}, "body": comment.reason or "", "createdAt": time_text(comment.at)}
            for comment in comments
        ],
    }
