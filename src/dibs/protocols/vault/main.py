"""The commands of `dibs vault`."""

from __future__ import annotations

from dibs.console.commands import Group
from dibs.protocols.vault.settings import add_shared

PACKAGE = "dibs.protocols.vault.commands"
COMMANDS = {
    "init": ("project", "make a folder a vault"),
    "add": ("files", "add a task to Needs_Action"),
    "claim": ("files", "move a file to In_Progress: the next, or the one you name"),
    "verify": ("files", "check that a file is still yours"),
    "release": ("files", "move a file to Done, Pending_Approval, Rejected or back to Needs_Action"),
    "agent": ("agent", "claim tasks and run your command on each"),
    "sync": ("project", "exchange changes with the remote of a git clone"),
    "resolve": ("project", "keep one file of each task"),
    "health": ("project", "show the health of an agent"),
    "status": ("project", "show tasks, agents, and drafts that need approval"),
}

_MORE = (
    "VAULT_PATH is the vault's folder, AGENT_NAME your name,",
    "AGENT_ROLE whether you only prepare (CLOUD) or also act (LOCAL). All other commands of dibs work there too,",
    "with DIBS_STORE=vault:///FOLDER.",
)

_ABOUT = "A folder of Markdown files that agents and people share. Moving a file to In_Progress claims it."

GROUP = Group("vault", PACKAGE, COMMANDS, add_shared, _ABOUT, _MORE)
