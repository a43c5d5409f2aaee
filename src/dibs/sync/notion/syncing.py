"""The one path of every sync, whether a command, the chat, the poller or a webhook starts it.

Read the rows (all, or nothing is concluded), compare them with the tasks and their bases, decide, apply, write to
Notion, record, report. A second run finds nothing to do. After a crash, the next run continues from the stored state.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import NamedTuple, TypeAlias

from dibs.core.errors import DibsError, LostLock, OverQuota, StoreBusy, Unsupported
from dibs.core.policy import NATIVE
from dibs.core.task import Actor, Edit, Json, LinkKind, Status, Task
from dibs.core.times import time_from, time_text
from dibs.desk import Desk, quiet
from dibs.stores.notion.gateway import Gateway
from dibs.stores.port import Query
from dibs.sync.notion import apply
from dibs.sync.notion.database import (
    OVERLAP,
    PAGE_SIZE,
    Fetched,
    Field,
    Fleet,
    Push,
    Pusher,
    Row,
    Rows,
    ours,
    push_for,
    said,
    source_of,
)
from dibs.sync.notion.reconcile import (
    DEALT_WITH,
    GONE,
    LATER,
    PUSHED,
    Base,
    Decision,
    Kind,
    Matched,
    Pair,
    Terms,
    compare,
    contested,
    deleted,
    match,
    missing,
    moved_here,
    on_record,
    page_of,
)
from dibs.sync.notion.report import Audit, Outlook, Report
from dibs.sync.notion.schedule import Turn, turn

MOST = 1000  # tasks that one sync changes
_PRIORITY = frozenset({"priority", "override"})
_DAY = timedelta(days=1)
_IN_VAIN = 3  # consecutive failed writes; then Notion is left alone until the next sync


# Progress: label and total; yields a function to call per step.
Watch: TypeAlias = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


def unwatched(_label: str, _total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(quiet)


class Tools(NamedTuple):
    """The sync's tools. `go_on` raises if the right to sync is lost; `over` returns whether time is up."""

    desk: Desk
    pusher: Pusher
    audit: Audit
    route: apply.Route
    go_on: Callable[[], None]
    over: Callable[[], bool]
    watch: Watch
    push: bool = False


class Work:
    def __init__(self, tools: Tools, terms: Terms, fetched: Fetched, *, polled: bool) -> None:
        self._tools, self._desk, self._fetched, self._polled = tools, tools.desk, fetched, polled
        self._tasks = self._found()
        self._terms = terms._replace(spoken=self._spoken())
        self._applied: list[Decision] = []
        self._skipped: list[Decision] = []
        self._failed: list[Decision] = []
        self._written = self._unwritten = self._left = self._added = 0

    # Preview

    def preview(self) -> Report:
        """Return the report without making any change."""
        matched = self._matched()
        decisions = [*map(_created, matched.new)]
        for task, row in matched.pairs:
            decisions += compare(task, row, self._terms).decisions
        decisions += [decision for _, decision in self._deletions()] + self._missing(matched)
        self._sort(decisions)
        return self._report()._replace(dry_run=True, added=len(self._rowless()))

    @property
    def idle(self) -> bool:
        """Whether neither side has a change, nor anything to remember."""
        before = self._before()
        pairs = (compare(task, row, self._terms) for task, row in self._matched().pairs)
        return not (self.asked or self._rowless()) and all(
            on_record(pair.base, pair.task) and not self._push_for(pair, before).needed for pair in pairs
        )

    @property
    def asked(self) -> bool:
        """Whether Notion requests a change of tasks."""
        matched = self._matched()
        return bool(matched.new or self._deletions()) or any(
            compare(task, row, self._terms).decisions for task, row in matched.pairs
        )

    def _matched(self) -> Matched:
        return match(self._fetched.rows, self._tasks.values())

    def _found(self) -> dict[str, Task]:
        return {task.id: task for task in self._desk.find(Query(self._desk.scope))}

    def _spoken(self) -> dict[str, datetime]:
        """Return when a person here last set a priority, where that decides."""
        found = {}
        for task in contested(self._matched().pairs):
            for event in self._desk.events(ref=task):
                if event.verb == "edit" and event.agent != apply.AGENT and event.detail.keys() & _PRIORITY:
                    found[task] = event.at
        return found

    def _deletions(self) -> list[tuple[Task, Decision]]:
        """Return the tasks whose rows are confirmed as deleted and not handled yet; a task in progress waits."""
        found = []
        for task in self._tasks.values():
            told = task.extra.get(GONE)
            decision = deleted(task) if page_of(task) in self._fetched.gone and told != DEALT_WITH else None
            if decision is not None and not (told == LATER and decision.skip):
                found.append((task, decision))
        return found

    def _missing(self, matched: Matched) -> list[Decision]:
        """Report tasks without a row, if the list is complete and a person asks."""
        if self._polled or self._tools.push or not self._fetched.complete:
            return []
        return [missing(task) for task in matched.missing]

    def _rowless(self) -> list[Task]:
        """Return the tasks that need a row: unfinished or done within a day, and without a deleted row."""
        if not self._tools.push:
            return []
        now = self._desk.now()
        tied = {task.id for task, _ in self._matched().pairs}
        recent = (
            task
            for task in self._tasks.values()
            if not task.finished or (task.status is Status.DONE and task.finished_at and now - task.finished_at < _DAY)
        )
        return [
            task
            for task in recent
            if page_of(task) is None and task.id not in tied and self._may_push(task.extra.get(PUSHED), now)
        ]

    def _may_push(self, pushed_at: Json, now: datetime) -> bool:
        """Whether a list would by now show the row of an earlier try."""
        if not isinstance(pushed_at, str):
            return True
        return self._fetched.complete and now - time_from(pushed_at) > OVERLAP

    def _before(self) -> dict[str, frozenset[str]] | None:
        """Return the pages of each task's prerequisites, or None if tasks here get no rows."""
        if not self._tools.push:
            return None
        found: dict[str, set[str]] = {}
        for link in self._desk.graph(finished=True).links:
            page = page_of(self._tasks[link.on]) if link.on in self._tasks else None
            if link.kind is not LinkKind.PARALLEL_OK and page is not None and not self._tasks[link.on].extra.get(GONE):
                found.setdefault(link.task, set()).add(page)
        return {task: frozenset(pages) for task, pages in found.items()}

    def _push_for(self, pair: Pair, before: Mapping[str, frozenset[str]] | None) -> Push:
        pages = None if before is None else before.get(pair.task.id, frozenset())
        return push_for(pair.task, pair.row, pair.tell, pages)

    # Apply

    def done(self) -> Report:
        apply.release_own(self._desk, self._tasks.values())
        self._tasks = self._found()
        matched = self._matched()
        self._create(matched.new)
        self._change()
        for task, decision in self._deletions():
            self._note(decision, apply.remove(self._desk, task, decision))
        for decision in self._missing(matched):
            self._note(decision)
        self._add_rows()
        self._tell()
        return self._report()

    def _create(self, rows: tuple[Row, ...]) -> None:
        now = rows[:MOST]
        self._left += len(rows) - len(now)
        made, failed = apply.create(self._desk, now, self._terms, self._tools.route, set(self._tasks))
        ids = {page_of(task): task.id for task in made}
        for row in now:
            decision = _created(row)._replace(task=ids.get(row.page, ""))
            self._note(decision, failed.get(row.page, ""))

    def _change(self) -> None:
        self._tasks = self._found()
        changed = len(self._applied)
        for task, row in self._matched().pairs:
            pair = compare(task, row, self._terms)
            if not pair.decisions:
                continue
            if changed >= MOST or self._tools.over():
                self._left += 1
                continue
            self._tools.go_on()
            failed = apply.apply(self._desk, pair)
            changed += 1
            for decision in pair.decisions:
                self._note(decision, failed.get(decision.kind, ""))

    def _note(self, decision: Decision, failed: str = "") -> None:
        self._tools.audit.decided(decision, failed)
        self._sort([decision._replace(skip=failed)] if failed else [decision], failed=bool(failed))

    def _sort(self, decisions: Iterable[Decision], *, failed: bool = False) -> None:
        for decision in decisions:
            (self._failed if failed else self._skipped if decision.skip else self._applied).append(decision)

    # Write to Notion

    def _add_rows(self) -> None:
        """Add the missing rows to those read, so that links between new rows are written at once."""
        self._tasks = self._found()
        wanted, failed, rows = self._rowless(), 0, list(self._fetched.rows)
        for task in wanted:
            if self._tools.over() or failed >= _IN_VAIN:
                self._left += 1
                continue
            self._tools.go_on()
            self._desk.edit(task.id, Edit(keep={PUSHED: time_text(self._desk.now())}))
            words = said(task, self._terms.fleet)
            try:
                row = self._tools.pusher.add(task, self._desk.scope, words, self._desk.now())
            except DibsError as error:
                failed += 1
                self._unwritten += 1
                self._tools.audit.untold(task, error.message)
                continue
            agreed: Base = {field: (row.fields[field], mine) for field, mine in ours(task).items()}
            apply.settle(self._desk, task, row, agreed, always=True)
            self._tools.audit.added(task)
            self._added += 1
            rows.append(row)
        self._fetched = self._fetched._replace(rows=tuple(rows))

    def _tell(self) -> None:
        """Write the tasks' present values to rows that differ."""
        self._tasks = self._found()
        pairs, before = self._matched().pairs, self._before()
        in_vain = 0
        with self._tools.watch("writing rows", len(pairs)) as progress:
            for task, row in pairs:
                pair = compare(task, row, self._terms)
                push = self._push_for(pair, before)
                progress(1)
                if not push.needed:
                    apply.settle(self._desk, task, row, pair.base)
                elif self._tools.over() or in_vain >= _IN_VAIN:
                    self._left += 1
                else:
                    in_vain = 0 if self._told(pair, push) else in_vain + 1

    def _told(self, pair: Pair, push: Push) -> bool:
        """Write one row; on success its values become the base."""
        self._tools.go_on()
        if not self._wrote(push):
            return False
        agreed = pair.base | {field: (word, ours(pair.task)[field]) for field, word in pair.tell.items()}
        apply.settle(self._desk, pair.task, pair.row, agreed, always=True)
        return True

    def _wrote(self, push: Push) -> bool:
        """Write one row. A person's value that is overwritten is recorded first."""
        try:
            for kind, old, new in push.written_over:
                self._tools.audit.told(push.task, kind, old, new)
            if push.tell and not self._tools.pusher.unchanged(push, self._desk.now()):
                self._tools.audit.untold(push.task, "the row was edited in Notion at the same time")
                self._left += 1
                return False
            self._tools.pusher.write(push, self._desk.now())
        except DibsError as error:
            self._unwritten += 1
            self._tools.audit.untold(push.task, error.message)
            return False
        self._written += 1
        return True

    def _report(self) -> Report:
        return Report(
            self._desk.scope, self._polled, tuple(self._applied), tuple(self._skipped), tuple(self._failed),
            len(self._fetched.rows), self._written, self._unwritten, self._left, self._added,
        )  # fmt: skip


def _created(row: Row) -> Decision:
    title = row.fields[Field.TITLE] or "Untitled"
    return Decision(Kind.NEW, row.id or row.page, title, None, title)


LONGEST = 300.0  # seconds
SWEEP = timedelta(minutes=15)  # interval of the poller's complete reads, which find deleted rows
_READING = "reading rows"
_FEW = 2 * PAGE_SIZE - 20  # rows that two requests return, with room for new ones; these are read each time


class Options(NamedTuple):
    """How to sync: database, agents, limits, reviewer of polled rows, owner of new tasks, rows for tasks made here."""

    database: str
    fleet: Fleet = Fleet()
    aggressive: bool = False
    notify: bool = False
    reviewer: str = "main"
    push: bool = False
    route: apply.Route = lambda _name: (None, None)


class Sync:
    """Syncs one sender. `outlook` estimates the resulting order, `watch` shows progress."""

    def __init__(
        self,
        desk: Desk,
        gateway: Gateway,
        sender: str,
        options: Options,
        *,
        outlook: Callable[[Desk], Outlook | None] = lambda _desk: None,
        watch: Watch = unwatched,
        sleep: Callable[[float], None] = sleep,
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        _refuse_unfit(desk)
        self._gateway, self._sender, self._options = gateway, sender, options
        self._outlook, self._watch, self._sleep, self._ticks = outlook, watch, sleep, ticks
        self._desk = desk.at(sender, policy=NATIVE._replace(short_ids=False), by=Actor(apply.AGENT))

    def preview(self) -> Report:
        """Return what a sync would do now, without changes."""
        source = source_of(self._gateway, self._options.database)
        with self._watch(_READING, None) as seen:
            rows = Rows(self._gateway, source, self._sender, seen)
            fetched = rows.all(_expected(self._tasks()))
        work = self._work(rows, fetched, Audit(self._desk), lambda: None, math.inf, polled=False)
        return work.preview()._replace(outlook=self._outlook(self._desk))

    def run(self, *, polled: bool = False, pages: Iterable[str] = ()) -> Report:
        """Sync. `pages` from a webhook are read directly, because lists lag.

        A failed sync leaves a record with the error if the store can be written.
        """
        started = self._desk.now()
        with turn(self._desk, self._sender, apply.AGENT, self._ticks) as taken:
            if not polled:
                taken.count(polled=False)
            audit = Audit(self._desk)
            try:
                report = self._run(taken, audit, started, polled=polled, pages=pages)
            except (OverQuota, LostLock):
                raise  # refused, or another sync runs: not a failure
            except DibsError as error:
                with suppress(DibsError):
                    audit.broke_off(error, started, self._desk.now(), polled=polled)
                raise
        return report if polled else report._replace(outlook=self._outlook(self._desk))

    def _run(self, taken: Turn, audit: Audit, started: datetime, *, polled: bool, pages: Iterable[str]) -> Report:
        end = self._ticks() + LONGEST
        with self._watch(_READING, None) as progress:
            rows = self._rows(taken, progress, end)
            fetched, seen = self._fetched(rows, taken.state, polled=polled, pages=pages)
        work = self._work(rows, fetched, audit, taken.go_on, end, polled=polled)
        if polled and work.idle:
            apply.ask_for_review(self._desk, self._tasks(), self._options.reviewer)
            taken.learned = seen
            return Report(self._sender, polled, rows=len(fetched.rows))
        if polled and work.asked:
            taken.count(polled=True)
        report = work.done()
        apply.ask_for_review(self._desk, self._tasks(), self._options.reviewer)
        if report.eventful or not polled:
            told = report.applied or report.skipped or report.failed
            notify = polled and self._options.notify and bool(told)
            audit.closed(report, started, self._desk.now(), notify=notify)
        if report.status == "success":
            taken.learned = seen
        return report

    def _work(
        self, rows: Rows, fetched: Fetched, audit: Audit, go_on: Callable[[], None], end: float, *, polled: bool
    ) -> Work:
        pusher, route = Pusher(self._gateway, rows, self._sleep), self._options.route
        tools = Tools(
            self._desk, pusher, audit, route, go_on, lambda: self._ticks() > end, self._watch, self._options.push
        )
        terms = Terms(self._options.fleet, self._options.aggressive, reviewed=not polled)
        return Work(tools, terms, fetched, polled=polled)

    # Reading

    def _rows(self, taken: Turn, progress: Callable[[int], None], end: float) -> Rows:
        def seen(count: int) -> None:
            if self._ticks() > end:
                raise StoreBusy("Reading the rows took longer than a sync may; nothing was changed. Try again later.")
            taken.go_on()
            progress(count)

        return Rows(self._gateway, self._source(taken.state), self._sender, seen)

    def _source(self, state: Mapping[str, Json]) -> str:
        """Return the data source, cached together with its check."""
        match state.get("source"):
            case [database, str(source)] if database == self._options.database:
                return source
        return source_of(self._gateway, self._options.database)

    def _fetched(
        self, rows: Rows, state: Mapping[str, Json], *, polled: bool, pages: Iterable[str]
    ) -> tuple[Fetched, dict[str, Json]]:
        """Return the rows, and the state for the next sync."""
        tasks, begun = self._tasks(), self._ticks()
        since = self._since(state) if polled else None
        if since is None:
            found = rows.all([*_expected(tasks), *pages])
        else:
            changed = [page for task in tasks if (page := page_of(task)) and _to_tell(task)]
            found = rows.since(since, [*changed, *pages])
        asked = self._gateway.heard() - timedelta(seconds=self._ticks() - begun)  # by Notion's clock
        watermark = max([asked, *(row.edited_at for row in found.rows)])
        seen: dict[str, Json] = {"source": [self._options.database, rows.source], "watermark": time_text(watermark)}
        if found.complete:
            seen |= {"swept_at": time_text(self._desk.now()), "rows": len(found.rows)}
        return found, seen

    def _since(self, state: Mapping[str, Json]) -> datetime | None:
        """Return since when to look for changes; None for a complete read."""
        watermark, swept, rows = (state.get(name) for name in ("watermark", "swept_at", "rows"))
        if not isinstance(watermark, str) or not isinstance(swept, str) or not isinstance(rows, int):
            return None
        old = self._desk.now() - time_from(swept) >= SWEEP
        return None if rows <= _FEW or old else time_from(watermark)

    def _tasks(self) -> list[Task]:
        return self._desk.find(Query(self._sender))


def _expected(tasks: Iterable[Task]) -> list[str]:
    """Return the pages that a complete list must have: those of unfinished tasks, not deleted before."""
    open_ = (task for task in tasks if not task.finished and task.extra.get(GONE) != DEALT_WITH)
    return [page for page in map(page_of, open_) if page is not None]


def _to_tell(task: Task) -> bool:
    return not task.extra.get(GONE) and moved_here(task)


def _refuse_unfit(desk: Desk) -> None:
    can = desk.capabilities
    if not (can.transactions and can.scopes and can.history and desk.has_settings and can.exclusive == "strict"):
        raise Unsupported("Syncing with Notion needs a store with transactions: SQLite, PostgreSQL or Neo4j.")
