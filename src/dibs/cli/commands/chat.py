"""say, flush, inbox, config, analyze: a conversation from the terminal."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dibs.chat.opening import chosen_analyst, chosen_embedder, chosen_unify
from dibs.chat.wire import note_json
from dibs.cli.command import add_agent, open_desk, warn
from dibs.console.arguments import add_setting, setting_lines, wanted_change
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, emit, printable, pushed, read_text
from dibs.core.errors import InvalidInput, StoreError
from dibs.core.sender import hash_sender, sender_hash_of
from dibs.identity import sender_secret

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from dibs.chat.analyst.analysis import Merge, Message, Proposal, Relation
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.delivery import Delivery
    from dibs.chat.conversation.reader import Outcome
    from dibs.chat.steering.preview import Preview, PreviewContext
    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk


def add_sender(parser: Parser) -> None:
    parser.add_argument("--sender", metavar="WHO", help="the sender, such as a phone number; needs DIBS_SENDER_SECRET")
    parser.add_argument("--sender-hash", metavar="HASH", help="the sender as a hash")


def sender_of(args: argparse.Namespace) -> str | None:
    if args.sender is not None and args.sender_hash is not None:
        raise InvalidInput("--sender and --sender-hash name the same thing; give one of them.")
    if args.sender_hash is not None:
        return sender_hash_of(args.sender_hash)
    if args.sender is None:
        return None
    with open_desk(args) as desk:
        return hash_sender(args.sender, sender_secret(desk.describe()))


# say


def _say_options(parser: Parser) -> None:
    parser.add_argument(
        "text", metavar="TEXT", nargs="+", help="the message, without quotes if you like; - reads stdin"
    )
    add_sender(parser)
    parser.add_argument("--preview", action="store_true", help="print what would happen, and change nothing")
    add_agent(parser)


def say(args: argparse.Namespace) -> int:
    from dibs.chat.opening import chosen_session
    from dibs.chat.wire import said_json
    from dibs.protocols.kurultai.notion import reply_for

    given, text = sender_of(args), read_text("-") if args.text == ["-"] else " ".join(args.text)
    with open_desk(args) as desk:
        sender = given or desk.scope  # without a sender, the project's own tasks are meant
        session = chosen_session(desk, sender, sync=lambda: reply_for(desk, sender))
        said = session.say(text, preview=args.preview)
    data = said_json(said, preview=args.preview)
    return emit(args, lambda: data, lambda: map(printable, said.reply.text.split("\n")))


# flush


def _flush_options(parser: Parser) -> None:
    add_sender(parser)
    parser.add_argument("--watch", action="store_true", help="keep reading messages when they are due, until stopped")
    add_agent(parser)


def flush(args: argparse.Namespace) -> int:
    from dibs.chat.conversation.delivery import Deliverer, deliver
    from dibs.chat.conversation.inbox import can_chat
    from dibs.chat.conversation.reader import read_due, watch
    from dibs.chat.opening import chosen_reader, chosen_unify
    from dibs.chat.wire import outcome_json

    sender = sender_of(args)
    if args.watch and sender is not None:
        raise InvalidInput("--watch reads for all senders; remove --sender.")
    with Stop() if args.watch else nullcontext() as stop, open_desk(args) as desk:
        reader, deliverer = chosen_reader(desk), Deliverer(desk, chosen_unify())
        if stop is not None:
            watch(desk, reader, deliverer, lambda what: _show(args, what), warn, stop.wait)
            return stop.status
        if sender is None:
            own = reader.read(desk.scope, now=True) if can_chat(desk) else None
            read = [*([own] if own is not None else []), *read_due(desk, reader, warn)]
            list(deliverer.round(warn))
        else:
            read = [outcome for outcome in (reader.read(sender, now=True),) if outcome is not None]
            deliver(desk, sender, chosen_unify())
    return emit(args, lambda: {"read": [outcome_json(one) for one in read]}, lambda: _outcomes(read))


def _show(args: argparse.Namespace, what: Outcome | Delivery) -> None:
    """Print a line or a document for each processed window, and for each answer to its sender."""
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
        yield f"  {len(outcome.later.messages)} postponed: {outcome.later.why}"
    if outcome.refused is not None:
        yield f"  set aside: {printable(outcome.refused.title)}: {outcome.why}"


# plan show


def show_plan(args: argparse.Namespace) -> int:
    """Of a sender, or of the scope."""
    from dibs.chat.conversation.plan import HISTORY, plan_of, plan_text
    from dibs.chat.wire import plan_json
    from dibs.core.task import Status
    from dibs.draw.formats import mermaid
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


EVERY = 1.0  # seconds between looks
_TROUBLE = 5.0  # the same while the store cannot be asked


def _inbox_options(parser: Parser) -> None:
    add_sender(parser)
    parser.add_argument("--follow", action="store_true", help="keep printing answers as they arrive, until stopped")
    parser.add_argument("--all", action="store_true", help="print answers that were printed before too")
    add_agent(parser)


def inbox(args: argparse.Namespace) -> int:
    """Process due windows first, because no timer runs."""
    from dibs.chat.conversation.delivery import deliver
    from dibs.mail import sender_box

    given = sender_of(args)
    with Stop() if args.follow else nullcontext() as stop, open_desk(args) as desk:
        sender = given or desk.scope
        box = sender_box(desk, sender)
        deliver(desk, sender, chosen_unify())
        before = box.history() if args.all else []
        with box.fetch() as new:
            _show_inbox(args, [*before, *new])
            pushed()
        if stop is not None:
            _follow(args, desk, sender, stop)
            return stop.status
    return 0


def _follow(args: argparse.Namespace, desk: Desk, sender: str, stop: Stop) -> None:
    """Only news is worth a look at all of a sender's tasks."""
    from dibs.chat.conversation.delivery import ChangedSenders, deliver
    from dibs.mail import sender_box

    box, news, unify = sender_box(desk, sender), ChangedSenders(desk), chosen_unify()

    def step() -> None:
        if sender in news.senders():
            deliver(desk, sender, unify)
        with box.fetch() as new:
            _show_inbox(args, new)
            pushed()

    again_and_again(step, stop)


def again_and_again(step: Callable[[], None], stop: Stop) -> None:
    """Repeat a step until stopped. A store that cannot be reached is asked again."""
    pause = 0.0
    while not stop.wait(pause):
        pause = EVERY
        try:
            step()
        except StoreError as error:
            warn(error.message)
            pause = _TROUBLE


def _show_inbox(args: argparse.Namespace, notes: Sequence[Task]) -> None:
    if args.follow and args.json:
        for note in notes:
            print(compact_json(note_json(note)))
    elif notes or not args.follow:
        emit(args, lambda: {"notes": [note_json(note) for note in notes]}, lambda: _inbox_lines(notes))


def _inbox_lines(notes: Sequence[Task]) -> Iterable[str]:
    if not notes:
        yield "nothing new"
    for note in notes:
        first, *more = note.description.split("\n")
        yield f"[{note.created_at:%Y-%m-%d %H:%M} UTC] {printable(first)}"
        yield from (printable(line) for line in more)
        yield ""


def _config_options(parser: Parser) -> None:
    add_setting(parser)
    add_sender(parser)
    add_agent(parser)


def config(args: argparse.Namespace) -> int:
    from dibs.chat.conversation.settings import OPTIONS, configure, values

    changes, sender = wanted_change(args, OPTIONS), sender_of(args)
    with open_desk(args) as desk:
        found = configure(desk, sender, changes) if changes else values(desk, sender)
    return emit(args, lambda: {"config": found}, lambda: setting_lines(found, OPTIONS, args.name))


_MOST = 1000


def _analyze_options(parser: Parser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help="a file with a message per line, or JSON lines (default: stdin)",
    )
    add_sender(parser)


def analyze(args: argparse.Namespace) -> int:
    from dibs.chat.steering.preview import PreviewContext, preview

    embedder, sender = chosen_embedder(), sender_of(args)
    messages = _messages(read_text(args.file))
    against = PreviewContext() if sender is None else _against(args, sender, embedder)
    found = preview(messages, chosen_analyst(embedder), embedder, against)
    return emit(args, lambda: _preview_data(found), lambda: _preview_lines(found, against))


def _against(args: argparse.Namespace, sender: str, embedder: Embedder) -> PreviewContext:
    """The sender's open tasks and settings."""
    from dibs.chat.conversation.inbox import SenderScopes
    from dibs.chat.conversation.reader import tasks_with_vectors
    from dibs.chat.steering.preview import PreviewContext

    with open_desk(args) as desk:
        scopes = SenderScopes(desk, sender)
        graph = scopes.tasks.graph(finished=False)
        known, _ = tasks_with_vectors(scopes, graph.tasks, embedder)
        return PreviewContext(tuple(known), graph.prerequisites(), scopes.settings.thresholds)


def _messages(text: str) -> list[Message]:
    """A message is called by its id, where it has one, else by the number of its line."""
    found = [_message(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(found) > _MOST:
        raise InvalidInput(f"These are {len(found)} messages; at most {_MOST} can be analyzed at once.")
    if len({message.ref for message in found}) < len(found):
        raise InvalidInput("Two messages have the same id.")
    return found


def _message(number: int, line: str) -> Message:
    from dibs.chat.analyst.analysis import Message

    if not line.lstrip().startswith("{"):
        return Message(number, line.strip())
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"line {number}: not valid JSON ({error}). A message must be an object with a 'text'."
        ) from None
    text, ref = given.get("text"), given.get("id", number)
    if not isinstance(text, str) or isinstance(ref, bool) or not isinstance(ref, str | int):
        raise InvalidInput(f"line {number}: a message needs a 'text' and may have an 'id'.")
    return Message(ref, text)


def _preview_data(found: Preview) -> dict[str, Json]:
    analysis = found.analysis
    return {
        "tasks": [_task(task) for task in analysis.tasks],
        "links": [_link(link) for link in analysis.links],
        "merges": [_merge(merge) for merge in analysis.merges],
        "questions": [{"kind": one.kind, "about": one.about, "text": one.text} for one in analysis.questions],
        "commands": [
            {"message": one.message, "name": one.command.name, "targets": one.command.targets} for one in found.commands
        ],
        "idle": analysis.idle,
        "notes": analysis.notes,
    }


def _task(task: Proposal) -> dict[str, Json]:
    return {"ref": task.ref, "title": task.title, "deliverable": task.deliverable, "messages": task.messages}


def _link(link: Relation) -> dict[str, Json]:
    return {
        "from": link.task,
        "to": link.on,
        "kind": link.kind,
        "weight": link.weight,
        "confidence": link.confidence,
        "detected_by": link.detected_by,
        "evidence": link.evidence,
    }


def _merge(merge: Merge) -> dict[str, Json]:
    return {**_task(merge.task), "into": merge.into, "likeness": merge.likeness, "evidence": merge.evidence}


_WORDS = {"blocks": "waits for", "feeds_into": "is fed by", "parallel_ok": "goes beside"}


def _preview_lines(found: Preview, against: PreviewContext) -> Iterable[str]:
    analysis = found.analysis
    for task in analysis.tasks:
        yield f"{task.ref}  {printable(task.title)}  ({task.deliverable})"
        yield from _link_lines(task.ref, analysis.links)
    for known in against.known:
        if waits := list(_link_lines(known.id, analysis.links)):
            yield f"{known.id}  {printable(known.title)}  (open already)"
            yield from waits
    for merge in analysis.merges:
        yield f"{merge.task.ref}  {printable(merge.task.title)}: the same as {merge.into}, {merge.evidence}"
    for question in analysis.questions:
        yield f"?   {printable(question.text)}"
    for one in found.commands:
        yield f"!   {one.command.name}: {printable(', '.join(one.command.targets)) or 'as it is'}"
    if not (analysis.tasks or analysis.merges or found.commands):
        yield "It asks for no task."
    yield from map(printable, analysis.notes)


def _link_lines(task: str, links: Iterable[Relation]) -> Iterable[str]:
    for link in links:
        if link.task == task:
            yield f"    {_WORDS[link.kind]} {link.on}, {printable(link.evidence)}"


COMMANDS = {
    "say": Command(_say_options, say),
    "flush": Command(_flush_options, flush),
    "inbox": Command(_inbox_options, inbox),
    "config": Command(_config_options, config),
    "analyze": Command(_analyze_options, analyze),
}
