"""analyze: what would come of a batch of messages, without writing anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dibs.chat.opening import chosen_analyst, chosen_embedder
from dibs.cli.command import open_desk
from dibs.cli.commands.chatting import add_sender, sender_of
from dibs.console.commands import Command
from dibs.console.streams import emit, printable, read_text
from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.chat.analyst.analysis import Merge, Message, Proposal, Relation
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.steering.preview import Preview, PreviewContext
    from dibs.console.arguments import Parser
    from dibs.core.task import Json

_MOST = 1000


def _options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="a message on each line, or JSON lines; else stdin"
    )
    add_sender(parser)


def analyze(args: argparse.Namespace) -> int:
    from dibs.chat.steering.preview import PreviewContext, preview

    embedder, sender = chosen_embedder(), sender_of(args)
    messages = _messages(read_text(args.file))
    against = PreviewContext() if sender is None else _against(args, sender, embedder)
    found = preview(messages, chosen_analyst(embedder), embedder, against)
    return emit(args, lambda: _data(found), lambda: _lines(found, against))


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
        raise InvalidInput(f"line {number}: not valid JSON ({error}). A message is an object with a text.") from None
    text, ref = given.get("text"), given.get("id", number)
    if not isinstance(text, str) or isinstance(ref, bool) or not isinstance(ref, str | int):
        raise InvalidInput(f"line {number}: a message has a text, and may have an id.")
    return Message(ref, text)


def _data(found: Preview) -> dict[str, Json]:
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


def _lines(found: Preview, against: PreviewContext) -> Iterable[str]:
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
        yield "Nothing to do in it."
    yield from map(printable, analysis.notes)


def _link_lines(task: str, links: Iterable[Relation]) -> Iterable[str]:
    for link in links:
        if link.task == task:
            yield f"    {_WORDS[link.kind]} {link.on}, {printable(link.evidence)}"


COMMANDS = {"analyze": Command(_options, analyze)}
