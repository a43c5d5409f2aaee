"""What SQLite and PostgreSQL do alike in a transaction: dump and check a store, change settings, keep output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dibs.core import events, output
from dibs.core.errors import CycleDetected, InvalidInput, StoreCorrupt
from dibs.core.settings import Setting, differing
from dibs.stores.reports import Finding, Record
from dibs.stores.sql import link_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.output import OutputPage
    from dibs.core.task import Actor, Json, Task

    Row = tuple[Any, ...]


class Transaction(Protocol):
    """Queries by name, at one time."""

    now: datetime

    def all(self, name: str, parameters: Any = (), /) -> list[Row]: ...
    def value(self, name: str, parameters: Any = (), /) -> Any: ...
    def run(self, name: str, parameters: Any = (), /) -> int: ...
    def iterate(self, name: str, /) -> Iterator[Row]: ...
    def record(self, event: Event, /) -> object: ...


class Readers(NamedTuple):
    """How a database's rows are read."""

    task: Callable[[Row], Task]
    setting: Callable[[Row], Setting]
    event: Callable[[Row], Event]


def dump(tx: Transaction, read: Readers) -> Iterator[Record]:
    for row in tx.iterate("dump_tasks"):
        task = read.task(row)
        yield Record(task.scope, task)
    for row in tx.iterate("dump_links"):
        yield Record(row[0], link_from(row[1:]))
    for row in tx.iterate("dump_settings"):
        yield Record(row[0], read.setting(row[1:]))
    for row in tx.iterate("dump_events"):
        event = read.event(row)
        yield Record(event.scope, event)


# A query, the problem of the rows that it returns, and whether `--fix` repairs it.
Question = tuple[str, str, bool]


def problems(
    tx: Transaction,
    questions: Iterable[Question],
    now: object,
    read: Readers,
    no_cycle: Callable[[str], None],
    *,
    fix: bool,
) -> list[Finding]:
    """What is wrong in a store. `no_cycle` raises CycleDetected for a scope with tasks that wait for each other."""
    findings = [
        Finding(problem, str(row[0]), fixable, fixed=fix and fixable)
        for query, problem, fixable in questions
        for row in tx.all(query, {"now": now})
    ]
    findings += _unreadable(tx, read)
    for scope in [row[0] for row in tx.all("scopes")]:
        try:
            no_cycle(scope)
        except CycleDetected as error:
            findings.append(Finding(f"tasks wait for each other: {' → '.join(error.path)}", scope, fixable=False))
    return findings


def _unreadable(tx: Transaction, read: Readers) -> Iterator[Finding]:
    """Rows with values that dibs did not write; a person must decide."""
    readers: dict[str, Callable[[Row], object]] = {
        "dump_tasks": read.task,
        "dump_links": lambda row: link_from(row[1:]),
        "dump_settings": lambda row: read.setting(row[1:]),
        "dump_events": read.event,
    }
    for query, reader in readers.items():
        for row in tx.iterate(query):
            try:
                reader(row)
            except StoreCorrupt as error:
                what = error.message.split(" holds")[0]
                yield Finding("holds a value that no dibs wrote there", what, fixable=False)


def refuse_orphan(row: Row | None) -> None:
    """Refuse a task of an import, and its parent that is nowhere."""
    if row is not None:
        raise InvalidInput(f"{row[0]} names the parent {row[1]}, which is neither in the file nor in the store.")


def settings(tx: Transaction, scope: str, read: Callable[[Row], Setting]) -> dict[str, Json]:
    return dict(read(row) for row in tx.all("settings", (scope,)))


def configure(
    tx: Transaction,
    scope: str,
    changes: Mapping[str, Json],
    by: Actor,
    read: Callable[[Row], Setting],
    write: Callable[[Json], object],
) -> dict[str, Json]:
    """Write and record only actual changes."""
    made = differing(settings(tx, scope, read), changes)
    for name, value in made.items():
        if value is None:
            tx.run("drop_setting", (scope, name))
        else:
            tx.run("put_setting", (scope, name, write(value)))
    if made:
        tx.record(events.configured(scope, made, by, tx.now))
    return settings(tx, scope, read)


def output_page(tx: Transaction, task: Task, key: int, attempt: int | None, after: int) -> OutputPage:
    number = task.attempt if attempt is None else attempt
    kept = (output.OutputPiece(*piece) for piece in tx.all("output_from", (key, number, after)))
    attempts = (row[0] for row in tx.all("output_attempts", (key,)))
    return output.page(task, number, kept, after, attempts, tx.now)


def append_output(tx: Transaction, task: Task, key: int, token: str, start: int, text: str, now: object) -> int:
    """The caller has locked the task: of two that append for one attempt, the second sees what the first has kept."""
    output.refuse_other_attempt(task, token)
    end: int = tx.value("output_end", (key, task.attempt))
    if not end:
        tx.run("drop_early_output", (key, task.attempt - output.ATTEMPTS))
    for piece in output.pieces(start, text, end):
        end = piece.end
        tx.run("put_output", (key, task.attempt, piece.start, end - piece.start, now, piece.text))
    tx.run("drop_middle_of_output", (key, task.attempt, output.HEAD, end - output.TAIL))
    return end
