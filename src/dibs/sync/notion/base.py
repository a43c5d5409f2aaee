"""What both sides said when they last agreed: kept with each task, so that it changes together with the task.

For every field a pair: Notion's word, and what the task had. Whichever differs from it now has been changed since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dibs.core.times import time_text
from dibs.sync.notion.words import Field, ours

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Json, Task
    from dibs.sync.notion.rows import Row

# The names among a task's extra fields; the first three are the document's.
PAGE, URL, SYNCED, BASE, GONE = "notion_page_id", "notion_url", "notion_synced_at", "notion_base", "notion_gone"
SOURCE, WEIGHT = "external_priority_source", "external_priority_weight"
LATER, DEALT_WITH = "later", "dealt with"  # what is kept under GONE

Base: TypeAlias = "dict[Field, tuple[Json, Json]]"


def base_of(task: Task) -> Base:
    """What anybody may have written there instead is no base: then both sides count as changed."""
    kept = task.extra.get(BASE)
    if not isinstance(kept, dict):
        return {}
    found: Base = {}
    for field in Field:
        match kept.get(field.name.lower()):
            case [theirs, mine]:
                found[field] = (theirs, mine)
    return found


def kept(base: Base) -> dict[str, Json]:
    return {field.name.lower(): list(pair) for field, pair in base.items()}


def page_of(task: Task) -> str | None:
    page = task.extra.get(PAGE)
    return page if isinstance(page, str) else None


def tied(row: Row, base: Base, now: datetime) -> dict[str, Json]:
    """What is kept with a task that has a row."""
    return {PAGE: row.page, URL: row.url, SYNCED: time_text(now), BASE: kept(base), GONE: None}


def on_record(base: Base, task: Task) -> bool:
    """Whether the task has this base already."""
    return task.extra.get(BASE) == kept(base)


def moved_here(task: Task) -> bool:
    """Whether the task says anything that Notion has not been told, as far as can be known without asking it."""
    base, mine = base_of(task), ours(task)
    return any(field not in base or base[field][1] != mine[field] for field in Field)
