"""The commands of a console script: a table of them, of which only the one asked for is loaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput

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


_HELP = frozenset({"-h", "--help", "help"})


class Group(NamedTuple):
    """The commands under one word of `dibs`, such as `dibs vault …`. `about` stands above their list, `more` below.

    Errors are for `dibs` to tell.
    """

    name: str
    package: str
    table: Table
    shared: Options
    about: str
    more: tuple[str, ...]

    def run(self, words: Sequence[str]) -> int:
        """Run one command, of which only its own module is loaded; the value is its exit status."""
        if not words or (words[0] in _HELP and len(words) == 1):
            print(self._help())
            return 0 if words else 2
        name, *rest = words
        if name in _HELP:
            name, rest = rest[0], ["--help"]
        if name.startswith("-"):
            raise InvalidInput(f"The command comes first, then its options: 'dibs {self.name} COMMAND …'.")
        if name not in self.table:
            close = nearest(name, self.table)
            raise InvalidInput(
                f"There is no command '{self.name} {name[:40]}'.{close} 'dibs {self.name} --help' lists them."
            )
        command = load(self.package, self.table, name)
        parser = command.parser(f"dibs {self.name} {name}", self.table[name][1], self.shared)
        return command.act(parser.parse_args(rest))

    def _help(self) -> str:
        more = [f"'dibs {self.name} COMMAND --help' tells more. {self.more[0]}", *self.more[1:]]
        return "\n".join([f"usage: dibs {self.name} COMMAND …", "", self.about, "", *listed(self.table), "", *more])


def nearest(name: str, names: Iterable[str]) -> str:
    """What a wrong name may have been meant for, as a sentence to go on with."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    return f" Did you mean '{close[0]}'?" if close else ""
