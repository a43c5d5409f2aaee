"""Handlers of requests: pages, databases and their data sources, comments, users, and search by title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.model import (
    DataSource,
    fix_one,
    invalid,
    not_found,
    should,
    should_line,
    shown_property_id,
    whole_id,
)
from dibs.lab.emulator.query import Filters, Found, arranged
from dibs.lab.emulator.rendering import TRASH, Row, listing
from dibs.lab.emulator.values import known_keys, plain_text, rich_text, text_items

if TYPE_CHECKING:
    from dibs.lab.emulator.api import Call
    from dibs.lab.emulator.model import Comment, Page, Property
    from dibs.lab.emulator.rendering import Reader


_NEW_PAGE = frozenset(
    {"parent", "properties", "icon", "cover", "content", "children", "markdown", "template", "position"}
)
_CHANGES = frozenset({"properties", "icon", "cover", "archived", "in_trash", "is_locked", "template", "erase_content"})
_IN_PIECES = frozenset({"title", "rich_text", "people", "relation"})


def create_page(call: Call) -> dict[str, Any]:
    known_keys(call.body, _NEW_PAGE)
    source = _parent_of_page(call)
    if "properties" not in call.body:
        raise should("body.properties", "defined", ...)
    page = call.workspace.add_page(source, call.body["properties"], call.bot)
    return _shown_page(call, page)


def _parent_of_page(call: Call) -> DataSource:
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


def retrieve_page(call: Call) -> dict[str, Any]:
    page = call.workspace.page(call.id("page_id"), call.bot)
    reader = call.stale()
    row = reader.row(page) or Row(page, page.revisions[0])
    return call.shapes(reader).page(row, call.only(call.workspace.sources[page.source_id]))


def update_page(call: Call) -> dict[str, Any]:
    page = call.workspace.page(call.id("page_id"), call.bot)
    known_keys(call.body, _CHANGES - {"archived"} if call.version >= TRASH else _CHANGES)
    trash = call.body.get("in_trash", call.body.get("archived"))
    if trash is not None and not isinstance(trash, bool):
        raise should("body.in_trash", "a boolean or `undefined`", trash)
    properties = call.body.get("properties", {})
    if properties or trash not in {None, page.latest.in_trash}:
        call.workspace.edit_page(page, call.bot, properties, in_trash=trash)
    return _shown_page(call, page)


def _shown_page(call: Call, page: Page) -> dict[str, Any]:
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
        return _in_pieces(
            call, f"{page.id}/{prop.id}", [_property_item(relation or prop, one) for one in related], prop, value
        )
    if prop.type in _IN_PIECES:
        return _in_pieces(call, f"{page.id}/{prop.id}", [_property_item(prop, one) for one in value], prop, {})
    return _property_item(prop, value)


def _in_pieces(call: Call, place: str, items: list[Any], prop: Property, whole: Any) -> dict[str, Any]:
    """What has many members comes as a list; a rollup's has the pages it looked at, and what they come to."""
    piece = call.paged(place, lambda: Found(place, items), "query")
    said = listing("property_item", piece.items, piece.next_cursor)
    said["property_item"] = {"id": shown_property_id(prop.id), "next_url": None, "type": prop.type, prop.type: whole}
    return said


def _property_item(prop: Property, value: Any) -> dict[str, Any]:
    return {"object": "property_item", "id": shown_property_id(prop.id), "type": prop.type, prop.type: value}


_QUERY = frozenset({"filter", "sorts", "start_cursor", "page_size", "archived", "in_trash", "result_type"})


def create_database(call: Call) -> dict[str, Any]:
    if not isinstance(call.body.get("parent"), dict):
        raise should("body.parent", "defined", call.body.get("parent", ...))
    if call.shapes().new:
        said, path = call.body.get("initial_data_source", {}), "body.initial_data_source.properties"
        properties = said.get("properties", {"Name": {"title": {}}}) if isinstance(said, dict) else said
    else:
        properties, path = call.body.get("properties", ...), "body.properties"
    if properties is ...:
        raise should(path, "defined", ...)
    source = call.workspace.add_source(_title(call) or "", properties, call.bot, path)
    source.parent = dict(call.body["parent"])
    return call.shapes().database(source)


def retrieve_database(call: Call) -> dict[str, Any]:
    return call.shapes().database(call.workspace.database(call.id("database_id"), call.bot))


def update_database(call: Call) -> dict[str, Any]:
    source = call.workspace.database(call.id("database_id"), call.bot)
    if call.shapes().new and "properties" in call.body:
        raise should("body.properties", "not present", call.body["properties"])
    _change_source(call, source)
    return call.shapes().database(source)


def retrieve_source(call: Call) -> dict[str, Any]:
    return call.shapes().data_source(call.workspace.source(call.id("data_source_id"), call.bot))


def update_source(call: Call) -> dict[str, Any]:
    source = call.workspace.source(call.id("data_source_id"), call.bot)
    _change_source(call, source)
    return call.shapes().data_source(source)


def _change_source(call: Call, source: DataSource) -> None:
    title = _title(call)
    call.workspace.change_columns(source, call.body.get("properties", {}), call.bot)
    source.title = source.title if title is None else title
    source.in_trash = call.body.get("in_trash", call.body.get("archived", source.in_trash))


def _title(call: Call) -> str | None:
    if "title" not in call.body:
        return None
    rich_text("body.title", call.body["title"])
    return plain_text(text_items(call.body["title"]))


def query_database(call: Call) -> dict[str, Any]:
    return _query_rows(call, call.workspace.database(call.id("database_id"), call.bot), "page_or_database")


def query_source(call: Call) -> dict[str, Any]:
    return _query_rows(call, call.workspace.source(call.id("data_source_id"), call.bot), "page_or_data_source")


def _query_rows(call: Call, source: DataSource, kind: str) -> dict[str, Any]:
    known_keys(call.body, _QUERY)
    reader = call.lagging()
    piece = call.paged(source.id, lambda: _found_rows(call, source, reader))
    visible = (page for page in piece.items if call.workspace.sees_page(call.bot, page))
    rows = [row for row in (reader.row(page) for page in visible) if row is not None]
    shapes, only = call.shapes(reader), call.only(source)
    said = listing(kind, [shapes.page(row, only) for row in rows], piece.next_cursor)
    if piece.cut:
        said["request_status"] = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
    return said


def _found_rows(call: Call, source: DataSource, reader: Reader) -> Found:
    wanted = bool(call.body.get("in_trash", call.body.get("archived", False)))
    said = call.body.get("filter")
    judge = None if said is None else Filters(source, reader, call.workspace.clock(), call.bot.id).judge(said)
    rows = [
        row
        for row in reader.rows(source.id)
        if row.seen.in_trash is wanted and call.workspace.sees_page(call.bot, row.page) and (not judge or judge(row))
    ]
    pages = [row.page for row in arranged(rows, call.body.get("sorts"), source, reader, call.workspace.rng)]
    cap = call.faults.result_cap
    return Found(source.id, pages[:cap], cut=len(pages) > cap)


def create_comment(call: Call) -> dict[str, Any]:
    if "rich_text" not in call.body:
        raise should("body.rich_text", "defined", ...)
    rich_text("body.rich_text", call.body["rich_text"])
    discussion = call.body.get("discussion_id")
    page = _discussed(call, discussion) if discussion else _parent_of_comment(call)
    made = call.workspace.add_comment(page, call.bot, text_items(call.body["rich_text"]), whole_id(discussion))
    return call.shapes().comment(made)


def _parent_of_comment(call: Call) -> Page:
    parent = call.body.get("parent", ...)
    keys = [key for key in ("page_id", "block_id") if isinstance(parent, dict) and key in parent]
    if not isinstance(parent, dict) or not keys:
        raise fix_one([should_line(f"body.{one}", "defined") for one in ("parent", "discussion_id")])
    page_id = whole_id(parent[keys[0]])
    if page_id is None:
        raise should(f"body.parent.{keys[0]}", "a valid uuid", parent[keys[0]])
    return call.workspace.page(page_id, call.bot)


def _discussed(call: Call, discussion: Any) -> Page:
    wanted = whole_id(discussion)
    found = next((one for one in call.workspace.comments.values() if one.discussion_id == wanted), None)
    if found is None:
        raise not_found("discussion", str(discussion), call.bot)
    return call.workspace.page(found.page_id, call.bot)


def list_comments(call: Call) -> dict[str, Any]:
    asked = call.query.get("block_id", [])
    if not asked:
        raise should("query.block_id", "defined", ...)
    page_id = whole_id(asked[0])
    if page_id is None:
        raise should("query.block_id", "a valid uuid", asked[0])
    page = call.workspace.page(page_id, call.bot)
    found = [one for one in call.workspace.comments.values() if one.page_id == page.id]
    place = f"{page.id}/comments"
    piece = call.paged(place, lambda: Found(place, found), "query")
    return listing("comment", [call.shapes().comment(one) for one in piece.items], piece.next_cursor)


def retrieve_comment(call: Call) -> dict[str, Any]:
    return call.shapes().comment(_comment(call))


def update_comment(call: Call) -> dict[str, Any]:
    comment = _comment(call)
    rich_text("body.rich_text", call.body.get("rich_text", ...))
    changed = comment._replace(rich_text=text_items(call.body["rich_text"]), edited_at=call.workspace.clock())
    call.workspace.comments[comment.id] = changed
    return call.shapes().comment(changed)


def delete_comment(call: Call) -> dict[str, Any]:
    comment = _comment(call)
    del call.workspace.comments[comment.id]
    return call.shapes().comment(comment)


def _comment(call: Call) -> Comment:
    comment_id = call.id("comment_id")
    found = call.workspace.comments.get(comment_id)
    if found is None or not call.workspace.sees_page(call.bot, call.workspace.pages[found.page_id]):
        raise not_found("comment", comment_id, call.bot)
    return found


def retrieve_me(call: Call) -> dict[str, Any]:
    return call.shapes().user(call.bot)


def list_users(call: Call) -> dict[str, Any]:
    piece = call.paged("users", lambda: Found("users", list(call.workspace.users.values())), "query")
    return listing("user", [call.shapes().user(one) for one in piece.items], piece.next_cursor)


def retrieve_user(call: Call) -> dict[str, Any]:
    found = call.workspace.users.get(call.id("user_id"))
    if found is None:
        raise not_found("user", call.id("user_id"), call.bot)
    return call.shapes().user(found)


def search(call: Call) -> dict[str, Any]:
    """Pages and data sources whose title has the words in it; what was made of late is not found yet."""
    reader, shapes = call.lagging(), call.shapes(call.lagging())
    table = "data_source" if shapes.new else "database"
    wanted = _kind(call, table)
    words = str(call.body.get("query") or "").lower()
    piece = call.paged("search", lambda: Found("search", _matching(call, reader, words, wanted)))
    shown = [
        (shapes.data_source if shapes.new else shapes.database)(one)
        if isinstance(one, DataSource)
        else shapes.page(one)
        for one in piece.items
    ]
    return listing(f"page_or_{table}", shown, piece.next_cursor)


def _kind(call: Call, table: str) -> str | None:
    said = call.body.get("filter")
    if said is None:
        return None
    value = said.get("value", ...) if isinstance(said, dict) else ...
    if not isinstance(value, str) or value not in {"page", table}:
        raise should("body.filter.value", f'`"page"` or `"{table}"`', value)
    return str(value)


def _matching(call: Call, reader: Reader, words: str, wanted: str | None) -> list[DataSource | Row]:
    found: list[DataSource | Row] = []
    for source in call.workspace.sources.values():
        if not call.workspace.sees_source(call.bot, source) or source.in_trash:
            continue
        if wanted != "page" and words in source.title.lower():
            found.append(source)
        if wanted in {None, "page"}:
            found += _titled(call, reader, source, words)
    descending = (call.body.get("sort") or {}).get("direction") != "ascending"
    return sorted(found, key=_edited, reverse=descending)


def _titled(call: Call, reader: Reader, source: DataSource, words: str) -> list[Row]:
    title = source.properties["title"]
    return [
        row
        for row in reader.rows(source.id)
        if not row.seen.in_trash
        and call.workspace.sees_page(call.bot, row.page)
        and words in reader.plain(title, row).lower()
    ]


def _edited(one: DataSource | Row) -> Any:
    return one.edited_at if isinstance(one, DataSource) else one.seen.edited_at
