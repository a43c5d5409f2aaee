"""`dibs notion COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_shared
from dibs.console.commands import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.cli.commands"
COMMANDS = {"check": ("lab", "check at a real Notion what timed claims rest on")}

_MORE = ("--store notion://ID names the database, NOTION_TOKEN is the key to it.",)


def main(words: Sequence[str]) -> int:
    about = "Tests at your own Notion workspace."
    return Group("notion", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
