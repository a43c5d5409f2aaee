"""claim, renew, complete, fail, block: an agent and its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.console.table import clean
from dibs.core.errors import InvalidInput
from dibs.core.messages import command, quoted
from dibs.core.times import in_words, time_text
from dibs.protocols.kurultai.main import add_agent, add_id, add_proof, add_reason, number
from dibs.protocols.kurultai.records import as_json
from dibs.protocols.kurultai.settings import (
    agent_of,
    open_memory,
    proof_of,
    proof_or_none,
    sender_hash,
    sender_hash_or_none,
)
from dibs.protocols.kurultai.text import agent_name, first_line, prerequisite_lines, short, told

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.protocols.kurultai.records import ClaimRecord


def _claim_options(parser: Parser) -> None:
    add_id(parser, optional=True)
    add_agent(parser)
    parser.add_argument("--any-sender", action="store_true", help="the next task whoever sent it")
    _add_lease(parser)


def _add_lease(parser: Parser) -> None:
    parser.add_argument("--lease", metavar="SPAN", type=span, help="how long it is yours, such as 20m (the default)")


def claim(args: argparse.Namespace) -> int:
    agent = agent_of(args)
    if args.any_sender and (args.sender is not None or args.sender_hash is not None):
        raise InvalidInput("--any-sender is for tasks whoever sent them; leave --sender and --sender-hash out.")
    sender = None if args.any_sender else _one_sender(args)
    with open_memory(args) as memory:
        claimed = memory.claim_task(agent, sender_hash=sender, task_id=args.id, lease=args.lease)
        return emit(args, lambda: _claimed_json(claimed), lambda: _claimed_lines(claimed))


def _one_sender(args: argparse.Namespace) -> str:
    found = sender_hash_or_none(args)
    if found is None:
        raise InvalidInput("Whose tasks? Give --sender or --sender-hash, or --any-sender for whatever is next.")
    return found


def _claimed_json(claimed: ClaimRecord) -> dict[str, Json]:
    prerequisites: list[Json] = [as_json(one) for one in claimed.prerequisites]
    return {"task": as_json(claimed.task), "prerequisites": prerequisites}


def _claimed_lines(claimed: ClaimRecord) -> list[str]:
    task, since, until = claimed.task, claimed.task["started_at"], claimed.task["lease_expires_at"]
    span_words = f", for {in_words(until - since)}" if since and until else ""
    return [
        f"CLAIMED  {short(task['id'])}  {clean(first_line(task['description']))}",
        f"  by          {clean(agent_name(task['claimed_by']))}{span_words}",
        f"  sender      export KURULTAI_SENDER_HASH={quoted(task['sender_hash'])}",
        f"  proof       export KURULTAI_CLAIM_ATTEMPT_ID={quoted(claimed.claim_attempt_id)}",
        *prerequisite_lines(claimed.prerequisites),
        f"  when done   {command('dibs', 'kurultai', 'complete', short(task['id']), '--result', 'TEXT')}",
    ]


def _renew_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    _add_lease(parser)


def renew(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        task = memory.renew_task(args.id, proof, sender_hash=sender_hash(args), lease=args.lease)
    until = task["lease_expires_at"]
    line = f"{short(task['id'])} is yours until {time_text(until)}" if until else f"{short(task['id'])} is yours"
    return emit(args, lambda: {"task": as_json(task)}, lambda: [line])


def _complete_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    parser.add_argument("--result", metavar="TEXT", help="what came of it, for the user and for what waits for it")
    parser.add_argument("--quality", metavar="Q", type=number, help="how good it is, 0 to 1")


def complete(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        change = memory.complete_task(
            args.id, proof, args.result, sender_hash=sender_hash(args), quality_score=args.quality
        )
    return told(args, change)


def _fail_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    add_reason(parser, required=True)


def fail(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        return told(args, memory.fail_task(args.id, proof, args.reason, sender_hash=sender_hash(args)))


def block(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.block_task(args.id, proof_or_none(args), reason=args.reason, sender_hash=sender_hash(args))
    return told(args, task)


COMMANDS = {
    "claim": Command(_claim_options, claim),
    "renew": Command(_renew_options, renew),
    "complete": Command(_complete_options, complete),
    "fail": Command(_fail_options, fail),
    "block": Command(_fail_options, block),
}
