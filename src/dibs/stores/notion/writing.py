"""A task as properties: what a change of it means for the page."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from dibs.core import wire
from dibs.core.fields import SETS
from dibs.core.task import Holder, Status
from dibs.stores.notion.layout import AGENT, HUMAN
from dibs.stores.notion.reading import MINUTES
from dibs.stores.notion.schema import refuse_word
from dibs.stores.notion.values import ceil_minute, encode

if TYPE_CHECKING:
    from dibs.core.task import Json, Task
    from dibs.stores.notion.layout import Layout
    from dibs.stores.notion.schema import Shape
    from dibs.stores.notion.values import Plain

# Whoever takes a task writes all of these at once, and whoever leaves it clears them at once.
LOCK = frozenset({"status", "holder", "agent", "run", "token", "expires_at", "claimed_at"})
CLAIM = LOCK | {"started_at"}

# What the page itself says, or what is read from others: never part of the rest.
_NOT_REST = frozenset({"scope", "id", "title", "status", "lease", "created_at", "updated_at", "blockers"})
_FIXED = frozenset({"id", "parent"})  # given once; a parent is changed by whoever knows its page
_ROUNDED = frozenset({"next_check_at", "started_at", "finished_at", *SETS})


def sealed(token: str) -> str:
    """A digest of a token: enough to recognise it, not to use it."""
    return hashlib.sha256(token.encode()).hexdigest()


def cells_of(layout: Layout, task: Task, parent: str | None = None) -> dict[str, Plain]:
    """Every field that a layout may have a property for; `parent` is the parent's page."""
    lease = task.lease
    agent = lease is not None and lease.holder is Holder.AGENT
    minutes = task.extra.get(MINUTES)
    return {
        "id": task.id,
        "title": task.title,
        "status": refuse_word(layout, task.status),
        "priority": 0 - task.priority,
        "service_class": layout.classes.get(task.service_class),
        "holder": (AGENT if agent else HUMAN) if lease else None,
        "agent": lease.agent if lease else None,
        "run": lease.run if lease else None,
        "token": lease.token if lease else None,
        "expires_at": ceil_minute(lease.expires_at) if lease and lease.expires_at else None,
        "claimed_at": ceil_minute(lease.claimed_at) if lease else None,
        "minutes": minutes if isinstance(minutes, int | float) else None,
        "artifacts": task.artifacts,
        "reason": task.reason,
        "unblock_action": task.unblock_action,
        "next_check_at": task.next_check_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
        **{name: getattr(task, name) for name in SETS},
        "parent": (parent,) if parent else (),
        "rest": _rest(layout, task) if layout.rest else None,
    }


def changes(
    layout: Layout,
    shape: Shape,
    before: Task,
    after: Task,
    *,
    always: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> dict[str, Any]:
    """The properties to write: what differs, and what must be written whatever it says already."""
    old, new = cells_of(layout, before), cells_of(layout, after)
    if layout.keeps_claim and after.status is Status.DONE:
        new.update(agent=old["agent"], claimed_at=old["claimed_at"])
        always -= {"agent", "claimed_at"}
    return {
        carried.name: encode(carried.type, new[field])
        for field, carried in shape.items()
        if field in new
        and field not in _FIXED
        and (only is None or field in only)
        and (field in always or old[field] != new[field])
    }


def creation(layout: Layout, shape: Shape, task: Task, parent: str | None) -> dict[str, Any]:
    """The properties of a new page; what is empty is left out."""
    cells = cells_of(layout, task, parent)
    return {
        carried.name: encode(carried.type, cells[field])
        for field, carried in shape.items()
        if field in cells and carried.type != "unique_id" and cells[field] not in (None, "", ())
    }


def _rest(layout: Layout, task: Task) -> str:
    """All that has no property of its own, and what Notion would round off."""
    carried = layout.properties.keys() - _ROUNDED
    told = {
        name: value for name, value in wire.task_json(task).items() if name not in _NOT_REST and name not in carried
    }
    if task.spent_token is not None:
        told["spent_token"] = task.spent_token
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Json:
    return str(value)
