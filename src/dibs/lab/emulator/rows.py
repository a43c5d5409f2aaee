"""A page's properties as plain values, computed ones included: what filters, sorts, formulas and rollups compare.

A reader looks at every page through one view, so that a lagging query sees a whole lagging world.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.lab.emulator import formulas
from dibs.lab.emulator.model import Page, Property, Revision, floored
from dibs.lab.emulator.values import empty, option_with, plain_text

if TYPE_CHECKING:
    from dibs.lab.emulator.workspace import Workspace

View: TypeAlias = Callable[[Page], Revision | None]


class Row(NamedTuple):
    """A page as it is seen."""

    page: Page
    seen: Revision


class Reader:
    def __init__(self, workspace: "Workspace", view: View) -> None:
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
        """Names of options, text as one string, times floored; None where there is nothing."""
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
            return None  # as the app shows it: an empty cell

    def rollup(self, prop: Property, row: Row) -> formulas.Rolled:
        _, looked = self.rolled_over(prop, row.page.source_id)
        if looked is None:
            return formulas.Rolled("unsupported", None)
        values = [_unrolled(self.plain(looked, one)) for one in self.related(prop, row)]
        return formulas.rolled(prop.config["function"], values)

    def rolled_over(self, prop: Property, source_id: str) -> tuple[Property | None, Property | None]:
        """The relation that a rollup follows, and the property it looks at there."""
        relation = self._workspace.sources[source_id].properties.get(prop.config["relation_property_id"])
        if relation is None:
            return None, None
        target = self._workspace.sources[relation.config["data_source_id"]]
        return relation, target.properties.get(prop.config["rollup_property_id"])

    def related(self, prop: Property, row: Row) -> list[Row]:
        """The pages that a rollup looks at; what is in the trash is not among them."""
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
    """Everything as it was then; what was made later is not there."""
    return lambda page: page.at(moment)


def latest(page: Page) -> Revision:
    return page.latest
