"""Pages: make, read, change; and one property of one, in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.bodies import known_keys
from dibs.lab.emulator.errors import fix_one, invalid, not_found, should, should_line
from dibs.lab.emulator.ids import shown_property_id, whole_id
from dibs.lab.emulator.paging import Found
from dibs.lab.emulator.rendering import TRASH, listing
from dibs.lab.emulator.rows import Row

if TYPE_CHECKING:
    from dibs.lab.emulator.calls import Call
    from dibs.lab.emulator.model import DataSource, Page, Property

_NEW_PAGE = frozenset(
    {"parent", "properties", "icon", "cover", "content", "children", "markdown", "template", "position"}
)
_CHANGES = frozenset({"properties", "icon", "cover", "archived", "in_trash", "is_locked", "template", "erase_content"})
_IN_PIECES = frozenset({"title", "rich_text", "people", "relation"})


def create(call: Call) -> dict[str, Any]:
    known_keys(call.body, _NEW_PAGE)
    source = _parent(call)
    if "properties" not in call.body:
        raise should("body.properties", "defined", ...)
    page = call.workspace.add_page(source, call.body["properties"], call.bot)
    return _shown(call, page)


def _parent(call: Call) -> DataSource:
    parent = call.body.get("parent", ...)
    if not isinstance(parent, dict):
        raise should("body.parent", "defined", parent)
    keys = ("database_id", "data_source_id") if call.shapes().new else ("database_id",)
    key = next((key for key in keys if key in parent), None)
    if key is None:
        raise fix_one([should_line(f"body.parent.{one}", "defined") for one in (*keys, "page_id")])
    parent_id = whole_id(parent[key])
    if parent_id is None:
        raise should(f"body.parent.{key}", "a valid uuid", parent[key])
    source = call.workspace.source_of(key, parent_id, call.bot)
    if source.in_trash:
        raise not_found(key.removesuffix("_id"), parent_id, call.bot)
    return source


def retrieve(call: Call) -> dict[str, Any]:
    page = call.workspace.page(call.id("page_id"), call.bot)
    reader = call.stale()
    row = reader.row(page) or Row(page, page.revisions[0])
    return call.shapes(reader).page(row, call.only(call.workspace.sources[page.source_id]))


def update(call: Call) -> dict[str, Any]:
    page = call.workspace.page(call.id("page_id"), call.bot)
    known_keys(call.body, _CHANGES - {"archived"} if call.version >= TRASH else _CHANGES)
    trash = call.body.get("in_trash", call.body.get("archived"))
    if trash is not None and not isinstance(trash, bool):
        raise should("body.in_trash", "a boolean or `undefined`", trash)
    properties = call.body.get("properties", {})
    if properties or trash not in {None, page.latest.in_trash}:
        call.workspace.edit_page(page, call.bot, properties, in_trash=trash)
    return _shown(call, page)


def _shown(call: Call, page: Page) -> dict[str, Any]:
    """A write is answered with what it made, whatever reads and queries see."""
    return call.shapes().page(Row(page, page.latest))


def retrieve_property(call: Call) -> dict[str, Any]:
    page = call.workspace.page(call.id("page_id"), call.bot)
    prop = call.workspace.sources[page.source_id].find(call.ids["property_id"])
    if prop is None:
        raise invalid(f"Could not find property with name or id: {call.ids['property_id']}")
    reader = call.stale()
    row = reader.row(page) or Row(page, page.revisions[0])
    value = call.shapes(reader).value(prop, row)
    if prop.type == "rollup":
        relation, _ = reader.rolled_over(prop, page.source_id)
        related = [] if relation is None else call.shapes(reader).value(relation, row)
        return _in_pieces(call, f"{page.id}/{prop.id}", [_item(relation or prop, one) for one in related], prop, value)
    if prop.type in _IN_PIECES:
        return _in_pieces(call, f"{page.id}/{prop.id}", [_item(prop, one) for one in value], prop, {})
    return _item(prop, value)


def _in_pieces(call: Call, place: str, items: list[Any], prop: Property, whole: Any) -> dict[str, Any]:
    """What has many members comes as a list; a rollup's has the pages it looked at, and what they come to."""
    piece = call.paged(place, lambda: Found(place, items), "query")
    said = listing("property_item", piece.items, piece.next_cursor)
    said["property_item"] = {"id": shown_property_id(prop.id), "next_url": None, "type": prop.type, prop.type: whole}
    return said


def _item(prop: Property, value: Any) -> dict[str, Any]:
    return {"object": "property_item", "id": shown_property_id(prop.id), "type": prop.type, prop.type: value}
