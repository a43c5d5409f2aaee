"""What every store can do. The Desk speaks to stores through this port and nothing else.

A store is opened for one thread at a time. It takes checked values, keeps every verb atomic, writes the events that
belong to a change in the same transaction, and raises only the errors of `dibs.core.errors`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, Protocol, Self, TypeVar, runtime_checkable

from dibs.core.errors import DibsError, LostLock, Unsupported
from dibs.core.events import Event
from dibs.core.fields import EVERY, Filter
from dibs.core.lifecycle import ClaimRequest, Move
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Status, Task

if TYPE_CHECKING:
    from dibs.core.fleet import Agent, Assignment, Member, Profile, Quota
    from dibs.core.graph import Graph
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.task import Json, OrderKey
    from dibs.core.vectors import Vector
    from dibs.stores.reports import Counts, Finding, HealthCheck, Neighbours, Record


class Capabilities(NamedTuple):
    """What a store declares it can do; the conformance suite checks that it is true."""

    exclusive: Literal["strict", "timed"]
    transactions: bool
    notify: bool = False  # `wait` is woken by other hosts' writes; without it, it looks every now and then
    ids: Literal["any", "file names", "assigned"] = "any"  # which ids it can keep; "assigned": it gives them itself
    links: bool = True  # tasks can depend on each other
    history: bool = True  # what happened is kept and can be read again
    scopes: bool = True  # one store holds any number of scopes


class Query(NamedTuple):
    """Which tasks to list; a field left as it is matches all. `scope` None means every scope that holds work.

    `after` is the place of a task in the order, as it was when it was listed: only what comes after it is wanted.
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
    """A task after a move, what became claimable or was drawn along by it, and what was claimed next.

    `repeated` means that this attempt had asked for the same before: nothing was changed.
    """

    task: Task
    unblocked: tuple[str, ...] = ()
    escalated: tuple[str, ...] = ()
    canceled: tuple[str, ...] = ()
    next: tuple[Claimed, ...] = ()
    repeated: bool = False


class Batch(NamedTuple):
    """What came of each of several moves, in their order, and what was claimed next."""

    outcomes: tuple[Moved | DibsError, ...]
    next: tuple[Claimed, ...] = ()


class Terms(NamedTuple):
    """On what terms tasks are taken in: no more of them than a quota allows, and only along with other tasks' moves.

    `ending` are moves in any scope, made in the same transaction, all or none, and none a second time: whoever lost a
    lease cannot hand in what came of it.
    """

    quota: "Quota | None" = None
    ending: tuple[Move, ...] = ()
    on_cancel: CanceledBlocker = CanceledBlocker.RESOLVES


NO_TERMS = Terms()


def insist(outcomes: "Iterable[Moved | DibsError]") -> None:
    """Raise what went wrong with any of these moves; that it was made before, too."""
    for outcome in outcomes:
        if isinstance(outcome, DibsError):
            raise outcome
        if outcome.repeated:
            raise LostLock(f"{outcome.task.id} had been ended by this attempt before; what came of it is there.")


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

    def now(self) -> datetime:
        """The time by the store's clock, which alone decides about leases."""
        ...

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        """Take in tasks together with links of theirs, on these terms, all or none."""
        ...

    def get(self, scope: str, task: str) -> Task:
        """The task with exactly this id."""
        ...

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        """Up to `limit` ids that start with the prefix."""
        ...

    def find(self, query: Query) -> list[Task]:
        """Tasks that fit, in the order in which they would be picked up."""
        ...

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        """What such a request could claim now, in order; with `held`, at the same moment, all that is held as well.

        With `unable`, whatever capabilities it takes.
        """
        ...

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        """Lease tasks to the asker: the next ones (maybe none), or all the named ones or the reason why not.

        A member never gets more than its limit, over all scopes and whoever else claims in its name.
        """
        ...

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        """Take a task through the lifecycle and, in the same transaction, claim what is next."""
        ...

    def move_all(self, moves: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        """Several moves in one transaction, each judged by itself: a refusal is an answer, and stops no other."""
        ...

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        """Change what an unfinished task says, or what is kept beside any; Changed where it is no longer as it was."""
        ...

    def link(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        """Add links, all or none; those that changed anything are returned. Never makes a cycle."""
        ...

    def unlink(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        """Remove links, all or none, each of exactly the kind named; as they were is what is returned."""
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
        """Keep what a protocol has to tell of a task, or of none: a comment, a score. The time is the store's."""
        ...

    def events(self, query: EventQuery) -> list[Event]:
        """What happened, oldest first."""
        ...

    def counts(self, scope: str | None) -> "Counts":
        """Tasks by status, of one scope or of all that hold work."""
        ...

    def scopes(self, *, claimable: bool = False) -> list[str]:
        """The scopes that have tasks; with `claimable`, those where somebody could claim one now."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep until something may have become claimable (True: a hint, no promise) or the time is over."""
        ...

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        """Drop old events and long finished tasks nobody refers to, in small transactions; how many of each."""
        ...

    def dump(self) -> "Iterator[Record]":
        """Everything the store holds, read at one moment: tasks, then links, then settings, then events."""
        ...

    def restore(self, records: "Iterable[Record]", by: Actor, progress: Callable[[int], None]) -> int:
        """Take a dump into this store, all or nothing; ids and settings that are there already are refused."""
        ...

    def check(self, *, fix: bool) -> "list[Finding]":
        """Compare everything derived with what it is derived from; repair only when asked to."""
        ...

    def describe(self) -> Mapping[str, str]:
        """What a person wants to know about this store: kind, place, version, settings."""
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
        """All that can be wrong, item by item. What cannot be reached is an item too, not an error."""
        ...


@runtime_checkable
class Replaceable(Protocol):
    """A store whose whole content can be replaced while it is in use."""

    def replace(self, records: "Iterable[Record]", by: Actor, progress: Callable[[int], None]) -> int:
        """Take a dump in place of all tasks, links, settings and events, all or nothing, and begin a new generation."""
        ...


Part = TypeVar("Part", Fleet, Vectors, Settings)


def need(part: Part | None, name: str) -> Part:
    """An optional part of a store, or Unsupported."""
    return part or refuse(f"it keeps no {name}; SQLite, PostgreSQL and Neo4j do")


def refuse(why: str) -> NoReturn:
    raise Unsupported(f"This store cannot do that: {why}.")
