"""`dibs mesh COMMAND …`: the list of commands."""

from __future__ import annotations

from dibs.console.commands import Group
from dibs.protocols.mesh.policy import add_shared

PACKAGE = "dibs.protocols.mesh.commands"
COMMANDS = {
    "init": ("project", "create the store, or check the databases"),
    "add": ("project", "add a task"),
    "preflight": ("work", "check whether a task can be claimed: CLAIM or SKIP, and why"),
    "claim": ("work", "claim a task and confirm the claim; log every attempt"),
    "heartbeat": ("work", "renew your claim: set claimed_at to now"),
    "complete": ("work", "finish a task and score it"),
    "block": ("work", "block a task until something outside changes"),
    "unblock": ("work", "make a blocked task OPEN again"),
    "cancel": ("work", "cancel a task"),
    "log": ("project", "read the Mesh Communication Log, or add a message"),
    "score": ("project", "show the agents' scores, or score a completed task"),
}

_MORE = (
    "MESH_AGENT is your name, MESH_NONCE the nonce of your claim.",
    "MESH_TASKS_DB_ID, MESH_TASK_LOG_DB_ID and MESH_COMM_LOG_DB_ID are the ids of the Notion databases,",
    "NOTION_TOKEN is the integration's secret. MESH_STORE selects another store instead, such as sqlite:///mesh.db.",
)

_ABOUT = "The Task Claim Protocol: agents share one queue and never do the same work twice."

GROUP = Group("mesh", PACKAGE, COMMANDS, add_shared, _ABOUT, _MORE)
