"""mcp: the desk as tools for a model, on stdin and stdout."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, run_name, scope_name, store_url
from dibs.cli.commands.chatting import add_sender, sender_of
from dibs.cli.output import warn
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.core import checks
from dibs.core.errors import Misconfigured
from dibs.core.policy import NATIVE
from dibs.desk import agent_name, mint_id, open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser

_GRACE = timedelta(minutes=2)


def _options(parser: Parser) -> None:
    add_agent(parser)
    add_sender(parser)
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability you have (repeatable)")
    parser.add_argument("--lease", metavar="SPAN", type=span, help="of each claim; renewed by itself (20m)")
    parser.add_argument(
        "--grace", metavar="SPAN", type=span, default=_GRACE, help="how long a task stays yours after the session (2m)"
    )


def mcp(args: argparse.Namespace) -> int:
    with Stop() as stop:
        _serve(args, stop)
    return 0


def _serve(args: argparse.Namespace, stop: Stop) -> None:
    try:
        from dibs.serve.mcp.sessions import Identity
        from dibs.serve.mcp.transports import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types", "anyio", "pydantic"}:
            raise
        raise Misconfigured("Tools for models need the protocol's own library: pip install 'dibs[mcp]'.") from None
    url = store_url(args)
    who = Identity(
        checks.name_of("agent", args.agent or agent_name()),
        run_name(args) or f"mcp-{mint_id()}",
        scope_name(args),
        sender_of(args),
        checks.names("capability", args.can),
        NATIVE.lease if args.lease is None else checks.lease(args.lease),
        args.grace if not args.grace else checks.lease(args.grace),
    )
    open_desk(url).close()  # what is wrong with it is told at once, not at the first call
    if sys.stdin is not None and sys.stdin.isatty():
        warn("a client is meant to start this and to speak to it; Ctrl-C ends it. 'dibs setup' tells clients of it.")
    serve_stdio(lambda: open_desk(url), who, stop)


COMMANDS = {"mcp": Command(_options, mcp)}
