"""Races on Neo4j: like those on PostgreSQL, on another server and with another way to restore the store.

A writer locks the scope with its first statement, so all its later statements are equal for other sessions. The usual
run pauses right after the lock, at the end, and before the lock if something was read by then. The long run
(DIBS_TORTURE) pauses at every statement.
"""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

from neo4j.time import DateTime

from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import QUERIES
from dibs.stores.port import Query
from interleave.neo4j.player import Player
from interleave.postgres import stage as postgres
from interleave.postgres.stage import EVERY_SCHEDULE, Outcome, Race
from support.clock import Clock
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    import neo4j

    from interleave.stepper import Act, Answer

_LOCKS = {"lock_scopes", "make_scopes", "lock_desk"}

_NODES = """
MATCH (n:Item) WHERE n.desk = $desk AND n.sender_hash IS NOT NULL AND n.id IS NOT NULL
RETURN 'Item' AS label, properties(n) AS values
UNION ALL
MATCH (n:Event) WHERE n.desk = $desk AND n.seq > 0
RETURN 'Event' AS label, properties(n) AS values
UNION ALL
MATCH (n:UserConfig) WHERE n.desk = $desk AND n.sender_hash IS NOT NULL
RETURN 'UserConfig' AS label, properties(n) AS values
UNION ALL
MATCH (n:Agent) WHERE n.desk = $desk AND n.id IS NOT NULL
RETURN 'Agent' AS label, properties(n) AS values
"""
_RESTORED = ("Item", "Event", "UserConfig", "Agent")
_EDGES = """
MATCH (a:Item)-[r]->(b:Item) WHERE a.desk = $desk AND a.sender_hash IS NOT NULL AND a.id IS NOT NULL
RETURN type(r) AS type, a.sender_hash AS scope, a.id AS task, b.id AS on, properties(r) AS values
ORDER BY type, task, on
"""
_RESET = """
MATCH (d:Desk {name: $desk}) SET d.seq = $seq, d.vector_length = $length
WITH d
CALL () {
    MATCH (c:UserConfig) WHERE c.desk = $desk AND c.sender_hash IS NOT NULL DELETE c
    RETURN count(*) AS settings
}
CALL () {
    MATCH (t:Item) WHERE t.desk = $desk AND t.sender_hash IS NOT NULL AND t.id IS NOT NULL DETACH DELETE t
    RETURN count(*) AS tasks
}
CALL () {
    MATCH (e:Event) WHERE e.desk = $desk AND e.seq > 0 DELETE e
    RETURN count(*) AS events
}
CALL () {
    MATCH (a:Agent) WHERE a.desk = $desk AND a.id IS NOT NULL DELETE a
    RETURN count(*) AS agents
}
CALL () { UNWIND $nodes.Agent AS values CREATE (a:Agent) SET a = values }
CALL () { UNWIND $nodes.Item AS values CREATE (t:Item:Task) SET t = values }
CALL () { UNWIND $nodes.Event AS values CREATE (e:Event) SET e = values }
CALL () { UNWIND $nodes.UserConfig AS values CREATE (c:UserConfig) SET c = values }
CALL () {
    UNWIND $edges AS edge
    MATCH (a:Item {desk: $desk, sender_hash: edge.scope, id: edge.task})
    MATCH (b:Item {desk: $desk, sender_hash: edge.scope, id: edge.on})
    FOREACH (_ IN CASE WHEN edge.type = 'DEPENDS_ON' THEN [1] ELSE [] END |
        CREATE (a)-[r:DEPENDS_ON]->(b) SET r = edge.values)
    FOREACH (_ IN CASE WHEN edge.type = 'HAS_CHILD' THEN [1] ELSE [] END | CREATE (a)-[:HAS_CHILD]->(b))
}
RETURN d.seq
"""


class Mutant(postgres.Mutant):
    """The store with deliberate defects: rewritten queries, and the sessions that send them."""

    def rewrites(self, lane: int) -> dict[str, str]:
        wanted = self.queries if lane in self.lanes else {}
        return {QUERIES[name]: rewrite(QUERIES[name]) for name, rewrite in wanted.items()}


class Stage(postgres.Stage):
    """One desk that is restored before every race."""

    players: tuple[Player, ...]  # type: ignore[assignment]  # of the same shape

    def __init__(self) -> None:
        self.name = fresh_desk()
        self.clock = Clock()
        self.players = tuple(Player(self.name, self.clock, lane) for lane in range(1, 5))
        self._desk = Desk(Neo4jStore(shared_url(), desk=self.name, clock=self.clock), scope="s", by=Actor("tester"))
        self._time = Clock().time
        self._checked = []
        self._kept: dict[str, Any] = {}

    def set_up(self, setup: Callable[[Desk], object]) -> None:
        self._checked = []
        self._time = Clock().time
        self.set_clock(self._time)
        self._kept = {"nodes": {label: [] for label in _RESTORED}, "edges": [], "seq": 0, "length": None}
        self.reset()
        setup(self.desk)
        nodes = admin().execute_query(_NODES, desk=self.name).records
        kept = {label: [_as_sent(row["values"]) for row in nodes if row["label"] == label] for label in _RESTORED}
        edges = [
            dict(row) | {"values": _as_sent(row["values"])}
            for row in admin().execute_query(_EDGES, desk=self.name).records
        ]
        lengths = [len(task["embedding"]) for task in kept["Item"] if "embedding" in task]
        self._kept = {"nodes": kept, "edges": edges, "seq": len(kept["Event"]), "length": max(lengths, default=None)}

    def set_clock(self, moment: datetime) -> None:
        self.clock.time = moment

    def reset(self) -> None:
        self.set_clock(self._time)
        admin().execute_query(_RESET, desk=self.name, **self._kept)

    def broken(self, mutant: postgres.Mutant | None) -> None:
        """Do nothing: no code of the store is on the server."""

    def races(
        self,
        first: Act,
        second: Act,
        mutant: postgres.Mutant | None = None,
        *,
        meanwhile: Callable[[], object] | None = None,
        every: bool = False,
    ) -> Iterator[Race]:
        """Pause the first at each of its statements, one per race, while the second runs until it ends or waits."""
        del every  # the second either runs alone or waits at its first statement
        of_first = self.places(first, mutant)
        locks = next((at for at, place in enumerate(of_first, 1) if place in _LOCKS), 1)
        wanted = {*range(2, locks + 1), locks + 1, len(of_first)}
        for at, place in enumerate(of_first, 1):
            if EVERY_SCHEDULE or at in wanted:
                yield self.race(first, second, at, None, mutant, meanwhile)._replace(at=f"{at} {place}")

    def outcome(self, first: Answer, second: Answer) -> Outcome:
        state = tuple(self.desk.find(Query())), self._rest()
        findings = next((findings for checked, findings in self._checked if checked == state), None)
        if findings is None:  # most schedules end alike, and a check takes longer than a race
            findings = tuple(self.desk.check())
            self._checked.append((state, findings))
        return Outcome(first, second, *state, findings)

    def _rest(self) -> tuple[tuple[str, ...], ...]:
        """All that is not in the tasks themselves, without numbers that depend on the order of the sessions."""
        rows: list[tuple[str, ...]] = []
        for record in admin().execute_query(_NODES, desk=self.name).records:
            values = record["values"]
            if record["label"] == "Item":
                derived = (values.get("place"), values.get("wakes_at"), len(values.get("embedding", ())))
                rows.append(("derived", values["id"], str(derived)))
            elif record["label"] == "UserConfig":
                rows.append(("settings", values["sender_hash"], str(sorted(values.items()))))
            elif record["label"] == "Event":
                rows.append(("event", values["task_id"], f"{values['seq']:09}", _told(values)))
        by_task = [(kind, task, *rest[-1:]) for kind, task, *rest in sorted(rows)]
        return (*by_task, *(_edge(row) for row in admin().execute_query(_EDGES, desk=self.name).records))

    def close(self) -> None:
        self.desk._store.close()
        for player in self.players:
            player.close()


def _as_sent(values: Mapping[str, Any]) -> dict[str, Any]:
    """Times as the store sends them: the driver would name the zone, and the server compares that too."""
    return {
        name: value.to_native().astimezone(UTC) if isinstance(value, DateTime) else value
        for name, value in values.items()
    }


def _edge(row: neo4j.Record) -> tuple[str, ...]:
    kind = "link" if row["type"] == "DEPENDS_ON" else "child"
    return kind, row["task"], row["on"], json.dumps(_as_sent(row["values"]), sort_keys=True, default=str)


def _told(values: Mapping[str, Any]) -> str:
    by_chance = {"seq", "mark", "desk", "id"}
    return str(sorted((name, str(value)) for name, value in values.items() if name not in by_chance))
