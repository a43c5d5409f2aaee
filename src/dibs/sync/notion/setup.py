"""Setting a database up for syncing: making one, or adding to one what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.stores.notion.schema import problems
from dibs.sync.notion.words import ASKED, LAYOUT, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.stores.notion.http import HttpGateway
    from dibs.sync.notion.words import Fleet

TITLE = "Kurultai Tasks"


def columns(fleet: Fleet) -> dict[str, Any]:
    """Every property of the schema, with its words where it has some."""
    words = {"status": ASKED, "priority": WEIGHTS, "agent": dict.fromkeys(fleet.names.values())}
    return {
        carrier.name: {carrier.types[0]: {"options": [{"name": word} for word in words[field]]}}
        if field in words
        else {carrier.types[0]: {}}
        for field, carrier in LAYOUT.properties.items()
    }


def make(gateway: HttpGateway, parent: str, fleet: Fleet) -> str:
    """The id of a new database below a page."""
    made = gateway.create_database(parent, TITLE, columns(fleet))
    if not isinstance(made.get("id"), str):
        raise StoreUnavailable("Notion's answer does not say what database it made.")
    return str(made["id"])


def complete(gateway: HttpGateway, database: str, fleet: Fleet) -> list[str]:
    """Add the properties that are not there; their names. One of another type is somebody's own, and stays."""
    source = gateway.source_of(database)
    there: Mapping[str, Any] = gateway.schema(source)
    known = {name.casefold() for name in there}
    wrong = [text for name, text in problems(LAYOUT, there).items() if name.casefold() in known]
    if wrong:
        raise Misconfigured(
            f"The Notion database cannot be synced as it is: {'; '.join(wrong)}. Rename or change it in Notion, then "
            "run this again."
        )
    lacking = {
        name: column
        for name, column in columns(fleet).items()
        if name.casefold() not in known and "title" not in column
    }
    if lacking:
        gateway.update_schema(source, lacking)
    return list(lacking)
