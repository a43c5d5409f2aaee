"""scores: who has done what, from the record."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.command import open_desk
from dibs.console.arguments import moment, span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.console.table import table
from dibs.core.duration import in_words
from dibs.core.errors import Unsupported
from dibs.core.scores import scores
from dibs.core.wire import scores_json
from dibs.fleet.outcomes import history

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.scores import Scores


def _options(parser: Parser) -> None:
    parser.add_argument("--since", metavar="WHEN", type=_when, help="only from then on: a time, or a span such as 7d")
    parser.add_argument("--any-scope", action="store_true", help="from all scopes")


def _when(text: str) -> datetime | timedelta:
    try:
        return span(text)
    except argparse.ArgumentTypeError:
        return moment(text)


def show_scores(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        if not desk.capabilities.history:
            raise Unsupported("This store keeps no record that scores could be counted from.")
        since = desk.now() - args.since if isinstance(args.since, timedelta) else args.since
        found = scores(history(desk, anywhere=args.any_scope), since)
    return emit(args, lambda: scores_json(found), lambda: _lines(found))


def _lines(found: Scores) -> Iterable[str]:
    if not found.tallies:
        return ["Nobody has finished, failed or lost anything yet."]
    rows = [
        (
            one.agent,
            str(one.finished),
            str(one.failed),
            str(one.lost),
            "" if one.duration is None else in_words(one.duration),
            f"{one.points:g}",
        )
        for one in found.tallies
    ]
    since = "" if found.since is None else f"since {found.since:%Y-%m-%d %H:%M:%S} UTC"
    return [since, *table(("AGENT", "FINISHED", "FAILED", "LOST", "MEDIAN", "POINTS"), rows)]


COMMANDS = {"scores": Command(_options, show_scores)}
