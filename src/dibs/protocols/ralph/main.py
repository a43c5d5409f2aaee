"""`ralph task COMMAND …`: find the command, load only its module, turn errors into messages and exit statuses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dibs.console.commands import did_you_mean, listed, load
from dibs.console.streams import complain, leave
from dibs.core.errors import DibsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.protocols.ralph.commands"
COMMANDS = {
    "plan-sync": ("author", "apply a plan: JSON lines on stdin"),
    "plan-status": ("author", "count tasks by status"),
    "peek": ("look", "show claimable and held tasks"),
    "claim": ("work", "claim the next task, or the one you name"),
    "renew": ("work", "renew the lease of a task"),
    "done": ("work", "finish a task"),
    "fail": ("work", "report a failed attempt: the task is open again"),
    "list": ("look", "the tasks there are"),
    "show": ("look", "show one task with all its fields"),
    "create": ("author", "add a task"),
    "update": ("author", "change the fields of a task"),
    "delete": ("author", "delete a task"),
    "deps": ("look", "the prerequisites of a task"),
    "block": ("author", "make a task wait for another"),
    "unblock": ("author", "take that back"),
    "agent": ("work", "register, list or deregister agents"),
}

_FAILED = 1
_HELP = frozenset({"-h", "--help", "help"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the value is its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except DibsError as error:
        from dibs.protocols.ralph.settings import RALPH

        complain("ralph", error.message)
        return RALPH.exit_status(error)
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse, after it has printed a help text
        return end.code if isinstance(end.code, int) else 0


def run() -> NoReturn:
    """The console script."""
    leave("ralph", main, _FAILED)


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        from dibs import __version__

        print(f"ralph (dibs {__version__})")
        return 0
    if words[:1] == ["task"]:
        words = words[1:]
    elif words and words[0] not in _HELP:
        raise InvalidInput(
            f"There is no 'ralph {words[0][:40]}'. Commands begin with 'ralph task'. See 'ralph --help'."
        )
    if not words or words[0] in _HELP:
        print(_help())
        return 0 if words else _FAILED
    name, *rest = words
    if name not in COMMANDS:
        raise InvalidInput(
            f"There is no command '{name[:40]}'.{did_you_mean(name, COMMANDS)} 'ralph --help' lists them."
        )
    command = load(PACKAGE, COMMANDS, name)
    return command.act(command.parser(f"ralph task {name}", COMMANDS[name][1]).parse_args(rest))


def _help() -> str:
    return "\n".join(
        (
            "usage: ralph task COMMAND …",
            "",
            "Lease-based tasks for agents on many hosts, in the order of a plan.",
            "",
            *listed(COMMANDS),
            "",
            "'ralph task COMMAND --help' shows its options. Exit status: 0 fine, 1 error, 2 not found or not eligible.",
            "RALPH_DB_URL is the store, RALPH_AGENT_ID your name,",
            "RALPH_SCOPE_REPO and RALPH_SCOPE_BRANCH select the scope.",
        )
    )
