"""notion-emulator: a Notion on loopback, to try dibs with, and to see it cope with lags, limits and accidents."""

from __future__ import annotations

import argparse
import errno
from typing import TYPE_CHECKING, Any

from dibs.console.arguments import span, whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.lab.emulator import Emulator

_PORTS = 65_536
_HELLO = (
    "# A Notion on this machine, until Ctrl-C. What is in it lives in memory, and is gone then.",
    "# For another terminal:",
)


def _options(parser: Parser) -> None:
    parser.add_argument("--port", metavar="P", type=whole, default=0, help="where to listen (else any free port)")
    parser.add_argument(
        "--layout", choices=("ntask", "mesh", "kurultai"), default="ntask", help="whose databases to make"
    )
    parser.add_argument("--empty", action="store_true", help="make the databases without tasks in them")
    parser.add_argument("--rate", metavar="N", type=whole, default=180, help="requests a minute (180); 0 for no limit")
    parser.add_argument("--lag", metavar="SPAN", type=span, help="how long queries do not see what was written")
    parser.add_argument("--latency", metavar="SPAN", type=span, help="how long every answer takes")
    parser.add_argument("--fault", metavar="KIND=SHARE", action="append", type=_share, help="such as conflict=0.02")
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help="the same ids and accidents again")
    parser.add_argument("--for", dest="span", metavar="SPAN", type=span, help="stop by itself after this long")


def _share(text: str) -> tuple[str, float]:
    from dibs.lab.emulator.faults import KINDS

    kind, _, share = text.partition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"there is no fault '{kind[:40]}', but {', '.join(KINDS)}")
    try:
        part = float(share)
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise argparse.ArgumentTypeError(f"'{text[:60]}' needs a share from 0 to 1, such as {kind}=0.02")
    return kind, part


def serve(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    with Stop() as stop, _emulator(args) as notion:
        exports = _exports(args, notion)
        emit(args, lambda: exports, lambda: _lines(exports))
        _tell_now()
        stop.wait(args.span.total_seconds() if args.span else None)
        return stop.status


def _emulator(args: argparse.Namespace) -> Emulator:
    from dibs.lab.emulator import Emulator

    if args.port >= _PORTS:
        raise InvalidInput(f"There is no port {args.port}: the last is {_PORTS - 1}.")
    try:
        notion = Emulator(seed=args.seed, port=args.port)
    except OSError as error:
        taken = "it is taken" if error.errno == errno.EADDRINUSE else f"{error.strerror}"
        raise InvalidInput(f"Cannot listen on port {args.port}: {taken}. Choose another with --port.") from None
    notion.faults.requests_per_minute = args.rate or None
    notion.faults.query_lag = args.lag.total_seconds() if args.lag else 0.0
    notion.faults.latency_before = args.latency.total_seconds() if args.latency else 0.0
    notion.faults.rates = dict(args.fault or ())
    return notion


def _exports(args: argparse.Namespace, notion: Emulator) -> dict[str, Any]:
    from dibs.lab.emulator.presets import demo_databases

    made = demo_databases(notion, args.layout, empty=args.empty)
    return {"NOTION_API_BASE_URL": notion.url, "NOTION_TOKEN": notion.token, **made}


def _lines(exports: dict[str, Any]) -> Iterable[str]:
    yield from _HELLO
    yield from (f"export {name}={value}" for name, value in exports.items())


def _tell_now() -> None:
    """Whoever reads from a pipe or a file is waiting for these lines."""
    import sys

    sys.stdout.flush()


COMMANDS = {"notion-emulator": Command(_options, serve)}
