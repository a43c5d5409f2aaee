"""What would come of a batch of messages, commands among them, before anything is written."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dibs.chat.analyst.analysis import Analysis, Analyst, Message, OpenTask, Relation, Thresholds
from dibs.chat.analyst.embedders import Embedder
from dibs.chat.analyst.links import settled
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.steering.commands import Command, Name, recognise
from dibs.core.task import LinkKind


class CommandMessage(NamedTuple):
    message: str | int
    command: Command


class Preview(NamedTuple):
    analysis: Analysis
    commands: tuple[CommandMessage, ...]


class PreviewContext(NamedTuple):
    """What it is held against: open tasks, what each of them waits for, and how alike is alike."""

    known: tuple[OpenTask, ...] = ()
    before: Mapping[str, Iterable[str]] = {}
    limits: Thresholds = Thresholds()


def preview(
    messages: Sequence[Message],
    analyst: Analyst,
    embedder: Embedder,
    against: PreviewContext = PreviewContext(),  # noqa: B008 - frozen
) -> Preview:
    """Commands are set aside; what they say about the order of the tasks is in the links."""
    there = OpenTasks(against.known, embedder)
    spoken = [
        CommandMessage(message.ref, command)
        for message in messages
        if (command := recognise(message.text, lambda phrase: bool(find_in(phrase, there).tasks))) is not None
    ]
    aside = {one.message for one in spoken}
    rest = [message for message in messages if message.ref not in aside]
    analysis = analyst.analyse(rest, *against)
    known = [*(OpenTask(task.ref, task.title, task.vector) for task in analysis.tasks), *against.known]
    said = [link for one in spoken for link in _ordered(one, OpenTasks(known, embedder))]
    links, conflicts = settled((*said, *analysis.links), (), against.before)
    return Preview(analysis._replace(links=links, questions=(*analysis.questions, *conflicts)), tuple(spoken))


def _ordered(spoken: CommandMessage, tasks: OpenTasks) -> Iterable[Relation]:
    name, targets, _ = spoken.command
    if name not in {Name.BEFORE, Name.AFTER}:
        return
    ends = [found.id for target in targets if (found := find_in(target, tasks).one) is not None]
    if len(ends) == len(targets):
        later, earlier = ends if name is Name.AFTER else reversed(ends)
        evidence = f"because message {spoken.message} says so"
        yield Relation(later, earlier, LinkKind.BLOCKS, 1.0, 1.0, "explicit", evidence)
