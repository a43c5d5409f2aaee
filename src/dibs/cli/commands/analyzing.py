"""analyze: what would come of a batch of messages, without writing anything."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.console.files import read_text
from dibs.console.streams import emit, printable
from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.chat.analysis import Merge, Message, Proposal, Relation
    from dibs.chat.preview import Preview
    from dibs.console.arguments import Parser
    from dibs.core.task import Json

_MOST = 1000


def _options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="a message on each line, or JSON lines; else stdin"
    )


def analyze(args: argparse.Namespace) -> int:
    from dibs.chat.embed import DEFAULT, open_embedder
    from dibs.chat.preview import preview

    embedder = open_embedder(os.environ.get("DIBS_EMBEDDER") or DEFAULT, os.environ)
    found = preview(_messages(read_text(args.file)), embedder)
    return emit(args, lambda: _data(found), lambda: _lines(found))


def _messages(text: str) -> list[Message]:
    """A message is called by its id, where it has one, else by the number of its line."""
    found = [_message(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(found) > _MOST:
        raise InvalidInput(f"These are {len(found)} messages; at most {_MOST} can be analyzed at once.")
    if len({message.ref for message in found}) < len(found):
        raise InvalidInput("Two messages have the same id.")
    return found


def _message(number: int, line: str) -> Message:
    from dibs.chat.analysis import Message

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


def _lines(found: Preview) -> Iterable[str]:
    analysis = found.analysis
    for task in analysis.tasks:
        yield f"{task.ref}  {printable(task.title)}  ({task.deliverable})"
        for link in analysis.links:
            if link.task == task.ref:
                yield f"    {_WORDS[link.kind]} {link.on}, {printable(link.evidence)}"
    for merge in analysis.merges:
        yield f"{merge.task.ref}  {printable(merge.task.title)}: the same as {merge.into}, {merge.evidence}"
    for question in analysis.questions:
        yield f"?   {printable(question.text)}"
    for one in found.commands:
        yield f"!   {one.command.name}: {printable(', '.join(one.command.targets)) or 'as it is'}"
    if not analysis.tasks and not found.commands:
        yield "Nothing to do in it."


COMMANDS = {"analyze": Command(_options, analyze)}
