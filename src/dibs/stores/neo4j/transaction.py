"""The statements of the store by name, and one transaction that runs them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from dibs.core.fields import FILTERS, LISTS
from dibs.stores.neo4j.rows import LABELS, PROPERTIES, SPREAD, TIMES, event_values
from dibs.stores.sql import Queries

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import neo4j

    from dibs.core.events import Event
    from dibs.core.fields import Field
    from dibs.stores.neo4j.rows import Row, Values


_FOLDER = os.path.dirname(__file__)


def _matches(property_: str, field: Field) -> str:
    wanted = f"$only.{field.name}"
    if field.kind in LISTS:
        return f"all(each IN coalesce({wanted}, []) WHERE each IN coalesce(t.{property_}, []))"
    return f"({wanted} IS NULL OR t.{property_} = {wanted})"


_SHORT = {
    "{t}": f"t {{.*, embedding: null, wakes_at: null, {', '.join(f'{name}: toString(t.{name})' for name in TIMES)}}}",
    "{e}": "e {.*, timestamp: toString(e.timestamp), dispatched_at: null}",
    "{labels}": "\n".join(
        f"FOREACH (_ IN CASE WHEN event.label = '{label}' THEN [1] ELSE [] END | SET e:{label})"
        for label in LABELS.values()
    ),
    # As the driver would send it: to the microsecond, and with an offset for a zone.
    "{now}": "coalesce($now, datetime.truncate('microsecond', datetime.realtime('Z')))",
    "{task}": "{desk: $desk, sender_hash: $scope, id: $id}",
    "{opens}": "CASE WHEN t.blockers = 0 AND t.wakes_at IS NULL"
    " AND (t.status = 'pending' OR (t.status = 'in_progress' AND t.holder = 'agent')) THEN t.order_key END",
    # As it is, the planner would rather go through all links of the type, by their index, than along those of one task.
    "{blocks}": "r:DEPENDS_ON WHERE coalesce(r.type, '') = 'blocks'",
    "{passes_on}": "coalesce(r.type, '') <> 'parallel_ok'",
    "{hopeless}": "(t.status = 'in_progress' AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)",
    # Not as alternatives joined by OR: the planner would look each up by itself and sort what it found.
    "{cosine}": "2 * vector.similarity.cosine(t.embedding, $vector) - 1",
    "{free}": "(t.place IS NOT NULL OR (t.wakes_at <= $now AND t.blockers = 0 AND NOT (t.status = 'in_progress'"
    " AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)))",
    "{member}": "EXISTS { MATCH (a:Agent) USING INDEX a:Agent(desk, id)"
    " WHERE a.desk = $desk AND a.id = $agent AND a.task_limit IS NOT NULL }",
    "{fits}": "{suits} AND {matches}",
    "{suits}": "coalesce(t.assigned_to, $agent) = $agent AND {able}",
    # NULL: what it takes does not matter to who looks
    "{able}": "all(need IN t.requires WHERE need IN coalesce($can, t.requires))",
    # A filter is a map of field names and values; what it leaves out matches every task.
    "{matches}": " AND ".join(_matches(PROPERTIES.get(each.name, each.name), each) for each in FILTERS),
}

# Without what is there for our eyes: the server takes a text to pieces whenever it arrives.
QUERIES = {
    name: re.sub(r"\n +", "\n", text)
    for name, text in Queries(os.path.join(_FOLDER, "queries.cypher"), _SHORT, comment="//").all().items()
}
SCHEMA = Queries(os.path.join(_FOLDER, "schema.cypher"), {}, comment="//").all()


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
