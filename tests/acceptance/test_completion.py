"""Completions of the tab key in real shells, and a manual page for every command."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import manpages
from dibs.cli.commands.completion import SHELLS, catalogues, script
from support.cli import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli import Cli

# Typed words and their completions.
TYPED = {
    "dibs cla": {"claim"},
    "dibs age": {"agent"},
    "dibs agent re": {"remove"},
    "dibs --json claim --le": {"--lease"},
    "dibs cancel parser --dependents ": {"resolve", "escalate", "cascade"},
    "dibs completion z": {"zsh"},
    "ralph ": {"task"},
    "ralph task plan-": {"plan-sync", "plan-status"},
    "ntask heart": {"heartbeat"},
    "dibs nosuch": set[str](),
}

# Each script prints, per argument, the completions of it on one line.
_BASH = """
source bash.sh
for line; do
    read -ra COMP_WORDS <<<"$line"; [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "_${COMP_WORDS[0]}"; echo "${COMPREPLY[@]}"
done
"""
_FISH = """
source fish.sh
for line in $argv
    echo (complete -C $line | string replace -r '\\t.*' '' | string match -v '*.sh')  # no files
end
"""
# A zsh completes only in a terminal. This one prints the completions, and then empties the line.
_ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source setup.sh'
for line; do
    zpty -w -n shell "$line"$'\\t'
    zpty -r shell said '*<<*>>*'
    print -r -- "${${said##*<<}%%>>*}"
    zpty -w -n shell $'\\x15'
done
"""
_ZSH_SETUP = """
autoload -Uz compinit && compinit -D -u
source zsh.sh
compadd() { local -a found; builtin compadd -O found "$@"; print -r -- "<<$found>>" }
"""
_ASKED = {
    "bash": ["bash", "--norc", "-c", _BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", _ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", _FISH],
}


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_key_offers_the_completions(shell: str, tmp_path: Path) -> None:
    needed(shell)
    (tmp_path / f"{shell}.sh").write_text(script(shell), encoding="utf-8")
    (tmp_path / "setup.sh").write_text(_ZSH_SETUP, encoding="utf-8")
    asked = subprocess.run(
        [*_ASKED[shell], *TYPED], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert asked.stderr == ""
    offered = [set(line.split()) for line in asked.stdout.splitlines()]
    assert dict(zip(TYPED, offered, strict=True)) == TYPED


def needed(program: str) -> None:
    if shutil.which(program) is None:
        missing = f"There is no {program} here. Install it."
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


def test_script_is_printed_for_a_known_shell(cli: Cli) -> None:
    assert cli.ok("completion", "fish") == f"{script('fish')}\n"
    assert "bash" in cli.refuses(2, "INVALID_INPUT", "completion", "cmd").message


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell: str) -> None:
    made = script(shell)
    for catalogue in catalogues():
        for entry in catalogue.entries:
            assert f"'{' '.join(entry.words)}'" in made
            assert all(option in made for action in entry.parser._actions for option in action.option_strings)


def test_every_command_has_a_valid_manual_page() -> None:
    pages = manpages.pages()
    assert {"dibs.1", "ralph.1", "ntask.1", "dibs-claim.1", "dibs-agent-add.1", "ralph-task-claim.1"} <= set(pages)
    for name, text in pages.items():
        assert text.isascii(), name
        lines = text.splitlines()
        assert lines[0].startswith(".TH ")
        known = (".TH ", ".SH ", ".TP", ".B ")
        assert all(line.startswith(known) for line in lines if line.startswith((".", "'"))), name
    for option in ("\\-\\-lease SPAN", "\\-\\-can CAP"):
        assert option in pages["dibs-claim.1"]


def test_manual_pages_have_no_warnings(tmp_path: Path) -> None:
    needed("mandoc")
    manpages.main(str(tmp_path))
    read = ["mandoc", "-T", "lint", "-W", "warning", *sorted(path.name for path in tmp_path.iterdir())]
    found = subprocess.run(read, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    told = (found.stdout + found.stderr).splitlines()
    assert [line for line in told if "missing date" not in line] == [], (
        "a page has the version, not the day it was made"
    )
