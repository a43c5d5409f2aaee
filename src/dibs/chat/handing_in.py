"""What came of a batch of messages: tasks, links, and the moves that end the messages. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from dibs.chat.analyst.analysis import Analysis, Merge, Proposal, Question
from dibs.chat.room import ORIGIN
from dibs.core.checks import TITLE_MAX, headline
from dibs.core.lifecycle import Move, Verb
from dibs.core.task import Actor, Draft, Json, Link, Task

USUAL_WEIGHT = 0.5  # kurultai's: between 0 and 1, higher first; ours is the same with a minus


class Handful(NamedTuple):
    drafts: tuple[Draft, ...]
    links: tuple[Link, ...]
    ending: tuple[Move, ...]


def proposals(analysis: Analysis) -> tuple[Proposal, ...]:
    """The tasks it would make, merged ones included: those are made too, and canceled, so that they can be had back."""
    return (*analysis.tasks, *(merge.task for merge in analysis.merges))


def without_vectors(analysis: Analysis, note: str) -> Analysis:
    """Of another embedder than the rest: not to be kept with theirs."""
    tasks = tuple(one._replace(vector=()) for one in analysis.tasks)
    merges = tuple(one._replace(task=one.task._replace(vector=())) for one in analysis.merges)
    return analysis._replace(tasks=tasks, merges=merges, notes=(*analysis.notes, note))


def asked_for(analysis: Analysis) -> int:
    return len(proposals(analysis))


def fitting(analysis: Analysis, messages: Sequence[Task], room: int) -> int:
    """How many of the messages, from the first on, ask for no more than there is room for."""
    place = {message.id: number for number, message in enumerate(messages)}
    firsts = sorted(min(place[str(ref)] for ref in proposal.messages) for proposal in proposals(analysis))
    return len(messages) if len(firsts) <= room else firsts[room]


def handful(analysis: Analysis, messages: Sequence[Task], names: Mapping[str, str], scope: str, by: Actor) -> Handful:
    """`names` are the ids that the proposals are to have; whatever is not among them is an open task's."""
    window = max((message.extra.get("window_expires_at") for message in messages), key=str, default=None)
    common: dict[str, Json] = {} if window is None else {"window_expires_at": window}
    reasons = _reasons(analysis, names)
    drafts = tuple(
        _draft(proposal, names[proposal.ref], common | reasons.get(names[proposal.ref], {}))
        for proposal in proposals(analysis)
    )
    links = tuple(
        Link(_id(names, one.task), _id(names, one.on), one.kind, one.weight, one.detected_by, one.confidence)
        for one in analysis.links
    )
    merging = (_merging(merge, names, scope, by) for merge in analysis.merges)
    said = _to_be_told(analysis, names)
    ended = (_read(message, analysis, names, by, said if message is messages[0] else {}) for message in messages)
    return Handful(drafts, links, tuple(chain(merging, ended)))


def put_off(messages: Sequence[Task], until: datetime | None, why: str, by: Actor) -> tuple[Move, ...]:
    """The messages go back, to be read later."""
    return tuple(
        Move(Verb.RELEASE, one.id, one.scope, by, token=_token(one), reason=why, not_before=until) for one in messages
    )


def set_aside(message: Task, why: str, by: Actor) -> Move:
    """What can never be read as it is waits for a person."""
    return Move(Verb.BLOCK, message.id, message.scope, by, token=_token(message), reason=why)


def _draft(proposal: Proposal, name: str, extra: Mapping[str, Json]) -> Draft:
    return Draft(
        title=headline(proposal.title, TITLE_MAX),
        id=name,
        description=proposal.text,
        priority=-USUAL_WEIGHT,
        category=proposal.deliverable,
        deliverable=proposal.deliverable,
        origin=ORIGIN,
        extra={**extra, "messages": [str(ref) for ref in proposal.messages]},
    )


def _reasons(analysis: Analysis, names: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Why the links of a new task are there, with the task: `because` by the other task's id."""
    found: dict[str, dict[str, Json]] = {}
    for link in analysis.links:
        task, on = _id(names, link.task), _id(names, link.on)
        new, other = (task, on) if link.task in names else (on, task)
        found.setdefault(new, {})[other] = link.evidence
    return {task: {"because": because} for task, because in found.items()}


def _merging(merge: Merge, names: Mapping[str, str], scope: str, by: Actor) -> Move:
    into = _id(names, merge.into)
    return Move(Verb.CANCEL, names[merge.task.ref], scope, by, reason=merge.evidence, merged_into=into)


def named(questions: Iterable[Question], names: Mapping[str, str]) -> tuple[Question, ...]:
    """Questions that speak of tasks by the ids they have got."""
    return tuple(one._replace(about=tuple(_id(names, ref) for ref in one.about)) for one in questions)


def _to_be_told(analysis: Analysis, names: Mapping[str, str]) -> dict[str, Json]:
    """What the sender has to hear of a batch besides its tasks; kept with its first message, and told from there."""
    asked = [{"kind": one.kind, "about": list(one.about), "text": one.text} for one in named(analysis.questions, names)]
    told: dict[str, Json] = {"questions": asked, "notes": list(analysis.notes)}
    return {name: value for name, value in told.items() if value}


def _read(message: Task, analysis: Analysis, names: Mapping[str, str], by: Actor, besides: Mapping[str, Json]) -> Move:
    made = [names[one.ref] for one in analysis.tasks if message.id in one.messages]
    merged = [_id(names, one.into) for one in analysis.merges if message.id in one.task.messages]
    result: dict[str, Json] = {"tasks": list(dict.fromkeys((*made, *merged))), **besides}
    return Move(Verb.DONE, message.id, message.scope, by, token=_token(message), result=result)


def _id(names: Mapping[str, str], ref: str) -> str:
    return names.get(ref, ref)


def _token(message: Task) -> str:
    assert message.lease is not None, "only what is held can be ended"
    return message.lease.token
