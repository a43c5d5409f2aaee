"""agent register, list, deregister: who says that it is at work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.console.commands import Command
from dibs.core.agent import AgentStatus
from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.times import time_text
from dibs.protocols.ralph.command import add_json, print_json, print_lines
from dibs.protocols.ralph.settings import agent_name, open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.agent import Agent
    from dibs.core.task import Json
    from dibs.desk import Desk

_IDS = 1 << 16  # as many as four hexadecimal digits can tell apart
_TRIES = 1000
_WORDS = {AgentStatus.ACTIVE: "active", AgentStatus.GONE: "stopped"}


def _options(parser: Parser) -> None:
    parser.add_argument(
        "what", metavar="WHAT", choices=("register", "list", "deregister"), help="register, list or deregister"
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="with deregister: whom (RALPH_AGENT_ID)")
    parser.add_argument("--pid", metavar="N", type=whole, help="with register: its process; else the caller's")
    parser.add_argument("--host", metavar="NAME", help="with register: its host; else this one")
    parser.add_argument("--all", action="store_true", help="with list: those that have stopped too")
    add_json(parser)


def agent(args: argparse.Namespace) -> int:
    if args.id is not None and args.what != "deregister":
        raise InvalidInput(f"'agent {args.what}' takes no id.")
    with open_desk(args) as desk:
        return {"register": _register, "list": _list, "deregister": _deregister}[args.what](args, desk)


def _register(args: argparse.Namespace, desk: Desk) -> int:
    """A name for one agent, made up here; the process is the caller's, for ours is about to end."""
    host = os.uname().nodename if args.host is None else args.host
    made = _registered(desk, host, os.getppid() if args.pid is None else args.pid)
    if args.json:
        return print_json(_data(made))
    print(made.id)
    return 0


def _registered(desk: Desk, host: str, pid: int) -> Agent:
    """Under a name that nobody has had; only when those run out, under one whose bearer has stopped."""
    known = desk.agents()
    taken = {one.id for one in known if one.status is AgentStatus.ACTIVE or len(known) < _IDS // 2}
    for _ in range(_TRIES):
        name = _drawn()
        if name not in taken:
            try:
                return desk.register(name, host=host, pid=pid)
            except AlreadyExists:
                continue  # someone else has drawn the same at this moment
    raise InvalidInput("Nearly all names are taken; deregister agents that have stopped.")


def _drawn() -> str:
    return os.urandom(2).hex()


def _list(args: argparse.Namespace, desk: Desk) -> int:
    from dibs.console.table import table

    found = [one for one in desk.agents() if args.all or one.status is AgentStatus.ACTIVE]
    if args.json:
        return print_json([_data(one) for one in found])
    rows = [
        (one.id, _WORDS[one.status], "" if one.pid is None else str(one.pid), one.host or "", time_text(one.started_at))
        for one in found
    ]
    return print_lines(table(("ID", "STATUS", "PID", "HOST", "STARTED"), rows) if rows else [])


def _deregister(args: argparse.Namespace, desk: Desk) -> int:
    name = args.id if args.id is not None else agent_name(args)
    if name is None:
        raise InvalidInput("Which agent? Give its id, or set RALPH_AGENT_ID.")
    gone = desk.deregister(name)
    if args.json:
        return print_json(_data(gone))
    print(f"deregistered {gone.id}")
    return 0


def _data(one: Agent) -> dict[str, Json]:
    return {
        "id": one.id,
        "pid": one.pid,
        "hostname": one.host,
        "started_at": time_text(one.started_at),
        "status": _WORDS[one.status],
    }


COMMANDS = {"agent": Command(_options, agent)}
