"""The statements by name, and a transaction that runs them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from dibs.core.fields import FILTERS, LISTS
from dibs.core.task import INTERNAL
from dibs.stores.neo4j.errors import replaced
from dibs.stores.neo4j.rows import (
    DOCUMENTED,
    KINDS,
    LABELS,
    PROPERTIES,
    REASONS,
    SCOPES_OF_KIND,
    SPREAD,
    TASK,
    TIMES,
    event_values,
)
from dibs.stores.sql import Queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import neo4j

    from dibs.core.events import Event
    from dibs.core.fields import Field
    from dibs.core.task import Status
    from dibs.stores.neo4j.database import Target
    from dibs.stores.neo4j.rows import Row, Values


_FOLDER = os.path.dirname(__file__)


def _matches(property_: str, field: Field) -> str:
    wanted = f"$only.{field.name}"
    if field.kind in LISTS:
        return f"all(each IN coalesce({wanted}, []) WHERE each IN coalesce(t.{property_}, []))"
    return f"({wanted} IS NULL OR t.{property_} = {wanted})"


def _cases(words: Mapping[Status, str], otherwise: str) -> str:
    """The word for each status, as Cypher."""
    each = " ".join(f"WHEN '{status}' THEN '{word}'" for status, word in words.items())
    return f"CASE t.dibs_status {each} ELSE {otherwise} END"


def relabeled(alias: str) -> str:
    """Set the labels of a node by its scope."""
    known = [f"SET {alias}:Item", *(f"REMOVE {alias}:{kind}" for kind in KINDS)]
    is_work = f"NOT {alias}.sender_hash STARTS WITH '{INTERNAL}'"
    cases = {TASK: is_work} | {
        kind: " OR ".join(f"{alias}.sender_hash STARTS WITH '{start}'" for start in starts)
        for kind, starts in SCOPES_OF_KIND.items()
    }
    known += [
        f"FOREACH (_ IN CASE WHEN {when} THEN [1] ELSE [] END | SET {alias}:{kind})" for kind, when in cases.items()
    ]
    return "\n".join(known)


_SHORT = {
    "{t}": f"t {{.*, embedding: null, wakes_at: null, {', '.join(f'{name}: toString(t.{name})' for name in TIMES)}}}",
    "{e}": "e {.*, timestamp: toString(e.timestamp), dispatched_at: null}",
    "{kinds}": "\n".join(
        f"FOREACH (_ IN CASE WHEN $kind = '{kind}' THEN [1] ELSE [] END | SET t:{kind})" for kind in KINDS
    ),
    "{all_kinds}": f"t:Item:{':'.join(KINDS)}",
    "{old_status}": "CASE t.status WHEN 'pending' THEN 'ready' WHEN 'in_progress' THEN 'active'"
    " WHEN 'completed' THEN 'done' WHEN 'aborted' THEN 'canceled' ELSE t.status END",
    "{documented_status}": _cases(DOCUMENTED, "'?'"),
    "{blocked_reason}": "CASE WHEN t.dibs_status IN ['blocked', 'escalated'] THEN t.dibs_reason ELSE"
    f" {_cases(REASONS, 'null')} END",
    "{agent_shown}": "coalesce(CASE WHEN t.holder IS NOT NULL THEN t.claimed_by"
    " WHEN t.dibs_status = 'done' THEN t.finished_by END, t.dibs_assigned_to)",
    "{labels}": "\n".join(
        f"FOREACH (_ IN CASE WHEN event.label = '{label}' THEN [1] ELSE [] END | SET e:{label})"
        for label in LABELS.values()
    ),
    # As the driver sends times: in microseconds, with an offset as the zone.
    "{now}": "coalesce($now, datetime.truncate('microsecond', datetime.realtime('Z')))",
    # The id of the desk, to refuse processes that opened its predecessor.
    "{store}": "head(COLLECT { MATCH (d:Desk {name: $desk}) RETURN d.id }) AS store",
    "{task}": "{desk: $desk, sender_hash: $scope, id: $id}",
    "{opens}": "CASE WHEN t.blockers = 0 AND t.wakes_at IS NULL"
    " AND (t.dibs_status = 'ready' OR (t.dibs_status = 'active' AND t.holder = 'agent')) THEN t.order_key END",
    # `coalesce` keeps the planner from scanning the index of all links of a type.
    "{blocks}": "r:DEPENDS_ON WHERE coalesce(r.type, '') IN ['blocks', 'resolved']",
    "{passes_on}": "coalesce(r.type, '') <> 'parallel_ok'",
    "{hopeless}": "(t.dibs_status = 'active' AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)",
    # Joined by OR, the planner would look up each alternative and sort the results.
    "{cosine}": "2 * vector.similarity.cosine(t.embedding, $vector) - 1",
    "{free}": "(t.place IS NOT NULL OR (t.wakes_at <= $now AND t.blockers = 0 AND NOT (t.dibs_status = 'active'"
    " AND t.max_retries IS NOT NULL AND t.retries >= t.max_retries)))",
    "{member}": "EXISTS { MATCH (a:Agent) USING INDEX a:Agent(desk, id)"
    " WHERE a.desk = $desk AND a.id = $agent AND a.task_limit IS NOT NULL }",
    "{fits}": "{suits} AND {matches}",
    "{suits}": "coalesce(t.dibs_assigned_to, $agent) = $agent AND {able}",
    # NULL: requirements do not matter
    "{able}": "all(need IN t.requires WHERE need IN coalesce($can, t.requires))",
    # A filter is a map of fields to values. Fields that it lacks match every task.
    "{relabel}": relabeled("t"),
    "{matches}": " AND ".join(_matches(PROPERTIES.get(each.name, each.name), each) for each in FILTERS),
}

# Without indentation, because the server parses the text each time.
QUERIES = {
    name: re.sub(r"\n +", "\n", text)
    for name, text in Queries(os.path.join(_FOLDER, "queries.cypher"), _SHORT, comment="//").all().items()
}
MIGRATION = Queries(os.path.join(_FOLDER, "migration.cypher"), _SHORT, comment="//").all()
SCHEMA = Queries(os.path.join(_FOLDER, "schema.cypher"), {}, comment="//").all()


class Transaction:
    """Queries by name, at one time, with their events. All tries of a transaction have the same `mark`."""

    def __init__(
        self, inner: neo4j.Transaction, target: Target, store: str, now: datetime, mark: str, *, due: Iterable[str]
    ) -> None:
        self._inner = inner
        self._target = target
        self.store = store
        self.desk = target.desk
        self.now = now
        self.mark = mark
        self.due = frozenset(due)  # scopes with due tasks at the start
        self._events: list[Event] = []
        self._changes: list[Values] = []

    def all(self, name: str, **parameters: object) -> list[Row]:
        """Run a statement, after the pending writes that it must see."""
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
        """Change a task, at the next statement or together with the events."""
        self._changes.append({"scope": scope, "id": task, "values": values})

    def _write_changes(self) -> None:
        changes, self._changes = self._changes, []
        self.all("write", changes=changes)

    def record(self, event: Event) -> None:
        """Write the event at the end of the transaction, because numbers need a lock that all writers share."""
        self._events.append(event)

    def write_events(self) -> int | None:
        """The number of the last event, which identifies the transaction."""
        if not self._events:
            if self._changes:
                self._write_changes()
            return None
        changes, self._changes = self._changes, []
        events = [event_values(event, self.mark) for event in self._events]
        seq: int | None = self.value("write_and_record", changes=changes, events=events, store=self.store)
        if seq is None:
            raise replaced(self._target.place, gone=False)
        if any(event.verb in SPREAD for event in self._events):
            self.all("tie_changes", after=seq - len(events))
            self.all("tie_runs", after=seq - len(events))
        return seq
