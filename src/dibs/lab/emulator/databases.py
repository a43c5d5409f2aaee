"""Databases and their data sources: make, read, change, and query, in both generations of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.bodies import known_keys, rich_text
from dibs.lab.emulator.errors import should
from dibs.lab.emulator.paging import Found
from dibs.lab.emulator.query import Filters
from dibs.lab.emulator.rendering import listing
from dibs.lab.emulator.sorting import arranged
from dibs.lab.emulator.values import plain_text, text_items

if TYPE_CHECKING:
    from dibs.lab.emulator.calls import Call
    from dibs.lab.emulator.model import DataSource
    from dibs.lab.emulator.rows import Reader

_QUERY = frozenset({"filter", "sorts", "start_cursor", "page_size", "archived", "in_trash", "result_type"})


def create(call: Call) -> dict[str, Any]:
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


def retrieve(call: Call) -> dict[str, Any]:
    return call.shapes().database(call.workspace.database(call.id("database_id"), call.bot))


def update(call: Call) -> dict[str, Any]:
    source = call.workspace.database(call.id("database_id"), call.bot)
    if call.shapes().new and "properties" in call.body:
        raise should("body.properties", "not present", call.body["properties"])
    _change(call, source)
    return call.shapes().database(source)


def retrieve_source(call: Call) -> dict[str, Any]:
    return call.shapes().data_source(call.workspace.source(call.id("data_source_id"), call.bot))


def update_source(call: Call) -> dict[str, Any]:
    source = call.workspace.source(call.id("data_source_id"), call.bot)
    _change(call, source)
    return call.shapes().data_source(source)


def _change(call: Call, source: DataSource) -> None:
    title = _title(call)
    call.workspace.change_columns(source, call.body.get("properties", {}), call.bot)
    source.title = source.title if title is None else title
    source.in_trash = call.body.get("in_trash", call.body.get("archived", source.in_trash))


def _title(call: Call) -> str | None:
    if "title" not in call.body:
        return None
    rich_text("body.title", call.body["title"])
    return plain_text(text_items(call.body["title"]))


def query(call: Call) -> dict[str, Any]:
    return _query(call, call.workspace.database(call.id("database_id"), call.bot), "page_or_database")


def query_source(call: Call) -> dict[str, Any]:
    return _query(call, call.workspace.source(call.id("data_source_id"), call.bot), "page_or_data_source")


def _query(call: Call, source: DataSource, kind: str) -> dict[str, Any]:
    known_keys(call.body, _QUERY)
    reader = call.lagging()
    piece = call.paged(source.id, lambda: _found(call, source, reader))
    visible = (page for page in piece.items if call.workspace.sees_page(call.bot, page))
    rows = [row for row in (reader.row(page) for page in visible) if row is not None]
    shapes, only = call.shapes(reader), call.only(source)
    said = listing(kind, [shapes.page(row, only) for row in rows], piece.next_cursor)
    if piece.cut:
        said["request_status"] = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
    return said


def _found(call: Call, source: DataSource, reader: Reader) -> Found:
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
