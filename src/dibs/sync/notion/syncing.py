"""The one path that every sync takes, whoever starts it: a command, the chat, the poller, a webhook.

Read the rows (all, or nothing is concluded), compare them with the tasks and with what both agreed on before, decide,
apply, tell Notion, keep a record, report. A second run right after it finds nothing to do. Wherever it breaks off, the
next one goes on from what is written down.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import NamedTuple, TypeAlias

from dibs.core.errors import DibsError, StoreBusy, Unsupported
from dibs.core.policy import NATIVE
from dibs.core.task import Actor, Json, Task
from dibs.core.times import time_from, time_text
from dibs.desk import Desk, quiet
from dibs.stores.notion.gateway import Gateway
from dibs.stores.port import Query
from dibs.sync.notion import apply
from dibs.sync.notion.database import PAGE_SIZE, Fetched, Push, Pusher, Rows, push_for, source_of
from dibs.sync.notion.reconcile import (
    DEALT_WITH,
    GONE,
    LATER,
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
from dibs.sync.notion.rows import Field, Fleet, Row, ours
from dibs.sync.notion.schedule import Turn, turn

MOST = 1000  # tasks that one sync changes
_PRIORITY = frozenset({"priority", "override"})
_IN_VAIN = 3  # writes one after the other; then Notion is left alone until the next sync


# Shows, under a label, how much of so many got done: yields what to call with each bit.
Watch: TypeAlias = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]


def unwatched(_label: str, _total: int | None) -> AbstractContextManager[Callable[[int], None]]:
    return nullcontext(quiet)


class Tools(NamedTuple):
    """What the work is done with. `go_on` raises where the right to sync was lost; `over` tells that time is up."""

    desk: Desk
    pusher: Pusher
    audit: Audit
    route: apply.Route
    go_on: Callable[[], None]
    over: Callable[[], bool]
    watch: Watch


class Work:
    def __init__(self, tools: Tools, terms: Terms, fetched: Fetched, *, polled: bool) -> None:
        self._tools, self._desk, self._fetched, self._polled = tools, tools.desk, fetched, polled
        self._tasks = self._found()
        self._terms = terms._replace(spoken=self._spoken())
        self._applied: list[Decision] = []
        self._skipped: list[Decision] = []
        self._failed: list[Decision] = []
        self._written = self._unwritten = self._left = 0

    # Looking

    def preview(self) -> Report:
        """What would be done, and nothing is."""
        matched = self._matched()
        decisions = [*map(_created, matched.new)]
        for task, row in matched.pairs:
            decisions += compare(task, row, self._terms).decisions
        decisions += [decision for _, decision in self._deletions()] + self._missing(matched)
        self._sort(decisions)
        return self._report()._replace(dry_run=True)

    @property
    def idle(self) -> bool:
        """There is nothing to do on either side, nor anything to remember."""
        matched = self._matched()
        pairs = (compare(task, row, self._terms) for task, row in matched.pairs)
        return not (matched.new or self._deletions()) and all(
            not pair.decisions
            and on_record(pair.base, pair.task)
            and not push_for(pair.task, pair.row, pair.tell).needed
            for pair in pairs
        )

    def _matched(self) -> Matched:
        return match(self._fetched.rows, self._tasks.values())

    def _found(self) -> dict[str, Task]:
        return {task.id: task for task in self._desk.find(Query(self._desk.scope))}

    def _spoken(self) -> dict[str, datetime]:
        """When a person here last gave a priority, where that decides."""
        found = {}
        for task in contested(self._matched().pairs):
            for event in self._desk.events(ref=task):
                if event.verb == "edit" and event.agent != apply.AGENT and event.detail.keys() & _PRIORITY:
                    found[task] = event.at
        return found

    def _deletions(self) -> list[tuple[Task, Decision]]:
        """What is gone for certain, and not dealt with yet. What is being worked on is told once, and waits."""
        found = []
        for task in self._tasks.values():
            told = task.extra.get(GONE)
            decision = deleted(task) if page_of(task) in self._fetched.gone and told != DEALT_WITH else None
            if decision is not None and not (told == LATER and decision.skip):
                found.append((task, decision))
        return found

    def _missing(self, matched: Matched) -> list[Decision]:
        """Tasks without a row are told to who asks, and only of a complete list."""
        if self._polled or not self._fetched.complete:
            return []
        return [missing(task) for task in matched.missing]

    # Doing

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

    # Telling Notion

    def _tell(self) -> None:
        """By what the tasks say now: what was applied agrees by now, and what was not is put right."""
        self._tasks = self._found()
        pairs = self._matched().pairs
        in_vain = 0
        with self._tools.watch("writing rows", len(pairs)) as progress:
            for task, row in pairs:
                pair = compare(task, row, self._terms)
                push = push_for(task, row, pair.tell)
                progress(1)
                if not push.needed:
                    apply.settle(self._desk, task, row, pair.base)
                elif self._tools.over() or in_vain >= _IN_VAIN:
                    self._left += 1
                else:
                    in_vain = 0 if self._told(pair, push) else in_vain + 1

    def _told(self, pair: Pair, push: Push) -> bool:
        """Whether Notion has been told; then it is what both sides agree on."""
        self._tools.go_on()
        if not self._wrote(push):
            return False
        agreed = pair.base | {field: (word, ours(pair.task)[field]) for field, word in pair.tell.items()}
        apply.settle(self._desk, pair.task, pair.row, agreed, always=True)
        return True

    def _wrote(self, push: Push) -> bool:
        """Whether the row says it now. Before what a person may have written is written over, it is on record."""
        try:
            for kind, old, new in push.written_over:
                self._tools.audit.told(push.task, kind, old, new)
            if push.tell and not self._tools.pusher.unchanged(push, self._desk.now()):
                self._tools.audit.untold(push.task, "somebody was quicker in Notion")
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
            len(self._fetched.rows), self._written, self._unwritten, self._left,
        )  # fmt: skip


def _created(row: Row) -> Decision:
    title = row.fields[Field.TITLE] or "Untitled"
    return Decision(Kind.NEW, row.id or row.page, title, None, title)


LONGEST = 300.0  # seconds
SWEEP = timedelta(minutes=15)  # after which the poller looks at all rows again, for those that are gone
_READING = "reading rows"
_FEW = 2 * PAGE_SIZE - 20  # rows that two requests list, with room for new ones: these are looked at each time


class Options(NamedTuple):
    """How a sender's rows are read: from where, whose agents, how boldly, and who a new task goes to."""

    database: str
    fleet: Fleet = Fleet()
    aggressive: bool = False
    notify: bool = False
    route: apply.Route = lambda _name: (None, None)


class Sync:
    """Syncs one sender. `outlook` tells what follows for the order of work, `watch` shows how far it has come."""

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
        """What a sync would do now. Nothing is written anywhere."""
        source = source_of(self._gateway, self._options.database)
        with self._watch(_READING, None) as seen:
            rows = Rows(self._gateway, source, self._sender, seen)
            fetched = rows.all(_expected(self._tasks()))
        work = self._work(rows, fetched, Audit(self._desk), lambda: None, math.inf, polled=False)
        return work.preview()._replace(outlook=self._outlook(self._desk))

    def run(self, *, polled: bool = False, pages: Iterable[str] = ()) -> Report:
        """`pages` are some that a webhook spoke of: they are read by themselves, whatever the list says."""
        started, end = self._desk.now(), self._ticks() + LONGEST
        with turn(self._desk, self._sender, apply.AGENT, self._ticks) as taken:
            if not polled:
                taken.count()
            with self._watch(_READING, None) as progress:
                rows = self._rows(taken, progress, end)
                fetched, seen = self._fetched(rows, taken.state, polled=polled, pages=pages)
            audit = Audit(self._desk)
            work = self._work(rows, fetched, audit, taken.go_on, end, polled=polled)
            if polled and work.idle:
                taken.learned = seen
                return Report(self._sender, polled, rows=len(fetched.rows))
            if polled:
                taken.count()
            report = work.done()
            if report.eventful or not polled:
                told = report.applied or report.skipped or report.failed
                notify = polled and self._options.notify and bool(told)
                audit.closed(report, started, self._desk.now(), notify=notify)
            if report.status == "success":
                taken.learned = seen
        return report if polled else report._replace(outlook=self._outlook(self._desk))

    def _work(
        self, rows: Rows, fetched: Fetched, audit: Audit, go_on: Callable[[], None], end: float, *, polled: bool
    ) -> Work:
        pusher, route = Pusher(self._gateway, rows, self._sleep), self._options.route
        tools = Tools(self._desk, pusher, audit, route, go_on, lambda: self._ticks() > end, self._watch)
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
        """Which data source the database has is known from the last time, as is that it fits."""
        match state.get("source"):
            case [database, str(source)] if database == self._options.database:
                return source
        return source_of(self._gateway, self._options.database)

    def _fetched(
        self, rows: Rows, state: Mapping[str, Json], *, polled: bool, pages: Iterable[str]
    ) -> tuple[Fetched, dict[str, Json]]:
        """What was read, and what the next sync is to know about it."""
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
        """From when on changes are looked for; None where it is as well to look at everything."""
        watermark, swept, rows = (state.get(name) for name in ("watermark", "swept_at", "rows"))
        if not isinstance(watermark, str) or not isinstance(swept, str) or not isinstance(rows, int):
            return None
        old = self._desk.now() - time_from(swept) >= SWEEP
        return None if rows <= _FEW or old else time_from(watermark)

    def _tasks(self) -> list[Task]:
        return self._desk.find(Query(self._sender))


def _expected(tasks: Iterable[Task]) -> list[str]:
    """The pages that a complete list has to have: those of what is unfinished and was not deleted before."""
    open_ = (task for task in tasks if not task.finished and task.extra.get(GONE) != DEALT_WITH)
    return [page for page in map(page_of, open_) if page is not None]


def _to_tell(task: Task) -> bool:
    return not task.extra.get(GONE) and moved_here(task)


def _refuse_unfit(desk: Desk) -> None:
    can = desk.capabilities
    if not (can.transactions and can.scopes and can.history and desk.has_settings and can.exclusive == "strict"):
        raise Unsupported("Syncing with Notion needs a store with transactions: SQLite, PostgreSQL or Neo4j.")
