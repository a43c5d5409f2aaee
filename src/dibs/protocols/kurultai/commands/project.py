"""init, sender, config: a store with the fleet in it, who a sender is, and what they have set."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dibs.console.arguments import add_setting, setting_lines, wanted_change
from dibs.console.commands import Command
from dibs.console.streams import complain, emit
from dibs.core.sender import hash_sender
from dibs.protocols.kurultai.records import as_json
from dibs.protocols.kurultai.settings import OPTIONS, open_memory, sender_hash, sender_secret
from dibs.protocols.kurultai.text import agent_table

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


COMMANDS = {
    "init": Command(_no_options, init),
    "sender": Command(_sender_options, sender),
    "config": Command(add_setting, config),
}
