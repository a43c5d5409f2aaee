"""A store in plain dictionaries, for people who want to write one: every verb of the port, with all optional parts.

A transaction works on a copy of the tables and swaps it in at its end. So a verb is atomic, a reader sees one moment,
and a verb that raises has changed nothing.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Self, TypeVar

from dibs.core import events, fleet, output
from dibs.core.errors import AlreadyExists, DibsError, NotFound
from dibs.core.events import Event
from dibs.core.fleet import Agent, AgentStatus, refuse_more
from dibs.core.graph import Graph
from dibs.core.search import nearest, packed, refuse_other_length
from dibs.core.settings import differing
from dibs.core.task import Claimed, Link, Status, Task, order_key, page
from dibs.stores.port import NO_TERMS, Batch, Capabilities, EventQuery, Moved, Query, insist
from dibs.stores.reports import Counts, Neighbour, Neighbours, Record

from .dictionary_tables import Tables, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from dibs.core.fleet import Assignment, Member, Profile
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.output import OutputPage
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Draft, Edit, Json
    from dibs.stores.port import Terms
    from dibs.stores.reports import Finding

Value = TypeVar("Value")

_LOOK = 0.05


class Data:
    """What all connections to one store share: the tables, and a lock for writers."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.tables = Tables()
        self.version = 0


class DictionaryStore:
    """One connection to the data. Implements `dibs.stores.port.Store`."""

    capabilities = Capabilities(exclusive="strict", transactions=True)

    def __init__(self, data: Data, clock: Callable[[], datetime]) -> None:
        self._data = data
        self._clock = clock
        self._seen: tuple[int, datetime] | None = None
        self.fleet = DictionaryFleet(self)
        self.vectors = DictionaryVectors(self)
        self.settings = DictionarySettings(self)
        self.output = DictionaryOutput(self)

    @contextmanager
    def write(self, *, dry_run: bool = False) -> Iterator[Turn]:
        """A transaction: all is kept at its end, or nothing if it raises."""
        with self._data.lock:
            turn = Turn(self._data.tables.copy(), self.now())
            yield turn
            if not dry_run:
                self._data.tables = turn.tables
                self._data.version += 1

    def read(self) -> Turn:
        """A snapshot, which no later write changes."""
        return Turn(self._data.tables, self.now())

    def now(self) -> datetime:
        return self._clock()

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        with self.write() as turn:
            if terms.quota is not None:
                since = turn.now - terms.quota.within
                added = sorted(task.created_at for task in turn.all(scope) if task.created_at > since)
                refuse_more(terms.quota, added, len(drafts), turn.now)
            for draft in drafts:
                turn.add(scope, draft, by)
            for draft in drafts:
                if draft.parent is not None:
                    turn.get(scope, draft.parent)
                    turn.refuse_cycle(scope, draft.parent, draft.id)
            for link in links:
                turn.link(scope, link, by)
            insist(turn.move(move, terms.on_cancel) for move in terms.ending)
            return [turn.get(scope, draft.id) for draft in drafts]

    def get(self, scope: str, task: str) -> Task:
        return self.read().get(scope, task)

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        return sorted(task.id for task in self.read().all(scope) if task.id.startswith(prefix))[:limit]

    def find(self, query: Query) -> list[Task]:
        fitting = (task for task in self.read().work(query.scope) if _fits(task, query))
        return page(fitting, query.after, query.limit)

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        turn = self.read()
        under_way = [task for task in turn.work(request.scope) if held and task.held(turn.now)]
        return turn.next_tasks(request, unable=unable)[:limit] + sorted(under_way, key=order_key)

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        with self.write() as turn:
            claimed = turn.claim(request)
        return _or_raise(claimed)

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        with self.write() as turn:
            moved = turn.move(move, on_cancel)
            if isinstance(moved, Moved) and then is not None:
                moved = moved._replace(next=turn.claim_after([moved], then))
        return _or_raise(moved)

    def move_all(self, moves: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        with self.write() as turn:
            outcomes = tuple(turn.move(move, on_cancel) for move in moves)
            return Batch(outcomes, () if then is None else turn.claim_after(outcomes, then))

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        with self.write() as turn:
            after = turn.rewrite(scope, task, edit, by)
            if isinstance(edit.parent, str):
                turn.get(scope, edit.parent)
                turn.refuse_cycle(scope, edit.parent, task)
            return after

    def link(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        with self.write() as turn:
            return [link for link in links if turn.link(scope, link, by)]

    def unlink(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        with self.write() as turn:
            return [turn.unlink(scope, link, by) for link in links]

    def links(self, scope: str, *tasks: str) -> list[Link]:
        turn = self.read()
        found: set[Link] = set()
        for task in tasks:
            turn.get(scope, task)
            found.update(turn.links_from(scope, task), turn.links_to(scope, task))
        return sorted(found)

    def graph(self, scope: str, *, finished: bool) -> Graph:
        whole = self.read().graph(scope)
        tasks = tuple(task for task in whole.tasks if finished or not task.finished)
        ids = {task.id for task in tasks}
        return Graph(tasks, tuple(link for link in whole.links if {link.task, link.on} <= ids))

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
        with self.write(dry_run=dry_run) as turn:
            return turn.apply_plan(scope, plan, on_cancel, by, progress)

    def record(self, event: Event) -> None:
        with self.write() as turn:
            if event.task:
                turn.get(event.scope, event.task)
            turn.record(event._replace(at=turn.now))

    def events(self, query: EventQuery) -> list[Event]:
        found = [
            event
            for event in self.read().tables.events
            if query.scope in {None, event.scope} and query.task in {None, event.task} and event.seq > query.after
        ]
        return found[: query.limit] if query.last is None else found[max(0, len(found) - query.last) :]

    def counts(self, scope: str | None) -> Counts:
        turn = self.read()
        tasks = list(turn.work(scope))
        ready = [task for task in tasks if task.status is Status.READY]
        early = [task for task in ready if task.not_before is not None and task.not_before > turn.now]
        return Counts(
            {status: sum(task.status is status for task in tasks) for status in Status},
            waiting=sum(task.blockers > 0 for task in ready),
            claimable=sum(turn.claimable(task) for task in tasks),
            expired=sum(turn.claimable(task) for task in tasks if task.status is Status.ACTIVE),
            later=sum(not task.blockers for task in early),
            next_due=min((moment for moment in _moments(tasks) if moment > turn.now), default=None),
        )

    def scopes(self, *, claimable: bool = False) -> list[str]:
        turn = self.read()
        return sorted({task.scope for task in turn.all() if not claimable or turn.claimable(task)})

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:
            seen, self._seen = self._seen, (self._data.version, self.now())
            if seen is None or seen[0] != self._seen[0] or self._due(seen[1], self._seen[1]):
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK))

    def _due(self, after: datetime, now: datetime) -> bool:
        """Whether a lease has ended or a task has become due since then."""
        return any(after < moment <= now for moment in _moments(self.read().all()))

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        events = 0 if events_before is None else self._bites(lambda turn: turn.prune_events(events_before), progress)
        tasks = 0 if tasks_before is None else self._bites(lambda turn: turn.prune_tasks(tasks_before), progress)
        return events, tasks

    def _bites(self, bite: Callable[[Turn], int], progress: Callable[[int], None]) -> int:
        """Small transactions, so that others get their turn in between."""
        dropped = 0
        while True:
            with self.write() as turn:
                gone = bite(turn)
            if not gone:
                return dropped
            dropped += gone
            progress(gone)

    def dump(self) -> Iterator[Record]:
        return self.read().dump()

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        with self.write() as turn:
            scopes: set[str] = set()
            tasks = 0
            for scope, item in records:
                turn.restore(scope, item)
                scopes.add(scope)
                tasks += isinstance(item, Task)
                progress(1)
            for scope in sorted(scopes):
                turn.refuse_any_cycle(scope)
                turn.refuse_orphans(scope)
                detail = {"tasks": tasks}
                turn.record(Event(turn.now, scope, "", "import", agent=by.agent, run=by.run, detail=detail))
            return tasks

    def check(self, *, fix: bool) -> list[Finding]:  # noqa: ARG002 - nothing derived is kept, so nothing can be wrong
        return []

    def describe(self) -> Mapping[str, str]:
        return {"kind": "dictionary", "place": "this process"}

    def close(self) -> None:
        """The data outlives its connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DictionaryFleet:
    """The optional part `fleet` of the port."""

    def __init__(self, store: DictionaryStore) -> None:
        self._store = store

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        with self._store.write() as turn:
            known = turn.tables.agents.get(agent)
            if known is not None and known.status is AgentStatus.ACTIVE:
                raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
            turn.tables.agents[agent] = Agent(agent, host, pid, turn.now)
            return turn.tables.agents[agent]

    def deregister(self, agent: str) -> Agent:
        with self._store.write() as turn:
            known = turn.tables.agents.get(agent)
            if known is None:
                raise NotFound(f"No agent '{agent}' is registered.")
            if known.status is AgentStatus.ACTIVE:
                known = known._replace(status=AgentStatus.GONE, ended_at=turn.now)
            turn.tables.agents[agent] = known
            return known

    def agents(self) -> list[Agent]:
        return sorted(self._store.read().tables.agents.values(), key=lambda agent: (agent.started_at, agent.id))

    def enrol(self, profile: Profile) -> Member:
        with self._store.write() as turn:
            known = turn.tables.members.get(profile.agent)
            times = (turn.now, turn.now) if known is None else (known.enrolled_at, known.seen_at)
            turn.tables.members[profile.agent] = fleet.Member(*profile, *times)
            return turn.member(profile.agent)

    def dismiss(self, agent: str) -> Member:
        with self._store.write() as turn:
            member = turn.member(agent)
            del turn.tables.members[agent]
            return member

    def members(self) -> list[Member]:
        turn = self._store.read()
        return [turn.member(agent) for agent in sorted(turn.tables.members)]

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        with self._store.write() as turn:

            def give(scope: str, name: str) -> Task:
                task = turn.get(scope, name)
                after = fleet.assigned(task, asked, turn.now)
                return turn.put(after, events.assigned(task, after, by))

            return fleet.given_out(asked, None if asked.agent is None else turn.member(asked.agent), give)


class DictionaryVectors:
    """The optional part `vectors` of the port."""

    def __init__(self, store: DictionaryStore) -> None:
        self._store = store

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        with self._store.write() as turn:
            kept = turn.tables.vectors
            for task, vector in vectors.items():
                turn.get(scope, task)
                if vector is None:
                    kept.pop((scope, task), None)
            for task, vector in vectors.items():
                if vector is not None:
                    refuse_other_length(vector, _length(kept))
                    kept[scope, task] = vector

    def kept(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:
        return _vectors(self._store.read(), scope, finished=finished)

    def similar(
        self,
        scope: str,
        vector: Vector,
        text: str,  # noqa: ARG002 - vectors can always be compared here
        limit: int,
        least: float,
        *,
        finished: bool,
    ) -> Neighbours:
        turn = self._store.read()
        refuse_other_length(vector, _length(turn.tables.vectors))
        there = [(task, packed(each)) for task, each in _vectors(turn, scope, finished=finished).items()]
        found = nearest(vector, there, limit, least)
        return Neighbours(tuple(Neighbour(turn.get(scope, task), score) for task, score in found), "vector")


class DictionarySettings:
    """The optional part `settings` of the port."""

    def __init__(self, store: DictionaryStore) -> None:
        self._store = store

    def read(self, scope: str) -> Mapping[str, Json]:
        return _settings(self._store.read(), scope)

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        with self._store.write() as turn:
            made = differing(_settings(turn, scope), changes)
            for name, value in made.items():
                turn.tables.settings.pop((scope, name), None)
                if value is not None:
                    turn.tables.settings[scope, name] = value
            if made:
                turn.record(events.configured(scope, made, by, turn.now))
            return _settings(turn, scope)


class DictionaryOutput:
    """The optional part `output` of the port."""

    def __init__(self, store: DictionaryStore) -> None:
        self._store = store

    def append(self, scope: str, task: str, token: str, start: int, text: str) -> int:
        with self._store.write() as turn:
            found = turn.get(scope, task)
            output.refuse_other_attempt(found, token)
            kept = turn.tables.output
            for key in [key for key in kept if key[:2] == (scope, task) and key[2] <= found.attempt - output.ATTEMPTS]:
                del kept[key]
            before = kept.get((scope, task, found.attempt), ())
            known = before[-1][1].end if before else 0
            now = (*before, *((turn.now, piece) for piece in output.pieces(start, text, known)))
            end = now[-1][1].end if now else 0
            kept[scope, task, found.attempt] = tuple(
                one for one in now if one[1].start < output.HEAD or one[1].end > end - output.TAIL
            )
            return end

    def read(self, scope: str, task: str, attempt: int | None, after: int) -> OutputPage:
        turn = self._store.read()
        found = turn.get(scope, task)
        number = found.attempt if attempt is None else attempt
        kept = {key[2]: pieces for key, pieces in turn.tables.output.items() if key[:2] == (scope, task) and pieces}
        wanted = (piece for _, piece in kept.get(number, ()) if piece.start >= after)
        return output.page(found, number, wanted, after, sorted(kept), turn.now)


def _fits(task: Task, query: Query) -> bool:
    """A field of a query that is None matches all."""
    text = f"{task.title}\n{task.description}".casefold()
    return (
        task.status in query.statuses
        and query.agent in {None, task.lease.agent if task.lease else None}
        and query.assigned_to in {None, task.assigned_to}
        and query.only.matches(task)
        and query.parent in {None, task.parent}
        and (query.text is None or query.text.casefold() in text)
    )


def _moments(tasks: Iterable[Task]) -> Iterator[datetime]:
    """When leases end and tasks fall due."""
    for task in tasks:
        if task.lease is not None and task.lease.expires_at is not None:
            yield task.lease.expires_at
        if task.status is Status.READY and task.not_before is not None:
            yield task.not_before


def _vectors(turn: Turn, scope: str, *, finished: bool) -> dict[str, Vector]:
    return {
        task: vector
        for (of, task), vector in turn.tables.vectors.items()
        if of == scope and (finished or not turn.tables.tasks[of, task].finished)
    }


def _length(vectors: Mapping[tuple[str, str], Vector]) -> int | None:
    return next((len(vector) for vector in vectors.values()), None)


def _settings(turn: Turn, scope: str) -> dict[str, Json]:
    return {name: value for (of, name), value in sorted(turn.tables.settings.items()) if of == scope}


def _or_raise(outcome: Value | DibsError) -> Value:
    """A refusal leaves its event behind, so it is raised only after the commit."""
    if isinstance(outcome, DibsError):
        raise outcome
    return outcome
