"""Work on a whole store: plans, imports in batches that are published in one transaction, dump, prune and check.

A server keeps a transaction in memory, so a large file cannot be written in one. Batches are written under a store name
that no program opens; publishing changes that name. Importing the same file again after a crash resumes it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dibs.core import lifecycle
from dibs.core.errors import AlreadyExists, CycleDetected, InvalidInput, NotFound, StoreBusy, StoreCorrupt
from dibs.core.events import Event
from dibs.core.graph import find_cycle
from dibs.core.lifecycle import Consequences, Move, Verb
from dibs.core.plan import REMOVED, diff
from dibs.core.policy import CanceledBlocker
from dibs.core.settings import Setting
from dibs.core.task import LinkKind, Task
from dibs.stores.neo4j import claims, parts, tasks
from dibs.stores.neo4j.rows import (
    event_from,
    event_values,
    link_from,
    link_values,
    properties_of,
    schedule_of,
    task_from,
)
from dibs.stores.reports import Finding, Record, refuse_unsound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.task import Actor, Json, Link
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.rows import Row, Values
    from dibs.stores.neo4j.transaction import Transaction


BATCH = 2000  # records per transaction
_UNPUBLISHED = frozenset({"labels", "scopes", "parents"})  # questions of a check that only published tasks can answer


Value = TypeVar("Value")


class Step(NamedTuple):
    """One transaction: a statement, its parameters at a time, and how many records it settles."""

    query: str
    given: Callable[[Transaction], Values]
    records: int


class Import:
    """One file on its way into a desk."""

    def __init__(
        self, database: Database, records: Iterable[Record], by: Actor, progress: Callable[[int], None]
    ) -> None:
        self._database, self._by, self._progress = database, by, progress
        self._tasks: dict[str, dict[str, Task]] = {}
        self._links: dict[str, list[Link]] = defaultdict(list)
        self._outward: dict[str, list[Link]] = defaultdict(list)  # an end is in the store, not in the file
        self._parents: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._settings: dict[str, list[Setting]] = defaultdict(list)
        self._events: list[Event] = []
        digest = hashlib.sha256()
        for record in records:
            digest.update(repr(record).encode())
            self._take(record)
        self._sort_ends()
        self._staging = f"{database.target.desk}/import-{digest.hexdigest()[:32]}"

    @property
    def scopes(self) -> set[str]:
        return set(self._tasks)

    def add(self) -> int:
        """Add everything to what the desk holds."""
        if not self.scopes:
            return 0
        if not self._published():
            with self._stage(beside=True):
                self._database.write(self._publish, scopes=self.scopes, lock="make_scopes", hurried=False)
        return self._finish()

    def replace(self, known_scopes: Callable[[], Iterable[str]]) -> int:
        """Replace all tasks, links, settings and events. Event numbers keep rising, for readers that follow them."""
        if not self._published():
            with self._stage(beside=False):
                while True:
                    scopes = self.scopes.union(known_scopes())
                    act = partial(self._exchange, scopes=scopes)
                    if self._database.write(act, scopes=scopes, lock="make_scopes", hurried=False):
                        break
        return self._finish()

    def _finish(self) -> int:
        """Publish the history. Its events take the next numbers in their order, so readers that follow miss none."""
        self._progress(sum(map(len, self._outward.values())) + sum(map(len, self._settings.values())))
        _publish_events(self._database, self._staging)
        self._database.write(self._close, lock="look")
        return sum(map(len, self._tasks.values()))

    def _close(self, tx: Transaction) -> None:
        if tx.value("close_import", staging=self._staging):
            for scope in sorted(self.scopes):
                detail: dict[str, Json] = {"tasks": len(self._tasks[scope])}
                tx.record(Event(tx.now, scope, "", "import", agent=self._by.agent, run=self._by.run, detail=detail))

    def _published(self) -> bool:
        """Whether an earlier try was broken off while it published the history."""
        return bool(self._database.read(lambda tx: tx.value("import_is_published", staging=self._staging)))

    # Reading the file

    def _take(self, record: Record) -> None:
        scope, item = record
        own = self._tasks.setdefault(scope, {})
        match item:
            case Task():
                if item.id in own:
                    raise tasks.taken(scope, item.id)
                own[item.id] = item._replace(blockers=0)  # they are counted from the links
            case Event():
                self._events.append(item)
            case Setting():
                self._settings[scope].append(item)
            case _:
                self._links[scope].append(item)

    def _sort_ends(self) -> None:
        for scope, own in self._tasks.items():
            linked = self._links.pop(scope, [])
            inside = [link for link in linked if link.task in own and link.on in own]
            if inside:
                self._links[scope] = inside
            if len(inside) < len(linked):
                self._outward[scope] = [link for link in linked if link.task not in own or link.on not in own]
            self._parents[scope] = [(task.parent, task.id) for task in own.values() if task.parent is not None]
            self._refuse_cycle(scope)

    def _refuse_cycle(self, scope: str) -> None:
        before: dict[str, list[str]] = {}
        edges = [(link.task, link.on) for link in self._links[scope] if link.kind is not LinkKind.PARALLEL_OK]
        for task, on in edges + self._parents[scope]:
            before.setdefault(task, []).append(on)
            before.setdefault(on, [])
        cycle = find_cycle(before)
        if cycle is not None:
            raise CycleDetected(cycle)

    # Writing batches

    @contextmanager
    def _stage(self, *, beside: bool) -> Iterator[None]:
        """Write the batches that are missing. Only a refused file drops them; after any other failure they wait."""
        database = self._database
        database.write(partial(self._refuse_unfit, beside=beside), lock="look", dry_run=True, hurried=False)
        for row in database.read(lambda tx: tx.all("abandoned_imports", but=self._staging)):
            if row["published"]:
                _publish_events(database, row["name"])
            _drop(database, row["name"])
        try:
            first = database.write(partial(_open, self._staging), lock="look")
            for number, step in enumerate(self._steps()):
                if number >= first:
                    database.write(partial(self._do, number, step), lock="look", hurried=False)
                self._progress(step.records)
            database.write(self._refuse_unsound, lock="look", dry_run=True, hurried=False)
            yield
        except (AlreadyExists, CycleDetected, InvalidInput, NotFound):
            _drop(database, self._staging)
            raise

    def _refuse_unfit(self, tx: Transaction, *, beside: bool) -> None:
        for scope, own in self._tasks.items():
            if beside and (known := sorted(set(own) - tasks.missing(tx, scope, own))):
                raise tasks.taken(scope, known[0])
            ends = {end for link in self._outward[scope] for end in (link.task, link.on)} - own.keys()
            parents = {parent for parent, _ in self._parents[scope]} - own.keys()
            gone = tasks.missing(tx, scope, ends | parents) if beside else ends | parents
            for parent, child in self._parents[scope]:
                if parent in gone:
                    raise InvalidInput(
                        f"{child} names the parent {parent}, which is neither in the file nor in the store."
                    )
            for link in self._outward[scope]:
                if gone.intersection((link.task, link.on)):
                    raise InvalidInput(f"A link leads from {link.task} to {link.on}, but not both are in {scope}.")

    def _steps(self) -> Iterator[Step]:
        """Always the same for the same file."""
        for scope, own in self._tasks.items():
            for new in _batches(list(own.values())):
                yield Step("add_tasks", partial(self._new, new), len(new))
            for pairs in _batches([pair for pair in self._parents[scope] if pair[0] in own]):
                yield Step("put_parents", partial(_pairs, scope, pairs), 0)
            for links in _batches(self._links[scope]):
                yield Step("put_links", partial(_linked, scope, links), len(links))
            for ids in _batches(sorted({link.task for link in self._links[scope]})):
                yield Step("recount", partial(_named, scope, ids), 0)
        for events in _batches(list(enumerate(self._events, start=1))):
            yield Step("stage_events", partial(_numbered, events), len(events))

    def _new(self, new: Sequence[Task], tx: Transaction) -> Values:
        own = {"desk": self._staging, "blockers": 0}
        return {"kind": "", "tasks": [properties_of(task) | schedule_of(task, tx.now) | own for task in new]}

    def _do(self, number: int, step: Step, tx: Transaction) -> None:
        """Once, also if the answer to the commit was lost, or another process imports the same file."""
        done = tx.value("take_step", staging=self._staging, step=number)
        if done is None:
            raise _overtaken()
        if done == number:
            tx.all(step.query, **step.given(tx), desk=self._staging)

    def _refuse_unsound(self, tx: Transaction) -> None:
        found = sorted(
            (row["question"], row["subject"])
            for row in tx.all("problems", desk=self._staging, now=tx.now)
            if row["question"] not in _UNPUBLISHED
        )
        refuse_unsound([Finding(QUESTIONS[question][0], subject, fixable=False) for question, subject in found])

    # Publishing

    def _exchange(self, tx: Transaction, *, scopes: set[str]) -> bool:
        """The scopes are locked. False: there is another scope by now, and nothing was done."""
        tx.all("lock_desk", now=tx.now)  # writers take this lock last
        if not {row["name"] for row in tx.all("every_scope")} <= scopes:
            return False
        if not tx.value("import_is_published", staging=self._staging):
            for query in ("discard_tasks", "discard_settings", "discard_history", "next_generation"):
                tx.all(query, staging=self._staging)
            self._publish(tx)
        return True

    def _publish(self, tx: Transaction) -> None:
        """Also repeated after a lost answer, when there is nothing left to do."""
        known = tx.one("published_already", staging=self._staging)
        if known is not None:
            raise tasks.taken(known["scope"], known["id"])
        state = tx.one("mark_published", staging=self._staging)
        if state is None:
            raise _overtaken()
        if state["before"]:
            return
        tx.all("publish_tasks", staging=self._staging)
        self._tie_outward(tx)
        for scope, given in self._settings.items():
            parts.restore_settings(tx, scope, given)

    def _tie_outward(self, tx: Transaction) -> None:
        """Tie the file to tasks that were in the store before."""
        for scope, own in self._tasks.items():
            links, parents = self._outward[scope], [pair for pair in self._parents[scope] if pair[0] not in own]
            if links or parents:
                tasks.put_parents(tx, scope, parents)
                tasks.require(tx, scope, [end for link in links for end in (link.task, link.on)])
                tx.all("put_links", scope=scope, now=tx.now, links=[link_values(link) for link in links])
                tx.all("recount", scope=scope, ids=sorted({link.task for link in links}))
                tasks.refuse_any_cycle(tx, scope)


def _open(name: str, tx: Transaction) -> int:
    """The number of steps that are done."""
    steps: int = tx.value("open_import", staging=name, store=tx.store)
    return steps


def _batches(every: Sequence[Value]) -> Iterator[Sequence[Value]]:
    return (every[at : at + BATCH] for at in range(0, len(every), BATCH))


def _pairs(scope: str, pairs: Sequence[tuple[str, str]], _tx: Transaction) -> Values:
    return {"scope": scope, "pairs": [list(pair) for pair in pairs]}


def _linked(scope: str, links: Sequence[Link], tx: Transaction) -> Values:
    return {"scope": scope, "now": tx.now, "links": [link_values(link) for link in links]}


def _named(scope: str, ids: Sequence[str], _tx: Transaction) -> Values:
    return {"scope": scope, "ids": ids}


def _numbered(events: Sequence[tuple[int, Event]], _tx: Transaction) -> Values:
    return {"events": [event_values(event, mark="") | {"seq": seq} for seq, event in events]}


def _overtaken() -> StoreBusy:
    return StoreBusy("Another process finished or dropped an import of the same file. Check the store, then try again.")


def _publish_events(database: Database, name: str) -> None:
    """Those of a replaced store go first, so that readers never see both."""
    for query in ("drop_old_events", "drop_discarded", "publish_events"):
        while database.write(partial(_bite, query, name), lock="look"):
            pass


def _drop(database: Database, name: str) -> None:
    """Delete the batches of an import, and then its own node."""
    for query in ("drop_staged_tasks", "drop_staged_events"):
        while database.write(partial(_bite, query, name), lock="look"):
            pass
    database.write(lambda tx: tx.all("close_import", staging=name), lock="look")


def _bite(query: str, name: str, tx: Transaction) -> int:
    """How many nodes were moved or deleted."""
    row = tx.one(query, staging=name, bite=BATCH, store=tx.store)
    if row is None:
        return 0
    if row.get("spread"):
        tx.all("tie_changes", after=row["before"])
        tx.all("tie_runs", after=row["before"])
    number: int = row["number"]
    return number


def apply_plan(
    tx: Transaction, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor, progress: Callable[[int], None]
) -> PlanChanges:
    """Apply the difference. Old links go first, so that a plan may reverse an order."""
    changes = _compare(tx, scope, plan)
    if changes.unlink:
        tasks.unlink(tx, scope, changes.unlink, by)
    for at in range(0, len(changes.insert), BATCH):
        some = changes.insert[at : at + BATCH]
        tasks.insert(tx, scope, [planned.draft for planned in some], by)
        progress(len(some))
    for task_id in changes.reopen:
        _settle_removed(tx, scope, task_id, Verb.REOPEN, by, None)
    new = [(draft.parent, draft.id) for draft in (p.draft for p in changes.insert) if draft.parent is not None]
    tasks.put_parents(tx, scope, new)
    for task_id, edit in changes.edit:
        tasks.rewrite(tx, scope, task_id, edit, by)
        progress(1)
    tasks.put(tx, scope, changes.link, by)
    new += [(edit.parent, task_id) for task_id, edit in changes.edit if isinstance(edit.parent, str)]
    tasks.refuse_cycles(tx, scope, new + [(link.task, link.on) for link in changes.link])
    canceled = []
    for task_id in changes.remove:
        canceled.append(_settle_removed(tx, scope, task_id, Verb.CANCEL, by, REMOVED))
        progress(1)
    for task in canceled:  # after all, so that a removed task does not affect another removed task
        claims.draw_along(tx, task, by, on_cancel, Consequences())
    return changes


def _compare(tx: Transaction, scope: str, plan: Plan) -> PlanChanges:
    named = [planned.draft.id for planned in plan.tasks]
    rows = tx.all("tasks_named", scope=scope, ids=named)
    rows += tx.all("tasks_of_specs", scope=scope, specs=sorted(plan.specs))
    found = {row["task"]["id"]: task_from(row["task"]) for row in rows}
    own = [link_from(row) for row in tx.all("links_from", scope=scope, ids=named)]
    mentioned = {
        on for planned in plan.tasks for on in (*planned.blocked_by, *planned.feeds_from, planned.draft.parent) if on
    }
    elsewhere = sorted(mentioned - set(named))
    known = set(elsewhere) - tasks.missing(tx, scope, elsewhere)
    return diff(plan, list(found.values()), own, known, tx.now)


def _settle_removed(tx: Transaction, scope: str, task_id: str, verb: Verb, by: Actor, reason: str | None) -> Task:
    task = tasks.get(tx, scope, task_id)
    asked = Move(verb, task_id, scope, by, force=True, reason=reason)
    after = lifecycle.moved(task, asked, tx.now)
    claims.settle(tx, task, after, asked, CanceledBlocker.RESOLVES, has_dependents=True)
    return after


_BITE = 1000


def dump(tx: Transaction, scopes: Sequence[str]) -> list[Record]:
    """Everything at once, because the scopes are locked until it is read."""
    found = [Record(scope, task_from(row["task"])) for scope in scopes for row in tx.all("dump_tasks", scope=scope)]
    found += [Record(scope, link_from(row)) for scope in scopes for row in tx.all("links_in_scope", scope=scope)]
    found += [Record(scope, Setting(*each)) for scope in scopes for each in parts.settings(tx, scope).items()]
    events = (event_from(row["event"]) for row in tx.all("dump_events"))
    return found + [Record(event.scope, event) for event in events]


def prune(
    database: Database, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
) -> tuple[int, int]:
    """Delete in batches, each in its own transaction, so that others can write between them."""
    events = finished = 0
    while events_before is not None:
        gone = database.write(
            lambda tx: int(tx.value("prune_events", before=events_before, bite=_BITE)), lock="lock_desk"
        )
        events += gone
        progress(gone)
        if gone < _BITE - 1:
            break
    if tasks_before is not None:
        for scope in database.read(lambda tx: tasks.scopes(tx, None)):
            finished += _prune_tasks(database, scope, tasks_before, progress)
    return events, finished


def _prune_tasks(database: Database, scope: str, before: datetime, progress: Callable[[int], None]) -> int:
    """Repeat until nothing is left, because parents can only go after their children."""
    dropped = 0
    while True:
        gone = database.write(
            lambda tx: int(tx.value("prune_tasks", scope=scope, before=before, bite=_BITE)), scopes=[scope]
        )
        if not gone:
            return dropped
        dropped += gone
        progress(gone)


# question → the problem of the nodes that it finds, and whether `_repair` fixes it
QUESTIONS = {
    "blockers": ("the count of unfinished prerequisites is wrong", True),
    "schedule": ("its place in the queue does not match its status, blockers, lease and not_before", True),
    "finished": ("its finishing time does not match its status", False),
    "documented": ("status, blocked_reason or assigned_to do not match the values that dibs keeps", True),
    "resolved": ("a link to a canceled task is marked as blocking, or another link is not", True),
    "labels": ("its label does not match its scope", True),
    "leases": ("the lease is incomplete: status, token, holder and attempt do not match", False),
    "attempts": ("the events name a later attempt than the task", False),
    "cross_links": ("a link leads into another scope", False),
    "parents": ("the parent is missing", True),
    "scopes": ("its scope is missing", True),
    "vectors": ("its vector has a different length than the others", False),
}


def check(tx: Transaction, scopes: Sequence[str], *, fix: bool) -> list[Finding]:
    """The scopes are locked."""
    findings = []
    for row in sorted(tx.all("problems", now=tx.now), key=lambda row: (row["question"], row["subject"])):
        problem, fixable = QUESTIONS[row["question"]]
        findings.append(Finding(problem, row["subject"], fixable, fixed=fix and fixable))
    for scope in scopes:
        findings += _unreadable(tx, scope)
        try:
            tasks.refuse_any_cycle(tx, scope)
        except CycleDetected as error:
            findings.append(Finding(f"tasks wait for each other: {' → '.join(error.path)}", scope, fixable=False))
    findings += _unread(event_from, [row["event"] for row in tx.all("dump_events")])
    if fix and any(finding.fixed for finding in findings):
        _repair(tx, scopes)
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


def _unreadable(tx: Transaction, scope: str) -> list[Finding]:
    """Nodes with values that dibs did not write. A person must decide about them."""
    found = _unread(task_from, [row["task"] for row in tx.all("dump_tasks", scope=scope)])
    found += _unread(link_from, tx.all("links_in_scope", scope=scope))
    return found + _unread(lambda _: parts.settings(tx, scope), [{}])


def _unread(read: Callable[[Row], object], rows: Sequence[Row]) -> list[Finding]:
    found = []
    for row in rows:
        try:
            read(row)
        except StoreCorrupt as error:
            what = error.message.split(" holds")[0]
            found.append(Finding("holds a value that dibs did not write", what, fixable=False))
    return found


def _repair(tx: Transaction, scopes: Sequence[str]) -> None:
    for query in ("redocument", "reresolve", "relabel", "repair_scopes"):
        tx.all(query)
    tx.all("adopt")
    tx.all("drop_orphan_parents")
    for scope in scopes:
        tx.all("recount_scope", scope=scope)
        tx.all("reschedule", scope=scope, now=tx.now)
