"""Commands that create, link, order, pause and cancel tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import moment, whole
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.console.table import clean
from dibs.core.errors import InvalidInput
from dibs.core.task import LinkKind
from dibs.protocols.kurultai.main import add_agent, add_force, add_id, add_proof, add_reason, number
from dibs.protocols.kurultai.records import as_json
from dibs.protocols.kurultai.settings import open_memory, sender_hash
from dibs.protocols.kurultai.text import short, told, weight

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def _create_options(parser: Parser) -> None:
    parser.add_argument("description", metavar="DESCRIPTION", help="what is to be done; its first line stands for it")
    parser.add_argument(
        "--deliverable", metavar="TYPE", help="research, code, analysis, content, strategy, ops, testing"
    )
    parser.add_argument("--type", metavar="WORD", help="a word of your own for the kind of task; else the deliverable")
    parser.add_argument("--assign", metavar="AGENT", help="for this agent, or 'any'; else by the deliverable")
    parser.add_argument("--delegated-by", metavar="AGENT", help="which agent hands it out")
    parser.add_argument("--weight", metavar="W", type=number, help="its priority, 0 to 1; 0.5 unless said")
    parser.add_argument("--first", action="store_true", help="before all others, by the user's word")
    parser.add_argument(
        "--after", metavar="ID", action="append", default=[], help="which task has to be completed before; repeatable"
    )
    parser.add_argument("--retries", metavar="N", type=whole, help="how often it may fail before it is escalated")
    parser.add_argument("--window-expires-at", metavar="TIME", type=moment, help="when its intent window ends")
    parser.add_argument("--id", metavar="ID", dest="task_id", help="an id of your own; else a new uuid")


def create(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.create_task(
            args.description,
            sender_hash=sender_hash(args),
            type=args.type,
            deliverable_type=args.deliverable,
            assigned_to=args.assign,
            delegated_by=args.delegated_by,
            priority_weight=args.weight,
            user_priority_override=args.first,
            depends_on=args.after,
            window_expires_at=args.window_expires_at,
            max_retries=args.retries,
            task_id=args.task_id,
        )
        return emit(args, lambda: {"task": as_json(task)}, lambda: [task["id"]])


def _depend_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("on", metavar="ON", help="the task that has to come before it")
    parser.add_argument("--type", metavar="TYPE", default="blocks", help=f"{', '.join(LinkKind)}; blocks unless said")
    parser.add_argument(
        "--weight", metavar="W", type=number, default=0.5, help="how strong it is, 0 to 1; 0.5 unless said"
    )
    parser.add_argument(
        "--detected-by", metavar="HOW", default="explicit", help="explicit (unless said), semantic, inferred"
    )
    parser.add_argument(
        "--confidence", metavar="C", type=number, default=1.0, help="how sure it is, 0 to 1; 1 unless said"
    )


def depend(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        changed = memory.add_dependency(
            args.id,
            args.on,
            args.type,
            sender_hash=sender_hash(args),
            weight=args.weight,
            detected_by=args.detected_by,
            confidence=args.confidence,
        )
    line = f"{args.id} depends on {args.on} ({args.type})" if changed else "That stood already, as strong or stronger."
    return emit(args, lambda: {"created": changed}, lambda: [line])


def _priority_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("weight", metavar="WEIGHT", nargs="?", type=number, help="0 to 1, the higher comes first")
    parser.add_argument("--first", action="store_true", help="before all others, with weight 1 unless said")
    parser.add_argument("--not-first", action="store_true", help="no longer before all others")
    add_reason(parser)
    add_agent(parser)


def priority(args: argparse.Namespace) -> int:
    if args.first and args.not_first:
        raise InvalidInput("--first and --not-first cannot both be.")
    if args.weight is None and not (args.first or args.not_first):
        raise InvalidInput("Which priority? Give a weight from 0 to 1, or --first or --not-first.")
    with open_memory(args) as memory:
        task = memory.set_priority(
            args.id,
            1.0 if args.weight is None and args.first else args.weight,
            sender_hash=sender_hash(args),
            user_priority_override=args.first if args.first or args.not_first else None,
            reason=args.reason,
        )
    line = f"{short(task['id'])} has weight {weight(task)}  {clean(task['description'].partition(chr(10))[0])}"
    return emit(args, lambda: {"task": as_json(task)}, lambda: [line])


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
    "create": Command(_create_options, create),
    "depend": Command(_depend_options, depend),
    "priority": Command(_priority_options, priority),
    "reassign": Command(_reassign_options, reassign),
    "pause": Command(_pause_options, pause),
    "resume": Command(_resume_options, resume),
    "abort": Command(_abort_options, abort),
}
