"""What the tab key offers, in a real bash; and that the manual has a page for all of it."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import manpages
from dibs.cli.catalogue import catalogues
from dibs.cli.completion import SHELLS, script

if TYPE_CHECKING:
    from .driver import Cli

_PRESS = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_$1"; printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(*typed: str) -> set[str]:
    program = script("bash") + _PRESS
    pressed = subprocess.run(
        ["bash", "-c", program, "-", *typed], capture_output=True, text=True, check=True, timeout=30
    )
    return {*pressed.stdout.split()}


@pytest.mark.parametrize(
    ("typed", "offers"),
    [
        (["dibs", "cla"], {"claim"}),
        (["dibs", "age"], {"agent"}),
        (["dibs", "agent", "re"], {"remove"}),
        (["dibs", "--json", "claim", "--le"], {"--lease"}),
        (["dibs", "cancel", "parser", "--dependents", ""], {"resolve", "escalate", "cascade"}),
        (["dibs", "completion", "z"], {"zsh"}),
        (["ralph", ""], {"task"}),
        (["ralph", "task", "plan-"], {"plan-sync", "plan-status"}),
        (["ntask", "heart"], {"heartbeat"}),
        (["dibs", "nosuch"], set()),
    ],
)
def test_the_tab_key_offers(typed: list[str], offers: set[str]) -> None:
    assert offered(*typed) == offers


def test_the_script_is_printed_for_a_shell_that_is_known(cli: Cli) -> None:
    assert cli.ok("completion", "fish") == f"{script('fish')}\n"
    assert "bash" in cli.refuses(2, "INVALID_INPUT", "completion", "cmd").message


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_option_is_in_the_script(shell: str) -> None:
    made = script(shell)
    for catalogue in catalogues():
        for entry in catalogue.entries:
            assert f"'{' '.join(entry.words)}'" in made
            assert all(option in made for action in entry.parser._actions for option in action.option_strings)
    there = shutil.which(shell)
    if there:
        subprocess.run([there, "-n"], input=made, text=True, check=True, timeout=30)


def test_every_command_has_a_page_of_the_manual_that_roff_can_read() -> None:
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
