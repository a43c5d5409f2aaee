"""`ntask COMMAND …`: load only the command's module, and always answer with one JSON object."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from dibs.console.commands import did_you_mean, listed, load
from dibs.console.streams import leave
from dibs.core.errors import DibsError, InvalidInput
from dibs.protocols.ntask.answers import API_ERROR, Failure, answer_failure, failure_of

if TYPE_CHECKING:
    from collections.abc import Sequence


PACKAGE = "dibs.protocols.ntask.commands"
COMMANDS = {
    "next": ("work", "show the task to claim next, or null"),
    "get": ("work", "show one task"),
    "list": ("work", "list tasks in order of work"),
    "claim": ("work", "claim a task and confirm the lock"),
    "pull": ("work", "claim the next free task, for fleets; null if none is free"),
    "heartbeat": ("work", "renew your lock"),
    "complete": ("work", "finish a task"),
    "block": ("work", "block a task until something outside changes"),
    "review": ("work", "finish a task and ask for a review"),
    "cancel": ("work", "cancel a task"),
    "release": ("work", "release a task unfinished"),
    "unblock": ("work", "make a blocked task READY again"),
    "approve": ("work", "accept a reviewed task: set it to DONE"),
    "rework": ("work", "send a reviewed task back to READY"),
    "create": ("author", "add a task"),
    "update": ("author", "change a task's priority, class or status"),
    "comment": ("author", "add a comment to a task's page"),
    "doctor": ("project", "check the settings, the database and its properties"),
    "prime": ("project", "print instructions for agents, as Markdown"),
    "version": ("project", "print the version"),
}

_HELP = frozenset({"-h", "--help", "help"})
_SECRET_LENGTH = 8  # a shorter word could occur in any message


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except (DibsError, Failure) as error:
        return answer_failure(failure_of(error), _secrets(words))
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse, after printing a help text
        return end.code if isinstance(end.code, int) else 0


def run() -> NoReturn:
    """The console script."""
    leave("ntask", main, API_ERROR)


def _run(words: list[str]) -> int:
    if not words:
        raise InvalidInput("Which command? 'ntask --help' lists them.")
    if words[0] == "--version":
        words = ["version"]
    if words[0] in _HELP:
        words = [words[1], "--help"] if words[1:] else []
    if not words:
        print(_help())
        return 0
    name, *rest = words
    if name not in COMMANDS:
        raise InvalidInput(
            f"There is no command '{name[:40]}'.{did_you_mean(name, COMMANDS)} 'ntask --help' lists them."
        )
    command = load(PACKAGE, COMMANDS, name)
    return command.act(command.parser(f"ntask {name}", COMMANDS[name][1]).parse_args(rest))


def _secrets(words: list[str]) -> tuple[str, ...]:
    """Return the texts that no message may repeat: Notion's token, and every lock token given."""
    given = [word.partition("=")[2] if "=" in word else after for word, after in pairwise([*words, ""]) if _lock(word)]
    known = [*given, os.environ.get("NOTION_TOKEN") or ""]
    return tuple(secret for secret in known if len(secret) >= _SECRET_LENGTH)


def _lock(word: str) -> bool:
    return word.startswith(("--lock", "--token"))


def _help() -> str:
    return "\n".join(
        (
            "usage: ntask COMMAND …",
            "",
            "Tasks in a Notion database. Agents claim them one at a time, in one order, under a lock.",
            "",
            *listed(COMMANDS),
            "",
            "'ntask COMMAND --help' shows the options. Every answer is one JSON object. Exit status: 0 success,",
            "2 CONFLICT, 3 MISCONFIGURED, CLI_MISSING or INCOMPLETE_SUBTASKS, 4 LOST_LOCK, 5 API_ERROR.",
            "NOTION_TASKS_DB_ID is the database's id, NOTION_TOKEN the integration's secret.",
            "NTASK_STORE selects another store, such as sqlite:///tasks.db. 'ntask doctor' checks the setup.",
        )
    )
