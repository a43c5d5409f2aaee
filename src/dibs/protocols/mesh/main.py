"""`dibs mesh COMMAND …`: find the command and load only its module. Errors are for `dibs` to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import listed, load, nearest
from dibs.core.errors import InvalidInput
from dibs.protocols.mesh.command import add_shared

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

_HELP = frozenset({"-h", "--help", "help"})


def main(words: Sequence[str]) -> int:
    """Run one command; the value is its exit status."""
    if not words or (words[0] in _HELP and len(words) == 1):
        print(_help())
        return 0 if words else 2
    name, *rest = words
    if name in _HELP:
        name, rest = rest[0], ["--help"]
    if name not in COMMANDS:
        raise InvalidInput(
            f"There is no command 'mesh {name[:40]}'.{nearest(name, COMMANDS)} 'dibs mesh --help' lists them."
        )
    command = load(PACKAGE, COMMANDS, name)
    return command.act(command.parser(f"dibs mesh {name}", COMMANDS[name][1], add_shared).parse_args(rest))


def _help() -> str:
    return "\n".join(
        (
            "usage: dibs mesh COMMAND …",
            "",
            "The Task Claim Protocol: agents on one queue that never do the same work twice.",
            "",
            *listed(COMMANDS),
            "",
            "'dibs mesh COMMAND --help' tells more. MESH_AGENT says who you are, MESH_NONCE which claim is yours.",
            "MESH_TASKS_DB_ID, MESH_TASK_LOG_DB_ID and MESH_COMM_LOG_DB_ID are the Notion databases, NOTION_TOKEN",
            "is the key to them; MESH_STORE names another store instead, such as sqlite:///mesh.db.",
        )
    )
