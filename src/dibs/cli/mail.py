"""`dibs mail COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_shared
from dibs.console.commands import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.cli.commands"
COMMANDS = {
    "send": ("mail", "write to agents, or to a role; hand a task over to one"),
    "read": ("mail", "read what has come"),
    "watch": ("mail", "read what comes, as it comes"),
}

_MORE = ("DIBS_AGENT says who you are.",)


def main(words: Sequence[str]) -> int:
    about = "Mail between agents: each letter is read once, whoever crashes."
    return Group("mail", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
