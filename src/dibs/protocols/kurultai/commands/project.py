"""init, sender, config: a store with the fleet in it, who a sender is, and what they have set."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.console.streams import complain, emit
from dibs.console.table import table
from dibs.core.errors import InvalidInput
from dibs.core.sender import hash_sender
from dibs.protocols.kurultai.configuration import OPTIONS, option_named, value_from
from dibs.protocols.kurultai.records import as_json
from dibs.protocols.kurultai.settings import open_memory, sender_hash, sender_secret
from dibs.protocols.kurultai.text import agent_table

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.protocols.kurultai.configuration import UserConfig


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


def _config_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="which setting; without: all of them")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="what it is to be from now on")
    parser.add_argument("--reset", action="store_true", help="put it back to what holds where nothing is set")


def config(args: argparse.Namespace) -> int:
    if args.reset and (args.name is None or args.value is not None):
        raise InvalidInput("--reset takes the name of a setting, and no value.")
    if args.name is not None:
        option_named(args.name)
    with open_memory(args) as memory:
        sender = sender_hash(args)
        if args.value is None and not args.reset:
            found = memory.get_config(sender)
        else:
            new = None if args.reset else value_from(args.name, args.value)
            found = memory.configure(sender, {args.name: new})
    return emit(args, lambda: {"config": as_json(found)}, lambda: _config_lines(found, args.name))


def _config_lines(found: UserConfig, name: str | None) -> list[str]:
    shown = {each: value for each, value in found.items() if each in OPTIONS and name in {None, each}}
    rows = [(each, _shown(value), OPTIONS[each].does) for each, value in shown.items()]
    return table(("SETTING", "VALUE", "MEANS"), rows)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


COMMANDS = {
    "init": Command(_no_options, init),
    "sender": Command(_sender_options, sender),
    "config": Command(_config_options, config),
}
