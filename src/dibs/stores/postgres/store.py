"""The PostgreSQL store: the port's verbs, each one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import NotFound
from dibs.stores.port import NO_TERMS, Capabilities, Closing, insist, or_raise
from dibs.stores.postgres import claims, links, moves, tasks
from dibs.stores.postgres.connection import target_of
from dibs.stores.postgres.database import Database
from dibs.stores.postgres.migration import NEWEST
from dibs.stores.postgres.rows import event_from, task_from
from dibs.stores.sql import graph_of, link_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Task
    from dibs.stores.port import Batch, EventQuery, Fleet, Moved, Output, Query, Settings, Terms, Vectors
    from dibs.stores.postgres.listener import NotifyListener
    from dibs.stores.postgres.transaction import Transaction
    from dibs.stores.reports import Counts, Finding, Record


class PostgresStore(Closing):
    """One schema of one database, any number of hosts. Implements `dibs.stores.port.Store`."""

    capabilities = Capabilities(exclusive="strict", transactions=True, notify=True)

    def __init__(self, url: str, *, schema: str | None = None, create: bool = False) -> None:
        self._database = Database(target_of(url, schema=schema), create=create)
        self._listener: NotifyListener | None = None

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
            insist(moves.move_within(tx, move, terms.on_cancel) for move in terms.ending)
            return tasks.named(tx, scope, [task.id for task in added])

        return self._database.write(act)

    def get(self, scope: str, task: str) -> Task:
        return tasks.get(self._database, scope, task)

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        asked = {"scope": scope, "prefix": prefix, "limit": limit}
        return [row[0] for row in self._database.rows("ids_by_prefix", asked)]

    def find(self, query: Query) -> list[Task]:
        return tasks.find(self._database, query)

    def search(self, scope: str, words: Sequence[str]) -> list[tuple[Task, list[str]]]:
        with self._database.planning_freely():
            return self._database.read(lambda tx: tasks.search(tx, scope, words))

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        return self._database.read(lambda tx: claims.peek(tx, request, limit, held=held, unable=unable))

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return or_raise(claims.claim(self._database, request))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        return or_raise(moves.move(self._database, move, on_cancel, then))

    def move_all(self, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        return moves.move_all(self._database, asked, on_cancel, then)

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        return self._database.write(lambda tx: tasks.amend(tx, scope, task, edit, by))

    def link(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return links.link(self._database, scope, asked, by)

    def unlink(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        return self._database.write(lambda tx: links.unlink(tx, scope, asked, by))

    def links(self, scope: str, *of: str) -> list[Link]:
        def look(tx: Transaction) -> list[Link]:
            keys = {row[0]: row[1] for row in tx.all("keys_of", (scope, list(of)))}
            for task in of:
                if task not in keys:
                    raise NotFound(f"There is no task '{task}' in {scope}.")
            return [link_from(row) for row in tx.all("links_of", {"keys": list(keys.values())})]

        return self._database.read(look)

    def graph(self, scope: str, *, finished: bool) -> Graph:
        def look(tx: Transaction) -> Graph:
            found = tuple(task_from(row) for row in tx.iterate("tasks_in_scope", (scope, finished)))
            return graph_of(found, tx.iterate("links_in_scope", (scope,)))

        with self._database.planning_freely():
            return self._database.read(look)

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
        from dibs.stores.postgres import plans

        with self._database.planning_freely():
            return self._database.write(
                lambda tx: plans.apply_plan(tx, scope, plan, on_cancel, by, progress), dry_run=dry_run
            )

    def events(self, query: EventQuery) -> list[Event]:
        values = query._asdict() | {"limit": query.limit if query.last is None else query.last}

        def look(tx: Transaction) -> list[Event]:
            name = "events"
            if query.task is not None:
                there = query.scope is not None and tx.one("keys_of", (query.scope, [query.task]))
                name = "events_of_task" if there else "events_by_name"
            return [event_from(row) for row in tx.all(name if query.last is None else f"newest_{name}", values)]

        found = self._database.read(look)
        return found if query.last is None else found[::-1]

    def record(self, event: Event) -> None:
        def act(tx: Transaction) -> None:
            if event.task:
                tasks.lock(tx, event.scope, event.task)
            tx.record(event._replace(at=tx.now))

        self._database.write(act)

    def counts(self, scope: str | None) -> Counts:
        return tasks.counts(self._database, scope)

    def scopes(self, *, claimable: bool = False) -> list[str]:
        return [row[0] for row in self._database.rows("scopes_with_work" if claimable else "scopes")]

    @property
    def fleet(self) -> Fleet:
        from dibs.stores.postgres.fleet import PostgresFleet

        return PostgresFleet(self._database)

    @property
    def vectors(self) -> Vectors:
        from dibs.stores.postgres.extras import PostgresVectors

        return PostgresVectors(self._database)

    @property
    def settings(self) -> Settings:
        from dibs.stores.postgres.extras import PostgresSettings

        return PostgresSettings(self._database)

    @property
    def output(self) -> Output:
        from dibs.stores.postgres.extras import PostgresOutput

        return PostgresOutput(self._database)

    def wait(self, seconds: float) -> bool:
        from dibs.stores.postgres.listener import NotifyListener

        if self._listener is None:
            self._listener = NotifyListener(self._database)
        return self._listener.wait(seconds)

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        from dibs.stores.postgres import maintenance

        return maintenance.prune(self._database, events_before, tasks_before, progress)

    def dump(self) -> Iterator[Record]:
        from dibs.stores.postgres import maintenance

        return maintenance.dump(self._database)

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.postgres import maintenance

        with self._database.planning_freely():
            return self._database.write(lambda tx: maintenance.restore(tx, records, by, progress), repeatable=False)

    def replace(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        from dibs.stores.postgres import maintenance

        given = list(records)  # read before other writers have to wait
        with self._database.planning_freely():
            return self._database.write(lambda tx: maintenance.replace(tx, given, by, progress))

    def check(self, *, fix: bool) -> list[Finding]:
        from dibs.stores.postgres import maintenance

        with self._database.planning_freely():
            if fix:
                return self._database.write(lambda tx: maintenance.check(tx, fix=True))
            return self._database.read(lambda tx: maintenance.check(tx, fix=False))

    def describe(self) -> Mapping[str, str]:
        dead, live, oldest, version, commit, fsync, store, generation = self._database.rows("health")[0]
        durable = commit != "off" and fsync == "on"
        return {
            "kind": "postgresql",
            "place": self._database.target.place,
            "id": store,
            "generation": str(generation),
            "schema": f"{self._database.target.schema}, version {NEWEST}",
            "server": version,
            "durability": "full: every commit reaches the disk"
            if durable
            else f"synchronous_commit={commit}, fsync={fsync}: a crash of the server may cost the last commits",
            "bloat": f"{dead} dead rows beside {live} live ones"
            + ("; autovacuum does not keep up" if dead > max(live, 10_000) else ""),
            "snapshots": f"the oldest open for {oldest} s"
            + ("; a transaction left open slows every claim" if oldest > 600 else ""),  # noqa: PLR2004 - ten minutes
        }

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._database.close()
