"""unblock, approve, rework: the ways out of BLOCKED and REVIEW, for people and for agents in charge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.console.commands import Command
from dibs.core.lifecycle import Verb
from dibs.protocols.ntask.answers import answer_task, warn_of_loss
from dibs.protocols.ntask.command import add_id
from dibs.protocols.ntask.failures import moving
from dibs.protocols.ntask.settings import open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def unblock(args: argparse.Namespace) -> int:
    return _move(args, Verb.UNBLOCK)


def approve(args: argparse.Namespace) -> int:
    return _move(args, Verb.APPROVE)


def _rework_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--reason", metavar="S", help="what is missing")


def rework(args: argparse.Namespace) -> int:
    return _move(args, Verb.REWORK, reason=args.reason)


def _move(args: argparse.Namespace, verb: Verb, **brings: Any) -> int:
    with open_desk() as desk, moving(desk, args.id, verb):
        task = desk.move(verb, args.id, **brings).task
        warn_of_loss(task, brings)
        return answer_task(desk, task)


COMMANDS = {
    "unblock": Command(add_id, unblock),
    "approve": Command(add_id, approve),
    "rework": Command(_rework_options, rework),
}
