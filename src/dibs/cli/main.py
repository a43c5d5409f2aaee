"""`dibs COMMAND …`: find the command, load only its module, turn errors into messages and exit statuses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from dibs.console.commands import listed, load, nearest
from dibs.console.streams import leave
from dibs.core.errors import DibsError, InvalidInput, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.cli.commands"
COMMANDS = {
    "init": ("project", "make this folder a dibs project"),
    "setup": ("boarding", "tell Claude Code, Codex, Cursor, … about the desk, or take that back"),
    "prime": ("boarding", "what an agent has to know to work here, and how things stand"),
    "add": ("author", "add a task"),
    "edit": ("author", "change what a task says"),
    "comment": ("author", "leave a remark on a task"),
    "plan": ("planning", "bring the tasks in line with a plan file, or show the plan there is"),
    "say": ("chatting", "say what is to be done, or how, in plain words"),
    "flush": ("chatting", "read what has been said, make tasks of it, and tell what came of them"),
    "inbox": ("hearing", "what there is to hear for one who has said something"),
    "config": ("configuring", "how chat treats senders: look at it, or change it, for all of them or for one"),
    "analyze": ("analyzing", "tell what tasks and links would come of messages, and write nothing"),
    "sync": ("syncing", "keep a sender's tasks in step with a Notion database"),
    "show": ("look", "one task with its links and history"),
    "list": ("look", "the tasks there are"),
    "ready": ("look", "what can be claimed now, in order"),
    "next": ("look", "the one task that would be claimed next"),
    "stale": ("look", "what has been left lying: expired leases, overdue checks, forgotten holds"),
    "log": ("look", "what happened"),
    "top": ("watching", "who is at work on what, what is next, what waits for people: live in the terminal"),
    "scores": ("scoring", "what each agent has finished, failed and lost"),
    "stats": ("look", "how many tasks there are of each kind"),
    "claim": ("hold", "take the next task, or the one you name"),
    "renew": ("hold", "keep a task for another lease"),
    "release": ("hold", "give a task back unfinished"),
    "done": ("finish", "finish a task, and with --next go on to the following one"),
    "fail": ("finish", "report that an attempt failed"),
    "block": ("finish", "set a task aside until something outside changes"),
    "review": ("finish", "hand a task over for review"),
    "cancel": ("finish", "call a task off"),
    "dispatch": ("dispatching", "give tasks to the members of the fleet that they are for"),
    "work": ("working", "run a command on each task, and see it to its end"),
    "mcp": ("mcp", "serve the desk as tools for a model, on stdin and stdout"),
    "unblock": ("steer", "put a blocked or escalated task up for work again"),
    "approve": ("steer", "accept a reviewed task: it is done"),
    "rework": ("steer", "send a reviewed task back"),
    "pause": ("steer", "put a task on hold"),
    "resume": ("steer", "take a task off hold"),
    "link": ("linking", "say what a task depends on"),
    "unlink": ("linking", "take a dependency back"),
    "graph": ("linking", "draw the tasks and their links"),
    "export": ("transfer", "write the whole store out as JSON lines"),
    "import": ("transfer", "read an export into this store"),
    "prune": ("transfer", "drop old events and long finished tasks"),
    "doctor": ("project", "check the store, and repair it if told to"),
    "completion": ("completing", "let your shell finish what you type"),
    "version": ("project", "which dibs this is"),
    "serve": ("serving", "a board in the browser, and the desk over HTTP"),
    "demo": ("demo", "a small fleet at work on a story, with the board open to look at"),
    "token": ("serving", "who may ask a server that others can reach"),
    "torture": ("torture", "race, kill and starve workers at a place of its own beside the store, and judge"),
    "notion-emulator": ("emulator", "a Notion on this machine to try things with, no account needed"),
}

# name → the module whose commands come under it, and what they are for
GROUPS = {
    "agent": ("dibs.cli.agents", "members of the fleet, their roles and limits"),
    "mail": ("dibs.cli.mail", "letters between agents"),
    "vault": ("dibs.protocols.vault.main", "agents and people in one folder of Markdown files"),
    "mesh": ("dibs.protocols.mesh.main", "the Task Claim Protocol: agents on one shared queue"),
    "kurultai": ("dibs.protocols.kurultai.main", "six agents on a graph of tasks, for many senders"),
}

_TAKES_VALUE = frozenset({"--store", "--scope"})
_GLOBAL = _TAKES_VALUE | {"--json"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the value is its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except DibsError as error:
        from dibs.cli.output import print_error

        ours = words[: words.index("--")] if "--" in words else words
        return print_error(error, as_json="--json" in ours, for_shell="--export" in ours)
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:  # argparse, after it has printed a help text
        return end.code if isinstance(end.code, int) else 0


def run() -> NoReturn:
    """The console script."""
    leave("dibs", main, StoreError.exit_status)


def _run(words: list[str]) -> int:
    before, name, rest = _split(words)
    if name == "help":
        name, rest = (rest[0], ["--help"]) if rest else (None, [])
        before = before if name else ["--help"]
    if name is None:
        return _without_command(before)
    if name in GROUPS:
        return _run_group(name, before, rest)
    if name not in COMMANDS:
        raise InvalidInput(
            f"There is no command '{name[:40]}'.{nearest(name, [*COMMANDS, *GROUPS])} 'dibs --help' lists them."
        )
    from dibs.cli.command import add_shared

    command = load(PACKAGE, COMMANDS, name)
    parser = command.parser(f"dibs {name}", COMMANDS[name][1], add_shared)
    return command.act(parser.parse_args([*before, *rest]))


def _run_group(name: str, before: list[str], rest: list[str]) -> int:
    from importlib import import_module

    status: int = import_module(GROUPS[name][0]).main([*rest[:1], *before, *rest[1:]])
    return status


def _split(words: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Global options may stand before the command as well as after it."""
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 2 if words[position] in _TAKES_VALUE else 1
    if position >= len(words):
        return words, None, []
    return words[:position], words[position], words[position + 1 :]


def _without_command(options: list[str]) -> int:
    if "--version" in options:
        return _run(["version", *(option for option in options if option != "--version")])
    if not options or {"-h", "--help"} & set(options):
        print(_help())
        return 0 if options else 2
    if options[-1] in _TAKES_VALUE:
        raise InvalidInput(f"{options[-1]} needs a value after it.")
    unknown = [option for option in options if option.startswith("-") and option.partition("=")[0] not in _GLOBAL]
    if unknown:
        raise InvalidInput(f"There is no option '{unknown[0][:40]}'. 'dibs --help' tells what there is.")
    raise InvalidInput("Which command? 'dibs --help' lists them.")


def _help() -> str:
    return "\n".join(
        (
            "usage: dibs [--store URL] [--scope NAME] [--json] COMMAND …",
            "",
            "The desk where agents pick up work: one task, one holder, in the right order.",
            "",
            *listed(COMMANDS | GROUPS),
            "",
            "'dibs COMMAND --help' tells more. Exit statuses: 0 fine, 2 wrong input, 3 not found, 4 not now,",
            "5 lease lost, 6 would break the graph, 7 store trouble.",
        )
    )
