"""Making a new database in Notion, with the properties of a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import StoreUnavailable
from dibs.core.task import Status
from dibs.stores.notion.layout import AGENT, HUMAN

if TYPE_CHECKING:
    from dibs.stores.notion.http import HttpGateway
    from dibs.stores.notion.layout import Layout

_OPEN = "Open"  # a formula that says of each task whether it is unfinished, for the parent's rollup to count


def make_database(gateway: HttpGateway, parent: str, layout: Layout, title: str = "Tasks") -> str:
    """The id of a new database below a page. What refers to itself comes second, when it has an id."""
    made = gateway.create_database(parent, title, plain_properties(layout))
    sources = made.get("data_sources")
    if not isinstance(made.get("id"), str) or not isinstance(sources, list) or not sources:
        raise StoreUnavailable("Notion's answer does not say what database it made.")
    source = str(sources[0]["id"])
    for properties in _related_properties(layout, source):
        gateway.update_schema(source, properties)
    return str(made["id"])


def plain_properties(layout: Layout) -> dict[str, Any]:
    return {
        carrier.name: {carrier.types[0]: _definition(layout, field, carrier.types[0])}
        for field, carrier in layout.properties.items()
        if carrier.types[0] not in {"relation", "rollup"}
    }


def _definition(layout: Layout, field: str, kind: str) -> dict[str, Any]:
    if kind == "unique_id":
        return {"prefix": "TASK"}
    if kind != "select":
        return {}
    words = {"status": layout.words.values(), "holder": (AGENT, HUMAN), "service_class": layout.classes.values()}
    return {"options": [{"name": word} for word in words.get(field, ())]}


def _related_properties(layout: Layout, source: str) -> list[dict[str, Any]]:
    """Sub-tasks and their parent are two ends of one relation, and what is open among them is counted over it."""
    properties = layout.properties
    if "children" not in properties or "parent" not in properties:
        return []
    both = {"synced_property_name": properties["parent"].name}
    relation = {"data_source_id": source, "type": "dual_property", "dual_property": both}
    steps: list[dict[str, Any]] = [{properties["children"].name: {"relation": relation}}]
    if "open_children" in properties:
        steps += [{_OPEN: {"formula": {"expression": _unfinished(layout)}}}, _rollup(layout)]
    return steps


def _unfinished(layout: Layout) -> str:
    status = layout.properties["status"].name
    ended = (layout.words[Status.DONE], layout.words[Status.CANCELED])
    return " and ".join(f'prop("{status}") != "{word}"' for word in ended)


def _rollup(layout: Layout) -> dict[str, Any]:
    over = {
        "relation_property_name": layout.properties["children"].name,
        "rollup_property_name": _OPEN,
        "function": "checked",
    }
    return {layout.properties["open_children"].name: {"rollup": over}}
