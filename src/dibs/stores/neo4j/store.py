"""The Neo4j store: the port's verbs, each one transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from dibs.core.errors import DibsError
from dibs.stores.neo4j import claims, tasks
from dibs.stores.neo4j.database import NEWEST, Database, target_of
from dibs.stores.neo4j.rows import event_from, link_from, task_from
from dibs.stores.port import NO_TERMS, Batch, Capabilities, Closing, Moved, insist, or_raise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Task
    from dibs.stores.neo4j.claims import Plain
    from dibs.stores.neo4j.transaction import Transaction
    from dibs.stores.port import EventQuery, Fleet, Query, Settings, Terms, Vectors
    from dibs.stores.reports import Counts, Finding, Record

Value = TypeVar("Value")

_LOOK, _LONGEST_LOOK = 0.1, 1.0  # seconds between two looks; an idle process looks less often


class Neo4jStore(Closing):
    """One desk of one database, any number of hosts. Implements `dibs.stores.port.Store`."""

    capabilities = Capabilities(exclusive="strict", transactions=True)
    output = None

    def __init__(
        self, url: str, *, desk: str | None = None, create: bool = False, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._database = Database(target_of(url, desk=desk), create=create, clock=clock)
        self._look, self._look_at = _LOOK, 0.0  # seconds between looks, and the time of the next one
        self._seen: int | None = None  # the newest event at the last wait

    def now(self) -> datetime:
        return self._database.now()

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        def act(tx: Transaction) -> list[Task]:
            if terms.quota is not None:
                tasks.keep_to(tx, scope, terms.quota, len(drafts))
            added = tasks.add(tx, scope, drafts, links, by)
            if not terms.ending:
                return added
            insist(claims.move(tx, move, terms.on_cancel) for move in terms.ending)
            return tasks.named(tx, scope, [task.id for task in added])

        scopes = {scope, *(move.scope for move in terms.ending)}
        return self._database.write(act, scopes=scopes, lock="make_scopes")

    def get(self, scope: str, task: str) -> Task:
        return self._database.read(lambda tx: tasks.get(tx, scope, task))

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        asked = {"scope": scope, "prefix": prefix, "limit": limit}
        return self._database.read(lambda tx: [row["id"] for row in tx.all("ids_by_prefix", **asked)])

    def find(self, query: Query) -> list[Task]:
        return self._database.read(lambda tx: tasks.find(tx, query))

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        scopes = self._scopes("scopes", request.scope) if held else ()
        return self._database.read(lambda tx: claims.peek(tx, request, limit, held=held, unable=unable), scopes=scopes)

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        scopes = self._scopes_to_claim_from(request)

        def act(tx: Transaction) -> list[Claimed] | DibsError:
            return claims.claim_named(tx, request) if request.ids else claims.claim_next(tx, request, scopes)

        return or_raise(self._claiming(act, scopes, claims.plain_claim(request)))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        scopes = [] if then is None else sorted({*self._scopes_to_claim_from(then), move.scope})

        def act(tx: Transaction) -> Moved | DibsError:
            moved = claims.move(tx, move, on_cancel)
            if then is None or isinstance(moved, DibsError):
                return moved
            return moved._replace(next=tuple(_going_on(tx, then, scopes, repeated=moved.repeated)))

        if then is None:
            return or_raise(self._database.write(act, scopes=[move.scope], plain=claims.plain_move(move)))
        return or_raise(self._claiming(act, scopes, claims.plain_move_and_claim(move, then)))

    def move_all(self, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        own = {move.scope for move in asked}
        scopes = [] if then is None else sorted({*self._scopes_to_claim_from(then), *own})

        def act(tx: Transaction) -> Batch:
            outcomes = tuple(claims.move(tx, move, on_cancel) for move in asked)
            if then is None:
                return Batch(outcomes)
            repeated = any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes)
            return Batch(outcomes, tuple(_going_on(tx, then, scopes, repeated=repeated)))

        return self._database.write(act, scopes=own) if then is None else self._claiming(act, scopes)

    def _claiming(
        self, act: Callable[[Transaction], Value], scopes: Sequence[str], way: Plain[Value] | None = None
    ) -> Value:
        """Claim, after expired tasks of other scopes without a retry left were given up."""
        while True:
            outcome = self._database.write(
                lambda tx: _ScopesToWake(tx.due.difference(scopes)) or act(tx), scopes=scopes, plain=way
            )
            if not isinstance(outcome, _ScopesToWake):
                return outcome
            self._wake(outcome)

    def _wake(self, scopes: Iterable[str]) -> None:
        named = sorted(scopes)
        self._database.write(lambda tx: claims.wake(tx, named), scopes=named)

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        return self._database.write(lambda tx: tasks.amend(tx, scope, task, edit, by), scopes=[scope])

    def link(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return self._database.write(lambda tx: tasks.link(tx, scope, asked, by), scopes=[scope])

    def unlink(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return self._database.write(lambda tx: tasks.unlink(tx, scope, asked, by), scopes=[scope])

    def links(self, scope: str, *of: str) -> list[Link]:
        def look(tx: Transaction) -> list[Link]:
            tasks.require(tx, scope, of)
            return [link_from(row) for row in tx.all("links_of", scope=scope, ids=list(of))]

        return self._database.read(look)

    def graph(self, scope: str, *, finished: bool) -> Graph:
        from dibs.core.graph import Graph

        def look(tx: Transaction) -> Graph:
            found = tuple(task_from(row["task"]) for row in tx.all("tasks_in_scope", scope=scope, finished=finished))
            ids = {task.id for task in found}
            between = (link_from(row) for row in tx.all("links_in_scope", scope=scope))
            return Graph(found, tuple(link for link in between if link.task in ids and link.on in ids))

        return self._database.read(look, scopes=[scope])

    def apply_plan(
        self,
        scope: str,
        plan: Plan,
        on_cancel: CanceledBlocker,
        by: Actor,
        *,
        dry_run: bool,
        progress: Callable[[int], None],
    ) -> PlanChanges:
        from dibs.stores.neo4j import bulk

        return self._database.write(
            lambda tx: bulk.apply_plan(tx, scope, plan, on_cancel, by, progress),
            scopes=[scope],
            lock="make_scopes",
            dry_run=dry_run,
            hurried=False,
        )

    def record(self, event: Event) -> None:
        def act(tx: Transaction) -> None:
            if event.task:
                tasks.get(tx, event.scope, event.task)
            tx.record(event._replace(at=tx.now))

        self._database.write(act, scopes=[event.scope])

    def events(self, query: EventQuery) -> list[Event]:
        limit = query.limit if query.last is None else query.last
        asked = query._asdict() | {"limit": tasks.MANY if limit is None else limit}
        name = "events" if query.task is None else "events_of_task"
        name = name if query.last is None else f"newest_{name}"
        found = self._database.read(lambda tx: [event_from(row["event"]) for row in tx.all(name, **asked)])
        return found if query.last is None else found[::-1]

    def counts(self, scope: str | None) -> Counts:
        return self._database.read(lambda tx: tasks.counts(tx, scope))

    def scopes(self, *, claimable: bool = False) -> list[str]:
        if claimable:
            return self._database.read(lambda tx: [row["name"] for row in tx.all("claimable_scopes", now=tx.now)])
        return self._database.read(lambda tx: tasks.scopes(tx, None))

    @property
    def fleet(self) -> Fleet:
        from dibs.stores.neo4j.parts import Neo4jFleet

        return Neo4jFleet(self._database)

    @property
    def vectors(self) -> Vectors:
        from dibs.stores.neo4j.parts import Neo4jVectors

        return Neo4jVectors(self._database)

    @property
    def settings(self) -> Settings:
        from dibs.stores.neo4j.parts import Neo4jSettings

        return Neo4jSettings(self._database)

    def wait(self, seconds: float) -> bool:
        """Look for writes and due tasks ten times a second, later once a second."""
        until = time.monotonic() + seconds
        while True:
            time.sleep(max(0.0, min(until, self._look_at) - time.monotonic()))
            if self._anything():
                return True
            if time.monotonic() >= until:
                return False

    def _anything(self) -> bool:
        """Look, if the next look is due."""
        if time.monotonic() < self._look_at:
            return False
        seen, (self._seen, due) = self._seen, self._database.read(_newest)
        found = bool(seen != self._seen or due)
        self._look = _LOOK if found else min(1.1 * self._look, _LONGEST_LOOK)
        self._look_at = time.monotonic() + self._look
        return found

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        from dibs.stores.neo4j import bulk

        return bulk.prune(self._database, events_before, tasks_before, progress)

    def dump(self) -> Iterator[Record]:
        from dibs.stores.neo4j import bulk

        scopes = self._scopes("every_scope", None)
        yield from self._database.read(lambda tx: bulk.dump(tx, scopes), scopes=scopes)

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.neo4j.bulk import Import

        return Import(self._database, records, by, progress).add()

    def replace(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.neo4j.bulk import Import

        return Import(self._database, records, by, progress).replace(lambda: self._scopes("every_scope", None))

    def check(self, *, fix: bool) -> list[Finding]:
        from dibs.stores.neo4j import bulk

        scopes = self._scopes("every_scope", None)
        return self._database.write(
            lambda tx: bulk.check(tx, scopes, fix=fix), scopes=scopes, dry_run=not fix, hurried=False
        )

    def _scopes_to_claim_from(self, request: ClaimRequest) -> list[str]:
        if request.assigned:
            return self._scopes("scopes_assigned", request.scope, agent=request.agent)
        return self._scopes("scopes_with_work", request.scope)

    def _scopes(self, query: str, scope: str | None, **asked: object) -> list[str]:
        """The named scope, or else the scopes that the query finds."""
        if scope is not None:
            return [scope]
        now = self._database.now_or_none()
        return self._database.read(lambda tx: [row["name"] for row in tx.all(query, now=now, **asked)])

    def describe(self) -> Mapping[str, str]:
        from dibs.stores.neo4j import parts

        desk = self._database.read(lambda tx: tx.all("desk")[0])
        return {
            "kind": "neo4j",
            "place": self._database.target.place,
            "id": desk["id"],
            "generation": str(desk["generation"]),
            "schema": f"desk {self._database.target.desk}, version {NEWEST}",
            "server": self._database.server,
            "durability": "full: every commit reaches the disk",
            "similarity": self._database.read(parts.similarity),
        }

    def close(self) -> None:
        self._database.close()


class _ScopesToWake(frozenset[str]):
    """Scopes to wake before a claim."""


def _going_on(tx: Transaction, then: ClaimRequest, scopes: Sequence[str], *, repeated: bool) -> list[Claimed]:
    """The next tasks after a finish, or those of an earlier try of the same request."""
    claimed = claims.held_under(tx, then) if repeated else []
    if claimed:
        return claimed
    outcome = claims.claim_next(tx, then, scopes if then.scope is None else [then.scope])
    return [] if isinstance(outcome, DibsError) else outcome


def _newest(tx: Transaction) -> tuple[int, bool]:
    row = tx.all("news", now=tx.now)[0]
    return row["seq"], row["due"]
