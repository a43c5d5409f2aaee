"""demo: a small fleet at work, to look at and to try things with."""

from __future__ import annotations

import argparse
import math
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit
from dibs.console.table import table
from dibs.core.errors import InvalidInput
from dibs.core.times import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.onboarding.demo.show import Summary

_PORTS = 65_536
_QUICKEST = 100.0


def _options(parser: Parser) -> None:
    parser.add_argument("--minutes", metavar="N", type=_number, help="end by itself after so many; else with Ctrl-C")
    parser.add_argument("--port", metavar="P", type=whole, default=0, help="where the board is (else any free port)")
    parser.add_argument("--no-browser", action="store_true", help="do not open the board in a browser")
    parser.add_argument("--dir", metavar="D", help="play in this empty folder, and leave it there afterwards")
    parser.add_argument("--speed", metavar="N", type=_number, default=1.0, help="so many times as quick (1)")


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
        raise InvalidInput(f"The speed is a number above 0, and at most {_QUICKEST:g}.")
    seconds = None if args.minutes is None else 60 * args.minutes
    options = Options(seconds, args.port, not args.no_browser and not args.json, args.dir, args.speed)
    with Stop() as stop:
        summary = play(options, (lambda _line: None) if args.json else _say, stop)
    return emit(args, lambda: _data(summary), lambda: _lines(args, summary))


def _say(line: str) -> None:
    print(line, flush=True)


def _data(summary: Summary) -> dict[str, Json]:
    agents: list[Json] = [
        {"agent": one.agent, "finished": one.finished, "failed": one.failed, "lost": one.lost}
        for one in summary.scores.tallies
    ]
    told: dict[str, Json] = {"seconds": round(summary.seconds, 1), "tasks": summary.tasks}
    return told | {"finished": summary.finished, "twice": summary.twice, "agents": agents}


def _lines(args: argparse.Namespace, summary: Summary) -> Iterable[str]:
    spent = in_words(timedelta(seconds=round(summary.seconds)))
    twice = f"{summary.twice} of them twice!" if summary.twice else "none of them twice"
    yield f"  In {spent}: {summary.finished} of {summary.tasks} tasks finished, {twice}."
    rows = [(one.agent, str(one.finished), str(one.failed), str(one.lost)) for one in summary.scores.tallies]
    if rows:
        yield from ("", *table(("AGENT", "FINISHED", "FAILED", "LOST"), rows, indent=2))
    yield ""
    yield f"  It stays in {args.dir}." if args.dir else "  Everything has ended, and its folder is gone."


COMMANDS = {"demo": Command(_options, demo)}
