"""The vault store: the port's verbs over a folder of Markdown files, each one turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, StoreFull, Unsupported
from dibs.core.graph import Graph, find_cycle
from dibs.core.task import Holder, Status
from dibs.stores.port import NO_TERMS, Batch, Capabilities, Closing, Moved, refuse
from dibs.stores.reports import Counts, Finding, Record
from dibs.stores.vault import claims, places, tasks
from dibs.stores.vault.places import PLAIN
from dibs.stores.vault.tasks import write_links
from dibs.stores.vault.vault import Vault, host_clock
from dibs.stores.vault.writing import Alone, Claiming, NeedsAlone, Turn, remove, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Claimed, Draft, Edit, Link, Task
    from dibs.stores.port import EventQuery, Query, Terms
    from dibs.stores.vault.disk import Disk
    from dibs.stores.vault.index import Entry
    from dibs.stores.vault.watching import Waiting


class VaultStore(Closing):
    """One folder, any number of processes and people on one host. Implements `dibs.stores.port.Store`."""

    capabilities = Capabilities(exclusive="strict", transactions=False, ids="file names")
    fleet = vectors = settings = output = None

    def __init__(
        self,
        path: str,
        *,
        create: bool = False,
        durable: bool = True,
        timeout: float = 30.0,
        clock: Callable[[], datetime] = host_clock,
        disk: Disk | None = None,
    ) -> None:
        self._vault = Vault(path, create=create, durable=durable, timeout=timeout, clock=clock, disk=disk)
        self._waiting: Waiting | None = None

    def now(self) -> datetime:
        return self._vault.clock()

    def add(
        self, scope: str, drafts: Sequence[Draft], given: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        if terms != NO_TERMS:
            raise Unsupported("A folder of notes has no transactions, so tasks cannot be added under conditions.")
        with Alone(self._vault) as tx:
            return tasks.add(tx, scope, drafts, given, by)

    def get(self, scope: str, task: str) -> Task:
        with Turn(self._vault) as tx:
            return tx.task(scope, task)

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        with Turn(self._vault) as tx:
            return [task for _, task in tx.index.keys_in(scope) if task.startswith(prefix)][:limit]

    def find(self, query: Query) -> list[Task]:
        with Turn(self._vault) as tx:
            return tasks.find(tx, query)

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        with Turn(self._vault) as tx:
            return claims.peek(tx, request, limit, held=held, unable=unable)

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        if not request.ids:
            try:
                with Claiming(self._vault) as beside:
                    return claims.claim_next(beside, request)
            except NeedsAlone:
                pass  # nothing was changed yet
        with Alone(self._vault) as tx:
            return claims.claim_named(tx, request) if request.ids else claims.claim_next(tx, request)

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        with Alone(self._vault) as tx:
            moved = tasks.move(tx, move, on_cancel)
            return moved if then is None else moved._replace(next=_next(tx, then, repeated=moved.repeated))

    def move_all(self, asked: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        with Alone(self._vault) as tx:
            outcomes = tuple(_outcome(tx, move, on_cancel) for move in asked)
            if then is None:
                return Batch(outcomes)
            repeated = any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes)
            return Batch(outcomes, _next(tx, then, repeated=repeated))

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        with Alone(self._vault) as tx:
            return tasks.amend(tx, scope, task, edit, by)

    def link(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        with Alone(self._vault) as tx:
            return tasks.link(tx, scope, asked, by)

    def unlink(self, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
        with Alone(self._vault) as tx:
            return tasks.unlink(tx, scope, asked, by)

    def links(self, scope: str, *of: str) -> list[Link]:
        with Turn(self._vault) as tx:
            tx.index.read_all()
            found: set[Link] = set()
            for task in of:
                own = tx.entry(scope, task).reading
                found.update(own.links if own else (), tx.index.dependents((scope, task)))
            return sorted(link for link in found if tx.index.place_of((scope, link.on)) is not None)

    def graph(self, scope: str, *, finished: bool) -> Graph:
        from dibs.core.graph import Graph

        with Turn(self._vault) as tx:
            found = tuple(tx.index.tasks(scope, finished=finished))
            ids = {task.id for task in found}
            entries = (tx.index.entry((scope, task)) for task in sorted(ids))
            own = (link for entry in entries if entry and entry.reading for link in sorted(entry.reading.links))
            return Graph(found, tuple(link for link in own if link.on in ids))

    def apply_plan(
        self,
        scope: str,  # noqa: ARG002 - the port's signature, here and below
        plan: Plan,  # noqa: ARG002
        on_cancel: CanceledBlocker,  # noqa: ARG002
        by: Actor,  # noqa: ARG002
        *,
        dry_run: bool,  # noqa: ARG002
        progress: Callable[[int], None],  # noqa: ARG002
    ) -> PlanChanges:
        refuse("a plan changes many files at once, and a folder cannot do that as a whole")

    def record(self, event: Event) -> None:
        with Claiming(self._vault) as tx:
            if event.task:
                tx.entry(event.scope, event.task)
            tx.record(event._replace(at=tx.now))

    def events(self, query: EventQuery) -> list[Event]:
        with Turn(self._vault) as tx:
            return tx.vault.log.read(query)

    def counts(self, scope: str | None) -> Counts:
        with Turn(self._vault) as tx:
            found = list(tx.index.tasks(scope, finished=False))
            by_status = dict.fromkeys(Status, 0)
            for task in found:
                by_status[task.status] += 1
            for place in tx.index.places(scope):
                if place.finished:
                    by_status[PLAIN[place.folder]] += 1
            up = [task for task in found if claims.up_for_work(tx, task)]
            ready = [task for task in found if task.status is Status.READY]
            early = [task for task in ready if task.not_before is not None and task.not_before > tx.now]
            leases = [task.lease for task in found if task.lease is not None and task.lease.holder is Holder.AGENT]
            ends = [lease.expires_at for lease in leases] + [task.not_before for task in early]
            return Counts(
                by_status,
                waiting=sum(task.blockers > 0 for task in ready),
                claimable=len(up),
                expired=sum(task.status is Status.ACTIVE for task in up),
                later=sum(not task.blockers for task in early),
                next_due=min((moment for moment in ends if moment is not None and moment > tx.now), default=None),
            )

    def scopes(self, *, claimable: bool = False) -> list[str]:
        with Turn(self._vault) as tx:
            found = sorted({place.scope for place in tx.index.places(None)})
        return [scope for scope in found if self.counts(scope).claimable] if claimable else found

    def wait(self, seconds: float) -> bool:
        """Wait until a file arrives, leaves or changes, or a task becomes due."""
        if self._waiting is None:
            from dibs.stores.vault.watching import Waiting

            self._waiting = Waiting(self._vault)
        return self._waiting.wait(seconds)

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        return _prune(self._vault, events_before, tasks_before, progress)

    def dump(self) -> Iterator[Record]:
        with Turn(self._vault) as tx:
            found = list(_records(tx))
        yield from found

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:  # noqa: ARG002
        refuse("an import writes many files at once, and a folder cannot do that as a whole")

    def check(self, *, fix: bool) -> list[Finding]:
        if fix:
            with Alone(self._vault) as tx:
                self._vault.sweep()
                return _repair(tx)
        with Turn(self._vault) as reader:
            return _check(reader)

    def describe(self) -> Mapping[str, str]:
        full, normal = "full: every change of a task reaches the disk", "normal: a power cut may cost the last"
        with Turn(self._vault):
            pass  # an id is made in the first one
        return {
            "kind": "vault",
            "place": self._vault.root,
            "id": self._vault.id or "none: the folder is read-only",
            "durability": full if self._vault.disk.durable else normal,
            "unlogged": f"{len(self._vault.unlogged)} events without room on the disk",
        }

    def close(self) -> None:
        """Write events for which the disk had no room once more; StoreFull if that fails."""
        vault = self._vault
        try:
            if vault.unlogged:
                with Claiming(vault):
                    pass
            if vault.unlogged:
                raise StoreFull(
                    f"The change was made, but {vault.path('Logs')} had no room for its events. Free some space."
                )
        finally:
            if self._waiting is not None:
                self._waiting.close()
            vault.close()


def _next(tx: Alone, then: ClaimRequest, *, repeated: bool) -> tuple[Claimed, ...]:
    claimed = claims.held_under(tx, then) if repeated else []
    return tuple(claimed or claims.claim_next(tx, then))


def _outcome(tx: Alone, move: Move, on_cancel: CanceledBlocker) -> Moved | DibsError:
    try:
        return tasks.move(tx, move, on_cancel)
    except DibsError as error:
        return error


def _check(tx: Turn) -> list[Finding]:
    """Every question about every file."""
    tx.index.read_all()
    found = [Finding(problem, path, fixable=False) for path, problem in sorted(tx.index.problems.items())]
    for key in tx.index.keys_in():
        entry = tx.index.entry(key)
        found += _of_one(tx, entry) if entry is not None else []
    for scope in sorted({scope for scope, _ in tx.index.keys_in()}):
        found += _cycles(tx, scope)
    for name, lines in tx.vault.log.unreadable():
        found.append(Finding(f"holds {lines} line(s) that are no events", f"Logs/{name}", fixable=False))
    return found


def _repair(tx: Alone) -> list[Finding]:
    """Remove links and parents that do not exist."""
    findings = _check(tx)
    for finding in findings:
        if finding.fixable:
            scope, _, task_id = finding.subject.rpartition("/")
            _drop_loose_ends(tx, scope, task_id)
    return [finding._replace(fixed=finding.fixable) for finding in findings]


def _of_one(tx: Turn, entry: Entry) -> list[Finding]:
    path, key = entry.path, entry.place.key
    if entry.problem is not None:
        return [Finding(entry.problem, path, fixable=False)]
    known = entry.reading
    if known is None:
        return []
    found = [Finding(f"{doubt}; it was passed over", path, fixable=False) for doubt in known.doubts]
    twins = tx.index.twins(key)
    if twins:
        said = f"is the task of {' and of '.join(twins)}: no agent works on it"
        found.append(Finding(said, "/".join(key), fixable=False))
    ends = [(link.on, "waits for") for link in known.links]
    if known.task.parent is not None:
        ends.append((known.task.parent, "has the parent"))
    found += [
        Finding(f"{how} {on}, which is not there", "/".join(key), fixable=True)
        for on, how in ends
        if tx.index.place_of((key[0], on)) is None
    ]
    return found


def _cycles(tx: Turn, scope: str) -> list[Finding]:
    tasks = tuple(tx.index.tasks(scope))
    entries = (tx.index.entry((scope, task.id)) for task in tasks)
    links = tuple(link for entry in entries if entry and entry.reading for link in entry.reading.links)
    cycle = find_cycle(Graph(tasks, links).prerequisites())
    return [Finding(f"tasks wait for each other: {' → '.join(cycle)}", scope, fixable=False)] if cycle else []


def _drop_loose_ends(tx: Alone, scope: str, task_id: str) -> None:
    entry = tx.entry(scope, task_id)
    known = entry.reading
    if known is None:
        return
    kept = tuple(link for link in known.links if tx.index.place_of((scope, link.on)) is not None)
    write_links(tx, scope, task_id, kept)
    parent = known.task.parent
    if parent is not None and tx.index.place_of((scope, parent)) is None:
        tx.settled(lambda: rewrite(tx, tx.entry(scope, task_id), tx.task(scope, task_id)._replace(parent=None)))


_BITE = 1000


def _records(tx: Turn) -> Iterator[Record]:
    tasks = sorted(tx.index.tasks(), key=lambda task: (task.created_at, task.scope, task.id))
    for task in tasks:
        yield Record(task.scope, task._replace(extra={k: said for k, said in task.extra.items() if k != places.FILE}))
    for task in tasks:
        entry = tx.index.entry((task.scope, task.id))
        for link in sorted(entry.reading.links if entry and entry.reading else ()):
            yield Record(task.scope, link)
    for event in tx.vault.log.all():
        yield Record(event.scope, event)


def _prune(
    vault: Vault, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Delete in small turns, so that other processes get theirs in between."""
    events = _bites(vault, progress, lambda tx: tx.vault.log.drop(events_before, _BITE)) if events_before else 0
    tasks = _bites(vault, progress, lambda tx: _drop_tasks(tx, tasks_before)) if tasks_before else 0
    return events, tasks


def _bites(vault: Vault, progress: Callable[[int], None], bite: Callable[[Alone], int]) -> int:
    dropped = 0
    while True:
        with Alone(vault) as tx:
            gone = bite(tx)
        dropped += gone
        progress(gone)
        if gone < _BITE:
            return dropped


def _drop_tasks(tx: Alone, before: datetime) -> int:
    """Delete finished tasks without children and without unfinished dependents."""
    tx.vault.sweep()
    tx.index.read_all()
    old = [task for task in tx.index.tasks() if task.finished_at is not None and task.finished_at < before]
    free = [task for task in old if not _needed(tx, task)][:_BITE]
    for task in free:
        for link in tx.index.dependents((task.scope, task.id)):
            entry = tx.entry(task.scope, link.task)
            kept = tuple(known for known in entry.reading.links if known.on != task.id) if entry.reading else ()
            write_links(tx, task.scope, link.task, kept)
        remove(tx, tx.entry(task.scope, task.id))
    return len(free)


def _needed(tx: Alone, task: Task) -> bool:
    key = (task.scope, task.id)
    if tx.index.children(key) or tx.index.twins(key):
        return True
    return any(not tx.index.finished((task.scope, link.task)) for link in tx.index.dependents(key))
