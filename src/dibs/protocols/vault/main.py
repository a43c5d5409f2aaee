"""`dibs vault COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Group
from dibs.protocols.vault.settings import add_shared

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.protocols.vault.commands"
COMMANDS = {
    "init": ("project", "make a folder a vault"),
    "add": ("files", "put a task into Needs_Action"),
    "claim": ("files", "move a file to In_Progress: the next one, or the one you name"),
    "verify": ("files", "check that a file is still yours"),
    "release": ("files", "move a file on: to Done, Pending_Approval, Rejected or back to Needs_Action"),
    "agent": ("agent", "claim and work, again and again, by a command of yours"),
    "sync": ("project", "bring a git clone of the vault and its remote together"),
    "resolve": ("project", "let every task lie in one place"),
    "health": ("project", "how an agent is doing"),
    "status": ("project", "what lies where, who is at work, what waits for approval"),
}

_MORE = (
    "VAULT_PATH says where the vault is, AGENT_NAME who you are,",
    "AGENT_ROLE whether you prepare (CLOUD) or also act (LOCAL). All other commands of dibs work there too,",
    "with DIBS_STORE=vault:///FOLDER.",
)


def main(words: Sequence[str]) -> int:
    about = "A folder of Markdown files that agents and people share: whoever moves a file to In_Progress has it."
    return Group("vault", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
