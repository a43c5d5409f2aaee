"""`dibs agent COMMAND …`: the members of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_shared
from dibs.console.commands import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.cli.commands"
COMMANDS = {
    "add": ("agents", "make an agent a member of the fleet, or change what it is"),
    "list": ("agents", "who belongs to the fleet, who is there, and how busy everybody is"),
    "show": ("agents", "one member, and what it has"),
    "remove": ("agents", "let a member go; what it was given goes to others"),
}

_MORE = ("'dibs dispatch' gives them work, 'dibs work --agent NAME --assigned' does it.",)


def main(words: Sequence[str]) -> int:
    about = "Members of the fleet: agents with a role, capabilities, and a limit of tasks at a time."
    return Group("agent", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
