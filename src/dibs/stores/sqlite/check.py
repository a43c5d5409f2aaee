"""Does what is derived still follow from what it is derived from? A query per question, a row per broken answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, StoreCorrupt
from dibs.core.events import Event
from dibs.stores.reports import Finding
from dibs.stores.sqlite import links
from dibs.stores.sqlite.rows import event_from, link_from, setting_from, task_from

if TYPE_CHECKING:
    from dibs.stores.sqlite.database import Transaction

# query → what is wrong with the rows it returns, and whether `repair` puts it right
_QUESTIONS = (
    ("check_blockers", "the count of unfinished prerequisites is wrong", True),
    ("check_schedule", "its place in the queue does not follow from status, blockers, lease and not_before", True),
    ("check_order", "its order numbers or its finishing time do not fit its status", False),
    ("check_leases", "the lease is half there: status, token, holder and attempt do not agree", False),
    ("check_attempts", "the events know a later attempt than the task", False),
    ("check_chain", "its history does not end with its newest event", False),
    ("check_orphan_links", "a link leads to a task that is not there", True),
    ("check_cross_links", "a link leads into another scope", False),
    ("check_parents", "the parent is not there", True),
    ("check_vectors", "its vector has another length than the others", False),
)


def check(tx: Transaction, *, fix: bool) -> list[Finding]:
    findings = [
        Finding(problem, str(row[0]), fixable, fixed=fix and fixable)
        for query, problem, fixable in _QUESTIONS
        for row in tx.all(query, {"now": tx.micros})
    ]
    findings += _unreadable(tx)
    for scope in [row[0] for row in tx.all("scopes")]:
        try:
            links.refuse_any_cycle(tx, scope)
        except CycleDetected as error:
            findings.append(Finding(f"tasks wait for each other: {' → '.join(error.path)}", scope, fixable=False))
    if fix and any(finding.fixed for finding in findings):
        repair(tx)
        tx.record(Event(tx.now, "", "", "repair", detail={"findings": len(findings)}))
    return findings


def _unreadable(tx: Transaction) -> list[Finding]:
    """Rows that hold what no dibs wrote: they are shown to a person, never guessed at."""
    findings = []
    for query, read in (
        ("dump_tasks", task_from),
        ("dump_links", lambda row: link_from(row[1:])),
        ("dump_settings", lambda row: setting_from(row[1:])),
        ("dump_events", event_from),
    ):
        for row in tx.iterate(query):
            try:
                read(row)
            except StoreCorrupt as error:
                findings.append(
                    Finding("holds a value that no dibs wrote there", error.message.split(" holds")[0], fixable=False)
                )
    return findings


def repair(tx: Transaction) -> None:
    tx.run("drop_orphan_links")
    tx.run("drop_orphan_parents")
    tx.run("recount_blockers")
    tx.run("reschedule", {"now": tx.micros})
