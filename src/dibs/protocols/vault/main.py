"""`dibs vault COMMAND …`: find the command and load only its module. Errors are for `dibs` to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import listed, load, nearest
from dibs.core.errors import InvalidInput
from dibs.protocols.vault.command import add_shared

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
    "health": ("project", "how an agent is doing"),
    "status": ("project", "what lies where, who is at work, what waits for approval"),
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
            f"There is no command 'vault {name[:40]}'.{nearest(name, COMMANDS)} 'dibs vault --help' lists them."
        )
    command = load(PACKAGE, COMMANDS, name)
    return command.act(command.parser(f"dibs vault {name}", COMMANDS[name][1], add_shared).parse_args(rest))


def _help() -> str:
    return "\n".join(
        (
            "usage: dibs vault COMMAND …",
            "",
            "A folder of Markdown files that agents and people share: whoever moves a file to In_Progress has it.",
            "",
            *listed(COMMANDS),
            "",
            "'dibs vault COMMAND --help' tells more. VAULT_PATH says where the vault is, AGENT_NAME who you are,",
            "AGENT_ROLE whether you prepare (CLOUD) or also act (LOCAL). All other commands of dibs work there too,",
            "with DIBS_STORE=vault:///FOLDER.",
        )
    )
