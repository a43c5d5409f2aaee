"""What is known about a batch of messages once somebody has thought about it: the words that all analysts speak."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from dibs.core.task import LinkKind

Vector: TypeAlias = "tuple[float, ...]"


class Message(NamedTuple):
    """`ref` is how the message is called: its id, or its number in the batch."""

    ref: str | int
    text: str


class OpenTask(NamedTuple):
    """An open task of the sender. Without a vector its title is embedded."""

    id: str
    title: str
    vector: Vector = ()
    deliverable: str | None = None


class Proposal(NamedTuple):
    """A task to be made. `text` is all that was said of it."""

    ref: str
    title: str
    deliverable: str
    messages: tuple[str | int, ...]
    text: str = ""
    vector: Vector = ()


class Relation(NamedTuple):
    """`task` depends on `on`; each is the ref of a proposal or the id of an open task."""

    task: str
    on: str
    kind: LinkKind
    weight: float
    confidence: float
    detected_by: str  # explicit | inferred | semantic
    evidence: str


class Merge(NamedTuple):
    """The same work said again: `task` need not be made, and could be made after all from what is here."""

    task: Proposal
    into: str
    likeness: float
    evidence: str


class Question(NamedTuple):
    """What only the sender can tell. `about` are the refs and ids it speaks of."""

    kind: str  # duplicate | which | conflict
    about: tuple[str, ...]
    text: str


class Analysis(NamedTuple):
    """`idle` are the messages that asked for nothing, `notes` what the sender should know about how it was done."""

    tasks: tuple[Proposal, ...]
    links: tuple[Relation, ...] = ()
    merges: tuple[Merge, ...] = ()
    questions: tuple[Question, ...] = ()
    idle: tuple[str | int, ...] = ()
    notes: tuple[str, ...] = ()


class Thresholds(NamedTuple):
    """Above which likeness requests are one, and above which cosine they are related."""

    merge: float = 0.90
    high: float = 0.75
    medium: float = 0.55


class Analyst(Protocol):
    """Makes tasks and relations of messages. WordAnalyst goes by words and vectors, ModelAnalyst asks a model."""

    def analyse(
        self,
        messages: Sequence[Message],
        known: Sequence[OpenTask],
        before: Mapping[str, Iterable[str]],
        limits: Thresholds = ...,
    ) -> Analysis:
        """`known` are the sender's open tasks, `before` what each of them waits for: no link closes a cycle with it."""
        ...
