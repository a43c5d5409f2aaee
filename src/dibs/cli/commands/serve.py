"""serve, mcp, demo, webhook: the store over HTTP, as tools for a model, with a small fleet, and as posted events."""

from __future__ import annotations

import argparse
import math
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dibs.cli.command import add_agent, open_desk, run_name, scope_name, store_url, warn
from dibs.cli.commands.chat import add_sender, sender_of
from dibs.console.arguments import span, whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit, printable, table
from dibs.core import checks
from dibs.core.errors import InvalidInput, Misconfigured, NotFound, ServiceUnavailable
from dibs.core.events import Event
from dibs.core.messages import command
from dibs.core.policy import NATIVE
from dibs.core.times import in_words
from dibs.desk import mint_id
from dibs.desk import open_desk as desk_at
from dibs.identity import agent_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.onboarding.demo.show import Summary
    from dibs.serve.webhooks import Webhook


_PORT = 8420
_RATE = 100
_PARTS = frozenset({"httptools", "jwt", "starlette", "uvicorn", "uvloop"})


def _serve_options(parser: Parser) -> None:
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="the address to listen on (default: 127.0.0.1, only this machine)",
    )
    parser.add_argument(
        "--port",
        metavar="P",
        type=whole,
        default=_PORT,
        help=f"the port to listen on (default: {_PORT}; 0: a free one)",
    )
    parser.add_argument(
        "--rate",
        metavar="N",
        type=whole,
        default=_RATE,
        help=f"the most requests per second and token (default: {_RATE}; 0: no limit)",
    )
    parser.add_argument(
        "--drain",
        metavar="SPAN",
        type=span,
        default=timedelta(),
        help="after SIGTERM, keep answering this long while /health says 503 (default: 0s)",
    )
    parser.add_argument("--open", action="store_true", help="open the board in a browser")
    parser.add_argument(
        "--for", dest="span", metavar="SPAN", type=span, help="stop after this long (default: on Ctrl-C)"
    )


def serve(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    try:
        with Stop() as stop:
            _serve_http(args, stop)
            return stop.status
    except ModuleNotFoundError as error:
        if error.name not in _PARTS:
            raise
        raise Misconfigured("The server needs more packages: pip install 'dibs[serve]'.") from None


def _serve_http(args: argparse.Namespace, stop: Stop) -> None:
    import logging

    from dibs.serve.access import AccessControl, require_secret, secrets_of
    from dibs.serve.desks import SameStore
    from dibs.serve.server import listen, make_server

    logging.basicConfig(format="%(asctime)s %(message)s")
    url, secrets = store_url(args), secrets_of(os.environ)
    store = SameStore(lambda: desk_at(url))
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
            args.drain.total_seconds(),
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
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="a capability that you have (repeatable)"
    )
    parser.add_argument(
        "--lease", metavar="SPAN", type=span, help="the lease of each claim, renewed automatically (default: 20m)"
    )
    parser.add_argument(
        "--grace",
        metavar="SPAN",
        type=span,
        default=_GRACE,
        help="how long you keep your tasks after the session ends (default: 2m)",
    )
    parser.add_argument("--project", metavar="FOLDER", help="the folder to find the store from (default: this folder)")


def mcp(args: argparse.Namespace) -> int:
    with Stop() as stop:
        _serve_mcp(args, stop)
    return 0


def _serve_mcp(args: argparse.Namespace, stop: Stop) -> None:
    from dibs.serve.mcp import quick_imports

    try:
        with quick_imports():
            from dibs.serve.mcp.sessions import Identity
            from dibs.serve.mcp.transports import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types", "anyio", "pydantic"}:
            raise
        raise Misconfigured("MCP needs more packages: pip install 'dibs[mcp]'.") from None
    from dibs.serve.desks import SameStore

    if args.project is not None:
        try:
            os.chdir(args.project)
        except OSError as error:
            raise InvalidInput(f"Cannot open the folder {args.project}: {error.strerror}.") from None
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
    store = SameStore(lambda: desk_at(url))
    store().close()  # report a broken store at once, not at the first call
    if sys.stdin is not None and sys.stdin.isatty():
        warn("an MCP client starts this command; Ctrl-C ends it. 'dibs setup' connects clients.")
    serve_stdio(store, who, stop)


_PORTS = 65_536
_QUICKEST = 100.0


def _options(parser: Parser) -> None:
    parser.add_argument("--minutes", metavar="N", type=_number, help="stop after N minutes (default: on Ctrl-C)")
    parser.add_argument(
        "--port", metavar="P", type=whole, default=0, help="the port of the board (default: a free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open the board in a browser")
    parser.add_argument("--dir", metavar="D", help="use this empty folder and keep it (default: a temporary one)")
    parser.add_argument(
        "--speed", metavar="N", type=_number, default=1.0, help="how many times faster to run (default: 1)"
    )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from zero up")
    return number


def demo(args: argparse.Namespace) -> int:
    from dibs.onboarding.demo.show import Options, play

    if args.port >= _PORTS:
        raise InvalidInput(f"There is no port {args.port}: the last is {_PORTS - 1}.")
    if not 0 < args.speed <= _QUICKEST:
        raise InvalidInput(f"The speed must be a number above 0 and at most {_QUICKEST:g}.")
    seconds = None if args.minutes is None else 60 * args.minutes
    options = Options(seconds, args.port, not args.no_browser and not args.json, args.dir, args.speed)
    with Stop() as stop:
        summary = play(options, (lambda _line: None) if args.json else _say, stop)
    return emit(args, lambda: _data(summary), lambda: _demo_lines(args, summary))


def _say(line: str) -> None:
    print(line, flush=True)


def _data(summary: Summary) -> dict[str, Json]:
    agents: list[Json] = [
        {"agent": one.agent, "finished": one.finished, "failed": one.failed, "lost": one.lost}
        for one in summary.scores.tallies
    ]
    told: dict[str, Json] = {"seconds": round(summary.seconds, 1), "tasks": summary.tasks}
    return told | {"finished": summary.finished, "twice": summary.twice, "agents": agents}


def _demo_lines(args: argparse.Namespace, summary: Summary) -> Iterable[str]:
    spent = in_words(timedelta(seconds=round(summary.seconds)))
    twice = f"{summary.twice} of them twice!" if summary.twice else "none of them twice"
    yield f"  In {spent}: {summary.finished} of {summary.tasks} tasks finished, {twice}."
    rows = [(one.agent, str(one.finished), str(one.failed), str(one.lost)) for one in summary.scores.tallies]
    if rows:
        yield from ("", *table(("AGENT", "FINISHED", "FAILED", "LOST"), rows, indent=2))
    yield ""
    yield f"  It stays in {args.dir}." if args.dir else "  The demo has ended, and its folder was deleted."


def _add_options(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", help="the address to post to: https://…")
    parser.add_argument(
        "--verb",
        metavar="VERB",
        action="append",
        default=[],
        help="post only events of this verb (repeatable; default: all)",
    )
    parser.add_argument("--any-scope", action="store_true", help="post events of all scopes (default: only of --scope)")


def add(args: argparse.Namespace) -> int:
    """Print its id and its secret. The secret is stored nowhere: it follows from the server's."""
    secrets = _secrets()
    from dibs.serve.webhooks import add_webhook, shown_key

    if args.url.startswith("http://") and urlsplit(args.url).hostname not in _HERE:
        warn("http:// sends events in the clear; use https:// beyond this machine")
    scope = None if args.any_scope else scope_name(args)
    with open_desk(args) as desk:
        webhook = add_webhook(desk, args.url, args.verb, scope)
    key = shown_key(secrets[0], webhook.id)
    lines = (
        f"added {webhook.id}",
        f"secret: {key}",
        f"try it: {command('dibs', 'webhook', 'test', webhook.id)}",
    )
    return emit(args, lambda: {**webhook.json(), "secret": key}, lambda: lines)


_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def _secrets() -> tuple[bytes, ...]:
    from dibs.serve.access import SECRET, secrets_of

    secrets = secrets_of(os.environ)
    if not secrets:
        raise Misconfigured(
            f"Events are signed with the server's secret: set {SECRET} to the same value as for 'dibs serve'."
        )
    return secrets


def list_(args: argparse.Namespace) -> int:
    from dibs.serve.webhooks import listed_webhooks

    with open_desk(args) as desk:
        found = listed_webhooks(desk)
    data: dict[str, Json] = {"webhooks": [webhook.json() for webhook in found]}
    return emit(args, lambda: data, lambda: _webhook_lines(found))


def _webhook_lines(found: Sequence[Webhook]) -> Iterable[str]:
    if not found:
        return ["No webhooks. 'dibs webhook add URL' makes one."]
    rows = [
        (
            webhook.id,
            "all" if webhook.scope is None else webhook.scope,
            ",".join(webhook.verbs) or "all",
            webhook.trouble or ("delivering" if webhook.delivering else "waits for a server"),
            webhook.url,
        )
        for webhook in found
    ]
    return table(("ID", "SCOPE", "EVENTS", "STATE", "URL"), rows)


def _id_option(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the webhook's id, as 'dibs webhook list' shows it")


def test(args: argparse.Namespace) -> int:
    secrets = _secrets()
    from dibs.serve.access import host_time
    from dibs.serve.webhooks import listed_webhooks, message_of, post, signed_headers

    with open_desk(args) as desk:
        found = next((each for each in listed_webhooks(desk) if each.id == args.id), None)
    if found is None:
        raise NotFound(f"There is no webhook {args.id[:40]!r} in this store. 'dibs webhook list' lists them.")
    now = host_time()
    body = message_of(Event(now, found.scope or "default", "", "test"))
    why = post(
        found.url,
        signed_headers(found.id, f"dibs-test-{now.timestamp():.6f}", int(now.timestamp()), body, secrets),
        body,
    )
    if why is not None:
        raise ServiceUnavailable(f"{printable(found.url)} did not accept the test event: {why}.")
    return emit(args, lambda: {"id": found.id, "accepted": True}, lambda: [f"{printable(found.url)} accepted it"])


def remove(args: argparse.Namespace) -> int:
    from dibs.serve.webhooks import remove_webhook

    with open_desk(args) as desk:
        webhook = remove_webhook(desk, args.id)
    return emit(args, webhook.json, lambda: [f"removed {webhook.id}"])


def _with_server_parts(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command, or what to install for it."""

    def checked(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("dibs"):
                raise
            raise Misconfigured("Webhooks need more packages: pip install 'dibs[serve]'.") from None

    return checked


COMMANDS = {
    "serve": Command(_serve_options, serve),
    "mcp": Command(_mcp_options, mcp),
    "demo": Command(_options, demo),
    "add": Command(_add_options, _with_server_parts(add)),
    "list": Command(lambda _parser: None, _with_server_parts(list_)),
    "test": Command(_id_option, _with_server_parts(test)),
    "remove": Command(_id_option, _with_server_parts(remove)),
}
