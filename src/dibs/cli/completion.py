"""Completions for shells: a table of what may follow which words, in the language of each shell.

The table is made once, when the script is printed, so that a press of the tab key starts no process of ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.catalogue import catalogues

if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Callable

    from dibs.cli.catalogue import Catalogue


def script(shell: str) -> str:
    return "\n".join([f"# {shell} completion, made by 'dibs completion {shell}'", *map(_WRITERS[shell], catalogues())])


def following(catalogue: Catalogue) -> dict[str, dict[str, str]]:
    """What was typed, such as `dibs agent` → what may follow, and what that is for.

    After an option with a list of values come those, under the words with the option behind them.
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
