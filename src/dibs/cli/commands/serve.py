"""serve, mcp: the desk over HTTP, and as tools for a model."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, run_name, scope_name, store_url, warn
from dibs.cli.commands.chat import add_sender, sender_of
from dibs.console.arguments import span, whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit
from dibs.core import checks
from dibs.core.errors import Misconfigured
from dibs.core.policy import NATIVE
from dibs.desk import mint_id, open_desk
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser


_PORT = 8420
_RATE = 100
_PARTS = frozenset({"httptools", "jwt", "starlette", "uvicorn", "uvloop"})


def _serve_options(parser: Parser) -> None:
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (only this machine)")
    parser.add_argument("--port", metavar="P", type=whole, default=_PORT, help=f"which port ({_PORT}; 0: any free one)")
    parser.add_argument(
        "--rate",
        metavar="N",
        type=whole,
        default=_RATE,
        help=f"requests a second for each token ({_RATE}; 0: any)",
    )
    parser.add_argument("--open", action="store_true", help="open the board in a browser")
    parser.add_argument("--for", dest="span", metavar="SPAN", type=span, help="stop by itself after this long")


def serve(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        with Stop() as stop:
            _serve_http(args, stop)
            return stop.status
    except ModuleNotFoundError as error:
        if error.name not in _PARTS:
            raise
        raise Misconfigured("The server needs its parts: pip install 'dibs[serve]'.") from None


def _serve_http(args: argparse.Namespace, stop: Stop) -> None:
    import logging

    from dibs.serve.access import AccessControl, require_secret, secrets_of
    from dibs.serve.desks import SameStore
    from dibs.serve.server import listen, make_server

    logging.basicConfig(format="%(asctime)s %(message)s")
    url, secrets = store_url(args), secrets_of(os.environ)
    store = SameStore(lambda: open_desk(url))
    with store() as desk:  # a store that cannot be used is an error now, not later
        desk.at(scope_name(args)).counts()
    with listen(args.host, args.port) as listening:
        host, port = listening.getsockname()[:2]
        require_secret(host, secrets)
        until = None if args.span is None else args.span.total_seconds()
        server = make_server(
            store,
            scope_name(args),
            AccessControl(secrets, args.rate),
            lambda: _started(args, host, port),
            until,
        )
        stop.calls(server.end, server.abort)
        server.run(sockets=[listening])


def _started(args: argparse.Namespace, host: str, port: int) -> None:
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    emit(args, lambda: {"url": address, "host": host, "port": port}, lambda: _lines(address))
    sys.stdout.flush()
    if args.open:
        import webbrowser

        webbrowser.open(address)


def _lines(address: str) -> Iterable[str]:
    yield f"the board: {address}/"
    yield f"the API:   {address}/api/v1/   (described in {address}/openapi.json)"
    yield "Ctrl-C ends it."


# mcp

_GRACE = timedelta(minutes=2)


def _mcp_options(parser: Parser) -> None:
    add_agent(parser)
    add_sender(parser)
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability you have (repeatable)")
    parser.add_argument("--lease", metavar="SPAN", type=span, help="of each claim; renewed by itself (20m)")
    parser.add_argument(
        "--grace", metavar="SPAN", type=span, default=_GRACE, help="how long a task stays yours after the session (2m)"
    )


def mcp(args: argparse.Namespace) -> int:
    with Stop() as stop:
        _serve_mcp(args, stop)
    return 0


def _serve_mcp(args: argparse.Namespace, stop: Stop) -> None:
    try:
        from dibs.serve.mcp.sessions import Identity
        from dibs.serve.mcp.transports import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types", "anyio", "pydantic"}:
            raise
        raise Misconfigured("Tools for models need the protocol's own library: pip install 'dibs[mcp]'.") from None
    from dibs.serve.desks import SameStore

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
    store = SameStore(lambda: open_desk(url))
    store().close()  # what is wrong with it is told at once, not at the first call
    if sys.stdin is not None and sys.stdin.isatty():
        warn("a client is meant to start this and to speak to it; Ctrl-C ends it. 'dibs setup' tells clients of it.")
    serve_stdio(store, who, stop)


COMMANDS = {
    "serve": Command(_serve_options, serve),
    "mcp": Command(_mcp_options, mcp),
}
