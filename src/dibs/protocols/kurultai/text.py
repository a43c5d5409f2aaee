"""Tasks, agents and the outcome of a change as lines for a person."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from dibs.console.streams import emit
from dibs.console.table import clean, clean_lines, table
from dibs.core.times import time_text
from dibs.protocols.kurultai.policy import BLOCKED, FLEET, IN_PROGRESS, PENDING
from dibs.protocols.kurultai.records import Change, as_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from dibs.core.task import Json
    from dibs.protocols.kurultai.records import AgentRecord, Dependency, Prerequisite, TaskRecord

_UUID = 36
_SHORT = 8
_HEADING = ("id", "description")  # what the first line of a task has told already
_NAMES = {profile.id: profile.name for profile in FLEET}


def short(task_id: str) -> str:
    """Enough of an id to type."""
    return task_id[:_SHORT] if len(task_id) == _UUID else task_id


def agent_name(agent: str | None) -> str:
    if agent is None:
        return "anyone"
    return f"{agent} ({_NAMES[agent]})" if agent in _NAMES else agent


def first_line(description: str) -> str:
    return next((line.strip() for line in description.splitlines() if line.strip()), "")


def task_table(tasks: Sequence[TaskRecord]) -> list[str]:
    if not tasks:
        return []
    rows = [
        (
            short(task["id"]),
            task["status"],
            weight(task),
            task["claimed_by"] or task["assigned_to"] or "anyone",
            first_line(task["description"]),
            remark(task),
        )
        for task in tasks
    ]
    return table(("ID", "STATUS", "WEIGHT", "AGENT", "DESCRIPTION", ""), rows)


def weight(task: TaskRecord) -> str:
    """Marked where the user's word puts it before all others."""
    return f"{'^' if task['user_priority_override'] else ''}{task['priority_weight']:g}"


def remark(task: TaskRecord) -> str:
    if task["status"] == PENDING and task["unmet_dependencies"]:
        count = task["unmet_dependencies"]
        return f"waits for {count} other{'s' if count > 1 else ''}"
    return (task["blocked_reason"] or "").partition("\n")[0]


def task_lines(task: TaskRecord, dependencies: Iterable[Dependency]) -> list[str]:
    """All that is set, under the names of the document; then what it depends on, and what depends on it."""
    lines = [f"{task['id']}  {clean(first_line(task['description']))}"]
    told = {name: value for name, value in task.items() if name not in _HEADING and value not in (None, [], 0, False)}
    lines += [f"  {name:<24}{clean(_shown(value))}" for name, value in told.items()]
    for one in dependencies:
        mine = one["task_id"] == task["id"]
        other = one["depends_on_id"] if mine else one["task_id"]
        lines.append(f"  {_WORDS[one['type'], mine]:<24}{other}")
    if "\n" in task["description"].strip():
        lines += ["", *(f"  {line}" for line in clean_lines(task["description"]))]
    return lines


_WORDS = {
    ("blocks", True): "blocked by",
    ("blocks", False): "blocks",
    ("feeds_into", True): "fed by",
    ("feeds_into", False): "feeds into",
    ("parallel_ok", True): "beside",
    ("parallel_ok", False): "beside",
}


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, bool):
        return "true"
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def prerequisite_lines(prerequisites: Iterable[Prerequisite]) -> list[str]:
    lines = []
    for one in prerequisites:
        given = [one["result_summary"] or "", *one["artifacts"]]
        said = "; ".join(clean(each) for each in given if each) or "completed, without a word"
        lines.append(f"  from        {short(one['id'])} ({clean(one['description'])}): {said}")
    return lines


def agent_table(agents: Iterable[AgentRecord]) -> list[str]:
    rows = [
        (one["id"], one["name"], one["role"], f"{one['load']} of {one['limit']}", one["does"], _presence(one))
        for one in agents
    ]
    return table(("AGENT", "NAME", "ROLE", "LOAD", "DOES", ""), rows)


def _presence(agent: AgentRecord) -> str:
    return "" if agent["registered"] else "not registered"


def count_line(tasks: Sequence[TaskRecord]) -> str:
    """How many there are, and of them in progress and blocked: the last line of a list."""
    busy = sum(task["status"] == IN_PROGRESS for task in tasks)
    stuck = sum(task["status"] == BLOCKED for task in tasks)
    return f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {busy} in progress, {stuck} blocked"


def told(args: argparse.Namespace, change: Change | TaskRecord) -> int:
    full = change if isinstance(change, Change) else Change(change)
    return emit(args, lambda: _json(full), lambda: _lines(full))


def _json(change: Change) -> dict[str, Json]:
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted": change.aborted}
    return {"task": as_json(change.task), **{word: list(ids) for word, ids in others.items()}}


def _lines(change: Change) -> list[str]:
    task, why = change.task, remark(change.task)
    head = f"{task['status'].upper()}  {short(task['id'])}  {clean(first_line(task['description']))}"
    lines = [f"{head}: {clean(why)}" if why else head]
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted too": change.aborted}
    return lines + [f"  {word:<12}{', '.join(map(short, ids))}" for word, ids in others.items() if ids]
