"""Does what is derived still follow from what it is derived from? A query per question, a row per broken answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, StoreCorrupt
from dibs.core.events import Event
from dibs.stores.neo4j import links
from dibs.stores.neo4j.history import event_from
from dibs.stores.neo4j.rows import link_from, task_from
from dibs.stores.neo4j.settings import settings
from dibs.stores.reports import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction

# question → what is wrong with the nodes it returns, and whether `repair` puts it right
_QUESTIONS = {
    "blockers": ("the count of unfinished prerequisites is wrong", True),
    "schedule": ("its place in the queue does not follow from status, blockers, lease and not_before", True),
    "finished": ("its finishing time does not fit its status", False),
    "leases": ("the lease is half there: status, token, holder and attempt do not agree", False),
    "attempts": ("the events know a later attempt than the task", False),
    "cross_links": ("a link leads into another scope", False),
    "parents": ("the parent is not there", True),
    "scopes": ("its scope is not there", True),
    "vectors": ("its vector has another length than the others", False),
}


def check(tx: Transaction, scopes: Sequence[str], *, fix: bool) -> list[Finding]:
    """The scopes are locked."""
    findings = []
    for row in sorted(tx.all("problems", now=tx.now), key=lambda row: (row["question"], row["subject"])):
        problem, fixable = _QUESTIONS[row["question"]]
        findings.append(Finding(problem, row["subject"], fixable, fixed=fix and fixable))
    for scope in scopes:
        findings += _unreadable(tx, scope)
        try:
            links.refuse_any_cycle(tx, scope)
        except CycleDetected as error:
            findings.append(Finding(f"tasks wait for each other: {' → '.join(error.path)}", scope, fixable=False))
    findings += _unread(event_from, [row["event"] for row in tx.all("dump_events")])
    if fix and any(finding.fixed for finding in findings):
        _repair(tx, scopes)
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


def _unreadable(tx: Transaction, scope: str) -> list[Finding]:
    """What holds values that no dibs wrote: it is shown to a person, never guessed at."""
    found = _unread(task_from, [row["task"] for row in tx.all("dump_tasks", scope=scope)])
    found += _unread(link_from, tx.all("links_in_scope", scope=scope))
    return found + _unread(lambda _: settings(tx, scope), [{}])


def _unread(read: Callable[[Row], object], rows: Sequence[Row]) -> list[Finding]:
    found = []
    for row in rows:
        try:
            read(row)
        except StoreCorrupt as error:
            what = error.message.split(" holds")[0]
            found.append(Finding("holds a value that no dibs wrote there", what, fixable=False))
    return found


def _repair(tx: Transaction, scopes: Sequence[str]) -> None:
    tx.all("mend_scopes")
    tx.all("adopt")
    tx.all("drop_orphan_parents")
    for scope in scopes:
        tx.all("recount_scope", scope=scope)
        tx.all("reschedule", scope=scope, now=tx.now)
