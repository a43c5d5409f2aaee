"""Databases as the protocols describe them, and the content that `dibs notion-emulator` starts with.

A relation that names no data source is one of the database with itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.emulator.emulator import Emulator


_TEXT: dict[str, Any] = {"rich_text": {}}
_DATE: dict[str, Any] = {"date": {}}
_STATUSES = ("BACKLOG", "READY", "IN_PROGRESS", "BLOCKED", "REVIEW", "DONE", "CANCELED")
_OPEN = 'prop("Status") != "DONE" and prop("Status") != "CANCELED"'


def choices(*names: str) -> dict[str, Any]:
    return {"options": [{"name": name} for name in names]}


def ntask_schema(*, status: str = "select", agent: str = "rich_text", optional: bool = True) -> dict[str, Any]:
    """Tasks of ntask. `Dependencies` counts the sub-tasks whose formula `Open` is true: neither DONE nor CANCELED."""
    schema: dict[str, Any] = {
        "Task name": {"title": {}},
        "ID": {"unique_id": {"prefix": "TASK"}},
        "Status": {status: choices(*_STATUSES)},
        "Priority": {"number": {}},
        "Class": {"select": choices("EXPEDITE", "FIXED_DATE", "STANDARD", "INTANGIBLE")},
        "Claimed By": {"select": choices("AGENT", "HUMAN")},
        "Agent": _TEXT if agent == "rich_text" else {agent: {}},
        "Agent Run": _TEXT,
        "Lock Token": _TEXT,
        "Lock Expires": _DATE,
        "Sub-tasks": {"relation": {"dual_property": {"synced_property_name": "Parent-task"}}},
        "Open": {"formula": {"expression": _OPEN}},
        "Dependencies": {
            "rollup": {"relation_property_name": "Sub-tasks", "rollup_property_name": "Open", "function": "checked"}
        },
    }
    if optional:
        schema |= dict.fromkeys(("Artifacts", "BlockerReason", "UnblockAction"), _TEXT)
        schema |= dict.fromkeys(("NextCheckAt", "StartedAt", "DoneAt"), _DATE)
    return schema


def mesh_schema(*, nonce: bool = True) -> dict[str, Any]:
    """The mesh's task queue; without `nonce` as its document had it."""
    schema: dict[str, Any] = {
        "title": {"title": {}},
        "status": {"select": choices("OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED")},
        "claimed_by": _TEXT,
        "claimed_at": _DATE,
        "claim_timeout_minutes": {"number": {}},
    }
    return {**schema, "claim_nonce": _TEXT} if nonce else schema


def mesh_task_log_schema() -> dict[str, Any]:
    return {
        "Task": {"title": {}},
        "Agent": {"select": choices("Sandman", "Oracle")},
        "Priority Score": {"number": {}},
        "Confidence": {"number": {}},
        "Coherence": {"number": {}},
        "Points Earned": {"number": {}},
        "Completed At": _DATE,
        "Status": {"select": choices("COMPLETED")},
        "Notes": _TEXT,
    }


def mesh_communication_log_schema() -> dict[str, Any]:
    return {
        "Event": {"title": {}},
        "Source Agent": _TEXT,
        "Target Agent": _TEXT,
        "Status": {"select": choices("Sent", "Received", "Timeout", "Blocked", "Resolved")},
        "Timeout (min)": {"number": {}},
        "Blocked Task": _TEXT,
        "Resolution": _TEXT,
        "Timestamp": _DATE,
        "Retry Count": {"number": {}},
    }


def kurultai_schema() -> dict[str, Any]:
    """The database that kurultai's senders steer by."""
    return {
        "Name": {"title": {}},
        "Status": {"select": choices("Not Started", "Blocked", "Ready", "In Progress", "Completed", "Cancelled")},
        "Priority": {"select": choices("Critical", "High", "Medium", "Low", "Backlog")},
        "Agent": {"select": choices("Kublai", "Möngke", "Chagatai", "Temüjin", "Jochi", "Ögedei")},
        "ID": _TEXT,
        "Last Synced": _DATE,
        "SenderHash": _TEXT,
        "Result": _TEXT,
    }


_PRESETS: dict[str, Callable[[], dict[str, Any]]] = {
    "ntask": ntask_schema,
    "kurultai": kurultai_schema,
    "mesh": mesh_schema,
    "mesh_task_log": mesh_task_log_schema,
    "mesh_communication_log": mesh_communication_log_schema,
}


def preset(name: str) -> dict[str, Any]:
    if name not in _PRESETS:
        raise ValueError(f"no such preset: {name}; there are {', '.join(_PRESETS)}")
    return _PRESETS[name]()


# title, status, priority, class, and the title of the task it is a part of
_DEMO_NTASK = (
    ("Publish the price list", "BACKLOG", 5, "STANDARD", None),
    ("Agree on the columns", "READY", 8, "STANDARD", "Publish the price list"),
    ("Read CSV into rows", "READY", 5, "STANDARD", "Publish the price list"),
    ("Answer the auditor", "READY", 3, "FIXED_DATE", None),
    ("Fix the broken sign-in", "READY", 9, "EXPEDITE", None),
    ("Tidy the wiki", "READY", 5, "INTANGIBLE", None),
)
_DEMO_MESH = ("Summarise the meeting", "Translate the manual", "Check the links")


def demo_databases(notion: Emulator, layout: str, *, empty: bool) -> dict[str, str]:
    """Variable → the id of the database that it is to name."""
    if layout == "kurultai":  # whose rows they would be is known to nobody yet
        return {"NOTION_DATABASE_ID": notion.database(kurultai_schema(), "Kurultai Tasks").id}
    return _demo_mesh(notion, empty=empty) if layout == "mesh" else _demo_ntask(notion, empty=empty)


def _demo_ntask(notion: Emulator, *, empty: bool) -> dict[str, str]:
    made = notion.database(ntask_schema(), "Tasks")
    pages: dict[str, str] = {}
    for title, status, priority, service_class, parent in () if empty else _DEMO_NTASK:
        properties: dict[str, Any] = {
            "Task name": text_value("title", title),
            "Status": {"select": {"name": status}},
            "Priority": {"number": priority},
            "Class": {"select": {"name": service_class}},
            "Parent-task": {"relation": [{"id": pages[parent]}] if parent else []},
        }
        pages[title] = notion.page(made.id, properties)
    return {"NOTION_TASKS_DB_ID": made.id}


def _demo_mesh(notion: Emulator, *, empty: bool) -> dict[str, str]:
    tasks = notion.database(mesh_schema(), "Tasks")
    for title in () if empty else _DEMO_MESH:
        notion.page(tasks.id, {"title": text_value("title", title), "status": {"select": {"name": "OPEN"}}})
    return {
        "MESH_TASKS_DB_ID": tasks.id,
        "MESH_TASK_LOG_DB_ID": notion.database(mesh_task_log_schema(), "Agent Task Log").id,
        "MESH_COMM_LOG_DB_ID": notion.database(mesh_communication_log_schema(), "Mesh Communication Log").id,
    }


def text_value(kind: str, content: str) -> dict[str, Any]:
    return {kind: [{"text": {"content": content}}]}
