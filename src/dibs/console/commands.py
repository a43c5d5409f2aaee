"""The commands of a console script: a table of them, of which only the one asked for is loaded."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from argparse import Namespace

    from dibs.console.arguments import Parser

# name → the module that has it in its COMMANDS, and what it does
Table: TypeAlias = Mapping[str, tuple[str, str]]
Options: TypeAlias = "Callable[[Parser], None]"


class Command(NamedTuple):
    """`options` adds what the command takes to its parser; `act` carries it out and returns the exit status."""

    options: Options
    act: "Callable[[Namespace], int]"

    def parser(self, name: str, summary: str, shared: "Options | None" = None) -> "Parser":
        """What the command takes, then what it shares with all others of its script."""
        from dibs.console.arguments import Parser  # not for a help text of the whole script

        parser = Parser(name, summary[0].upper() + summary[1:] + ".")
        self.options(parser)
        if shared is not None:
            shared(parser)
        return parser


def load(package: str, table: Table, name: str) -> Command:
    from importlib import import_module

    command: Command = import_module(f"{package}.{table[name][0]}").COMMANDS[name]
    return command


def listed(table: Table) -> list[str]:
    """A line for each, for a help text."""
    width = max(map(len, table))
    return [f"  {name:<{width}}  {summary}" for name, (_, summary) in table.items()]


def nearest(name: str, names: Iterable[str]) -> str:
    """What a wrong name may have been meant for, as a sentence to go on with."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
