"""The SQLite store: the port's verbs, each one transaction."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, StoreCorrupt
from dibs.core.task import Status
from dibs.stores.port import NO_TERMS, Batch, Capabilities, Closing, Moved, Query, insist, or_raise
from dibs.stores.sql import graph_of, link_from
from dibs.stores.sqlite import claims, links, moves, tasks
from dibs.stores.sqlite.database import Database, host_clock
from dibs.stores.sqlite.migrate import NEWEST
from dibs.stores.sqlite.rows import event_from, task_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Task
    from dibs.stores.port import EventQuery, Fleet, Output, Settings, Terms, Vectors
    from dibs.stores.reports import Counts, Finding, Record
    from dibs.stores.sqlite.database import Transaction


_LOOK = 0.1


class SqliteStore(Closing):
    """One file, any number of processes on one host. Implements `dibs.stores.port.Store`."""

    capabilities = Capabilities(exclusive="strict", transactions=True)

    def __init__(
        self,
        path: str,
        *,
        create: bool = False,
        durable: bool = True,
        timeout: float = 30.0,
        clock: Callable[[], datetime] = host_clock,
    ) -> None:
        self._database = Database(path, create=create, durable=durable, timeout=timeout, clock=clock)
        self._seen: int | None = None  # others' writes up to the last wait; none waited, and any may have been missed

    def now(self) -> datetime:
        return self._database.now()

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        return self._database.change(lambda tx: _add(tx, scope, drafts, links, by, terms))

    def get(self, scope: str, task: str) -> Task:
        with self._database.read() as tx:
            return tasks.get(tx, scope, task)

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        with self._database.read() as tx:
            return [row[0] for row in tx.all("ids_by_prefix", {"scope": scope, "prefix": prefix, "limit": limit})]

    def find(self, query: Query) -> list[Task]:
        with self._database.read() as tx:
            return tasks.find(tx, query)

    def search(self, scope: str, words: Sequence[str]) -> list[tuple[Task, list[str]]]:
        with self._database.read() as tx:
            return tasks.search(tx, scope, words)

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        with self._database.read() as tx:
            found = claims.peek(tx, request, limit, unable=unable)
            under_way = tasks.find(tx, Query(request.scope, (Status.ACTIVE,))) if held else []
            return found + [task for task in under_way if task.held(tx.now)]

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        claim = claims.claim_named if request.ids else claims.claim_next
        return or_raise(self._database.change(lambda tx: claim(tx, request)))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        return or_raise(self._database.change(lambda tx: _move(tx, move, on_cancel, then)))

    def move_all(self, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        return self._database.change(lambda tx: _move_all(tx, asked, on_cancel, then))

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        return self._database.change(lambda tx: tasks.amend(tx, scope, task, edit, by))

    def link(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return self._database.change(lambda tx: links.link(tx, scope, asked, by))

    def unlink(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return self._database.change(lambda tx: [links.unlink(tx, scope, link, by) for link in asked])

    def links(self, scope: str, *of: str) -> list[Link]:
        with self._database.read() as tx:
            keys = str([links.key_of(tx, scope, task) for task in of])  # a list of numbers prints as JSON
            return [link_from(row) for row in tx.all("links_of", {"keys": keys})]

    def graph(self, scope: str, *, finished: bool) -> Graph:
        with self._database.read() as tx:
            wanted = {"scope": scope, "finished": finished}
            found = tuple(task_from(row) for row in tx.iterate("tasks_in_scope", wanted))
            return graph_of(found, tx.iterate("links_in_scope", (scope,)))

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
        from dibs.stores.sqlite import plans

        with self._database.write(dry_run=dry_run) as tx:
            return plans.apply_plan(tx, scope, plan, on_cancel, by, progress)

    def record(self, event: Event) -> None:
        self._database.change(lambda tx: _record(tx, event))

    def events(self, query: EventQuery) -> list[Event]:
        limit = query.limit if query.last is None else query.last
        values = query._asdict() | {"limit": -1 if limit is None else limit}
        with self._database.read() as tx:
            name = "events"
            if query.task is not None:
                there = query.scope is not None and tx.one("key_of", (query.scope, query.task))
                name = "events_of_task" if there else "events_by_name"
            found = [event_from(row) for row in tx.all(name if query.last is None else f"newest_{name}", values)]
        return found if query.last is None else found[::-1]

    def counts(self, scope: str | None) -> Counts:
        with self._database.read() as tx:
            return tasks.counts(tx, scope)

    def scopes(self, *, claimable: bool = False) -> list[str]:
        with self._database.read() as tx:
            asked = tx.all("scopes_with_work", {"now": tx.micros}) if claimable else tx.all("scopes")
            return [row[0] for row in asked]

    @property
    def fleet(self) -> Fleet:
        from dibs.stores.sqlite.fleet import SqliteFleet

        return SqliteFleet(self._database)

    @property
    def vectors(self) -> Vectors:
        from dibs.stores.sqlite.extras import SqliteVectors

        return SqliteVectors(self._database)

    @property
    def settings(self) -> Settings:
        from dibs.stores.sqlite.extras import SqliteSettings

        return SqliteSettings(self._database)

    @property
    def output(self) -> Output:
        from dibs.stores.sqlite.extras import SqliteOutput

        return SqliteOutput(self._database)

    def wait(self, seconds: float) -> bool:
        """Looks ten times a second whether another connection has written, or time has unblocked something."""
        until = time.monotonic() + seconds
        while True:
            seen, self._seen = self._seen, self._database.pragma("data_version")[0][0]
            if seen != self._seen or self._anything_due():
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK))

    def _anything_due(self) -> bool:
        with self._database.read() as tx:
            return tx.one("anything_due", (tx.micros,)) is not None

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        from dibs.stores.sqlite import maintenance

        return maintenance.prune(self._database, events_before, tasks_before, progress)

    def dump(self) -> Iterator[Record]:
        from dibs.stores.sqlite import maintenance

        with self._database.read() as tx:
            tx.value("highest_key")  # the moment that is read
            self._database.sync()
            yield from maintenance.dump(tx)

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.sqlite import maintenance

        with self._database.write() as tx:
            return maintenance.restore(tx, records, by, progress)

    def replace(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.sqlite import maintenance

        with self._database.write() as tx:
            return maintenance.replace(tx, records, by, progress)

    def check(self, *, fix: bool) -> list[Finding]:
        from dibs.stores.sqlite import maintenance

        damage = [row[0] for row in self._database.pragma("integrity_check") if row[0] != "ok"]
        if damage:
            raise StoreCorrupt(f"{self._database.path} is damaged: {damage[0]}. Restore it from an export or a backup.")
        if fix:
            with self._database.write() as tx:
                return maintenance.check(tx, fix=True)
        with self._database.read() as tx:
            return maintenance.check(tx, fix=False)

    def describe(self) -> Mapping[str, str]:
        with self._database.read() as tx:
            store_id, generation = tx.all("identity")[0]
        return {
            "kind": "sqlite",
            "place": self._database.path,
            "id": store_id,
            "generation": str(generation),
            "schema": str(NEWEST),
            "sqlite": sqlite3.sqlite_version,
            "durability": "full: every commit reaches the disk"
            if self._database.durable
            else "normal: a power cut may cost the last commits",
            "log": f"{self._database.log_size()} bytes waiting for a checkpoint",
        }

    def close(self) -> None:
        self._database.close()


def _add(
    tx: Transaction, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms
) -> list[Task]:
    if terms.quota is not None:
        tasks.keep_to(tx, scope, terms.quota, len(drafts))
    added = tasks.add(tx, scope, drafts, links, by)
    if not terms.ending:
        return added
    insist(moves.move(tx, move, terms.on_cancel) for move in terms.ending)
    return [tasks.get(tx, scope, task.id) for task in added]


def _move(tx: Transaction, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None) -> Moved | DibsError:
    moved = moves.move(tx, move, on_cancel)
    if then is not None and isinstance(moved, Moved):
        moved = moved._replace(next=tuple(_next(tx, then, repeated=moved.repeated)))
    return moved


def _move_all(tx: Transaction, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None) -> Batch:
    outcomes = tuple(moves.move(tx, move, on_cancel) for move in asked)
    if then is None:
        return Batch(outcomes)
    repeated = any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes)
    return Batch(outcomes, tuple(_next(tx, then, repeated=repeated)))


def _next(tx: Transaction, then: ClaimRequest, *, repeated: bool) -> list[Claimed]:
    """The tasks claimed after a finish: those of an earlier try of this request, or the next ones."""
    claimed = claims.held_under(tx, then) if repeated else []
    return claimed or _none_over_limit(claims.claim_next(tx, then))


def _record(tx: Transaction, event: Event) -> None:
    if event.task:
        tasks.get(tx, event.scope, event.task)
    tx.record(event._replace(at=tx.now))


def _none_over_limit(claimed: list[Claimed] | DibsError) -> list[Claimed]:
    """An agent at its limit gets no follow-up task."""
    return [] if isinstance(claimed, DibsError) else claimed
