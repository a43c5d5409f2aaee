"""Tasks, leases, links, scopes, the order of claims, and the words for a status.

Values are named tuples, not dataclasses, because importing `dataclasses` takes a quarter of the time of a cold `dibs
claim`. Their modules do not postpone annotations, which Python would compile at every import
(docs/decisions/0002-value-objects.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from dibs.core.errors import Changed, IllegalMove
from dibs.core.times import in_words

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"


class Status(StrEnum):
    BACKLOG = "backlog"
    READY = "ready"
    ACTIVE = "active"
    BLOCKED = "blocked"
    PAUSED = "paused"
    REVIEW = "review"
    ESCALATED = "escalated"
    DONE = "done"
    CANCELED = "canceled"


TERMINAL = frozenset({Status.DONE, Status.CANCELED})


class ServiceClass(StrEnum):
    EXPEDITE = "expedite"
    FIXED_DATE = "fixed_date"
    STANDARD = "standard"
    INTANGIBLE = "intangible"


class Holder(StrEnum):
    AGENT = "agent"
    HUMAN = "human"


class LinkKind(StrEnum):
    """`blocks` gates, `feeds_into` passes results on, `parallel_ok` records independence."""

    BLOCKS = "blocks"
    FEEDS_INTO = "feeds_into"
    PARALLEL_OK = "parallel_ok"


# Two tasks have one link. A stronger kind replaces a weaker one, but not the reverse.
STRENGTH = {LinkKind.BLOCKS: 3, LinkKind.FEEDS_INTO: 2, LinkKind.PARALLEL_OK: 1}


class Lease(NamedTuple):
    """The right to work on a task, proved by its token, until it expires. A human hold never expires."""

    token: str
    attempt: int
    agent: str
    run: str | None
    holder: Holder
    claimed_at: datetime
    expires_at: datetime | None

    def __repr__(self) -> str:
        """Leave the token out: it is the holder's secret and a repr ends up in logs."""
        return f"Lease(agent={self.agent!r}, attempt={self.attempt}, expires_at={self.expires_at})"

    def live(self, now: datetime) -> bool:
        if self.holder is Holder.HUMAN:
            return True
        return self.expires_at is not None and now < self.expires_at


class Link(NamedTuple):
    """`task` depends on `on`."""

    task: str
    on: str
    kind: LinkKind = LinkKind.BLOCKS
    weight: float = 1.0
    detected_by: str = "explicit"
    confidence: float = 1.0


class Draft(NamedTuple):
    """A task to add."""

    title: str
    id: str = ""
    description: str = ""
    status: Status = Status.READY
    reason: str | None = None
    service_class: ServiceClass = ServiceClass.STANDARD
    override: bool = False
    priority: float = 2
    category: str | None = None
    labels: tuple[str, ...] = ()
    deliverable: str | None = None
    steps: tuple[str, ...] = ()
    spec_ref: str | None = None
    ref: str | None = None
    parent: str | None = None
    requires: tuple[str, ...] = ()
    assigned_to: str | None = None
    not_before: datetime | None = None
    max_retries: int | None = None
    origin: str | None = None
    extra: Mapping[str, Json] = {}


class Task(NamedTuple):
    """A task as a store holds it. `id` is unique within `scope`; `blockers` is derived from its links.

    `ended` and `spent_token` are the verb and the token that ended the latest attempt.
    """

    scope: str
    id: str
    title: str
    created_at: datetime
    updated_at: datetime
    queued_at: datetime
    description: str = ""
    status: Status = Status.READY
    reason: str | None = None
    paused_from: Status | None = None
    reason_before: str | None = None  # of a paused task: `resume` restores it
    service_class: ServiceClass = ServiceClass.STANDARD
    override: bool = False
    priority: float = 2
    started_at: datetime | None = None
    finished_at: datetime | None = None
    finished_by: str | None = None
    category: str | None = None
    labels: tuple[str, ...] = ()
    deliverable: str | None = None
    steps: tuple[str, ...] = ()
    spec_ref: str | None = None
    ref: str | None = None
    parent: str | None = None
    requires: tuple[str, ...] = ()
    assigned_to: str | None = None
    not_before: datetime | None = None
    retries: int = 0
    max_retries: int | None = None
    attempt: int = 0
    lease: Lease | None = None
    ended: str | None = None
    spent_token: str | None = None
    result: Json = None
    artifacts: tuple[str, ...] = ()
    unblock_action: str | None = None
    next_check_at: datetime | None = None
    merged_into: str | None = None
    origin: str | None = None
    extra: Mapping[str, Json] = {}
    blockers: int = 0

    def __repr__(self) -> str:
        """Short, and without the tokens."""
        return f"Task({self.scope}/{self.id} {self.status} {self.title!r})"

    @property
    def finished(self) -> bool:
        return self.status in TERMINAL

    def held(self, now: datetime) -> bool:
        """Whether a holder may be working on it at this moment."""
        return self.lease is not None and self.lease.live(now)


class Unset:
    """The value of a field that an edit leaves alone (None is a value that clears it)."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class Edit(NamedTuple):
    """Which fields of a task to change, and to what."""

    title: str | Unset = UNSET
    description: str | Unset = UNSET
    service_class: ServiceClass | Unset = UNSET
    override: bool | Unset = UNSET
    priority: float | Unset = UNSET
    queued_at: datetime | Unset = UNSET
    category: str | Unset | None = UNSET
    labels: tuple[str, ...] | Unset = UNSET
    deliverable: str | Unset | None = UNSET
    steps: tuple[str, ...] | Unset = UNSET
    spec_ref: str | Unset | None = UNSET
    ref: str | Unset | None = UNSET
    parent: str | Unset | None = UNSET
    requires: tuple[str, ...] | Unset = UNSET
    assigned_to: str | Unset | None = UNSET
    not_before: datetime | Unset | None = UNSET
    max_retries: int | Unset | None = UNSET
    extra: Mapping[str, Json] | Unset = UNSET
    keep: Mapping[str, Json] | Unset = UNSET  # single extra fields to set; None removes one
    was: Mapping[str, object] | Unset = UNSET  # the values that these fields must still have, or nothing is changed
    why: str | Unset = UNSET  # goes into the record, not into the task

    def changed(self, task: Task) -> dict[str, object]:
        """The fields whose new value differs from the task's, by name."""
        stated = {name: value for name, value in zip(self._fields, self, strict=True) if value is not UNSET}
        for name in _BESIDE:
            stated.pop(name, None)
        if isinstance(self.keep, Mapping):
            fields = {**(task.extra if isinstance(self.extra, Unset) else self.extra), **self.keep}
            stated["extra"] = {name: value for name, value in fields.items() if value is not None}
        return {name: value for name, value in stated.items() if value != getattr(task, name)}

    def accepted(self, task: Task) -> dict[str, object]:
        """The same. Raises if the edit is not allowed; only extra fields of a finished task may change."""
        for name, value in {} if isinstance(self.was, Unset) else self.was.items():
            if getattr(task, name) != value:
                raise Changed(
                    f"{task.id} has changed: its {name} is different now. Nothing was changed; read the task again."
                )
        changes = self.changed(task)
        if task.finished and changes and not (isinstance(self.extra, Unset) and changes.keys() <= {"extra"}):
            raise IllegalMove(f"{task.id} is {task.status}; finished tasks cannot be edited.")
        return changes


_BESIDE = ("keep", "was", "why")  # no fields of a task


class Actor(NamedTuple):
    """The agent and run of a command, as events record them. A name proves nothing."""

    agent: str | None = None
    run: str | None = None


class Input(NamedTuple):
    """What a finished prerequisite hands to the task that waited for it."""

    id: str
    title: str
    result: Json
    artifacts: tuple[str, ...]


class Claimed(NamedTuple):
    task: Task
    inputs: tuple[Input, ...] = ()


CLASS_RANK = {
    ServiceClass.EXPEDITE: 1,
    ServiceClass.FIXED_DATE: 2,
    ServiceClass.STANDARD: 3,
    ServiceClass.INTANGIBLE: 4,
}

OrderKey: TypeAlias = tuple[int, bool, float, datetime, str, str]


def page(tasks: Iterable[Task], after: OrderKey | None, limit: int | None) -> list[Task]:
    """The first of these that come after a place, in order: for who has no index that knows it."""
    beyond = (task for task in tasks if after is None or order_key(task) > after)
    return sorted(beyond, key=order_key)[:limit]


def order_key(task: Task) -> OrderKey:
    """Class, user override, priority (lower first), time of queueing, id and scope."""
    rank = CLASS_RANK[task.service_class]
    return (rank, not task.override, task.priority, task.queued_at, task.id, task.scope)


def status_word(task: Task, now: datetime) -> str:
    """The status to show: `waiting` or `later` for ready tasks that are not claimable yet, `expired` for old leases."""
    if task.status is Status.READY and task.blockers:
        return "waiting"
    if task.status is Status.READY and task.not_before is not None and task.not_before > now:
        return "later"
    if task.status is Status.ACTIVE and not task.held(now):
        return "expired"
    return task.status.value


def remark(task: Task, now: datetime) -> str:
    """A remark beside the status: the holder, the prerequisites or the reason."""
    lease = task.lease
    if lease is not None:
        if lease.holder is Holder.HUMAN:
            return f"held by {lease.agent}"
        if lease.live(now) and lease.expires_at is not None:
            return f"{lease.agent}, {in_words(lease.expires_at - now)} left"
        return f"was {lease.agent}'s"
    if task.status is Status.READY and task.blockers:
        return f"for {task.blockers} other{'s' if task.blockers > 1 else ''}"
    if task.status is Status.READY and task.not_before is not None and task.not_before > now:
        return f"in {in_words(task.not_before - now)}"
    if task.reason:
        return task.reason.partition("\n")[0]
    if task.status is Status.DONE and task.finished_by:
        return f"by {task.finished_by}"
    return f"for {task.assigned_to}" if task.assigned_to else ""


# Internal scopes start with a dot. Their tasks are bookkeeping and not work for agents.
INTERNAL = "."
INBOX = ".inbox."  # messages of a sender
OUTBOX = ".outbox."  # notes for a sender
MAIL = ".mail."  # letters to an agent or a role
LEAD = ".dispatch."  # the lead of the dispatchers
SYNC = ".sync."  # turns and memory of a sync
TOKENS = ".tokens"  # the tokens of a server


def is_internal(scope: str) -> bool:
    return scope.startswith(INTERNAL)
