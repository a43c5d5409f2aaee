"""serve: the desk over HTTP, with a board to look at."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.cli.command import scope_name, store_url
from dibs.console.arguments import span, whole
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser

_PORT = 8420


def _options(parser: Parser) -> None:
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (only this machine)")
    parser.add_argument("--port", metavar="P", type=whole, default=_PORT, help=f"which port ({_PORT}; 0: any free one)")
    parser.add_argument("--open", action="store_true", help="open the board in a browser")
    parser.add_argument("--for", dest="span", metavar="SPAN", type=span, help="stop by itself after this long")


def serve(args: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM."""
    from dibs.stores.opening import open_store

    try:
        from dibs.serve.server import listen
        from dibs.serve.server import serve as serve_on
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn", "jwt"}:
            raise
        raise Misconfigured("The server needs its parts: pip install 'dibs[serve]'.") from None
    url = store_url(args)
    open_store(url).close()  # a store that cannot be opened is told of now
    listening = listen(args.host, args.port)
    until = None if args.span is None else args.span.total_seconds()
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def started() -> None:
        emit(args, lambda: {"url": address, "host": host, "port": port}, lambda: _lines(address))
        sys.stdout.flush()
        if args.open:
            import webbrowser

            webbrowser.open(address)

    with listening, suppress(KeyboardInterrupt):
        serve_on(lambda: open_store(url), scope_name(args), listening, started, until)
    return 0


def _lines(address: str) -> Iterable[str]:
    yield f"the board: {address}/"
    yield f"the API:   {address}/api/v1/   (described in {address}/openapi.json)"
    yield "Ctrl-C ends it."


COMMANDS = {"serve": Command(_options, serve)}
