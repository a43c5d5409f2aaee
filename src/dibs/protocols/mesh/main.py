"""`dibs mesh COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Group
from dibs.protocols.mesh.settings import add_shared

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.protocols.mesh.commands"
COMMANDS = {
    "init": ("project", "make the store, or check that the databases have what it takes"),
    "add": ("project", "put a task up for claiming"),
    "preflight": ("work", "may this task be claimed? CLAIM or SKIP, and why"),
    "claim": ("work", "check, claim, check again; every attempt goes into the log"),
    "heartbeat": ("work", "say that you are still at it: claimed_at is now"),
    "complete": ("work", "finish a task, and have it scored"),
    "block": ("work", "set a task aside until something outside changes"),
    "unblock": ("work", "put a blocked task up for claiming again"),
    "cancel": ("work", "abandon a task"),
    "log": ("logs", "the Mesh Communication Log: read it, or add to it"),
    "score": ("logs", "the Agent Task Log: what everybody has earned, or score a completed task"),
}

_MORE = (
    "MESH_AGENT says who you are, MESH_NONCE which claim is yours.",
    "MESH_TASKS_DB_ID, MESH_TASK_LOG_DB_ID and MESH_COMM_LOG_DB_ID are the Notion databases, NOTION_TOKEN",
    "is the key to them; MESH_STORE names another store instead, such as sqlite:///mesh.db.",
)


def main(words: Sequence[str]) -> int:
    about = "The Task Claim Protocol: agents on one queue that never do the same work twice."
    return Group("mesh", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
