"""completion: let the shell finish what you type. The catalogue of every script, and a writer for each shell."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.cli import catalogue as dibs
from dibs.cli.command import add_shared
from dibs.console.commands import Command, Table, load
from dibs.console.streams import emit
from dibs.core.messages import command

if TYPE_CHECKING:
    import argparse
    from argparse import Action
    from collections.abc import Callable, Iterator, Mapping

    from dibs.console.arguments import Parser


class Entry(NamedTuple):
    """A command under the words that call it, such as `dibs agent add`."""

    words: tuple[str, ...]
    summary: str
    parser: Parser


class Catalogue(NamedTuple):
    """The commands of one script; `leading` are the words in front of them, with their summaries."""

    script: str
    leading: Mapping[str, str]
    entries: tuple[Entry, ...]


Shared: TypeAlias = "Callable[[Parser], None] | None"


def catalogues() -> tuple[Catalogue, ...]:
    groups = {name: about for name, (_, about) in dibs.GROUPS.items()}
    entries = [*_entries(("dibs",), dibs.PACKAGE, dibs.COMMANDS, add_shared)]
    for name in dibs.GROUPS:
        group = dibs.group(name)
        entries += _entries(("dibs", name), group.package, group.table, group.shared)
    return Catalogue("dibs", groups, tuple(entries)), _protocol("ralph", "task"), _protocol("ntask")


def _protocol(script: str, *leading: str) -> Catalogue:
    main = import_module(f"dibs.protocols.{script}.main")
    entries = tuple(_entries((script, *leading), main.PACKAGE, main.COMMANDS, None))
    return Catalogue(script, dict.fromkeys(leading, "tasks"), entries)


def _entries(before: tuple[str, ...], package: str, table: Table, shared: Shared) -> Iterator[Entry]:
    for name, (_, summary) in table.items():
        words = (*before, name)
        yield Entry(words, summary, load(package, table, name).parser(" ".join(words), summary, shared))


def script(shell: str) -> str:
    head = f"# {shell} completion, made by '{command('dibs', 'completion', shell)}'"
    return "\n".join([head, *map(_WRITERS[shell], catalogues())])


def following(catalogue: Catalogue) -> dict[str, dict[str, str]]:
    """Map typed words, such as `dibs agent`, to the possible next words and their summaries.

    The values of an option are listed under the words that end with the option.
    """
    table: dict[str, dict[str, str]] = {catalogue.script: dict(catalogue.leading)}
    for words, summary, parser in catalogue.entries:
        table.setdefault(" ".join(words[:-1]), {})[words[-1]] = summary
        here = table.setdefault(" ".join(words), {})
        for action in parser._actions:  # noqa: SLF001 - argparse has no other way to ask
            here |= dict.fromkeys(action.option_strings or _values(action), _line(action))
            table |= {f"{' '.join(words)} {option}": dict.fromkeys(_values(action), "") for option in _open(action)}
    return table


def _values(action: Action) -> list[str]:
    return [str(choice) for choice in action.choices or ()]


def _open(action: Action) -> list[str]:
    """The options behind which one of a list is to come."""
    return list(action.option_strings) if action.choices else []


def _line(action: Action) -> str:
    return " ".join((action.help or "").split())


def _bash(catalogue: Catalogue) -> str:
    name = catalogue.script
    rows = [f"    [{_quoted(words)}]={_quoted(' '.join(then))}" for words, then in following(catalogue).items()]
    return f"""
declare -gA _{name}_follow=(
{_lines(rows)}
)
_{name}() {{
    local at={name} word current=${{COMP_WORDS[COMP_CWORD]}} last=${{COMP_WORDS[COMP_CWORD-1]}}
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        [[ -n ${{_{name}_follow[$at $word]+there}} && $word != -* ]] && at="$at $word"
    done
    [[ -n ${{_{name}_follow[$at $last]+there}} ]] && at="$at $last"
    COMPREPLY=($(compgen -W "${{_{name}_follow[$at]}}" -- "$current"))
}}
complete -o default -F _{name} {name}"""


def _zsh(catalogue: Catalogue) -> str:
    name = catalogue.script
    rows = [f"    {_quoted(words)} {_quoted(' '.join(then))}" for words, then in following(catalogue).items()]
    return f"""
typeset -gA _{name}_follow=(
{_lines(rows)}
)
_{name}() {{
    local at={name} word last=$words[CURRENT-1]
    for word in ${{words[2,CURRENT-1]}}; do
        [[ -n ${{_{name}_follow[$at $word]+there}} && $word != -* ]] && at="$at $word"
    done
    [[ -n ${{_{name}_follow[$at $last]+there}} ]] && at="$at $last"
    compadd -- ${{=_{name}_follow[$at]}} || _files
}}
compdef _{name} {name}"""


def _fish(catalogue: Catalogue) -> str:
    name = catalogue.script
    cases = []
    for words, then in following(catalogue).items():
        told = [_quoted(f"{word}\t{about}".strip()) for word, about in then.items()]
        cases.append(f"        case {_quoted(words)}\n            printf '%s\\n' {' '.join(told)}")
    return f"""
function __{name}_follow
    switch "$argv"
{_lines(cases)}
        case '*'
            return 1
    end
end
function __{name}_complete
    set -l at {name}
    set -l typed (commandline -opc)
    for word in $typed[2..]
        if not string match -q -- '-*' $word; and __{name}_follow $at $word >/dev/null
            set at $at $word
        end
    end
    if __{name}_follow $at $typed[-1] >/dev/null
        set at $at $typed[-1]
    end
    __{name}_follow $at
end
complete -c {name} -a '(__{name}_complete)'"""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


def _lines(rows: list[str]) -> str:
    return "\n".join(rows)


_WRITERS: dict[str, Callable[[Catalogue], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
SHELLS = tuple(_WRITERS)


def completion(args: argparse.Namespace) -> int:

    text = script(args.shell)
    return emit(args, lambda: {"script": text}, lambda: [text])


def _completion_options(parser: Parser) -> None:

    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


COMMANDS = {"completion": Command(_completion_options, completion)}
