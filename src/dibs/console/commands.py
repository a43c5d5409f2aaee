"""The commands of a console script: a table of them, of which only the one asked for is loaded."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    from argparse import Namespace

    from dibs.console.arguments import Parser

# name → the module with its Command, and a summary
Table: TypeAlias = Mapping[str, tuple[str, str]]
Options: TypeAlias = "Callable[[Parser], None]"


class Command(NamedTuple):
    """`options` adds arguments to the command's parser; `act` runs it and returns the exit status."""

    options: Options
    act: "Callable[[Namespace], int]"

    def parser(self, name: str, summary: str, shared: "Options | None" = None) -> "Parser":
        """The command's arguments, then those that all commands of its script share."""
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


def listed(table: Table, width: int = 0) -> list[str]:
    """A line for each, for a help text."""
    width = width or max(map(len, table))
    return [f"  {name:<{width}}  {summary}" for name, (_, summary) in table.items()]


_HELP = frozenset({"-h", "--help", "help"})


class Group(NamedTuple):
    """The commands under one word of `dibs`, such as `dibs vault …`; `about` precedes their list, `more` follows it."""

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
            close = did_you_mean(name, self.table)
            raise InvalidInput(
                f"There is no command '{self.name} {name[:40]}'.{close} 'dibs {self.name} --help' lists them."
            )
        return load(self.package, self.table, name).act(self.parser(name).parse_args(rest))

    def parser(self, name: str) -> "Parser":
        command = load(self.package, self.table, name)
        return command.parser(f"dibs {self.name} {name}", self.table[name][1], self.shared)

    def _help(self) -> str:
        more = [f"'dibs {self.name} COMMAND --help' shows its options. {self.more[0]}", *self.more[1:]]
        return "\n".join([f"usage: dibs {self.name} COMMAND …", "", self.about, "", *listed(self.table), "", *more])


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant: one or two typing errors away, and with the same beginning."""
    word = name.lstrip("-")
    allowed = 0 if len(word) < _SHORT else 1 if len(word) < _LONG else 2
    found = [
        (wrong, other)
        for other in names
        if other.lstrip("-")[:1] == word[:1] and (wrong := _typing_errors(word, other.lstrip("-"), allowed)) <= allowed
    ]
    if len(word) == _SHORT - 1:  # one letter of a short word left out
        found += [(1, other) for other in names if any(other[:at] + other[at + 1 :] == word for at in range(1, _SHORT))]
    return min(found, key=lambda each: (each[0], abs(len(each[1]) - len(name))))[1] if found else None


_SHORT, _LONG = 4, 8


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A sentence to go on with, if there is such a name."""
    close = nearest(name, names)
    return f" Did you mean '{close}'?" if close else ""


def _typing_errors(one: str, other: str, most: int) -> int:
    """How many letters are missing, added, wrong or swapped with their neighbour; more than `most` is not counted."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        now = [row]
        for column, wanted in enumerate(other, start=1):
            cost = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 < column and letter == other[column - 2] and one[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
        before, last = last, now
    return last[-1]
