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
    "init": ("stores", "make this folder a dibs project"),
    "setup": ("setup", "tell Claude Code, Codex, Cursor, … about the desk, or take that back"),
    "prime": ("setup", "what an agent has to know to work here, and how things stand"),
    "add": ("tasks", "add a task"),
    "edit": ("tasks", "change what a task says"),
    "comment": ("tasks", "leave a remark on a task"),
    "plan": ("plans", "bring the tasks in line with a plan file, or show the plan there is"),
    "say": ("chat", "say what is to be done, or how, in plain words"),
    "flush": ("chat", "read what has been said, make tasks of it, and tell what came of them"),
    "inbox": ("chat", "what there is to hear for one who has said something"),
    "config": ("chat", "how chat treats senders: look at it, or change it, for all of them or for one"),
    "analyze": ("chat", "tell what tasks and links would come of messages, and write nothing"),
    "sync": ("sync", "keep a sender's tasks in step with a Notion database"),
    "show": ("tasks", "one task with its links and history"),
    "list": ("tasks", "the tasks there are"),
    "ready": ("tasks", "what can be claimed now, in order"),
    "next": ("tasks", "the one task that would be claimed next"),
    "stale": ("tasks", "what has been left lying: expired leases, overdue checks, forgotten holds"),
    "log": ("tasks", "what happened"),
    "top": ("top", "who is at work on what, what is next, what waits for people: live in the terminal"),
    "scores": ("agents", "what each agent has finished, failed and lost"),
    "stats": ("tasks", "how many tasks there are of each kind"),
    "claim": ("claims", "take the next task, or the one you name"),
    "renew": ("claims", "keep a task for another lease"),
    "release": ("claims", "give a task back unfinished"),
    "done": ("outcomes", "finish a task, and with --next go on to the following one"),
    "fail": ("outcomes", "report that an attempt failed"),
    "block": ("outcomes", "set a task aside until something outside changes"),
    "review": ("outcomes", "hand a task over for review"),
    "cancel": ("outcomes", "call a task off"),
    "dispatch": ("agents", "give tasks to the members of the fleet that they are for"),
    "work": ("work", "run a command on each task, and see it to its end"),
    "mcp": ("serve", "serve the desk as tools for a model, on stdin and stdout"),
    "unblock": ("tasks", "put a blocked or escalated task up for work again"),
    "approve": ("tasks", "accept a reviewed task: it is done"),
    "rework": ("tasks", "send a reviewed task back"),
    "pause": ("tasks", "put a task on hold"),
    "resume": ("tasks", "take a task off hold"),
    "link": ("plans", "say what a task depends on"),
    "unlink": ("plans", "take a dependency back"),
    "graph": ("plans", "draw the tasks and their links"),
    "export": ("stores", "write the whole store out as JSON lines"),
    "import": ("stores", "read an export into this store"),
    "backup": ("stores", "write the whole store to a file, tokens included"),
    "restore": ("stores", "replace the whole store by a backup"),
    "prune": ("stores", "drop old events and long finished tasks"),
    "doctor": ("stores", "check the store, and repair it if told to"),
    "completion": ("completion", "let your shell finish what you type"),
    "version": ("stores", "which dibs this is"),
    "serve": ("serve", "a board in the browser, and the desk over HTTP"),
    "demo": ("demo", "a small fleet at work on a story, with the board open to look at"),
    "torture": ("lab", "race, kill and starve workers at a place of its own beside the store, and judge"),
    "notion-emulator": ("lab", "a Notion on this machine to try things with, no account needed"),
}

# name → the module whose commands come under it, and what they are for
GROUPS = {
    "agent": ("dibs.cli.agents", "members of the fleet, their roles and limits"),
    "mail": ("dibs.cli.mail", "letters between agents"),
    "notion": ("dibs.cli.notion", "tests at your own Notion workspace"),
    "token": ("dibs.cli.tokens", "tokens for a server that others can reach"),
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
        from dibs.cli.command import print_error

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
    if unknown := _unknown(before):
        raise InvalidInput(f"{unknown} The options of a command come after it. See 'dibs --help'.")
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
