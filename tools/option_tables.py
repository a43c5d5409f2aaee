"""The option tables of the reference, made from the help texts: `python tools/option_tables.py` writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.cli import catalogue as cli
from dibs.cli.command import add_shared
from dibs.console.commands import load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dibs.console.arguments import Parser

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
GROUPS = ("agent", "mail", "worktree")
SHARED = frozenset({"--store", "--scope", "--json", "--help"})
# Options that many commands take, explained once, in the section "Shared by all commands" of cli.md.
COMMON = frozenset(
    [
        "--agent",
        "--run",
        "--token",
        "--force",
        "--can",
        "--category",
        "--spec",
        "--label",
        "--next",
        "--export",
        "--any-scope",
        "--sender",
        "--sender-hash",
        "--limit",
    ]
)
TASK_ID = "the task's id, or the beginning of it"
_TABLE = re.compile(r"^\| ?Option \| Meaning ?\|\n(?:\|.*\n)+", re.MULTILINE)
_HEAD = "|Option | Meaning|\n|---|---|\n"


def parsers() -> Iterator[tuple[str, str, Parser]]:
    """Each page with the heading of a section and the parser of its command."""
    for name in cli.COMMANDS:
        yield "cli.md", name, load(cli.PACKAGE, cli.COMMANDS, name).parser(name, cli.COMMANDS[name][1], add_shared)
    for word in GROUPS:
        group = cli.group(word)
        for name, (_, about) in group.table.items():
            yield f"{word}.md", name, load(group.package, group.table, name).parser(name, about, group.shared)


def table(parser: Parser, heading: str, common: str, first: dict[str, str]) -> str:
    """The table of a command. `first` maps each row to the first section of the page that has it."""
    rows: list[str] = []
    elsewhere: dict[str, list[str]] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if {*action.option_strings} & SHARED:
            continue
        name = f"`{'`, `'.join(action.option_strings) or action.metavar}`"
        row = f"|{_called(action)} | {_meaning(action)}|\n"
        section = first.setdefault(row, heading)
        if _common(action):
            elsewhere.setdefault(f"[Common]({common})", []).append(name)
        elif section != heading:
            elsewhere.setdefault(f"[{section}](#{section})", []).append(name)
        else:
            rows.append(row)
    rows += [f"|{', '.join(names)} | {link}|\n" for link, names in elsewhere.items()]
    return _HEAD + "".join(rows) if rows else ""


def _common(action: argparse.Action) -> bool:
    if not action.option_strings:
        return str(action.help).startswith(TASK_ID)
    return action.option_strings[-1] in COMMON and not _own(action)


def _own(action: argparse.Action) -> bool:
    """Whether this command gives a common option a different meaning."""
    return "--force" in action.option_strings and "without the token" not in str(action.help)


def _called(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar}`"
    choices = "" if action.choices is None else f" {{{','.join(map(str, action.choices))}}}"
    value = (
        "" if action.nargs == 0 else f" {action.metavar}" if action.metavar else choices or f" {action.dest.upper()}"
    )
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    text = action.help or f"the {action.dest}"
    listed = action.choices if action.metavar else None
    choices = f" One of `{'`, `'.join(map(str, listed))}`." if listed else ""
    return f"{text[0].upper()}{text[1:]}.{choices}".replace("|", "\\|")


def written(name: str) -> str:
    """The page as it should be."""
    text = (REFERENCE / name).read_text(encoding="utf-8")
    first: dict[str, str] = {}
    common = f"{'' if name == 'cli.md' else 'cli.md'}#shared-by-all-commands"
    for page, heading, parser in parsers():
        if page == name:
            before, found, rest = text.partition(f"\n## {heading}\n")
            section, more, after = rest.partition("\n## ")
            made = table(parser, heading, common, first)
            text = before + found + _TABLE.sub(lambda _: made, section, count=1) + more + after  # noqa: B023
    return text


def main() -> None:
    for name in ("cli.md", *(f"{group}.md" for group in GROUPS)):
        (REFERENCE / name).write_text(written(name), encoding="utf-8")


if __name__ == "__main__":
    main()
