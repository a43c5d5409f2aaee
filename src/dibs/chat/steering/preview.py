"""A preview of the tasks, links and commands of a batch of messages, without writing them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from dibs.chat.analyst.analysis import Analysis, Analyst, Message, OpenTask, Relation, Role, Thresholds
from dibs.chat.analyst.embedders import Embedder
from dibs.chat.analyst.links import settled
from dibs.chat.analyst.open_tasks import OpenTasks, find_in
from dibs.chat.analyst.understanding import Steer, Titles, steers, understood
from dibs.chat.language.acts import Act
from dibs.chat.steering.commands import EVERYTHING, Command, Name, recognise
from dibs.core.task import LinkKind


class CommandMessage(NamedTuple):
    message: str | int
    command: Command


class Preview(NamedTuple):
    analysis: Analysis
    commands: tuple[CommandMessage, ...]


class PreviewContext(NamedTuple):
    """The open tasks, their prerequisites and the thresholds that a preview uses."""

    known: tuple[OpenTask, ...] = ()
    before: Mapping[str, Iterable[str]] = {}
    limits: Thresholds = Thresholds()


def preview(
    messages: Sequence[Message],
    analyst: Analyst,
    embedder: Embedder,
    against: PreviewContext = PreviewContext(),  # noqa: B008 - frozen
) -> Preview:
    """Analyse the messages without the commands among them, which only add links for the order that they state."""
    recent = [OpenTask(f"said:{message.ref}", message.text) for message in messages]
    there = OpenTasks([*against.known, *recent], embedder)  # a command may name a message of the same window
    titles = Titles([task.title for task in against.known])
    texts = [message.text for message in messages]
    acts = understood(texts, titles)
    spoken = [
        CommandMessage(message.ref, command)
        for message, act, steer in zip(messages, acts, steers(texts, titles, acts), strict=True)
        if (command := commanded(message.text, there, act, steer, f"said:{message.ref}")) is not None
    ]
    aside = {one.message for one in spoken}
    rest = [one._replace(role=Role.COMMAND) if one.ref in aside else one for one in messages]
    analysis = analyst.analyse(rest, *against)
    known = [*(OpenTask(task.ref, task.title, task.vector) for task in analysis.tasks), *against.known]
    ordered = [link for one in spoken for link in _ordered(one, OpenTasks(known, embedder))]
    links, conflicts = settled((*ordered, *analysis.links), (), against.before)
    return Preview(analysis._replace(links=links, questions=(*analysis.questions, *conflicts)), tuple(spoken))


_SHORT = 3  # commands up to this number of words do not need the model
_DENIED = 0.35  # share of steering below which the model rejects a command
_DOUBTED = 0.5  # share of steering below which a command must name existing tasks


def commanded(text: str, there: OpenTasks, act: Act, steer: Steer | None, own: str = "") -> Command | None:
    """The command to carry out: one with a certain form or a certain meaning.

    Where a text looks like a command but names no task except `own`, which is the text itself, the model decides.
    """

    def known(phrase: str) -> bool:
        return phrase == EVERYTHING or any(task.id != own for task in find_in(phrase, there).tasks)

    command = recognise(text, known)
    named = command is not None and bool(command.targets) and all(map(known, command.targets))
    doubted = act.steering < _DOUBTED and len(text.split()) > _SHORT
    ordered = command is not None and named and len(command.targets) > 1  # two known tasks are not named by chance
    denied = act.steering < _DENIED and len(text.split()) > _SHORT and not ordered
    if command is not None and command.targets and (denied or (doubted and not named)):
        command = None
    if command is not None or steer is None or not steer.certain:
        return command
    return Command(Name(steer.name), tuple(there.tasks[number].id for number in steer.tasks))


def _ordered(spoken: CommandMessage, tasks: OpenTasks) -> Iterable[Relation]:
    name, targets, _ = spoken.command
    if name not in {Name.BEFORE, Name.AFTER}:
        return
    ends = [found.id for target in targets if (found := find_in(target, tasks).one) is not None]
    if len(ends) == len(targets):
        later, earlier = ends if name is Name.AFTER else reversed(ends)
        evidence = f"because message {spoken.message} says so"
        yield Relation(later, earlier, LinkKind.BLOCKS, 1.0, 1.0, "explicit", evidence)
