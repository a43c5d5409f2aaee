"""Commands that set up and look: init, sender, config, ready, list, show, agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dibs.console.arguments import add_setting, positive, setting_lines, wanted_change
from dibs.console.commands import Command
from dibs.console.streams import complain, emit
from dibs.core.sender import hash_sender
from dibs.core.task import Status
from dibs.protocols.kurultai.main import add_id
from dibs.protocols.kurultai.policy import READY_LIMIT, statuses_called
from dibs.protocols.kurultai.records import as_json
from dibs.protocols.kurultai.settings import OPTIONS, open_memory, sender_hash, sender_secret
from dibs.protocols.kurultai.text import agent_table, count_line, task_lines, task_table

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json


def _no_options(_parser: Parser) -> None:
    pass


def init(args: argparse.Namespace) -> int:
    """Whatever is missing is made; what is there stays."""
    with open_memory(args, create=True) as memory:
        fleet = memory.register_fleet()
        facts = memory.describe()
    where = f"{facts['kind']}, {facts['place']}"
    data: dict[str, Json] = {"store": where, "agents": [as_json(one) for one in fleet]}
    return emit(args, lambda: data, lambda: [where, *agent_table(fleet)])


def _sender_options(parser: Parser) -> None:
    parser.add_argument("who", metavar="WHO", nargs="?", help="a phone number, say; without: a line of stdin")


def sender(args: argparse.Namespace) -> int:
    """Read from stdin, it stays out of the shell's history and of the list of processes."""
    hashed = hash_sender(_asked() if args.who is None else args.who, sender_secret())
    return emit(args, lambda: {"sender_hash": hashed}, lambda: [hashed])


def _asked() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        complain("dibs", "who is it? A phone number, say:")
    return sys.stdin.readline() if sys.stdin is not None else ""


def config(args: argparse.Namespace) -> int:
    changes = wanted_change(args, OPTIONS)
    with open_memory(args) as memory:
        sender = sender_hash(args)
        found = memory.configure(sender, changes) if changes else memory.get_config(sender)
    return emit(args, lambda: {"config": as_json(found)}, lambda: setting_lines(found, OPTIONS, args.name))


_MANY = 100


def _ready_options(parser: Parser) -> None:
    parser.add_argument(
        "-n", metavar="N", type=positive, default=READY_LIMIT, help=f"at most so many; {READY_LIMIT} unless said"
    )


def ready(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        tasks = memory.get_ready_tasks(sender_hash(args), args.n)
    lines = task_table(tasks) or ["Nothing is ready: all is in progress, blocked or completed, or there is nothing."]
    return emit(args, lambda: {"tasks": [as_json(task) for task in tasks]}, lambda: lines)


def _list_options(parser: Parser) -> None:
    parser.add_argument(
        "--status", metavar="S", action="append", default=[],
        help="pending, in_progress, completed, blocked, escalated; of the blocked only: paused, aborted; repeatable",
    )  # fmt: skip
    parser.add_argument("-n", metavar="N", type=positive, default=_MANY, help=f"at most so many; {_MANY} unless said")


def list_tasks(args: argparse.Namespace) -> int:
    wanted = {status for word in args.status for status in statuses_called(word)} or set(Status)
    with open_memory(args) as memory:
        tasks = memory.get_tasks(sender_hash(args), [status for status in Status if status in wanted], args.n)
    lines = [*task_table(tasks), count_line(tasks)] if tasks else ["There are no such tasks."]
    return emit(args, lambda: {"tasks": [as_json(task) for task in tasks]}, lambda: lines)


def show(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        sender = sender_hash(args)
        task = memory.get_task(args.id, sender_hash=sender)
        found = memory.get_dependencies(task["id"], sender_hash=sender)
    told: dict[str, Json] = {"task": as_json(task), "dependencies": [as_json(one) for one in found]}
    return emit(args, lambda: told, lambda: task_lines(task, found))


def agents(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        fleet = memory.get_agents()
    return emit(args, lambda: {"agents": [as_json(one) for one in fleet]}, lambda: agent_table(fleet))


COMMANDS = {
    "init": Command(_no_options, init),
    "sender": Command(_sender_options, sender),
    "config": Command(add_setting, config),
    "ready": Command(_ready_options, ready),
    "list": Command(_list_options, list_tasks),
    "show": Command(add_id, show),
    "agents": Command(_no_options, agents),
}
