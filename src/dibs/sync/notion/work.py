"""One sync's work, from the rows that were read to the record of what came of them."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import NamedTuple, TypeAlias

from dibs.core.errors import DibsError
from dibs.core.task import Task
from dibs.desk import Desk, quiet
from dibs.stores.port import Query
from dibs.sync.notion import apply
from dibs.sync.notion.audit import Audit
from dibs.sync.notion.base import DEALT_WITH, GONE, LATER, on_record, page_of
from dibs.sync.notion.fetch import Fetched
from dibs.sync.notion.push import Push, Pusher, push_for
from dibs.sync.notion.reconcile import Decision, Kind, Matched, Pair, Terms, compare, contested, deleted, match, missing
from dibs.sync.notion.report import Report
from dibs.sync.notion.rows import Row
from dibs.sync.notion.words import Field, ours

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
