"""say, flush, and the plan as people ask for it: a conversation from the terminal."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk
from dibs.cli.output import warn
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, emit, printable
from dibs.core.errors import InvalidInput
from dibs.core.sender import hash_sender, sender_hash_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.chat.conversation.delivery import Delivery
    from dibs.chat.conversation.reader import Outcome
    from dibs.console.arguments import Parser
    from dibs.core.task import Json


def add_sender(parser: Parser) -> None:
    parser.add_argument("--sender", metavar="WHO", help="who is speaking, such as a phone number (DIBS_SENDER_SECRET)")
    parser.add_argument("--sender-hash", metavar="HASH", help="the same as a hash")


def sender_of(args: argparse.Namespace) -> str | None:
    if args.sender is not None and args.sender_hash is not None:
        raise InvalidInput("--sender and --sender-hash name the same thing; give one of them.")
    if args.sender_hash is not None:
        return sender_hash_of(args.sender_hash)
    if args.sender is None:
        return None
    return hash_sender(args.sender, os.environ.get("DIBS_SENDER_SECRET") or "")


def _needed(sender: str | None) -> str:
    if sender is None:
        raise InvalidInput("Who is speaking? Give --sender, or --sender-hash.")
    return sender


# say


def _say_options(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="+", help="what is said; several words need no quotes")
    add_sender(parser)
    parser.add_argument("--preview", action="store_true", help="tell what would happen, and change nothing")
    add_agent(parser)


def say(args: argparse.Namespace) -> int:
    from dibs.chat.opening import chosen_session
    from dibs.chat.wire import said_json
    from dibs.protocols.kurultai.notion import reply_for

    sender = _needed(sender_of(args))
    with open_desk(args) as desk:
        session = chosen_session(desk, sender, sync=lambda: reply_for(desk, sender))
        said = session.say(" ".join(args.text), preview=args.preview)
    data = said_json(said, preview=args.preview)
    return emit(args, lambda: data, lambda: map(printable, said.reply.text.split("\n")))


# flush


def _flush_options(parser: Parser) -> None:
    add_sender(parser)
    parser.add_argument("--watch", action="store_true", help="go on reading whatever comes due, until stopped")
    add_agent(parser)


def flush(args: argparse.Namespace) -> int:
    from dibs.chat.conversation.delivery import Deliverer, deliver
    from dibs.chat.conversation.reader import read_due, watch
    from dibs.chat.opening import chosen_reader, chosen_unify
    from dibs.chat.wire import outcome_json

    sender = sender_of(args)
    if args.watch and sender is not None:
        raise InvalidInput("--watch reads for all senders; leave --sender away.")
    with Stop() if args.watch else nullcontext() as stop, open_desk(args) as desk:
        reader, deliverer = chosen_reader(desk), Deliverer(desk, chosen_unify())
        if stop is not None:
            watch(desk, reader, deliverer, lambda what: _show(args, what), warn, stop.wait)
            return stop.status
        if sender is None:
            read = list(read_due(desk, reader, warn))
            list(deliverer.round(warn))
        else:
            read = [outcome for outcome in (reader.read(sender, now=True),) if outcome is not None]
            deliver(desk, sender, chosen_unify())
    return emit(args, lambda: {"read": [outcome_json(one) for one in read]}, lambda: _outcomes(read))


def _show(args: argparse.Namespace, what: Outcome | Delivery) -> None:
    """A line, or a document, for each window as it is read, and for what its sender is told."""
    from dibs.chat.conversation.delivery import Delivery
    from dibs.chat.wire import outcome_json

    if isinstance(what, Delivery):
        print(compact_json(_told_data(what)) if args.json else "\n".join(_told_lines(what)), flush=True)
    else:
        print(compact_json(outcome_json(what)) if args.json else "\n".join(_outcome_lines(what)), flush=True)


def _told_data(told: Delivery) -> dict[str, Json]:
    return {"sender_hash": told.sender, "notes": [note.id for note in told.notes]}


def _told_lines(told: Delivery) -> Iterable[str]:
    for note in told.notes:
        yield f"{told.sender[:12]}  told: {printable(note.title)}"


def _outcomes(read: list[Outcome]) -> Iterable[str]:
    if not read:
        yield "nothing to read"
    for outcome in read:
        yield from _outcome_lines(outcome)


def _outcome_lines(outcome: Outcome) -> Iterable[str]:
    made = {"task": len(outcome.tasks), "link": len(outcome.links)}
    counts = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in made.items()]
    yield f"{outcome.sender[:12]}  {', '.join([f'{len(outcome.messages)} read', *counts])}"
    for task in outcome.tasks:
        merged = f" (merged into {task.merged_into})" if task.merged_into else ""
        yield f"  {task.id}  {printable(task.title)}{merged}"
    yield from (f"  ? {printable(question.text)}" for question in outcome.questions)
    yield from (f"  ! {printable(note)}" for note in outcome.notes)
    if outcome.later.messages:
        yield f"  {len(outcome.later.messages)} put off: {outcome.later.why}"
    if outcome.refused is not None:
        yield f"  set aside: {printable(outcome.refused.title)}: {outcome.why}"


# plan show


def show_plan(args: argparse.Namespace) -> int:
    """Of a sender, or of the scope."""
    from dibs.chat.conversation.plan import HISTORY, plan_of, plan_text
    from dibs.chat.wire import plan_json
    from dibs.core.draw.mermaid import mermaid
    from dibs.core.task import Status
    from dibs.stores.port import Query

    sender = sender_of(args)
    with open_desk(args) as desk:
        scope = sender or desk.scope
        done = desk.find(Query(scope, (Status.DONE,), limit=HISTORY))
        graph, now = desk.at(scope).graph(finished=False), desk.now()
    plan = plan_of(graph, done)
    if args.format == "mermaid":
        return emit(args, lambda: plan_json(plan), lambda: [mermaid(graph)])
    args.json = args.json or args.format == "json"
    return emit(args, lambda: plan_json(plan), lambda: map(printable, plan_text(plan, now).split("\n")))


COMMANDS = {"say": Command(_say_options, say), "flush": Command(_flush_options, flush)}
