"""`dibs token COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_shared
from dibs.console.commands import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.cli.commands"
COMMANDS = {
    "create": ("tokens", "make a token for a viewer, a worker, a planner or a sender"),
    "list": ("tokens", "list the tokens made for this store"),
    "revoke": ("tokens", "revoke tokens; every server refuses them within five seconds"),
}

_MORE = ("DIBS_SERVE_SECRET signs the tokens.",)


def main(words: Sequence[str]) -> int:
    about = "Tokens for a server that others can reach."
    return Group("token", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
