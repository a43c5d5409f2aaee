"""Request handlers: pages, blocks, databases and their data sources, comments, users, and search by title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.model import (
    DataSource,
    fix_one,
    invalid,
    not_emulated,
    not_found,
    should,
    should_line,
    shown_property_id,
    whole_id,
)
from dibs.lab.emulator.query import Filters, Found, arranged
from dibs.lab.emulator.rendering import TRASH, Row, listing
from dibs.lab.emulator.values import image, known_keys, plain_text, rich_text, text_items
from dibs.lab.emulator.workspace import Block, checked_children

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
    _refuse_unemulated(call, "content", "markdown", "template", "position")
    checked_children(call.body.get("children") or [])
    icon, cover = _images(call)
    above = call.body.get("parent")
    if isinstance(above, dict) and "page_id" in above:
        parent = _parent_page(call, above["page_id"])
        page = call.workspace.add_loose_page(parent, call.body.get("properties", {}), call.bot)
    else:
        source = _parent_of_page(call)
        if "properties" not in call.body:
            raise should("body.properties", "defined", ...)
        page = call.workspace.add_page(source, call.body["properties"], call.bot)
    page.icon, page.cover = icon.get("icon"), cover.get("cover")
    call.workspace.blocks.append(call.workspace, page, call.body.get("children") or [], call.bot)
    return _shown_page(call, page)


def _refuse_unemulated(call: Call, *keys: str) -> None:
    for key in keys:
        if call.body.get(key):
            raise not_emulated(f"'{key}' of a page")


def _images(call: Call) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the icon and the cover of a request; null removes them."""
    icon = {"icon": image("body.icon", call.body["icon"], emoji=True)} if "icon" in call.body else {}
    cover = {"cover": image("body.cover", call.body["cover"], emoji=False)} if "cover" in call.body else {}
    return icon, cover


def _parent_page(call: Call, said: object) -> Page:
    found = whole_id(said)
    if found is None:
        raise should("body.parent.page_id", "a valid uuid", said)
    page = call.workspace.page(found, call.bot)
    if page.latest.in_trash:
        raise not_found("page", found, call.bot)
    return page


def move_page(call: Call) -> dict[str, Any]:
    """Move a page below another page; moving a row elsewhere is not emulated."""
    page = call.workspace.page(call.id("page_id"), call.bot)
    above = call.body.get("parent")
    if not isinstance(above, dict):
        raise should("body.parent", "defined", call.body.get("parent", ...))
    if page.parent_page is None or "page_id" not in above:
        raise not_emulated("Moving a page into or out of a data source")
    parent: Page | None = _parent_page(call, above["page_id"])
    page_id = parent.id if parent else ""
    while parent is not None:
        if parent.id == page.id:
            raise invalid("Cannot move a page below itself.")
        parent = call.workspace.pages[parent.parent_page] if parent.parent_page else None
    page.parent_page = page_id
    call.workspace.touch(page, call.bot)
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
    _refuse_unemulated(call, "template", "erase_content", "is_locked")
    icon, cover = _images(call)
    properties = call.body.get("properties", {})
    if page.parent_page is not None and isinstance(properties.get("title"), list):
        properties = {**properties, "title": {"title": properties["title"]}}
    if icon or cover:
        page.icon, page.cover = icon.get("icon", page.icon), cover.get("cover", page.cover)
        if not properties and trash in {None, page.latest.in_trash}:
            call.workspace.touch(page, call.bot)
    if properties or trash not in {None, page.latest.in_trash}:
        call.workspace.edit_page(page, call.bot, properties, in_trash=trash)
    return _shown_page(call, page)


def _shown_page(call: Call, page: Page) -> dict[str, Any]:
    """Show a written page without lag."""
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
    """Return a property as a list if it can have many values; a rollup lists its pages and its result."""
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
    parent = _parent_of_database(call)
    icon, cover = _images(call)
    source = call.workspace.add_source(_title(call) or "", properties, call.bot, path)
    source.parent, source.icon, source.cover = parent, icon.get("icon"), cover.get("cover")
    return call.shapes().database(source)


def _parent_of_database(call: Call) -> dict[str, Any]:
    said = call.body["parent"]
    if "page_id" in said:
        return {"type": "page_id", "page_id": _parent_page(call, said["page_id"]).id}
    if said.get("workspace") is True:
        return {"type": "workspace", "workspace": True}
    if "block_id" in said:
        raise not_emulated("A database below a block")
    raise should("body.parent.page_id", "defined", ...)


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
    icon, cover = _images(call)
    _refuse_unemulated(call, "description", "is_inline", "parent")
    source.icon, source.cover = icon.get("icon", source.icon), cover.get("cover", source.cover)
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
    """Find pages and data sources by words of their title; recent ones may be missing."""
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
        if source is call.workspace.loose:
            found += _titled(call, reader, source, words) if wanted in {None, "page"} else []
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


def list_blocks(call: Call) -> dict[str, Any]:
    above = _block(call)
    place = f"{above.id}/children"
    piece = call.paged(place, lambda: Found(place, call.workspace.blocks.below(call.workspace, above)), "query")
    return listing("block", [_shown_block(call, one) for one in piece.items], piece.next_cursor)


def append_blocks(call: Call) -> dict[str, Any]:
    if call.body.get("after") or call.body.get("position"):
        raise not_emulated("Adding blocks elsewhere than at the end")
    made = call.workspace.blocks.append(call.workspace, _block(call), call.body.get("children", ...), call.bot)
    return listing("block", [_shown_block(call, one) for one in made], None)


def retrieve_block(call: Call) -> dict[str, Any]:
    return _shown_block(call, _block(call))


def update_block(call: Call) -> dict[str, Any]:
    block = _block(call)
    if not isinstance(block, Block):
        raise not_emulated("Changing a page as a block")
    call.workspace.blocks.change(call.workspace, block, call.body, call.bot)
    return _shown_block(call, block)


def delete_block(call: Call) -> dict[str, Any]:
    """Move a block, or a page, to the trash."""
    block = _block(call)
    if isinstance(block, Block):
        call.workspace.blocks.change(call.workspace, block, {"in_trash": True}, call.bot)
    else:
        call.workspace.edit_page(block, call.bot, in_trash=True)
    return _shown_block(call, block)


def _block(call: Call) -> Block | Page:
    return call.workspace.blocks.get(call.workspace, call.id("block_id"), call.bot)


def _shown_block(call: Call, block: Block | Page) -> dict[str, Any]:
    said = call.workspace.blocks.shown(call.workspace, block)
    return said if call.version >= TRASH else {**said, "archived": said["in_trash"]}
