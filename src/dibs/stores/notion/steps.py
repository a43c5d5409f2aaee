"""Run the steps of a claim, renewal or finish on a real page; and plain changes, which need no guard."""

from __future__ import annotations

import logging
import random
from datetime import datetime
from typing import TYPE_CHECKING, cast

from dibs.core.errors import DibsError, NotFound, StoreBusy, StoreUnavailable
from dibs.stores.notion.gateway import Conflict, Unanswered, ticks
from dibs.stores.notion.guard import Failed, Read, Seen, View, Wait, Write
from dibs.stores.notion.pages import LOCK, LONG_AGO, changes, lease_span
from dibs.stores.notion.values import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dibs.core.task import Task
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.guard import Answer, Ask, Changes, Step, Steps
    from dibs.stores.notion.pages import Reading

_log = logging.getLogger("dibs.notion")
_TRIES = 4
_PAUSE = 300  # milliseconds
_LONGEST_WAIT = 60.0  # seconds
PATIENCE = 30.0  # seconds; a change must be sent this soon after its read, because a process may be stopped


class Trashed(NotFound):
    """The page is in Notion's trash."""


class Page:
    """One page during one verb: the latest reading, and the requests sent."""

    def __init__(self, database: Database, page: str) -> None:
        self._database, self._page = database, page
        self.reading: Reading | None = None

    def run(self, steps: Steps, first: Seen | None = None, *, suspicious: bool = False) -> Task:
        """Run the steps in order. `first` answers the first read, which was already made.

        With `suspicious`, as for a claim, a conflict counts as a change that may have been made.
        """
        step = steps.send(None)
        answer: Answer = first if first is not None and isinstance(step, Read) else self._done(step, suspicious)
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                seen: Seen = end.value
                return task_of(seen.view)
            answer = self._done(step, suspicious)

    def look(self, *, hasty: bool = False) -> Seen:
        """Read the page. The time of a repeated read counts from its first try."""
        sent = ticks()
        return self._seen(self._database.read_page(self._page, hasty=hasty), sent)

    def remark(self, text: str) -> None:
        """Leave a comment for people; a failure is ignored."""
        try:
            self._database.gateway.comment(self._page, text)
        except DibsError as error:
            _log.warning("No comment could be left on %s: %s", self._database.name_of(self._page), error.message)

    def _done(self, step: Step, suspicious: bool) -> Answer:
        if isinstance(step, Wait):
            self._database.sleep(step.seconds)
            return None
        try:
            return self.look(hasty=suspicious) if isinstance(step, Read) else self._write(step)
        except NotFound:
            raise
        except DibsError as error:
            unsure = isinstance(error, Unanswered) or (suspicious and isinstance(error, Conflict))
            return Failed(error, sent=unsure)

    def _write(self, step: Write) -> Seen:
        properties = self._properties(step.changes)
        sent = ticks()
        answer = self._database.gateway.update(self._page, properties, by=step.by)
        return self._seen(self._database.reading(answer), sent)

    def _seen(self, reading: Reading, sent: float) -> Seen:
        received = ticks()
        if reading.trashed:
            raise Trashed(f"{reading.task.id} is in Notion's trash.")
        self.reading = reading
        return Seen(view_of(reading), sent, received, self._database.heard())

    def _properties(self, wanted: Changes) -> Mapping[str, Any]:
        reading, layout = self.reading, self._database.layout
        assert reading is not None
        before = reading.task
        wanted = dict(wanted)
        written = wanted.pop("written_at", None)
        dated = {}
        if "written_at" in reading.shape and isinstance(written, datetime):
            carried = reading.shape["written_at"]
            dated = {carried.name: encode(carried.type, written)}
        elif "started_at" in wanted and written is not None:
            wanted["started_at"] = written
        if "expires_at" in wanted:
            return {**changes(layout, reading.shape, before, _renewed(self._database, before, wanted)), **dated}
        after = before._replace(**wanted)  # type: ignore[arg-type]  # fields of a task, by name
        self._database.gateway.hush(*(task.lease.token for task in (before, after) if task.lease))
        always = LOCK if "lease" in wanted or "status" in wanted else frozenset[str]()
        properties = changes(layout, reading.shape, before, after, always=always)
        if "parent" in wanted and "parent" in reading.shape:
            carried = reading.shape["parent"]
            properties[carried.name] = encode(carried.type, after.parent)
        return {**properties, **dated}


def _renewed(database: Database, task: Task, wanted: Changes) -> Task:
    lease, end = task.lease, wanted["expires_at"]
    assert lease is not None
    began = lease.claimed_at
    if database.layout.begins:
        began = cast("datetime", end) - lease_span(database.layout, task)
    return task._replace(lease=lease._replace(expires_at=end, claimed_at=began))  # type: ignore[arg-type]


def view_of(reading: Reading) -> View:
    """Return the facts of a reading that decide claims."""
    task, lease = reading.task, reading.task.lease
    if lease is None:
        return View(task.id, task.status, task.updated_at, task=task, token=reading.token or None)
    until = None if lease.expires_at in {None, LONG_AGO} else lease.expires_at
    return View(
        task.id,
        task.status,
        task.updated_at,
        lease.holder,
        lease.agent,
        lease.run,
        lease.token or None,
        until,
        task,
        reading.written_at,
        reading.longest,
        reading.by_person,
    )


def task_of(view: View) -> Task:
    assert view.task is not None
    return view.task


def plainly(ask: Ask) -> Steps:
    """Change a page without a holder, or for a person, and check that the change has stayed."""
    seen = expected((yield Read()))
    wanted = ask(seen.view, seen.now)
    if not wanted:
        return seen
    written = yield Write(wanted, seen.sent + PATIENCE)
    if isinstance(written, Failed) and not written.sent:
        raise written.error
    after = expected((yield Read()))
    if _stands(after.view, wanted):
        return after
    if isinstance(written, Failed):
        raise StoreUnavailable(f"It is not certain that {seen.view.id} was changed. Look at it, then try again.")
    raise StoreBusy(
        f"{seen.view.id} was changed at the same moment; it is {after.view.status} now. Look at it, then try again."
    )


def _stands(view: View, wanted: Changes) -> bool:
    """Whether the page shows what was written."""
    task = task_of(view)
    if "status" in wanted and task.status is not wanted["status"]:
        return False
    lease = wanted.get("lease")
    if lease is not None and (view.token or "") != (getattr(lease, "token", "") or ""):
        return False
    return all(name not in wanted or getattr(task, name) == wanted[name] for name in ("title", "priority"))


def expected(answer: Answer) -> Seen:
    if isinstance(answer, Failed):
        raise answer.error
    assert answer is not None
    return answer


def persistently(database: Database, act: Callable[[], Task]) -> Task:
    """Repeat a change that Notion was too busy for, judging the page again each time."""
    for _ in range(_TRIES - 1):
        try:
            return act()
        except StoreBusy as busy:
            wait = (busy.retry_after_ms or _PAUSE) / 1000
            if wait > _LONGEST_WAIT:
                raise
        database.sleep(wait * random.uniform(1, 1.5))  # noqa: S311 - spreads agents that retry
    return act()
