"""Kurultai's database as data: its schema, its words and what they mean here, and a page as a row of plain values."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.core.task import Json, Status, Task
from dibs.stores.notion.layout import Carried, Layout, Property, problems, shape_of
from dibs.stores.notion.pages import bare
from dibs.stores.notion.values import Plain, Unreadable, decode, moment_of


class Field(StrEnum):
    """What people may change on either side. The values are the document's words for a change of each."""

    STATUS = "status"
    TITLE = "description"
    PRIORITY = "priority"
    AGENT = "agent"


# Notion's word for a status → what it asks for.
ASKED: Mapping[str, Status] = {
    "Not Started": Status.READY,
    "Ready": Status.READY,
    "Blocked": Status.BLOCKED,
    "In Progress": Status.ACTIVE,
    "Completed": Status.DONE,
    "Cancelled": Status.CANCELED,
}
READY_NOW, NOT_STARTED = "Ready", "Not Started"
_ALSO = {"canceled": "Cancelled", "done": "Completed", "todo": NOT_STARTED, "to do": NOT_STARTED}

# Our word for how a task stands → Notion's words that agree with it, the first being what is written there.
PENDING, READY, IN_REVIEW = "pending", "ready", "pending_review"
_AGREES: Mapping[str, tuple[str, ...]] = {
    PENDING: (NOT_STARTED,),
    READY: (READY_NOW, NOT_STARTED),
    IN_REVIEW: (NOT_STARTED,),
    "blocked": ("Blocked",),
    "paused": ("Blocked",),
    "review": ("Blocked",),
    "escalated": ("Blocked",),
    "in_progress": ("In Progress",),
    "completed": ("Completed",),
    "aborted": ("Cancelled",),
}
_STANDS = {
    Status.BACKLOG: IN_REVIEW,
    Status.ACTIVE: "in_progress",
    Status.DONE: "completed",
    Status.CANCELED: "aborted",
}

WEIGHTS: Mapping[str, float] = {"Critical": 1.0, "High": 0.8, "Medium": 0.5, "Low": 0.3, "Backlog": 0.1}
USUAL_WEIGHT = 0.5
_SPELLED = {word.casefold(): word for word in (*ASKED, *WEIGHTS)} | _ALSO

LAYOUT = Layout(
    "sync",
    {
        "title": Property("Name", ("title",)),
        "status": Property("Status", ("select", "status")),
        "priority": Property("Priority", ("select",)),
        "agent": Property("Agent", ("select", "multi_select")),
        "id": Property("ID", ("rich_text",)),
        "synced_at": Property("Last Synced", ("date",)),
        "sender": Property("SenderHash", ("rich_text",)),
        "result": Property("Result", ("rich_text", "url"), required=False),
    },
    {},
)


class Fleet(NamedTuple):
    """The agents that can be named in Notion: id → name. Without any, every name is an id."""

    names: Mapping[str, str] = {}

    def name_of(self, agent: str | None) -> str | None:
        return None if agent is None else self.names.get(agent, agent)

    def agent_called(self, name: str) -> str | None:
        """The id of the agent with this name or id; None if there is no such agent."""
        if not self.names:
            return name
        wanted = name.strip().casefold()
        return next((id_ for id_, own in self.names.items() if wanted in {own.casefold(), id_.casefold()}), None)


def spelled(word: str | None) -> str | None:
    """A status or a priority as it is spelled here; any other word as it is."""
    return None if word is None else _SPELLED.get(word.casefold(), word)


def asked_status(word: str | None) -> Status | None:
    """What a word in Notion asks for; None for one that means nothing here."""
    return ASKED.get(word or "")


def weight_of(task: Task) -> float:
    """The core counts the other way round: there the lower number comes first."""
    return min(1.0, max(0.0, 0.0 - task.priority))


def weight_word(weight: float) -> str:
    """The word nearest to a weight; of two as near, the more urgent."""
    return min(WEIGHTS, key=lambda word: (abs(WEIGHTS[word] - weight), -WEIGHTS[word]))


def stands(task: Task) -> str:
    """How a task stands, in the document's words. What is ready or only pending is derived, as everywhere."""
    if task.status is Status.READY:
        return READY if not task.blockers else PENDING
    return _STANDS.get(task.status, str(task.status))


def ours(task: Task) -> dict[Field, Json]:
    """What is compared, as the task has it."""
    return {
        Field.TITLE: task.title,
        Field.STATUS: stands(task),
        Field.PRIORITY: [weight_of(task), task.override],
        Field.AGENT: task.assigned_to,
    }


def said(task: Task, fleet: Fleet) -> dict[Field, str | None]:
    """The same as we would write it into Notion."""
    return {
        Field.TITLE: task.title,
        Field.STATUS: _AGREES[stands(task)][0],
        Field.PRIORITY: weight_word(weight_of(task)),
        Field.AGENT: fleet.name_of(task.assigned_to),
    }


def agrees(field: Field, theirs: str | None, task: Task, fleet: Fleet) -> bool:
    """Whether what Notion says is what the task says."""
    match field:
        case Field.STATUS:
            return theirs in _AGREES[stands(task)]
        case Field.TITLE:
            return title_of(theirs or UNTITLED) == task.title
        case Field.AGENT:
            return task.assigned_to == (None if theirs is None else fleet.agent_called(theirs) or _NOBODY)
    return theirs == weight_word(weight_of(task))


UNTITLED = "Untitled"
_NOBODY = ""  # no agent's id
_TITLE = 120  # characters of a name that stand for it


def title_of(name: str) -> str:
    """What stands for a task in lists: the first line, cut where that is long."""
    first = next((line.strip() for line in name.splitlines() if line.strip()), "")
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


class Row(NamedTuple):
    """`fields` are what people may change; the rest is ours to write. `shape` tells which property carries what."""

    page: str
    url: str
    edited_at: datetime
    sender: str
    id: str
    fields: Mapping[Field, str | None]
    result: str = ""
    trashed: bool = False
    shape: Mapping[str, Carried] = {}


class Unfit(Misconfigured):
    """A page without the properties of a row. That must not be taken for a row whose properties are empty."""


def row_of(page: Mapping[str, Any]) -> Row:
    properties, edited = page.get("properties"), page.get("last_edited_time")
    if not isinstance(properties, dict) or not isinstance(page.get("id"), str) or not isinstance(edited, str):
        raise StoreUnavailable("Notion's answer is no page; is NOTION_API_BASE_URL right?")
    shape = shape_of(LAYOUT, properties)
    wrong = problems(LAYOUT, properties)
    if wrong:
        raise Unfit(
            f"A row cannot be read: {'; '.join(wrong.values())}. Was a property renamed in Notion? Nothing was "
            "concluded from it; name it as before, or see 'dibs sync notion init'."
        )
    cells = {field: _cell(properties[carried.name]) for field, carried in shape.items()}
    fields = {
        Field.TITLE: _text(cells.get("title")),
        Field.STATUS: spelled(_text(cells.get("status"))),
        Field.PRIORITY: spelled(_text(cells.get("priority"))),
        Field.AGENT: _text(cells.get("agent")),
    }
    return Row(
        bare(page["id"]),
        str(page.get("url") or ""),
        moment_of(edited),
        _text(cells.get("sender")) or "",
        _text(cells.get("id")) or "",
        fields,
        _text(cells.get("result")) or "",
        bool(page.get("in_trash") or page.get("archived")),
        shape,
    )


def _cell(value: Mapping[str, Any]) -> Plain:
    try:
        return decode(value)
    except Unreadable:
        return None


def _text(value: Plain) -> str | None:
    """Of several agents the first: a task has one. What a terminal would obey, or no store can hold, is a blank."""
    first = next(iter(value), None) if isinstance(value, tuple) else value
    said = "" if first is None else str(first)
    return "".join(each if each.isprintable() or each == "\n" else " " for each in said).strip() or None
