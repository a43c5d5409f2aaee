"""The reader: turns the messages of a closed window into tasks and links, exactly once.

The messages are leased, so no other reader reads them meanwhile, and they finish in the same transaction that adds
their tasks. If a reader dies, its messages stay unread until its lease expires. A late reader is rejected and adds
nothing.

The vectors of a sender's open tasks are stored with them, and computed where they are missing. Vectors only improve the
analysis: no message and no task depends on them.

Any number of processes can run `watch`, which reads and delivers for all senders until it is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.analysis import Analysis, Analyst, Merge, Message, OpenTask, Proposal, Question
from dibs.chat.analyst.embedders import Builtin, Embedder
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.inbox import (
    ORIGIN,
    READER,
    SenderScopes,
    close_window,
    received,
    remember_rhythm,
    senders_waiting,
    window_end,
)
from dibs.core.checks import TITLE_MAX, headline
from dibs.core.errors import (
    InvalidInput,
    LostLock,
    NotFound,
    OverQuota,
    Refused,
    RuleBroken,
    ServiceUnavailable,
    StoreError,
)
from dibs.core.lifecycle import Move, Verb
from dibs.core.task import Actor, Draft, Json, Link, Task
from dibs.desk import mint_id
from dibs.stores.port import Terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dibs.chat.analyst.embedders import Embedder, Vector
    from dibs.chat.conversation.delivery import Deliverer, Delivery
    from dibs.chat.conversation.settings import Limits
    from dibs.core.graph import Graph
    from dibs.core.task import Task
    from dibs.desk import Desk


MADE_BY = "chat_embedder"  # the setting that tells whose vectors they are: those of two cannot be compared


def known_tasks(scopes: SenderScopes, tasks: Sequence[Task], embedder: Embedder) -> list[OpenTask]:
    """With the vectors of this embedder; those that had to be made are kept for the next time."""
    known, made = tasks_with_vectors(scopes, tasks, embedder)
    keep_vectors(scopes, made, embedder)
    return known


def tasks_with_vectors(
    scopes: SenderScopes, tasks: Sequence[Task], embedder: Embedder
) -> tuple[list[OpenTask], dict[str, Vector]]:
    """The same without writing anything, and the vectors that had to be made."""
    kept = scopes.tasks.vectors() if scopes.tasks.settings().get(MADE_BY) == embedder.name else {}
    bare = [task for task in tasks if task.id not in kept]
    made = dict(zip((task.id for task in bare), embedder.embed([task.title for task in bare]), strict=True))
    vectors = {**kept, **made}
    return [OpenTask(task.id, task.title, tuple(vectors[task.id]), task.deliverable) for task in tasks], made


def tasks_without_vectors(tasks: Sequence[Task]) -> list[OpenTask]:
    """Without vectors: whoever thinks about them makes their own."""
    return [OpenTask(task.id, task.title, (), task.deliverable) for task in tasks]


def keep_vectors(scopes: SenderScopes, vectors: Mapping[str, Vector], embedder: Embedder) -> None:
    telling = {task: vector for task, vector in vectors.items() if any(vector)}
    if not telling:
        return
    try:
        scopes.tasks.keep_vectors(telling)
    except (NotFound, InvalidInput):  # one was pruned meanwhile, or others keep longer ones here: made again next time
        return
    if scopes.tasks.settings().get(MADE_BY) != embedder.name:
        scopes.tasks.configure({MADE_BY: embedder.name})


USUAL_WEIGHT = 0.5  # kurultai's: between 0 and 1, higher first; ours is the same with a minus


class Additions(NamedTuple):
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


def fitting(analysis: Analysis, messages: Sequence[Task], space: int) -> int:
    """How many of the messages, from the first on, ask for no more than there is room for."""
    place = {message.id: number for number, message in enumerate(messages)}
    firsts = sorted(min(place[str(ref)] for ref in proposal.messages) for proposal in proposals(analysis))
    return len(messages) if len(firsts) <= space else firsts[space]


def additions(
    analysis: Analysis, messages: Sequence[Task], names: Mapping[str, str], scope: str, by: Actor
) -> Additions:
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
    ended = (_finished(message, analysis, names, by, said if message is messages[0] else {}) for message in messages)
    return Additions(drafts, links, tuple(chain(merging, ended)))


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


def _finished(
    message: Task, analysis: Analysis, names: Mapping[str, str], by: Actor, besides: Mapping[str, Json]
) -> Move:
    made = [names[one.ref] for one in analysis.tasks if message.id in one.messages]
    merged = [_id(names, one.into) for one in analysis.merges if message.id in one.task.messages]
    result: dict[str, Json] = {"tasks": list(dict.fromkeys((*made, *merged))), **besides}
    return Move(Verb.DONE, message.id, message.scope, by, token=_token(message), result=result)


def _id(names: Mapping[str, str], ref: str) -> str:
    return names.get(ref, ref)


def _token(message: Task) -> str:
    assert message.lease is not None, "only what is held can be ended"
    return message.lease.token


LEASE = timedelta(minutes=2)
_NAME = "reader"  # whoever reads: an agent's messages do not count among the tasks that it may hold
_MOST = 100  # messages at once
_SHORT, _LONG = 6, 12  # a short id may be taken; a long one is not
_TURNS = 5  # what others do meanwhile may undo a plan, but hardly again and again


class PutOff(NamedTuple):
    """Messages that wait for room: until then, or only for those before them to be read."""

    messages: tuple[Task, ...] = ()
    until: datetime | None = None
    why: str = ""


class Outcome(NamedTuple):
    """What became of a batch. A message that can never be read as it is was `refused`, and waits for a person.

    `notes` tell what the sender should know about how it was read.
    """

    sender: str
    messages: tuple[Task, ...] = ()
    tasks: tuple[Task, ...] = ()
    links: tuple[Link, ...] = ()
    questions: tuple[Question, ...] = ()
    later: PutOff = PutOff()
    refused: Task | None = None
    why: str = ""
    notes: tuple[str, ...] = ()


class Reader:
    """Reads for any sender, within their limits unless others are given. `name` is who it is at work as."""

    def __init__(
        self,
        desk: Desk,
        analyst: Analyst,
        embedder: Embedder,
        name: str = "reader",
        limits: Limits | None = None,
    ) -> None:
        self._desk = desk.at(desk.scope, by=Actor(name))
        self._analyst = analyst
        self._embedder = embedder
        self._given = limits

    def read(self, sender: str, *, now: bool = False) -> Outcome | None:
        """Read what is due of one sender, or with `now` all there is; None where there was nothing."""
        scopes = SenderScopes(self._desk, sender)
        if now:
            close_window(scopes, scopes.unread())
        messages = self._claimed(scopes)
        if not messages:
            return None
        remember_rhythm(scopes, messages[-1])
        return self._handed_in(scopes, messages)

    def _claimed(self, scopes: SenderScopes) -> list[Task]:
        taken = scopes.inbox.claim(_NAME, count=_MOST, lease=LEASE, can=[READER])
        found = [each.task for each in taken]
        if 0 < len(found) < _MOST:
            found += self._of_the_same_window(scopes, found)
        return sorted(found, key=received)

    def _of_the_same_window(self, scopes: SenderScopes, found: Sequence[Task]) -> list[Task]:
        """Two messages at once may each have opened a window: what came before the first one closed belongs to it."""
        closed = min(window_end(message) for message in found)
        beside = [message for message in scopes.unread() if message.created_at <= closed][: _MOST - len(found)]
        if not beside:
            return []
        close_window(scopes, beside)
        try:
            taken = scopes.inbox.claim(_NAME, refs=[message.id for message in beside], lease=LEASE, can=[READER])
        except Refused:  # somebody else is reading them
            return []
        return [each.task for each in taken]

    def _handed_in(self, scopes: SenderScopes, messages: Sequence[Task]) -> Outcome:
        """As many of the messages as there is room for; the others go back."""
        reading, full = list(messages), None
        for turn in range(_TURNS):
            analysis, reading = self._that_fits(scopes, reading, full)
            back = self._put_off(scopes, messages[len(reading) :], full)
            try:
                return self._written(scopes, analysis, reading, back, short=turn == 0)
            except (OverQuota, RuleBroken, NotFound) as error:
                if turn == _TURNS - 1:
                    raise
                full = error if isinstance(error, OverQuota) else full
        raise AssertionError("unreachable")

    def _that_fits(
        self, scopes: SenderScopes, reading: list[Task], full: OverQuota | None
    ) -> tuple[Analysis, list[Task]]:
        """The first messages that ask for no more than may be taken in; one alone may ask for more than a batch."""
        space = min(self._limits(scopes)) if full is None else full.room
        graph = scopes.tasks.graph(finished=False)
        while True:
            analysis = self._analysed(scopes, graph, reading)
            fit = fitting(analysis, reading, space)
            if fit == 0 and full is None:
                fit = 1
            if fit >= len(reading):
                return analysis, reading
            reading = reading[:fit]

    def _analysed(self, scopes: SenderScopes, graph: Graph, messages: Sequence[Task]) -> Analysis:
        """Vectors only help to think: where they cannot be had, those that dibs brings itself have to do, this once."""
        said = [Message(message.id, message.description) for message in messages]
        asked = (graph.prerequisites(), scopes.settings.thresholds)
        try:
            return self._analyst.analyse(said, known_tasks(scopes, graph.tasks, self._embedder), *asked)
        except ServiceUnavailable as error:
            found = WordAnalyst(Builtin()).analyse(said, tasks_without_vectors(graph.tasks), *asked)
            return without_vectors(found, f"{error.message} The built-in analyst stood in.")

    def _limits(self, scopes: SenderScopes) -> Limits:
        return self._given or scopes.settings.limits

    def _put_off(self, scopes: SenderScopes, messages: Sequence[Task], full: OverQuota | None) -> PutOff:
        if full is None:
            return PutOff(tuple(messages), None, f"more than {min(self._limits(scopes))} tasks at once")
        until = self._desk.now() + timedelta(milliseconds=full.retry_after_ms or 0)
        return PutOff(tuple(messages), until, full.message)

    def _written(
        self, scopes: SenderScopes, analysis: Analysis, messages: Sequence[Task], back: PutOff, *, short: bool
    ) -> Outcome:
        limits = self._limits(scopes)
        if len(messages) == 1 and asked_for(analysis) > limits.hourly:
            return self._refused(scopes, messages[0], limits.hourly, back)
        length = _SHORT if short else _LONG
        made = proposals(analysis)
        # All of a batch are queued at one moment, and then the id decides: so what was said first is done first.
        names = dict(zip((one.ref for one in made), sorted(mint_id(length) for _ in made), strict=True))
        drafts, links, ending = additions(analysis, messages, names, scopes.sender, self._desk.by)
        ending += put_off(back.messages, back.until, back.why, self._desk.by)
        added = scopes.tasks.add(drafts, links, Terms(limits.quota, ending))
        keep_vectors(scopes, {names[one.ref]: one.vector for one in made}, self._embedder)
        asked = named(analysis.questions, names)
        return Outcome(scopes.sender, tuple(messages), tuple(added), links, asked, back, notes=analysis.notes)

    def _refused(self, scopes: SenderScopes, message: Task, most: int, back: PutOff) -> Outcome:
        why = f"it asks for more than the {most} tasks that are taken in within an hour; send it in parts"
        ending = (set_aside(message, why, self._desk.by), *put_off(back.messages, back.until, back.why, self._desk.by))
        scopes.tasks.add([], (), Terms(ending=ending))
        return Outcome(scopes.sender, later=back, refused=message, why=why)


EVERY = 1.0  # seconds between looks: a window is read about so late
_RETRY = 5.0  # the same while the store cannot be asked


def read_due(desk: Desk, reader: Reader, trouble: Callable[[str], None]) -> Iterator[Outcome]:
    """What came of each window that is closed. Trouble with one sender's messages keeps no other's waiting."""
    for sender in senders_waiting(desk):
        try:
            outcome = reader.read(sender)
        except LostLock:  # somebody else has read it
            continue
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - it is told, and the messages are tried again when the lease is over
            trouble(f"The messages of {sender[:12]}… could not be read ({type(error).__name__}: {error}).")
            continue
        if outcome is not None:
            yield outcome


def watch(
    desk: Desk,
    reader: Reader,
    deliverer: Deliverer,
    show: Callable[[Outcome | Delivery], None],
    trouble: Callable[[str], None],
    stopped_within: Callable[[float], bool],
) -> None:
    """Repeat until stopped; `stopped_within` waits so many seconds. A store that cannot be reached is asked again."""
    pause = 0.0
    while not stopped_within(pause):
        pause = EVERY
        try:
            for outcome in read_due(desk, reader, trouble):
                show(outcome)
            for told in deliverer.round(trouble):
                show(told)
        except StoreError as error:
            trouble(error.message)
            pause = _RETRY
