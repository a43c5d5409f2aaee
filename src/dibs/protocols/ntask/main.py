"""`ntask COMMAND …`: find the command, load only its module, answer with one JSON object whatever happens."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from dibs.console.commands import listed, load, nearest
from dibs.console.streams import leave
from dibs.core.errors import DibsError, InvalidInput
from dibs.protocols.ntask.answers import Failure, answer_failure, failure_of
from dibs.protocols.ntask.policy import API_ERROR

if TYPE_CHECKING:
    from collections.abc import Sequence


PACKAGE = "dibs.protocols.ntask.commands"
COMMANDS = {
    "next": ("look", "the one task to claim next, or null"),
    "get": ("look", "one task"),
    "list": ("look", "the tasks there are, in the order of work"),
    "claim": ("work", "take a task under a lock, and check that it is yours"),
    "pull": ("work", "next and claim in one, for a fleet: a task with its lock, or null"),
    "heartbeat": ("work", "keep your lock for another lease"),
    "complete": ("work", "finish a task"),
    "block": ("work", "set a task aside until something outside changes"),
    "review": ("work", "hand a task over for review"),
    "cancel": ("work", "call a task off"),
    "release": ("work", "give a task back unfinished"),
    "unblock": ("work", "put a blocked task up for work again"),
    "approve": ("work", "accept a reviewed task: it is DONE"),
    "rework": ("work", "send a reviewed task back to READY"),
    "create": ("author", "add a task"),
    "update": ("author", "change a task's priority, class or status"),
    "comment": ("author", "say something on a task's page"),
    "doctor": ("project", "check the settings, the database and its properties"),
    "prime": ("project", "what to tell an agent about all this, as Markdown"),
    "version": ("project", "which ntask this is"),
}

_HELP = frozenset({"-h", "--help", "help"})
_SECRET_LENGTH = 8  # below that it is no token, and would be found in ordinary words


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the value is its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except (DibsError, Failure) as error:
        return answer_failure(failure_of(error), _secrets(words))
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse, after it has printed a help text
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
        raise InvalidInput(f"There is no command '{name[:40]}'.{nearest(name, COMMANDS)} 'ntask --help' lists them.")
    command = load(PACKAGE, COMMANDS, name)
    return command.act(command.parser(f"ntask {name}", COMMANDS[name][1]).parse_args(rest))


def _secrets(words: list[str]) -> tuple[str, ...]:
    """What no message may repeat: the key to Notion, and every lock token that was given."""
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
            "Tasks in a Notion database, pulled by agents one at a time, in one order, each under a lock.",
            "",
            *listed(COMMANDS),
            "",
            "'ntask COMMAND --help' tells more. Every answer is one JSON object. Exit statuses: 0 fine, 2 CONFLICT,",
            "3 MISCONFIGURED, CLI_MISSING or INCOMPLETE_SUBTASKS, 4 LOST_LOCK, 5 API_ERROR.",
            "NOTION_TASKS_DB_ID says which database, NOTION_TOKEN is the key to it; NTASK_STORE names another store",
            "instead, such as sqlite:///tasks.db. 'ntask doctor' checks it all.",
        )
    )
