"""The one path that every sync takes, whoever starts it: a command, the chat, the poller, a webhook.

Read the rows (all, or nothing is concluded), compare them with the tasks and with what both agreed on before, decide,
apply, tell Notion, keep a record, report. A second run right after it finds nothing to do. Wherever it breaks off, the
next one goes on from what is written down.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from time import monotonic, sleep
from typing import NamedTuple

from dibs.core.errors import StoreBusy, Unsupported
from dibs.core.policy import NATIVE
from dibs.core.task import Actor, Json, Task
from dibs.core.times import time_from, time_text
from dibs.desk import Desk
from dibs.stores.notion.gateway import Gateway
from dibs.stores.port import Query
from dibs.sync.notion import apply
from dibs.sync.notion.audit import Audit
from dibs.sync.notion.base import DEALT_WITH, GONE, moved_here, page_of
from dibs.sync.notion.fetch import PAGE_SIZE, Fetched, Rows, source_of
from dibs.sync.notion.push import Pusher
from dibs.sync.notion.reconcile import Terms
from dibs.sync.notion.report import Outlook, Report
from dibs.sync.notion.turn import Turn, turn
from dibs.sync.notion.words import Fleet
from dibs.sync.notion.work import Tools, Watch, Work, unwatched

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
