"""A page of the database as a row: what its properties say, in plain values."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.stores.notion.reading import bare
from dibs.stores.notion.schema import Carried, problems, shape_of
from dibs.stores.notion.values import Plain, Unreadable, decode, moment_of
from dibs.sync.notion.words import LAYOUT, Field, spelled


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
