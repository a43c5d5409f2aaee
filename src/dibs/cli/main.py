"""`dibs COMMAND …`: find the command, load only its module, turn errors into messages and exit statuses."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from dibs.cli.catalogue import COMMANDS, GROUPS, PACKAGE, group
from dibs.console.commands import load
from dibs.console.streams import leave
from dibs.core.errors import AmbiguousId, DibsError, InvalidInput, NotFound, StoreError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from dibs.console.commands import Command

_NOT_HERE = (
    "dibs runs on Linux and macOS, and on Windows inside WSL: its locks and signals are those of POSIX. "
    "In WSL ('wsl --install'), install it and keep the project in WSL's own file system."
)

_TAKES_VALUE = frozenset({"--store", "--scope"})
_GLOBAL = _TAKES_VALUE | {"--json"}
_VERSION = frozenset({"--version", "-V", "-v"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the value is its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except DibsError as error:
        from dibs.cli.command import print_error

        ours = words[: words.index("--")] if "--" in words else words
        return print_error(error, as_json="--json" in ours, for_shell="--export" in ours)
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse, after it has printed a help text
        return end.code if isinstance(end.code, int) else 0


def run() -> NoReturn:
    """The console script."""
    if os.name == "nt":
        sys.stderr.write(f"dibs: {_NOT_HERE}\n")
        sys.exit(StoreError.exit_status)
    leave("dibs", main, StoreError.exit_status)


def _run(words: list[str]) -> int:
    before, name, rest = _split(words)
    if name == "help":
        return _explain(rest)
    if name is None:
        return _without_command(before)
    if unknown := _unknown(before):
        raise InvalidInput(f"{unknown} The options of a command come after it. See 'dibs --help'.")
    if name in GROUPS:
        return _run_group(name, before, rest)
    if name not in COMMANDS:
        return _reworded(before, [name, *rest], None)
    try:
        command, args = _parsed(before, name, rest)
    except InvalidInput as error:
        return _reworded(before, [name, *rest], error)
    try:
        return command.act(args)
    except AmbiguousId:
        raise
    except (InvalidInput, NotFound) as error:  # neither has changed anything
        return _reworded(before, [name, *rest], error, name)


def _run_group(name: str, before: list[str], rest: list[str]) -> int:
    found = group(name)
    try:
        return found.run([*rest[:1], *before, *rest[1:]])
    except InvalidInput:
        from dibs.cli import reading
        from dibs.cli.typed import has_strange_option, spelled

        meant = reading.read_group(found, rest)
        if meant is None or has_strange_option(rest):
            raise
        if not meant.runs:
            raise InvalidInput(f"{meant.why}. Type: {spelled(meant.words)}") from None
    _, *rest = meant.words
    return found.run([*rest[:1], *before, *rest[1:]])


def _parsed(before: list[str], name: str, rest: list[str]) -> tuple[Command, Namespace]:
    from dibs.cli.command import add_shared

    command = load(PACKAGE, COMMANDS, name)
    return command, command.parser(f"dibs {name}", COMMANDS[name][1], add_shared).parse_args([*before, *rest])


_LOOKS = frozenset({"list", "search", "show", "log", "config"})


def _reworded(before: list[str], line: list[str], error: DibsError | None, acted: str | None = None) -> int:
    """Run what a command line that does not fit means, or say what to type instead.

    A command that `acted` and refused its values knows better, unless another command was meant.
    """
    from dibs.cli import reading
    from dibs.cli.command import warn
    from dibs.cli.typed import has_strange_option, spelled

    meant = reading.read(line)
    if error is not None and has_strange_option(line):
        raise error
    if meant is None or (acted not in {None, *_LOOKS} and isinstance(error, InvalidInput) and meant.words[0] == acted):
        raise error or InvalidInput(reading.unknown(line))
    if not meant.runs:
        why = meant.why or (
            str(error).partition(" See '")[0].rstrip(".")
            if line[0] in COMMANDS
            else f"There is no command '{line[0][:40]}'"
        )
        raise InvalidInput(f"{why}. Type: {spelled(meant.words)}")
    name, *rest = meant.words
    if name in COMMANDS:
        try:
            command, args = _parsed(before, name, rest)
        except InvalidInput as other:
            raise error or other from None
    if sys.stderr.isatty():
        warn(f"reads as '{spelled(meant.words)}'")
    return command.act(args) if name in COMMANDS else _run([*before, *meant.words])


def _split(words: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Global options may precede the command or follow it."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _TAKES_VALUE else 1
    if position >= len(words):
        return words, None, []
    return words[:position], words[position], words[position + 1 :]


def _explain(words: list[str]) -> int:
    """`dibs help`, about everything, a topic or a command."""
    from dibs.cli import catalogue

    meant = catalogue.explain([word for word in words if not word.startswith("-")])
    if not isinstance(meant, str):
        return _run(meant)
    print(meant)
    return 0


def _without_command(options: list[str]) -> int:
    if _VERSION & {*options}:
        return _run(["version", *(option for option in options if option not in _VERSION)])
    if not options or {"-h", "--help"} & set(options):
        _explain([])
        return 0 if options else 2
    if options[-1] in _TAKES_VALUE:
        raise InvalidInput(f"{options[-1]} needs a value after it.")
    if unknown := _unknown(options):
        raise InvalidInput(f"{unknown} 'dibs --help' lists the options.")
    raise InvalidInput("Which command? 'dibs --help' lists them.")


def _unknown(options: list[str]) -> str | None:
    """What to say of the first word before the command that is no global option."""
    for option in options:
        if option.startswith("-") and option.partition("=")[0] not in _GLOBAL | {"-h", "--help", "--version"}:
            from dibs.console.arguments import unknown_option

            return unknown_option(option, _GLOBAL)
    return None
