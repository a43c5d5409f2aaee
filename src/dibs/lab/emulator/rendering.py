"""Render pages, databases and comments for each API version, and the plain values that filters and formulas compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.lab.emulator import formulas
from dibs.lab.emulator.model import Page, Property, Revision, floored, shown_property_id, stamp
from dibs.lab.emulator.schema import shown_properties
from dibs.lab.emulator.values import (
    SHOWN_REFERENCES,
    empty,
    option_with,
    plain_text,
    shown_option,
    shown_options,
    text_of,
)

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.lab.emulator.formulas import Rolled
    from dibs.lab.emulator.model import Comment, DataSource, Property, User
    from dibs.lab.emulator.workspace import Workspace

View: TypeAlias = Callable[[Page], Revision | None]


class Row(NamedTuple):
    """A page at one moment."""

    page: Page
    seen: Revision


class Reader:
    def __init__(self, workspace: Workspace, view: View) -> None:
        self._workspace = workspace
        self._view = view

    def rows(self, source_id: str) -> Iterator[Row]:
        for page in self._workspace.sources[source_id].pages.values():
            seen = self._view(page)
            if seen is not None:
                yield Row(page, seen)

    def row(self, page: Page) -> Row | None:
        seen = self._view(page)
        return None if seen is None else Row(page, seen)

    def kept(self, prop: Property, row: Row) -> Any:
        return row.seen.values[prop.id] if prop.id in row.seen.values else empty(prop)

    def plain(self, prop: Property, row: Row) -> Any:
        """Return option names, text as one string, floored times; None for an empty value."""
        match prop.type:
            case "formula":
                return self.formula(prop, row)
            case "rollup":
                return self.rollup(prop, row)
            case "unique_id":
                return row.page.number
            case "created_time":
                return floored(row.page.created_at)
            case "last_edited_time":
                return floored(row.seen.edited_at)
            case "created_by":
                return row.page.created_by
            case "last_edited_by":
                return row.seen.edited_by
        return _plain(prop, self.kept(prop, row))

    def formula(self, prop: Property, row: Row) -> Any:
        source = self._workspace.sources[row.page.source_id]

        def look(name: str) -> Any:
            asked = source.find(name)
            return None if asked is None else _unrolled(self.plain(asked, row))

        try:
            return formulas.parsed(prop.config["expression"])(look)
        except (TypeError, ValueError, ZeroDivisionError):
            return None  # the app shows an empty cell

    def rollup(self, prop: Property, row: Row) -> formulas.Rolled:
        _, looked = self.rolled_over(prop, row.page.source_id)
        if looked is None:
            return formulas.Rolled("unsupported", None)
        values = [_unrolled(self.plain(looked, one)) for one in self.related(prop, row)]
        return formulas.rolled(prop.config["function"], values)

    def rolled_over(self, prop: Property, source_id: str) -> tuple[Property | None, Property | None]:
        """Return a rollup's relation and the property that it reads there."""
        relation = self._workspace.sources[source_id].properties.get(prop.config["relation_property_id"])
        if relation is None:
            return None, None
        target = self._workspace.sources[relation.config["data_source_id"]]
        return relation, target.properties.get(prop.config["rollup_property_id"])

    def related(self, prop: Property, row: Row) -> list[Row]:
        """Return the pages that a rollup reads, without trashed ones."""
        relation, _ = self.rolled_over(prop, row.page.source_id)
        pages = [] if relation is None else [self._workspace.pages[one] for one in self.kept(relation, row)]
        rows = (self.row(page) for page in pages)
        return [one for one in rows if one is not None and not one.seen.in_trash]


def _plain(prop: Property, kept: Any) -> Any:
    match prop.type:
        case "title" | "rich_text":
            return plain_text(kept)
        case "select" | "status":
            known = option_with(prop, kept)
            return None if known is None else known["name"]
        case "multi_select":
            found = (option_with(prop, one) for one in kept)
            return [known["name"] for known in found if known is not None]
    return kept


def _unrolled(value: Any) -> Any:
    return value.value if isinstance(value, formulas.Rolled) else value


def as_of(moment: datetime) -> View:
    """Return pages as they were at a time, without later ones."""
    return lambda page: page.at(moment)


def latest(page: Page) -> Revision:
    return page.latest


NEW = "2025-09-03"  # the first version with data sources
TRASH = "2026-03-11"  # the first version with `in_trash` instead of `archived`


class Shapes:
    """The API version of an answer, and the view of its pages."""

    def __init__(self, workspace: Workspace, reader: Reader, version: str) -> None:
        self._workspace = workspace
        self._reader = reader
        self.new = version >= NEW
        self._archives = version < TRASH

    def page(self, row: Row, only: list[str] | None = None) -> dict[str, Any]:
        source = self._workspace.sources[row.page.source_id]
        columns = [prop for prop in source.properties.values() if only is None or prop.id in only]
        return {
            "object": "page",
            "id": row.page.id,
            "created_time": stamp(row.page.created_at),
            "last_edited_time": stamp(row.seen.edited_at),
            "created_by": _someone(row.page.created_by),
            "last_edited_by": _someone(row.seen.edited_by),
            "cover": row.page.cover,
            "icon": row.page.icon,
            "parent": self._page_parent(source, row.page),
            **self._trash(in_trash=row.seen.in_trash),
            "is_locked": False,
            "properties": {prop.name: self.property(prop, row) for prop in columns},
            "url": _url(row.page.id),
            "public_url": None,
        }

    def _page_parent(self, source: DataSource, page: Page) -> dict[str, Any]:
        if page.parent_page is not None:
            return {"type": "page_id", "page_id": page.parent_page}
        if not self.new:
            return {"type": "database_id", "database_id": source.database_id}
        return {"type": "data_source_id", "data_source_id": source.id, "database_id": source.database_id}

    def _trash(self, *, in_trash: bool) -> dict[str, Any]:
        return {"in_trash": in_trash} | ({"archived": in_trash} if self._archives else {})

    def property(self, prop: Property, row: Row) -> dict[str, Any]:
        said = {"id": shown_property_id(prop.id), "type": prop.type, prop.type: self.value(prop, row)}
        if prop.type == "relation":
            related = said["relation"]
            said |= {"relation": related[:SHOWN_REFERENCES], "has_more": len(related) > SHOWN_REFERENCES}
        return said

    def value(self, prop: Property, row: Row) -> Any:
        match prop.type:
            case "created_time":
                return stamp(row.page.created_at)
            case "last_edited_time":
                return stamp(row.seen.edited_at)
            case "created_by":
                return _someone(row.page.created_by)
            case "last_edited_by":
                return _someone(row.seen.edited_by)
            case "unique_id":
                return {"prefix": prop.config["prefix"], "number": row.page.number}
            case "formula":
                return _formula(self._reader.formula(prop, row))
            case "rollup":
                return self._rollup(prop, row, self._reader.rollup(prop, row))
        return _kept(prop, self._reader.kept(prop, row))

    def _rollup(self, prop: Property, row: Row, rolled: Rolled) -> dict[str, Any]:
        value = {} if rolled.type == "unsupported" else rolled.value
        if rolled.type == "array":
            value = self._shown_array(prop, row)
        return {"type": rolled.type, rolled.type: value, "function": prop.config["function"]}

    def _shown_array(self, prop: Property, row: Row) -> list[dict[str, Any]]:
        _, looked = self._reader.rolled_over(prop, row.page.source_id)
        if looked is None:
            return []
        return [{"type": looked.type, looked.type: self.value(looked, one)} for one in self._reader.related(prop, row)]

    def data_source(self, source: DataSource) -> dict[str, Any]:
        return {
            "object": "data_source",
            "id": source.id,
            **self._dates(source),
            "title": text_of(source.title),
            "description": [],
            "parent": {"type": "database_id", "database_id": source.database_id},
            "database_parent": source.parent,
            "is_inline": False,
            **self._trash(in_trash=source.in_trash),
            "properties": shown_properties(self._workspace, source, new=True),
            **_outside(source),
        }

    def database(self, source: DataSource) -> dict[str, Any]:
        said = {
            "object": "database",
            "id": source.database_id,
            **self._dates(source),
            "title": text_of(source.title),
            "description": [],
            "parent": source.parent,
            "is_inline": False,
            "is_locked": False,
            **self._trash(in_trash=source.in_trash),
            **_outside(source),
        }
        if self.new:
            said = {name: value for name, value in said.items() if name not in {"created_by", "last_edited_by"}}
            return {**said, "data_sources": [{"id": source.id, "name": source.title}]}
        return {**said, "properties": shown_properties(self._workspace, source, new=False)}

    def _dates(self, source: DataSource) -> dict[str, Any]:
        return {
            "created_time": stamp(source.created_at),
            "last_edited_time": stamp(source.edited_at),
            "created_by": _someone(source.created_by),
            "last_edited_by": _someone(source.edited_by),
        }

    def comment(self, comment: Comment) -> dict[str, Any]:
        user = self._workspace.users[comment.created_by]
        return {
            "object": "comment",
            "id": comment.id,
            "parent": {"type": "page_id", "page_id": comment.page_id},
            "discussion_id": comment.discussion_id,
            "created_time": stamp(comment.created_at),
            "last_edited_time": stamp(comment.edited_at),
            "created_by": _someone(comment.created_by),
            "rich_text": comment.rich_text,
            "display_name": {"type": "integration" if user.is_bot else "user", "resolved_name": user.name},
        }

    def user(self, user: User) -> dict[str, Any]:
        said = {"object": "user", "id": user.id, "name": user.name, "avatar_url": None}
        if not user.is_bot:
            return {**said, "type": "person", "person": {}}
        bot = {
            "owner": {"type": "workspace", "workspace": True},
            "workspace_name": self._workspace.name,
            "workspace_id": self._workspace.id,
            "workspace_limits": {"max_file_upload_size_in_bytes": 5_242_880},
        }
        return {**said, "type": "bot", "bot": bot}


def listing(kind: str, results: list[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    return {
        "object": "list",
        "results": results,
        "next_cursor": next_cursor,
        "has_more": next_cursor is not None,
        "type": kind,
        kind: {},
    }


def _someone(user_id: str) -> dict[str, Any]:
    return {"object": "user", "id": user_id}


def _url(object_id: str) -> str:
    return f"https://www.notion.so/{object_id.replace('-', '')}"


def _outside(source: DataSource) -> dict[str, Any]:
    return {"url": _url(source.database_id), "public_url": None, "icon": source.icon, "cover": source.cover}


def _formula(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"type": "boolean", "boolean": value}
    if isinstance(value, int | float):
        return {"type": "number", "number": value}
    if isinstance(value, dict):
        return {"type": "date", "date": value}
    return {"type": "string", "string": value}


def _kept(prop: Property, kept: Any) -> Any:
    match prop.type:
        case "select" | "status":
            return shown_option(option_with(prop, kept))
        case "multi_select":
            return shown_options(prop, kept)
        case "people":
            return [_someone(one) for one in kept]
        case "relation":
            return [{"id": one} for one in kept]
    return kept
