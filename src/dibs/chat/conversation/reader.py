"""The reader: turns the messages of a closed window into tasks and links, exactly once.

The reader leases the messages, so no other reader reads them, and finishes them in the transaction that adds their
tasks. If a reader dies, its messages stay unread until its lease expires. A late reader is rejected and adds nothing.

The vectors of a sender's open tasks are stored with them, and computed where they are missing. Vectors only improve the
analysis: no message and no task depends on them.

Any number of processes can run `watch`, which reads and delivers for all senders until it is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.analysis import Analysis, Analyst, Merge, Message, OpenTask, Proposal, Question, Role
from dibs.chat.analyst.embedders import Builtin, Embedder
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.inbox import (
    ORIGIN,
    READER,
    ROLE,
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


MADE_BY = "chat_embedder"  # the setting that names the embedder of the stored vectors


def known_tasks(scopes: SenderScopes, tasks: Sequence[Task], embedder: Embedder) -> list[OpenTask]:
    """The open tasks with vectors of this embedder. Missing vectors are computed and stored."""
    known, made = tasks_with_vectors(scopes, tasks, embedder)
    keep_vectors(scopes, made, embedder)
    return known


def tasks_with_vectors(
    scopes: SenderScopes, tasks: Sequence[Task], embedder: Embedder
) -> tuple[list[OpenTask], dict[str, Vector]]:
    """The open tasks with vectors, and the missing vectors that were computed. Nothing is stored."""
    kept = scopes.tasks.vectors() if scopes.tasks.settings().get(MADE_BY) == embedder.name else {}
    bare = [task for task in tasks if task.id not in kept]
    made = dict(zip((task.id for task in bare), embedder.embed([task.title for task in bare]), strict=True))
    vectors = {**kept, **made}
    return [OpenTask(task.id, task.title, tuple(vectors[task.id]), task.deliverable) for task in tasks], made


def tasks_without_vectors(tasks: Sequence[Task]) -> list[OpenTask]:
    """The open tasks without vectors; the analyst computes its own."""
    return [OpenTask(task.id, task.title, (), task.deliverable) for task in tasks]


def keep_vectors(scopes: SenderScopes, vectors: Mapping[str, Vector], embedder: Embedder) -> None:
    telling = {task: vector for task, vector in vectors.items() if any(vector)}
    if not telling:
        return
    try:
        scopes.tasks.keep_vectors(telling)
    except (NotFound, InvalidInput):  # a task was pruned, or the store keeps longer vectors: computed again next time
        return
    if scopes.tasks.settings().get(MADE_BY) != embedder.name:
        scopes.tasks.configure({MADE_BY: embedder.name})


USUAL_WEIGHT = 0.5  # kurultai's weights are between 0 and 1, higher first; ours has the opposite sign


class Additions(NamedTuple):
    drafts: tuple[Draft, ...]
    links: tuple[Link, ...]
    ending: tuple[Move, ...]


def proposals(analysis: Analysis) -> tuple[Proposal, ...]:
    """The tasks to create. Merged ones are created and canceled, so that the sender can restore them."""
    return (*analysis.tasks, *(merge.task for merge in analysis.merges))


def without_vectors(analysis: Analysis, note: str) -> Analysis:
    """Remove vectors of another embedder, which must not be stored with the others."""
    tasks = tuple(one._replace(vector=()) for one in analysis.tasks)
    merges = tuple(one._replace(task=one.task._replace(vector=())) for one in analysis.merges)
    return analysis._replace(tasks=tasks, merges=merges, notes=(*analysis.notes, note))


def asked_for(analysis: Analysis) -> int:
    return len(proposals(analysis))


def fitting(analysis: Analysis, messages: Sequence[Task], space: int) -> int:
    """The number of messages, from the first on, whose tasks fit into the available space."""
    place = {message.id: number for number, message in enumerate(messages)}
    firsts = sorted(min(place[str(ref)] for ref in proposal.messages) for proposal in proposals(analysis))
    return len(messages) if len(firsts) <= space else firsts[space]


def additions(
    analysis: Analysis, messages: Sequence[Task], names: Mapping[str, str], scope: str, by: Actor
) -> Additions:
    """The tasks, links and moves of a batch. `names` are the ids of the proposals; other refs are ids of open tasks."""
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
    """Release the messages until `until`."""
    return tuple(
        Move(Verb.RELEASE, one.id, one.scope, by, token=_token(one), reason=why, not_before=until) for one in messages
    )


def set_aside(message: Task, why: str, by: Actor) -> Move:
    """Escalate a message that can never be read unchanged."""
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
    """The reasons for a new task's links, to be stored with it: `because` by the other task's id."""
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
    """The questions with task ids in place of refs."""
    return tuple(one._replace(about=tuple(_id(names, ref) for ref in one.about)) for one in questions)


def _to_be_told(analysis: Analysis, names: Mapping[str, str]) -> dict[str, Json]:
    """The questions and notes of a batch, stored with its first message and delivered from there."""
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


def _message(kept: Task) -> Message:
    role = kept.extra.get(ROLE)
    return Message(kept.id, kept.description, None if role is None else Role(str(role)))


LEASE = timedelta(minutes=2)
_NAME = "reader"  # one name for all readers: messages do not count towards an agent's limit
_MOST = 100  # most messages of one claim
_SHORT, _LONG = 6, 12  # a short id may be taken; a long one is random enough
_TURNS = 5  # retries of a write that conflicts with other processes


class PutOff(NamedTuple):
    """Messages over a limit, deferred to a time or, without one, until earlier messages are read."""

    messages: tuple[Task, ...] = ()
    until: datetime | None = None
    why: str = ""


class Outcome(NamedTuple):
    """The result of a batch. A message is `refused` and escalated if it can never be read unchanged.

    `notes` inform the sender how the batch was read.
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
    """Reads for any sender, within their limits unless others are given. `name` is the agent in its events."""

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
        """Read a sender's due messages, or with `now` all of them. None if there are none."""
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
        """Add the messages of a second window that opened at the same moment as the first."""
        closed = min(window_end(message) for message in found)
        beside = [message for message in scopes.unread() if message.created_at <= closed][: _MOST - len(found)]
        if not beside:
            return []
        close_window(scopes, beside)
        try:
            taken = scopes.inbox.claim(_NAME, refs=[message.id for message in beside], lease=LEASE, can=[READER])
        except Refused:  # another reader has claimed them
            return []
        return [each.task for each in taken]

    def _handed_in(self, scopes: SenderScopes, messages: Sequence[Task]) -> Outcome:
        """Read as many messages as the limits allow, and release the others."""
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
        """The first messages whose tasks fit the limits. A single message may exceed them."""
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
        """Analyse the messages, with the built-in embedder if the configured one is not available."""
        said = [_message(message) for message in messages]
        asked = (graph.prerequisites(), scopes.settings.thresholds)
        try:
            return self._analyst.analyse(said, known_tasks(scopes, graph.tasks, self._embedder), *asked)
        except ServiceUnavailable as error:
            found = WordAnalyst(Builtin()).analyse(said, tasks_without_vectors(graph.tasks), *asked)
            return without_vectors(found, f"{error.message} The built-in analyst was used instead.")

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
        # A batch is queued at one moment, so the id decides its order. Sorted ids keep the order of the messages.
        names = dict(zip((one.ref for one in made), sorted(mint_id(length) for _ in made), strict=True))
        drafts, links, ending = additions(analysis, messages, names, scopes.sender, self._desk.by)
        ending += put_off(back.messages, back.until, back.why, self._desk.by)
        added = scopes.tasks.add(drafts, links, Terms(limits.quota, ending))
        keep_vectors(scopes, {names[one.ref]: one.vector for one in made}, self._embedder)
        asked = named(analysis.questions, names)
        return Outcome(scopes.sender, tuple(messages), tuple(added), links, asked, back, notes=analysis.notes)

    def _refused(self, scopes: SenderScopes, message: Task, most: int, back: PutOff) -> Outcome:
        why = f"it exceeds the hourly limit of {most} tasks; send it in parts"
        ending = (set_aside(message, why, self._desk.by), *put_off(back.messages, back.until, back.why, self._desk.by))
        scopes.tasks.add([], (), Terms(ending=ending))
        return Outcome(scopes.sender, later=back, refused=message, why=why)


EVERY = 1.0  # seconds between checks for closed windows
_RETRY = 5.0  # the same while the store is unavailable


def read_due(desk: Desk, reader: Reader, trouble: Callable[[str], None]) -> Iterator[Outcome]:
    """Read each closed window. A failure for one sender does not delay the others."""
    for sender in senders_waiting(desk):
        try:
            outcome = reader.read(sender)
        except LostLock:  # another reader has read it
            continue
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - reported, and retried after the lease
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
    """Repeat until stopped; `stopped_within` waits so many seconds. An unavailable store is retried."""
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
