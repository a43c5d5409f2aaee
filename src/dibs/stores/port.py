"""The interface of every store. The Desk uses stores through it only.

A store is opened for one thread at a time. It takes validated values, makes every verb atomic, writes the events of a
change in the same transaction, and raises only the errors of `dibs.core.errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, Protocol, Self, TypeVar, runtime_checkable

from dibs.core.errors import DibsError, LostLock, Unsupported
from dibs.core.events import Event
from dibs.core.fields import EVERY, Filter
from dibs.core.lifecycle import ClaimRequest, Move
from dibs.core.messages import command
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Status, Task

if TYPE_CHECKING:
    from dibs.core.fleet import Agent, Assignment, Member, Profile, Quota
    from dibs.core.graph import Graph
    from dibs.core.output import OutputPage
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.search import Vector
    from dibs.core.task import Json, OrderKey
    from dibs.stores.reports import Counts, Finding, HealthCheck, Neighbours, Record


Value = TypeVar("Value")


class Capabilities(NamedTuple):
    """What a store supports; the conformance suite checks it."""

    exclusive: Literal["strict", "timed"]
    transactions: bool
    notify: bool = False  # `wait` is woken by other hosts' writes; without it, it looks every now and then
    ids: Literal["any", "file names", "assigned"] = "any"  # which ids it can keep; "assigned": it gives them itself
    links: bool = True  # tasks can depend on each other
    history: bool = True  # what happened is kept and can be read again
    scopes: bool = True  # one store holds any number of scopes


class Query(NamedTuple):
    """Which tasks to list. Default fields match all tasks; `scope` None means every scope that holds work.

    `after` is a listed task's place in the order: only later tasks are returned.
    """

    scope: str | None = None
    statuses: tuple[Status, ...] = tuple(Status)
    agent: str | None = None
    assigned_to: str | None = None
    parent: str | None = None
    text: str | None = None
    only: Filter = EVERY
    limit: int | None = None
    after: "OrderKey | None" = None


class EventQuery(NamedTuple):
    """Which events to read, oldest first; `last` keeps only that many of the newest."""

    scope: str | None = None
    task: str | None = None
    after: int = 0
    limit: int | None = None
    last: int | None = None


class Moved(NamedTuple):
    """A task after a move, the other tasks that the move changed, and the next claimed tasks.

    `repeated` means that this attempt made the same move before: nothing was changed.
    """

    task: Task
    unblocked: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    canceled: tuple[str, ...] = ()
    next: tuple[Claimed, ...] = ()
    repeated: bool = False


class Batch(NamedTuple):
    """The outcome of each of several moves, in their order, and the next claimed tasks."""

    outcomes: tuple[Moved | DibsError, ...]
    next: tuple[Claimed, ...] = ()


class Terms(NamedTuple):
    """The conditions of an add: a quota, and moves of other tasks that must succeed.

    `ending` are moves in any scope, made in the same transaction, all or none. A repeated move is refused, so an
    attempt that lost its lease adds no tasks.
    """

    quota: "Quota | None" = None
    ending: tuple[Move, ...] = ()
    on_cancel: CanceledBlocker = CanceledBlocker.RESOLVES


NO_TERMS = Terms()


def or_raise(outcome: Value | DibsError) -> Value:
    """The outcome of a committed transaction. A refusal is raised only now, because it leaves its event behind."""
    if isinstance(outcome, DibsError):
        raise outcome
    return outcome


def insist(outcomes: "Iterable[Moved | DibsError]") -> None:
    """Raise the first error among these moves, and LostLock for a repeated move."""
    for outcome in outcomes:
        if isinstance(outcome, DibsError):
            raise outcome
        if outcome.repeated:
            raise LostLock(f"{outcome.task.id} was already finished by this attempt; its result is stored.")


class Fleet(Protocol):
    """Optional part: registered agents, enrolled agents with their limits, and tasks that are assigned to them."""

    def register(self, agent: str, *, host: str | None, pid: int | None) -> "Agent":
        """Record that an agent is at work. AlreadyExists if an agent of that name still is."""
        ...

    def deregister(self, agent: str) -> "Agent":
        """Record that an agent is gone. It keeps its tasks until their leases expire."""
        ...

    def agents(self) -> "list[Agent]":
        """All agents that were ever registered, in the order of their start."""
        ...

    def enrol(self, profile: "Profile") -> "Member":
        """Enrol an agent, or change the profile of an enrolled one."""
        ...

    def dismiss(self, agent: str) -> "Member":
        """End an enrolment and return its last state. Assigned tasks stay assigned; the limit no longer applies."""
        ...

    def members(self) -> "list[Member]":
        """All enrolled agents by name, each with its held and assigned tasks, read at one moment."""
        ...

    def assign(self, asked: "Assignment", by: Actor) -> "list[Task | DibsError]":
        """Assign free tasks to an enrolled agent up to its limit; each task is judged separately, in order."""
        ...


class Vectors(Protocol):
    """Optional part: a vector for each task, and the tasks closest to one."""

    def keep(self, scope: str, vectors: "Mapping[str, Vector | None]") -> None:
        """Keep the vectors of tasks, or with None remove one, all or none. All of a store have one length."""
        ...

    def kept(self, scope: str, *, finished: bool) -> "Mapping[str, Vector]":
        """The vectors of unfinished tasks, or of all, by task."""
        ...

    def similar(
        self, scope: str, vector: "Vector", text: str, limit: int, least: float, *, finished: bool
    ) -> "Neighbours":
        """The tasks with the closest vectors, from a score of `least` on; else those that share words with a text."""
        ...


class Settings(Protocol):
    """Optional part: settings of a scope, by name."""

    def read(self, scope: str) -> "Mapping[str, Json]":
        """The settings of a scope."""
        ...

    def change(self, scope: str, changes: "Mapping[str, Json]", by: Actor) -> "Mapping[str, Json]":
        """Set settings atomically (None removes one) and return the new settings. The event names them only."""
        ...


class Output(Protocol):
    """Optional part: what the attempts at a task print, its head and its tail, for the latest attempts."""

    def append(self, scope: str, task: str, token: str, start: int, text: str) -> int:
        """Store the output of the attempt with this token from byte `start` on; return its end.

        Stored bytes are not stored twice. LostLock if the task is in another attempt.
        """
        ...

    def read(self, scope: str, task: str, attempt: int | None, after: int) -> "OutputPage":
        """The stored output of an attempt (None: the latest) from byte `after` on."""
        ...


class Closing:
    """Closes itself at the end of a `with` block."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Store(Protocol):
    """The verbs. `by` names the caller for the events; the proof is in the request.

    A store that lacks an optional part has None in its place.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def fleet(self) -> Fleet | None: ...

    @property
    def vectors(self) -> Vectors | None: ...

    @property
    def settings(self) -> Settings | None: ...

    @property
    def output(self) -> Output | None: ...

    def now(self) -> datetime:
        """The time by the store's clock, which alone decides about leases."""
        ...

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        """Add tasks and their links on these terms, all or none."""
        ...

    def get(self, scope: str, task: str) -> Task:
        """The task with exactly this id."""
        ...

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        """Up to `limit` ids that start with the prefix."""
        ...

    def find(self, query: Query) -> list[Task]:
        """The matching tasks, in the claim order."""
        ...

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        """The tasks that the request could claim now, in order; with `held`, also all held tasks at that moment.

        With `unable`, required capabilities are ignored.
        """
        ...

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        """Lease the next tasks to the agent (maybe none), or all named tasks; raises if one of those cannot be claimed.

        An enrolled agent never holds more than its limit, across all scopes and processes.
        """
        ...

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        """Take a task through the lifecycle and, in the same transaction, claim what is next."""
        ...

    def move_all(self, moves: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        """Make several moves in one transaction. A refused move is returned as an error and stops no other move."""
        ...

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        """Edit an unfinished task, or the extra data of any task. Changed if it differs from what the edit expects."""
        ...

    def link(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        """Add links, all or none; those that changed anything are returned. Never makes a cycle."""
        ...

    def unlink(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        """Remove links, all or none, each of exactly the given kind, and return the removed links."""
        ...

    def links(self, scope: str, *tasks: str) -> list[Link]:
        """The links from and to any of these tasks, each once."""
        ...

    def graph(self, scope: str, *, finished: bool) -> "Graph":
        """A scope's tasks and links, read at one moment."""
        ...

    def apply_plan(
        self,
        scope: str,
        plan: "Plan",
        on_cancel: CanceledBlocker,
        by: Actor,
        *,
        dry_run: bool,
        progress: Callable[[int], None],
    ) -> "PlanChanges":
        """Bring a scope's tasks in line with a plan, in one transaction; a dry run stops short of committing."""
        ...

    def record(self, event: Event) -> None:
        """Record an event of a protocol, such as a comment or a score, with the store's time. Its task is optional."""
        ...

    def events(self, query: EventQuery) -> list[Event]:
        """What happened, oldest first."""
        ...

    def counts(self, scope: str | None) -> "Counts":
        """Tasks by status, of one scope or of all that hold work."""
        ...

    def scopes(self, *, claimable: bool = False) -> list[str]:
        """The scopes that have tasks; with `claimable`, those that have a claimable task."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep until something may have become claimable (True: a hint, no promise) or the time is over."""
        ...

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        """Delete old events and unreferenced old finished tasks, in small transactions; return both counts."""
        ...

    def dump(self) -> "Iterator[Record]":
        """Everything the store holds, read at one moment: tasks, then links, then settings, then events."""
        ...

    def restore(self, records: "Iterable[Record]", by: Actor, progress: Callable[[int], None]) -> int:
        """Add a dump to this store, all or nothing; existing ids and settings are refused."""
        ...

    def check(self, *, fix: bool) -> "list[Finding]":
        """Compare all derived columns with their sources; repair them with `fix`."""
        ...

    def describe(self) -> Mapping[str, str]:
        """The kind, place, version and settings of this store."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Examinable(Protocol):
    """A store that reports on its connection and its layout, because a person sets them up."""

    def examine(self) -> "list[HealthCheck]":
        """One item per check. An unreachable server is an item, not an error."""
        ...


@runtime_checkable
class Searchable(Protocol):
    """A store that searches its own texts."""

    def search(self, scope: str, words: Sequence[str]) -> "list[tuple[Task, list[str]]]":
        """At least the tasks that contain a word with each of these prefixes, with their comments, in any order."""
        ...


@runtime_checkable
class Replaceable(Protocol):
    """A store whose whole content can be replaced while it is in use."""

    def replace(self, records: "Iterable[Record]", by: Actor, progress: Callable[[int], None]) -> int:
        """Replace all tasks, links, settings and events by a dump, all or nothing, and start a new generation."""
        ...


Part = TypeVar("Part", Fleet, Vectors, Settings, Output)


def need(part: Part | None, name: str, *, kept_by: str = "SQLite, PostgreSQL and Neo4j") -> Part:
    """An optional part of a store, or Unsupported."""
    return part or refuse(f"it keeps no {name}; {kept_by} do")


def need_replaceable(store: Store) -> Replaceable:
    """The same store, or Unsupported with another way back to a backup."""
    if not isinstance(store, Replaceable):
        there = store.describe()
        back = command("git", "-C", there["place"], "restore", "--source", "COMMIT", "--worktree", "--", ".")
        ways = {
            "vault": f"Stop its agents, put the files back ('{back}', or your own copy), and start them again",
            "notion": "Notion keeps earlier versions of a page (Page history) and deleted pages (Trash)",
        }
        way = ways.get(there["kind"], "Import the backup into a new store")
        refuse(f"its content cannot be replaced while it is in use. {way}")
    return store


def refuse(why: str) -> NoReturn:
    raise Unsupported(f"This store cannot do that: {why}.")
