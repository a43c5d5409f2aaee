"""Health checks: the way to Notion, the database, its pages; and a probe of what timed claims assume."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Misconfigured
from dibs.core.task import Status
from dibs.core.times import in_words
from dibs.stores.notion.connection import over_http, target_of
from dibs.stores.notion.gateway import host_clock, ticks
from dibs.stores.notion.layout import examine_properties, problems, refuse_problems, shape_of
from dibs.stores.notion.values import decode, encode, moment_of
from dibs.stores.reports import Finding, HealthCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from dibs.stores.notion.arbiter import Ledger
    from dibs.stores.notion.database import Database
    from dibs.stores.notion.gateway import Answer
    from dibs.stores.notion.http import HttpGateway
    from dibs.stores.notion.layout import Carried, Layout
    from dibs.stores.notion.pages import Reading


_SAME = timedelta(seconds=2)  # Notion reports whole seconds


def check(db: Database, *, fix: bool) -> list[Finding]:
    """Find what does not fit: the layout, contradictory pages, and pages that differ from the arbiter."""
    wrong = problems(db.layout, db.gateway.schema(db.source))
    if wrong:
        return [Finding(problem, name, fixable=False) for name, problem in wrong.items()]
    pages = sorted(db.listed(), key=lambda reading: (reading.number, reading.task.id))
    odd = [Finding(doubt, reading.task.id, fixable=False) for reading in pages for doubt in reading.doubts]
    return [*odd, *(_unlike(db, db.ledger, pages, fix=fix) if db.ledger is not None else ())]


def _unlike(db: Database, ledger: Ledger, pages: Sequence[Reading], *, fix: bool) -> Iterator[Finding]:
    """Find pages that differ from their arbiter's row, after a crash or a late write."""
    from dibs.stores.notion import arbiter

    for reading in pages:
        if arbiter.differing(reading, ledger):
            fixed = fix and arbiter.repair(db, ledger, reading, os.urandom(16).hex())
            yield Finding(
                "does not show the claim that the arbiter has decided", reading.task.id, fixable=True, fixed=fixed
            )


def examine(db: Database) -> list[HealthCheck]:
    """Run each check; those that depend on a failed one are left out."""
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
    """Report how far this machine's clock is off. dibs uses Notion's, so that does no harm."""
    off = host_clock() - db.gateway.now()
    where = "ahead of" if off.days >= 0 else "behind"
    how = "agrees with Notion's" if abs(off) < _SAME else f"is {in_words(abs(off))} {where} Notion's"
    return HealthCheck("clock", ok=True, message=f"this machine's clock {how}; leases go by Notion's")


def _comments(db: Database) -> HealthCheck:
    """Check on a page whether comments can be read; a test write would leave a trace."""
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


ROUNDS = 10
_TITLE = "dibs is testing what claims depend on; you may delete this page"
_SKEW = timedelta(seconds=5)
_MINUTE = timedelta(minutes=1)


def probe(rest: str, rounds: int = ROUNDS, told: Callable[[int], None] = lambda _done: None) -> list[HealthCheck]:
    """Return one result for each of the three assumptions. `rest` is the part of the store's URL after `notion://`."""
    target = target_of(rest)
    writer, reader = over_http(target), over_http(target)
    try:
        source = writer.source_of(target.database)
        properties = writer.schema(source)
        refuse_problems(target.layout, properties)
        found = _Probe(writer, reader, target.layout, shape_of(target.layout, properties))
        page = found.create(source)
        try:
            return found.results(page, rounds, told)
        finally:
            with suppress(DibsError):
                writer.trash(page)
    finally:
        writer.close()
        reader.close()


class _Probe:
    def __init__(self, writer: HttpGateway, reader: HttpGateway, layout: Layout, shape: Mapping[str, Carried]) -> None:
        self._writer, self._reader, self._layout, self._shape = writer, reader, layout, shape

    def create(self, source: str) -> str:
        """Create a page that no agent claims."""
        status = self._layout.words.get(Status.BACKLOG) or self._layout.words[Status.CANCELED]
        title, place = self._shape["title"], self._shape["status"]
        made = self._writer.create(
            source, {title.name: encode(title.type, _TITLE), place.name: encode(place.type, status)}
        )
        return str(made["id"])

    def results(self, page: str, rounds: int, told: Callable[[int], None]) -> list[HealthCheck]:
        stale, slowest, stamps = 0, 0.0, []
        token = ""
        for number in range(rounds):
            token = os.urandom(16).hex()
            before, sent = self._writer.now(), ticks()
            written = self._writer.update(page, self._write(token))
            slowest = max(slowest, ticks() - sent)
            stamps.append((before, moment_of(written["last_edited_time"]), self._writer.heard()))
            stale += self._token(self._reader.page(page)) != token
            told(number + 1)
        return [_reads(stale, rounds, slowest), self._writes(page, token), _times(stamps)]

    def _writes(self, page: str, token: str) -> HealthCheck:
        name = "writes are whole"
        wrong = {**self._write("refused"), "there is no such property": {"rich_text": []}}
        try:
            self._writer.update(page, wrong)
        except Misconfigured:
            kept = self._token(self._reader.page(page))
            whole = kept == token
            said = "an answered write stays, and a refused one changes nothing"
            return HealthCheck(name, whole, said if whole else "a refused write changed the page, or an older one did")
        return HealthCheck(name, ok=False, message="a write of a property that does not exist was not refused")

    def _write(self, token: str) -> dict[str, Any]:
        carried = self._shape["token"]
        return {carried.name: encode(carried.type, token)}

    def _token(self, answer: Answer) -> str:
        return str(decode(answer["properties"][self._shape["token"].name]) or "")


def _reads(stale: int, rounds: int, slowest: float) -> HealthCheck:
    name = "reads are current"
    if stale:
        return HealthCheck(
            name, ok=False, message=f"{stale} of {rounds} reads were older than an answered write: use an arbiter"
        )
    return HealthCheck(name, ok=True, message=f"{rounds} of {rounds}; the slowest write took {slowest:.1f} s")


def _times(stamps: list[tuple[Any, Any, Any]]) -> HealthCheck:
    """Check that each edit's minute is between the clock's times before and after the write."""
    name = "edits are dated"
    wrong = [one for before, one, after in stamps if not before - _SKEW - _MINUTE < one <= after + _SKEW]
    if wrong or any(one.second or one.microsecond for _, one, _ in stamps):
        return HealthCheck(name, ok=False, message="the times of edits are not those of the clock, in whole minutes")
    return HealthCheck(name, ok=True, message="in whole minutes, by the clock of the answers")
