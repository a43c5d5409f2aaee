"""reassign, pause, resume, abort: what the user, or the main agent in their name, does with a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.protocols.kurultai.command import add_force, add_id, add_proof, add_reason
from dibs.protocols.kurultai.outcome import told
from dibs.protocols.kurultai.settings import open_memory, sender_hash

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def _reassign_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--to", metavar="AGENT", help="another agent, or 'any'; the same one unless said")


def reassign(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        return told(args, memory.reassign_blocked_task(args.id, args.to, sender_hash=sender_hash(args)))


def _pause_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    add_force(parser)


def pause(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.pause_task(args.id, args.claim_attempt_id, sender_hash=sender_hash(args), force=args.force)
    return told(args, task)


def _resume_options(parser: Parser) -> None:
    add_id(parser)


def resume(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        return told(args, memory.resume_task(args.id, sender_hash=sender_hash(args)))


def _abort_options(parser: Parser) -> None:
    _pause_options(parser)
    add_reason(parser)


def abort(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        change = memory.abort_task(
            args.id, args.claim_attempt_id, sender_hash=sender_hash(args), reason=args.reason, force=args.force
        )
    return told(args, change)


COMMANDS = {
    "reassign": Command(_reassign_options, reassign),
    "pause": Command(_pause_options, pause),
    "resume": Command(_resume_options, resume),
    "abort": Command(_abort_options, abort),
}
