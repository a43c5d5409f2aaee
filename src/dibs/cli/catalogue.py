"""Every script that dibs installs, with its commands and what they take: for completions and manual pages."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.cli import main as dibs
from dibs.cli.command import add_shared
from dibs.console.commands import Table, load

if TYPE_CHECKING:
    from dibs.console.arguments import Parser


class Entry(NamedTuple):
    """A command under the words that call it, such as `dibs agent add`."""

    words: tuple[str, ...]
    summary: str
    parser: "Parser"


class Catalogue(NamedTuple):
    """The commands of one script. `leading` are the words that stand before them, and what each is for."""

    script: str
    leading: Mapping[str, str]
    entries: tuple[Entry, ...]


Shared: TypeAlias = "Callable[[Parser], None] | None"


def catalogues() -> tuple[Catalogue, ...]:
    groups = {name: about for name, (_, about) in dibs.GROUPS.items()}
    entries = [*_entries(("dibs",), dibs.PACKAGE, dibs.COMMANDS, add_shared)]
    for name, (module, _) in dibs.GROUPS.items():
        group = import_module(module)
        entries += _entries(("dibs", name), group.PACKAGE, group.COMMANDS, group.add_shared)
    return Catalogue("dibs", groups, tuple(entries)), _protocol("ralph", "task"), _protocol("ntask")


def _protocol(script: str, *leading: str) -> Catalogue:
    main = import_module(f"dibs.protocols.{script}.main")
    entries = tuple(_entries((script, *leading), main.PACKAGE, main.COMMANDS, None))
    return Catalogue(script, dict.fromkeys(leading, "tasks"), entries)


def _entries(before: tuple[str, ...], package: str, table: Table, shared: Shared) -> Iterator[Entry]:
    for name, (_, summary) in table.items():
        words = (*before, name)
        yield Entry(words, summary, load(package, table, name).parser(" ".join(words), summary, shared))
