"""What happens inside one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.neo4j.history import event_values
from dibs.stores.neo4j.names import SPREAD
from dibs.stores.neo4j.statements import QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import neo4j

    from dibs.core.events import Event
    from dibs.stores.neo4j.rows import Row, Values


class Transaction:
    """Queries by name, at one time, with the events they cause. `mark` stays the same however often it is tried."""

    def __init__(self, inner: neo4j.Transaction, desk: str, now: datetime, mark: str, *, due: Iterable[str]) -> None:
        self._inner = inner
        self.desk = desk
        self.now = now
        self.mark = mark
        self.due = frozenset(due)  # the scopes where time had opened something when it began
        self._events: list[Event] = []
        self._changes: list[Values] = []

    def all(self, name: str, **parameters: object) -> list[Row]:
        """Every statement passes here, and sees what was written before."""
        if self._changes:
            self._write_changes()
        result = self._inner.run(QUERIES[name], {"desk": self.desk, **parameters})
        return [dict(zip(record.keys(), record.values(), strict=True)) for record in result]

    def one(self, name: str, **parameters: object) -> Row | None:
        rows = self.all(name, **parameters)
        return rows[0] if rows else None

    def value(self, name: str, **parameters: object) -> Any:
        row = self.one(name, **parameters)
        return None if row is None else next(iter(row.values()))

    def write(self, scope: str, task: str, values: Values) -> None:
        """Change a task. What nobody asks about before the end goes out together with the events."""
        self._changes.append({"scope": scope, "id": task, "values": values})

    def _write_changes(self) -> None:
        changes, self._changes = self._changes, []
        self.all("write", changes=changes)

    def record(self, event: Event) -> None:
        """Events are written together, last of all: their numbers are under a lock that all writers share."""
        self._events.append(event)

    def write_events(self) -> int | None:
        """The number of the last event, by which the transaction can be recognised."""
        if not self._events:
            if self._changes:
                self._write_changes()
            return None
        changes, self._changes = self._changes, []
        events = [event_values(event, self.mark) for event in self._events]
        seq: int = self.value("write_and_record", changes=changes, events=events)
        if any(event.verb in SPREAD for event in self._events):
            self.all("tie_changes", after=seq - len(events))
            self.all("tie_runs", after=seq - len(events))
        return seq
