"""The Notion store: the port's verbs over the pages of one database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Unsupported
from dibs.core.lifecycle import ClaimRequest
from dibs.stores.notion import claims, tasks
from dibs.stores.notion.arbiter import Ledger
from dibs.stores.notion.database import Database
from dibs.stores.notion.guard import Bounds
from dibs.stores.port import NO_TERMS, Batch, Capabilities, Closing, Moved, refuse
from dibs.stores.reports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.lifecycle import Move
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Task
    from dibs.stores.notion.database import Cache
    from dibs.stores.notion.gateway import Gateway
    from dibs.stores.notion.layout import Layout
    from dibs.stores.port import EventQuery, Query, Store, Terms
    from dibs.stores.reports import Counts, Finding, HealthCheck

_LOOK_EVERY = 15.0  # seconds between the looks of `wait`
_LINKS = "tasks in Notion have no links to each other, only sub-tasks"


class NotionStore(Closing):
    """One Notion database, for any number of processes, hosts and people. Implements `dibs.stores.port.Store`."""

    fleet = vectors = settings = output = None

    def __init__(
        self,
        database: str,
        layout: Layout,
        gateway: Gateway,
        cache: Cache,
        *,
        scope: str = "default",
        bounds: Bounds | None = None,
        place: str = "",
        clock: Callable[[], datetime] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        look_every: float = _LOOK_EVERY,
        arbiter: Store | None = None,
    ) -> None:
        self._arbiter = arbiter
        self._db = Database(
            database,
            layout,
            gateway,
            cache,
            scope=scope,
            bounds=bounds or Bounds(),
            sleep=sleep,
            clock=clock,
            ledger=None if arbiter is None else Ledger(arbiter, database),
        )
        self._id = database
        self._place = place or f"notion://{database}"
        self._look_every = look_every
        self._seen: list[str] | None = None
        self.capabilities = Capabilities(
            exclusive="timed" if arbiter is None else "strict",
            transactions=False,
            ids="assigned" if layout.assigns_ids else "any",
            links=False,
            history=False,
            scopes=False,
        )

    def __repr__(self) -> str:
        return f"NotionStore({self._place})"

    def learn(self) -> None:
        """Check that the database has the properties of the layout; raise with a list of problems."""
        self._db.learn()

    def now(self) -> datetime:
        return self._db.now()

    def add(
        self,
        scope: str,
        drafts: Sequence[Draft],
        given: Sequence[Link],
        by: Actor,  # noqa: ARG002 - the port's signature, also below
        terms: Terms = NO_TERMS,
    ) -> list[Task]:
        self._db.own(scope)
        if terms != NO_TERMS:
            refuse("Notion has no transactions, so tasks cannot be added under conditions")
        if given:
            refuse(_LINKS)
        return tasks.add(self._db, drafts)

    def get(self, scope: str, task: str) -> Task:
        self._db.own(scope)
        reading = self._db.read(task)
        if reading.trashed:
            raise self._db.not_found(task)
        return reading.task

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        self._db.own(scope)
        return tasks.matching(self._db, prefix, limit)

    def find(self, query: Query) -> list[Task]:
        return tasks.find(self._db, query)

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        self._db.own(request.scope)
        return claims.peek(self._db, request, limit, held=held, unable=unable)

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return claims.claim_named(self._db, request) if request.ids else claims.claim_next(self._db, request)

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:  # noqa: ARG002
        moved = claims.move(self._db, move)
        return moved if then is None else moved._replace(next=self._next(then, repeated=moved.repeated))

    def move_all(self, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:  # noqa: ARG002
        outcomes = tuple(self._outcome(move) for move in asked)
        if then is None:
            return Batch(outcomes)
        repeated = any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes)
        return Batch(outcomes, self._next(then, repeated=repeated))

    def _next(self, then: ClaimRequest, *, repeated: bool) -> tuple[Claimed, ...]:
        """Claim the next tasks. A repeated call may already have some; only an arbiter knows for sure."""
        again = claims.held_under(self._db, then) if repeated and self._arbiter is not None else []
        return tuple(again or claims.claim_next(self._db, then))

    def _outcome(self, move: Move) -> Moved | DibsError:
        try:
            return claims.move(self._db, move)
        except DibsError as error:
            return error

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:  # noqa: ARG002
        self._db.own(scope)
        return tasks.amend(self._db, task, edit)

    def link(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:  # noqa: ARG002
        refuse(_LINKS)

    def unlink(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:  # noqa: ARG002
        refuse(_LINKS)

    def links(self, scope: str, *of: str) -> list[Link]:
        """No task has links."""
        for task in of:
            self.get(scope, task)
        return []

    def graph(self, scope: str, *, finished: bool) -> Graph:
        from dibs.core.graph import Graph

        self._db.own(scope)
        found = tasks.everything(self._db)
        return Graph(tuple(task for task in found if finished or not task.finished), ())

    def apply_plan(
        self,
        scope: str,  # noqa: ARG002
        plan: Plan,  # noqa: ARG002
        on_cancel: CanceledBlocker,  # noqa: ARG002
        by: Actor,  # noqa: ARG002
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Callable[[int], None],  # noqa: ARG002
    ) -> PlanChanges:
        refuse("a plan changes many tasks at once, and Notion changes one page at a time")

    def record(self, event: Event) -> None:
        """Add a comment to the task's page; other events cannot be stored."""
        self._db.own(event.scope)
        if event.verb != "comment" or not event.task:
            refuse("Notion can store comments on tasks, but no other events")
        reading = self._db.read(event.task)
        who = f"{event.agent}: " if event.agent else ""
        try:
            self._db.gateway.comment(reading.page, f"{who}{event.reason or ''}")
        except DibsError as error:
            raise _comment_error(error) from None

    def events(self, query: EventQuery) -> list[Event]:  # noqa: ARG002
        refuse("Notion keeps no event log that dibs could read")

    def counts(self, scope: str | None) -> Counts:
        self._db.own(scope)
        return tasks.counts(self._db)

    def scopes(self, *, claimable: bool = False) -> list[str]:
        there = self.counts(self._db.scope).claimable if claimable else self._db.listed()
        return [self._db.scope] if there else []

    def wait(self, seconds: float) -> bool:
        """Poll until the claimable tasks differ from the last look."""
        until = time.monotonic() + seconds
        anyone = ClaimRequest("", (), self._db.scope)
        while True:
            free = claims.peek(self._db, anyone, 10_000, held=False, unable=True)
            before, self._seen = self._seen, [task.id for task in free]
            if self._seen != before:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, self._look_every))

    def prune(
        self,
        *,
        events_before: datetime | None,  # noqa: ARG002
        tasks_before: datetime | None,  # noqa: ARG002
        progress: Callable[[int], None],  # noqa: ARG002
    ) -> tuple[int, int]:
        refuse("people delete tasks in Notion itself")

    def dump(self) -> Iterator[Record]:
        for task in tasks.everything(self._db):
            yield Record(self._db.scope, task)

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:  # noqa: ARG002
        refuse("an import writes many tasks at once, and Notion changes one page at a time")

    def check(self, *, fix: bool) -> list[Finding]:
        from dibs.stores.notion import health

        return health.check(self._db, fix=fix)

    def examine(self) -> list[HealthCheck]:
        """Check the way to Notion and the database, one result per part."""
        from dibs.stores.notion import health

        return health.examine(self._db)

    def describe(self) -> Mapping[str, str]:
        bounds = self._db.bounds
        timed = f"timed: written within {bounds.window:g} s, confirmed after {bounds.settle:g} s"
        return {
            "kind": "notion",
            "place": self._place,
            "id": self._id,
            "layout": self._db.layout.name,
            "claims": timed if self._arbiter is None else f"strict: decided in {self._arbiter.describe()['place']}",
        }

    def close(self) -> None:
        self._db.gateway.close()
        if self._arbiter is not None:
            self._arbiter.close()


def _comment_error(error: DibsError) -> DibsError:
    from dibs.core.errors import Misconfigured
    from dibs.stores.notion.gateway import Mistaken

    if not isinstance(error, Misconfigured) or isinstance(error, Mistaken):
        return error
    return Unsupported(
        "The integration may not comment. Switch on 'Insert comments' among its capabilities in Notion's settings, "
        "under Integrations; it is off at first."
    )
