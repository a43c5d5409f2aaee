"""The result of reading a batch of messages, shared by all analysts."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from dibs.core.task import LinkKind

Vector: TypeAlias = "tuple[float, ...]"


class Role(StrEnum):
    """Whether a message is already known to be a command or a request."""

    COMMAND = "command"
    REQUEST = "request"


class Message(NamedTuple):
    """`ref` is the message's id or its number in the batch. Without a role, the analyst classifies the text."""

    ref: str | int
    text: str
    role: Role | None = None


class OpenTask(NamedTuple):
    """An open task of the sender. Without a vector, the analyst embeds its title."""

    id: str
    title: str
    vector: Vector = ()
    deliverable: str | None = None


class Proposal(NamedTuple):
    """A task to create. `text` is everything that the messages say about it."""

    ref: str
    title: str
    deliverable: str
    messages: tuple[str | int, ...]
    text: str = ""
    vector: Vector = ()


class Relation(NamedTuple):
    """`task` depends on `on`. Each is the ref of a proposal or the id of an open task."""

    task: str
    on: str
    kind: LinkKind
    weight: float
    confidence: float
    detected_by: str  # explicit | inferred | semantic
    evidence: str


class Merge(NamedTuple):
    """A proposal that repeats another task. It is stored as canceled, so that the sender can restore it."""

    task: Proposal
    into: str
    likeness: float
    evidence: str


class Question(NamedTuple):
    """A question that only the sender can answer. `about` lists the refs and ids of the tasks concerned.

    A question whether a message is a command names the command and the message.
    """

    kind: str  # duplicate | which | conflict | command
    about: tuple[str, ...]
    text: str
    command: str = ""
    message: str | int = ""


class Analysis(NamedTuple):
    """`idle` are the messages without work, `notes` are for the sender."""

    tasks: tuple[Proposal, ...]
    links: tuple[Relation, ...] = ()
    merges: tuple[Merge, ...] = ()
    questions: tuple[Question, ...] = ()
    idle: tuple[str | int, ...] = ()
    notes: tuple[str, ...] = ()


class Thresholds(NamedTuple):
    """The likeness from which requests are duplicates, and the cosine from which they are related."""

    merge: float = 0.90
    high: float = 0.75
    medium: float = 0.55


class Analyst(Protocol):
    """Turns messages into tasks and relations. WordAnalyst uses words and vectors, ModelAnalyst a language model."""

    def analyse(
        self,
        messages: Sequence[Message],
        known: Sequence[OpenTask],
        before: Mapping[str, Iterable[str]],
        limits: Thresholds = ...,
    ) -> Analysis:
        """`known` are the sender's open tasks, `before` their prerequisites: no new link closes a cycle with them."""
        ...
