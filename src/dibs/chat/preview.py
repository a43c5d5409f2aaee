"""What would come of a batch of messages, commands among them, before anything is written."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dibs.chat.analysis import Analysis, Known, Message, Proposal, Relation
from dibs.chat.analyst import WordAnalyst
from dibs.chat.commands import Command, Name, parse
from dibs.chat.embed import Embedder
from dibs.chat.links import settled
from dibs.chat.targets import find
from dibs.core.task import LinkKind


class Spoken(NamedTuple):
    message: str | int
    command: Command


class Preview(NamedTuple):
    analysis: Analysis
    commands: tuple[Spoken, ...]


def preview(messages: Sequence[Message], embedder: Embedder) -> Preview:
    """Commands are set aside; what they say about the order of the batch's own tasks is in the links."""
    spoken = [Spoken(message.ref, command) for message in messages if (command := parse(message.text)) is not None]
    aside = {one.message for one in spoken}
    analysis = WordAnalyst(embedder).analyse([message for message in messages if message.ref not in aside])
    said = [link for one in spoken for link in _ordered(one, analysis.tasks, embedder)]
    links, conflicts = settled((*said, *analysis.links), (), {})
    return Preview(analysis._replace(links=links, questions=(*analysis.questions, *conflicts)), tuple(spoken))


def _ordered(spoken: Spoken, tasks: Sequence[Proposal], embedder: Embedder) -> Iterable[Relation]:
    name, targets, _ = spoken.command
    if name not in {Name.BEFORE, Name.AFTER}:
        return
    known = [Known(task.ref, task.title, task.vector) for task in tasks]
    ends = [found.id for target in targets if (found := find(target, known, embedder).one) is not None]
    if len(ends) == len(targets):
        later, earlier = ends if name is Name.AFTER else reversed(ends)
        evidence = f"because message {spoken.message} says so"
        yield Relation(later, earlier, LinkKind.BLOCKS, 1.0, 1.0, "explicit", evidence)
