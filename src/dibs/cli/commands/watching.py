"""top: the desk at a glance, as it changes."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.command import open_desk
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput
from dibs.core.times import time_text
from dibs.core.wire import task_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.cli.top.snapshot import Snapshot
    from dibs.console.arguments import Parser
    from dibs.core.task import Json

_ROWS = 50
_PIPED = 100  # columns where nobody says how many there are
_QUICKEST = timedelta(milliseconds=100)


def _options(parser: Parser) -> None:
    parser.add_argument("--once", action="store_true", help="one look, as text; so too where there is no terminal")
    parser.add_argument(
        "--interval", metavar="SPAN", type=span, default=timedelta(seconds=1), help="how often to look (1s)"
    )
    parser.add_argument("--any-scope", action="store_true", help="at all scopes")


def top(args: argparse.Namespace) -> int:
    from dibs.cli.top.snapshot import Glance

    if args.interval < _QUICKEST:
        raise InvalidInput("Look at most ten times a second: --interval 0.1s or longer.")
    live = _interactive() and not (args.json or args.once)
    with Stop() if live else nullcontext() as stop, open_desk(args) as desk:
        glance = Glance(desk, anywhere=args.any_scope, rows=_ROWS)
        if stop is None:
            shot = glance.look()
            return emit(args, lambda: _data(shot), lambda: _lines(shot))
        from rich.console import Console

        from dibs.cli.top.screen import run

        run(glance.look, Console(), args.interval.total_seconds(), stop)
        return stop.status


def _interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _lines(shot: Snapshot) -> Iterable[str]:
    from rich.console import Console

    from dibs.cli.top.screen import page

    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else _PIPED
    console = Console(width=width, highlight=False)
    with console.capture() as caught:
        console.print(page(shot, width))
    return (line.rstrip() for line in caught.get().splitlines())


def _data(shot: Snapshot) -> dict[str, Json]:
    counts = shot.counts
    agents: list[Json] = [
        {"agent": one.name, "role": one.role, "there": one.there, "tasks": [task_json(task) for task in one.tasks]}
        for one in shot.agents
    ]
    numbers: dict[str, Json] = {status.value: number for status, number in counts.by_status.items() if number}
    derived = {"claimable": counts.claimable, "waiting": counts.waiting, "later": counts.later}
    return {
        "now": time_text(shot.now),
        "counts": {"by_status": numbers, **derived, "expired": counts.expired},
        "agents": agents,
        "ready": [task_json(task) for task in shot.ready],
        "people": [task_json(task) for task in shot.people],
        "finished_by_minute": None if shot.finished is None else list(shot.finished),
    }


COMMANDS = {"top": Command(_options, top)}
