"""Check everything that can be wrong, piece by piece: the way to Notion, the database, its pages."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Misconfigured
from dibs.core.times import in_words
from dibs.stores.notion.gateway import host_clock
from dibs.stores.notion.layout import examine_properties, problems
from dibs.stores.reports import Finding, HealthCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.pages import Reading

_SAME = timedelta(seconds=2)  # Notion tells the time in whole seconds


def check(db: Database, *, fix: bool) -> list[Finding]:
    """What does not fit the layout, which pages say what does not fit together, and which an arbiter knows better."""
    wrong = problems(db.layout, db.gateway.schema(db.source))
    if wrong:
        return [Finding(problem, name, fixable=False) for name, problem in wrong.items()]
    pages = sorted(db.listed(), key=lambda reading: (reading.number, reading.task.id))
    odd = [Finding(doubt, reading.task.id, fixable=False) for reading in pages for doubt in reading.doubts]
    return [*odd, *(_unlike(db, db.ledger, pages, fix=fix) if db.ledger is not None else ())]


def _unlike(db: Database, ledger: Ledger, pages: Sequence[Reading], *, fix: bool) -> Iterator[Finding]:
    """Pages that do not show what the arbiter has decided: someone died in between, or a write came late."""
    from dibs.stores.notion import arbiter

    for reading in pages:
        if arbiter.differing(reading, ledger):
            fixed = fix and arbiter.repair(db, ledger, reading, os.urandom(16).hex())
            yield Finding(
                "does not show the claim that the arbiter has decided", reading.task.id, fixable=True, fixed=fixed
            )


def examine(db: Database) -> list[HealthCheck]:
    """Each thing by itself; where one is missing on which the rest hangs, the rest is left out."""
    found = [_token()]
    reached = _tried("reachable", lambda: f"answers at {db.gateway.address}", db.gateway.me)
    found.append(reached)
    if not reached.ok:
        return found
    found.append(_clock(db))
    source = _tried("database", lambda: f"data source {db.source}", lambda: db.gateway.schema(db.source))
    found.append(source)
    if source.ok:
        found += examine_properties(db.layout, db.gateway.schema(db.source))
        found.append(_comments(db))
    return found


def _token() -> HealthCheck:
    there = bool(os.environ.get("NOTION_TOKEN", "").strip())
    return HealthCheck(
        "token", there, "NOTION_TOKEN is set" if there else "set NOTION_TOKEN to the integration's secret"
    )


def _tried(name: str, fine: Callable[[], str], act: Callable[[], object]) -> HealthCheck:
    try:
        act()
        return HealthCheck(name, ok=True, message=fine())
    except DibsError as error:
        return HealthCheck(name, ok=False, message=error.message)


def _clock(db: Database) -> HealthCheck:
    """How far this machine's clock is off. dibs goes by Notion's, so it does no harm."""
    off = host_clock() - db.gateway.now()
    where = "ahead of" if off.days >= 0 else "behind"
    how = "agrees with Notion's" if abs(off) < _SAME else f"is {in_words(abs(off))} {where} Notion's"
    return HealthCheck("clock", ok=True, message=f"this machine's clock {how}; leases go by Notion's")


def _comments(db: Database) -> HealthCheck:
    """Whether comments can be read and written can only be tried on a page; reading leaves no trace."""
    pages = db.gateway.query(db.source, {"page_size": 1}).get("results") or []
    if not pages:
        return HealthCheck("comments", ok=True, message="not tried: there is no page yet")
    try:
        db.gateway.comments(str(pages[0].get("id")))
    except Misconfigured:
        return HealthCheck(
            "comments",
            ok=False,
            message="switch on 'Read comments' and 'Insert comments' in the integration's capabilities",
        )
    except DibsError as error:
        return HealthCheck("comments", ok=False, message=error.message)
    return HealthCheck("comments", ok=True, message="can be read")
