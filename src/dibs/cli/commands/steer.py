"""unblock, approve, rework, pause, resume: what a person decides about a task nobody is working on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_force, add_task, add_token, open_desk, token_of
from dibs.cli.output import task_data
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.lifecycle import Verb

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def _options(parser: Parser) -> None:
    add_task(parser)
    add_agent(parser)


def _reason_options(parser: Parser) -> None:
    _options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why")


def _pause_options(parser: Parser) -> None:
    _reason_options(parser)
    add_token(parser)
    add_force(parser)


def _steer(args: argparse.Namespace, verb: Verb, word: str) -> int:
    with open_desk(args) as desk:
        token = token_of(args, desk) if hasattr(args, "token") else None
        moved = desk.move(
            verb, args.task, token=token, force=getattr(args, "force", False), reason=getattr(args, "reason", None)
        )
        leads_to = "" if verb is Verb.PAUSE else f": {moved.task.status}"
        lines = [f"{word} {moved.task.id}{leads_to}"]
        lines += [f"  unblocked: {', '.join(moved.unblocked)}"] if moved.unblocked else []
        return emit(args, lambda: task_data(moved.task) | {"unblocked": moved.unblocked}, lambda: lines)


COMMANDS = {
    "unblock": Command(_options, lambda args: _steer(args, Verb.UNBLOCK, "unblocked")),
    "approve": Command(_options, lambda args: _steer(args, Verb.APPROVE, "approved")),
    "rework": Command(_reason_options, lambda args: _steer(args, Verb.REWORK, "sent back")),
    "pause": Command(_pause_options, lambda args: _steer(args, Verb.PAUSE, "paused")),
    "resume": Command(_options, lambda args: _steer(args, Verb.RESUME, "resumed")),
}
