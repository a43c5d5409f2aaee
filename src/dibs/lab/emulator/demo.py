"""What is in the workspace when `dibs notion-emulator` starts: the protocol's databases, and a little work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.presets import (
    kurultai_schema,
    mesh_communication_log_schema,
    mesh_schema,
    mesh_task_log_schema,
    ntask_schema,
)

if TYPE_CHECKING:
    from dibs.lab.emulator.emulator import Emulator

# title, status, priority, class, and the title of the task it is a part of
_NTASK = (
    ("Publish the price list", "BACKLOG", 5, "STANDARD", None),
    ("Agree on the columns", "READY", 8, "STANDARD", "Publish the price list"),
    ("Read CSV into rows", "READY", 5, "STANDARD", "Publish the price list"),
    ("Answer the auditor", "READY", 3, "FIXED_DATE", None),
    ("Fix the broken sign-in", "READY", 9, "EXPEDITE", None),
    ("Tidy the wiki", "READY", 5, "INTANGIBLE", None),
)
_MESH = ("Summarise the meeting", "Translate the manual", "Check the links")


def databases(notion: Emulator, layout: str, *, empty: bool) -> dict[str, str]:
    """Variable → the id of the database that it is to name."""
    if layout == "kurultai":  # whose rows they would be is known to nobody yet
        return {"NOTION_DATABASE_ID": notion.database(kurultai_schema(), "Kurultai Tasks").id}
    return _mesh(notion, empty=empty) if layout == "mesh" else _ntask(notion, empty=empty)


def _ntask(notion: Emulator, *, empty: bool) -> dict[str, str]:
    made = notion.database(ntask_schema(), "Tasks")
    pages: dict[str, str] = {}
    for title, status, priority, service_class, parent in () if empty else _NTASK:
        properties: dict[str, Any] = {
            "Task name": text("title", title),
            "Status": {"select": {"name": status}},
            "Priority": {"number": priority},
            "Class": {"select": {"name": service_class}},
            "Parent-task": {"relation": [{"id": pages[parent]}] if parent else []},
        }
        pages[title] = notion.page(made.id, properties)
    return {"NOTION_TASKS_DB_ID": made.id}


def _mesh(notion: Emulator, *, empty: bool) -> dict[str, str]:
    tasks = notion.database(mesh_schema(), "Tasks")
    for title in () if empty else _MESH:
        notion.page(tasks.id, {"title": text("title", title), "status": {"select": {"name": "OPEN"}}})
    return {
        "MESH_TASKS_DB_ID": tasks.id,
        "MESH_TASK_LOG_DB_ID": notion.database(mesh_task_log_schema(), "Agent Task Log").id,
        "MESH_COMM_LOG_DB_ID": notion.database(mesh_communication_log_schema(), "Mesh Communication Log").id,
    }


def text(kind: str, content: str) -> dict[str, Any]:
    return {kind: [{"text": {"content": content}}]}
