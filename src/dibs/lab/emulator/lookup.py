"""Users, and search by title."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.errors import not_found, should
from dibs.lab.emulator.model import DataSource
from dibs.lab.emulator.paging import Found
from dibs.lab.emulator.rendering import listing

if TYPE_CHECKING:
    from dibs.lab.emulator.calls import Call
    from dibs.lab.emulator.rows import Reader, Row


def me(call: Call) -> dict[str, Any]:
    return call.shapes().user(call.bot)


def users(call: Call) -> dict[str, Any]:
    piece = call.paged("users", lambda: Found("users", list(call.workspace.users.values())), "query")
    return listing("user", [call.shapes().user(one) for one in piece.items], piece.next_cursor)


def user(call: Call) -> dict[str, Any]:
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
