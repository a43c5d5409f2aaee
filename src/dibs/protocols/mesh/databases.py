"""The three databases of the mesh, made in Notion below a page of yours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import StoreUnavailable
from dibs.protocols.mesh.messages import State

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Mapping[str, Any] = {"rich_text": {}}
_NUMBER: Mapping[str, Any] = {"number": {}}
_DATE: Mapping[str, Any] = {"date": {}}

TASK_LOG: Mapping[str, Any] = {
    "Task": {"title": {}},
    "Agent": _TEXT,
    "Priority Score": _NUMBER,
    "Confidence": _NUMBER,
    "Coherence": _NUMBER,
    "Points Earned": _NUMBER,
    "Completed At": _DATE,
    "Status": _TEXT,
    "Notes": _TEXT,
}

COMMUNICATION_LOG: Mapping[str, Any] = {
    "Event": {"title": {}},
    "Source Agent": _TEXT,
    "Target Agent": _TEXT,
    "Status": {"select": {"options": [{"name": str(state)} for state in State]}},
    "Timeout (min)": _NUMBER,
    "Blocked Task": _TEXT,
    "Resolution": _TEXT,
    "Timestamp": _DATE,
    "Retry Count": _NUMBER,
}


def make_databases(parent: str) -> dict[str, str]:
    """Their ids, by the variables that are to name them."""
    from dibs.stores.notion.making import make_database
    from dibs.stores.notion.opened import over_http
    from dibs.stores.notion.target import target_of

    target = target_of(f"?layout=mesh&parent={parent}")
    gateway = over_http(target)
    try:
        return {
            "MESH_TASKS_DB_ID": make_database(gateway, parent, target.layout, "Tasks"),
            "MESH_TASK_LOG_DB_ID": _id_of(gateway.create_database(parent, "Agent Task Log", TASK_LOG)),
            "MESH_COMM_LOG_DB_ID": _id_of(gateway.create_database(parent, "Mesh Communication Log", COMMUNICATION_LOG)),
        }
    finally:
        gateway.close()


def _id_of(made: Mapping[str, Any]) -> str:
    if not isinstance(made.get("id"), str):
        raise StoreUnavailable("Notion's answer does not say what database it made.")
    return str(made["id"])
