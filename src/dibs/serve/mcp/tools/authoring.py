"""add, plan: saying what is to be done, and in which order."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from dibs.chat.plan_view import plan_of
from dibs.core.errors import InvalidInput
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.task import Draft, Link
from dibs.desk import mint_id
from dibs.serve.access import Right
from dibs.serve.mcp.arguments import MOST_ROWS
from dibs.serve.mcp.models import Added, Planned
from dibs.serve.mcp.rendering import row, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.core.plan import PlanChanges
    from dibs.desk import Desk
    from dibs.serve.mcp.arguments import Add, NewTask, Plan
    from dibs.serve.mcp.models import Row
    from dibs.serve.mcp.sessions import Session

_LONG_ID = 9  # characters of ids that are made up here: many enough for nobody to have the same


def add(desk: Desk, _session: Session, asked: Add) -> Added:
    """All of it or nothing; tasks of one call may name each other."""
    if not asked.tasks and not asked.links:
        raise InvalidInput("There is nothing to add: give tasks, or links between tasks that exist.")
    if not asked.tasks:
        made = desk.link([Link(link.task, link.needs) for link in asked.links])
        return Added(tasks=[], links=len(made))
    linked = len(asked.tasks) > 1 and any(task.needs or task.needed_by for task in asked.tasks)
    names = [task.id or (mint_id(_LONG_ID) if linked else "") for task in asked.tasks]
    links = [*_links(desk, asked, names), *_between(desk, asked, names)]
    tasks = desk.add([_draft(desk, task, name, names) for task, name in zip(asked.tasks, names, strict=True)], links)
    return Added(tasks=rows(tasks, desk.now()), links=len(links))


def _draft(desk: Desk, task: NewTask, name: str, fresh: list[str]) -> Draft:
    said: dict[str, Any] = {
        field: tuple(value) if isinstance(value, list) else value for field, value in task if field in Draft._fields
    }
    parent = None if task.parent is None else _known(desk, task.parent, fresh)
    return Draft(**{**said, "id": name, "parent": parent})


def _links(desk: Desk, asked: Add, names: list[str]) -> Iterator[Link]:
    for task, name in zip(asked.tasks, names, strict=True):
        yield from (Link(name, _known(desk, other, names)) for other in task.needs)
        yield from (Link(_known(desk, other, names), name) for other in task.needed_by)


def _between(desk: Desk, asked: Add, names: list[str]) -> Iterator[Link]:
    return (Link(_known(desk, link.task, names), _known(desk, link.needs, names)) for link in asked.links)


def _known(desk: Desk, ref: str, fresh: list[str]) -> str:
    return ref if ref in fresh else desk.resolve(ref)


def plan(desk: Desk, session: Session, asked: Plan) -> Planned:
    if asked.text is None:
        return _as_it_stands(desk, asked.page)
    session.insist(Right.PLAN)
    parsed = skim_jsonl(asked.text) if _in_lines(asked.text) else parse_yaml(asked.text)
    changes = desk.apply_plan(parsed, dry_run=asked.dry_run)
    return Planned(dry_run=asked.dry_run, changed=_changed(changes))


def _in_lines(text: str) -> bool:
    """Whether each line is a task in JSON. A whole plan in JSON is YAML as well."""
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and "tasks" not in first


def _changed(changes: PlanChanges) -> dict[str, list[str]]:
    """What was done, by kind, to which tasks; the long lists only begin."""
    told: dict[str, Iterable[str]] = {
        "added": (planned.draft.id for planned in changes.insert),
        "changed": changes.updated,
        "removed": changes.remove,
        "left_done": changes.skipped_done,
        "left_active": changes.skipped_active,
        "left_canceled": changes.skipped_canceled,
    }
    return {kind: short for kind, ids in told.items() if (short := _short(list(ids)))}


def _short(ids: list[str]) -> list[str]:
    return ids if len(ids) <= MOST_ROWS else [*ids[:MOST_ROWS], f"… and {len(ids) - MOST_ROWS} more"]


def _as_it_stands(desk: Desk, page: int) -> Planned:
    """The unfinished tasks, phase after phase, so many of them for each page."""
    found = plan_of(desk.graph(finished=False))
    now, first = desk.now(), (page - 1) * MOST_ROWS
    numbered = ((number, item.task) for number, phase in enumerate(found.phases) for item in phase)
    phases: dict[int, list[Row]] = {}
    for number, task in islice(numbered, first, first + MOST_ROWS):
        phases.setdefault(number, []).append(row(task, now))
    more = page + 1 if len(found.order) > first + MOST_ROWS else None
    path = _short([task.id for task in found.path])
    return Planned(phases=list(phases.values()), critical_path=path, next_page=more)
