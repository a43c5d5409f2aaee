"""completion: let the shell finish what one types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.console.streams import emit

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def completion(args: argparse.Namespace) -> int:
    from dibs.cli.completion import script

    text = script(args.shell)
    return emit(args, lambda: {"script": text}, lambda: [text])


def _options(parser: Parser) -> None:
    from dibs.cli.completion import SHELLS

    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


COMMANDS = {"completion": Command(_options, completion)}
