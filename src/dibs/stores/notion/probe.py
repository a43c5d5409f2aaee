"""Test at a real Notion what timed claims rest on, with a page of its own, which ends in the trash.

1. A read of a page shows every write that was answered before, whichever connection made it.
2. An answered write is made, whole; a refused one changes nothing.
3. Notion stamps a write with the minute in which it was made, by the clock that its answers show.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Misconfigured
from dibs.core.task import Status
from dibs.stores.notion.connection import over_http, target_of
from dibs.stores.notion.gateway import ticks
from dibs.stores.notion.layout import refuse_problems, shape_of
from dibs.stores.notion.values import decode, encode, moment_of
from dibs.stores.reports import HealthCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from dibs.stores.notion.gateway import Answer
    from dibs.stores.notion.http import HttpGateway
    from dibs.stores.notion.layout import Carried, Layout

ROUNDS = 10
_TITLE = "dibs is testing what claims rest on; you may delete this page"
_SKEW = timedelta(seconds=5)
_MINUTE = timedelta(minutes=1)


def probe(rest: str, rounds: int = ROUNDS, told: Callable[[int], None] = lambda _done: None) -> list[HealthCheck]:
    """One result for each of the three. `rest` is what follows `notion://` in the store's URL."""
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
        """A page that no agent takes: it is not up for work."""
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
            said = "an answered write stands, and a refused one changes nothing"
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
    """Each write's minute lies between what the clock showed before it and after it."""
    name = "edits are dated"
    wrong = [one for before, one, after in stamps if not before - _SKEW - _MINUTE < one <= after + _SKEW]
    if wrong or any(one.second or one.microsecond for _, one, _ in stamps):
        return HealthCheck(name, ok=False, message="the times of edits are not those of the clock, in whole minutes")
    return HealthCheck(name, ok=True, message="in whole minutes, by the clock of the answers")
