"""The optional parts of the store: agents and their limits, settings, and vectors.

Each write that adds to a member's tasks locks the member's node and counts in a later statement. Locks are taken in
one order: scopes, members, desk.

The vector index knows neither desks nor scopes, and rounds. So a search asks it for far more than it needs, filters,
and compares each hit again. Small scopes are compared completely.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.core import events, fleet
from dibs.core.errors import AlreadyExists, Misconfigured, NotFound
from dibs.core.fleet import Agent, AgentStatus, Member, display_name
from dibs.core.search import refuse_other_length, score
from dibs.core.settings import Setting, differing
from dibs.core.task import TERMINAL, Status
from dibs.stores.neo4j import tasks
from dibs.stores.neo4j.rows import (
    SENSELESS,
    agent_from,
    agent_values,
    gathered,
    moment_from,
    senseless,
    spread,
    task_from,
)
from dibs.stores.reports import Neighbour, Neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Assignment, Profile
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Json, Task
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction


class Neo4jFleet:
    """The optional part `fleet` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        return self._database.write(lambda tx: _register(tx, agent, host, pid), lock="lock_desk")

    def deregister(self, agent: str) -> Agent:
        return self._database.write(lambda tx: _deregister(tx, agent), lock="lock_desk")

    def agents(self) -> list[Agent]:
        return self._database.read(lambda tx: [agent_from(row["agent"]) for row in tx.all("agents")])

    def enrol(self, profile: Profile) -> Member:
        return self._database.write(lambda tx: _enrol(tx, profile), lock="look")

    def dismiss(self, agent: str) -> Member:
        return self._database.write(lambda tx: _dismiss(tx, agent), lock="look")

    def members(self) -> list[Member]:
        return self._database.read(lambda tx: [_member_from(row) for row in tx.all("members", agent=None, now=tx.now)])

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        scopes = {scope for scope, _ in asked.tasks}
        return self._database.write(lambda tx: _assign(tx, asked, by), scopes=scopes)


def _register(tx: Transaction, agent: str, host: str | None, pid: int | None) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is not None and agent_from(row["agent"]).status is AgentStatus.ACTIVE:
        if row["agent"].get("mark") == tx.mark:  # an earlier try of this request
            return agent_from(row["agent"])
        raise AlreadyExists(f"An agent '{agent}' is registered already. Deregister it, or choose another name.")
    return _put_agent(tx, Agent(agent, host, pid, tx.now))


def _deregister(tx: Transaction, agent: str) -> Agent:
    row = tx.one("agent_by_id", id=agent)
    if row is None:
        raise NotFound(f"No agent '{agent}' is registered.")
    known = agent_from(row["agent"])
    if known.status is AgentStatus.GONE:
        return known
    return _put_agent(tx, known._replace(status=AgentStatus.GONE, ended_at=tx.now))


def _put_agent(tx: Transaction, agent: Agent) -> Agent:
    tx.all("put_agent", id=agent.id, values=agent_values(agent) | {"desk": tx.desk, "mark": tx.mark})
    return agent


def _enrol(tx: Transaction, profile: Profile) -> Member:
    said = {
        "name": display_name(profile.agent), "role": profile.role, "capabilities": list(profile.can),
        "task_limit": profile.limit,
    }  # fmt: skip
    tx.all("put_member", id=profile.agent, values=said, now=tx.now)
    return _member(tx, profile.agent)


def _dismiss(tx: Transaction, agent: str) -> Member:
    tx.one("lock_member", agent=agent)
    member = _member(tx, agent)
    tx.all("drop_member", agent=agent)
    return member


def _member(tx: Transaction, agent: str) -> Member:
    row = tx.one("members", agent=agent, now=tx.now)
    if row is None:
        raise fleet.not_enrolled(agent)
    return _member_from(row)


def _member_from(row: Row) -> Member:
    said = row["member"]
    times = (moment_from(said["enrolled_at"]), moment_from(said["seen_at"]))
    profile = (said["id"], said["role"], tuple(said["capabilities"]), said["task_limit"])
    return Member(*profile, *times, row["held"], row["waiting"])


def _assign(tx: Transaction, asked: Assignment, by: Actor) -> list[Task | DibsError]:
    if asked.agent is not None:
        tx.one("lock_member", agent=asked.agent)
    member = None if asked.agent is None else _member(tx, asked.agent)
    return fleet.given_out(asked, member, lambda scope, task: _assigned(tx, scope, task, asked, by))


def _assigned(tx: Transaction, scope: str, task_id: str, asked: Assignment, by: Actor) -> Task:
    task = tasks.get(tx, scope, task_id)
    after = fleet.assigned(task, asked, tx.now)
    tasks.write(tx, task, after)
    tx.record(events.assigned(task, after, by))
    return after


_TAKEN = frozenset({"desk", "sender_hash", "extra"})


class Neo4jSettings:
    """The optional part `settings` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, scope: str) -> Mapping[str, Json]:
        return self._database.read(lambda tx: settings(tx, scope))

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._database.write(lambda tx: _configure(tx, scope, changes, by), scopes=[scope], lock="make_scopes")


def settings(tx: Transaction, scope: str) -> dict[str, Json]:
    row = tx.one("settings", scope=scope)
    try:
        return {} if row is None else dict(sorted(gathered(row["settings"], _TAKEN, "extra").items()))
    except SENSELESS as error:
        raise senseless("configuration of", scope) from error


def _configure(tx: Transaction, scope: str, changes: Mapping[str, Json], by: Actor) -> dict[str, Json]:
    """Record a change only if a value differs."""
    before = settings(tx, scope)
    made = differing(before, changes)
    if not made:
        return before
    tx.record(events.configured(scope, made, by, tx.now))
    return _put_settings(tx, scope, {name: value for name, value in {**before, **made}.items() if value is not None})


def restore_settings(tx: Transaction, scope: str, given: Iterable[Setting]) -> None:
    known = settings(tx, scope)
    for name, value in given:
        if name in known:
            raise AlreadyExists(f"There is a setting '{name}' in {scope} already.")
        known[name] = value
    _put_settings(tx, scope, known)


def _put_settings(tx: Transaction, scope: str, values: Mapping[str, Json]) -> dict[str, Json]:
    own = {"desk": tx.desk, "sender_hash": scope}
    tx.all("put_settings", scope=scope, values={**spread(values, _TAKEN, "extra"), **own})
    return settings(tx, scope)


VECTORS, FULL_TEXT = "task_embedding", "task_fulltext"  # the names that kurultai's queries use

_FEW = 1000  # tasks that are compared completely as fast as the index answers
_WIDTH = 1000  # hits, at least, that the index is asked for
_MOST_WORDS = 100  # of a text; the server refuses a search for a thousand
_BITE = 500

_UNFINISHED = [str(status) for status in Status if status not in TERMINAL]
_ANY = [str(status) for status in Status]


class Neo4jVectors:
    """The optional part `vectors` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        self._database.write(lambda tx: _keep(tx, scope, vectors), scopes=[scope])

    def kept(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:
        return self._database.read(lambda tx: _kept(tx, scope, finished=finished))

    def similar(self, scope: str, vector: Vector, text: str, limit: int, least: float, *, finished: bool) -> Neighbours:
        return self._database.read(lambda tx: _similar(tx, scope, vector, text, limit, least, finished=finished))


def _keep(tx: Transaction, scope: str, vectors: Mapping[str, Vector | None]) -> None:
    tasks.require(tx, scope, vectors)
    tx.all("drop_vectors", scope=scope, ids=[task for task, vector in vectors.items() if vector is None])
    new = {task: vector for task, vector in vectors.items() if vector is not None}
    if new:
        first = next(iter(new.values()))
        for vector in new.values():
            refuse_other_length(vector, len(first))
        _refuse_other_length(tx, first)
        _put(tx, scope, new)
        tx.all("lock_desk", now=tx.now)  # late, because every writer of events needs it
        _refuse_other_length(tx, first)
        tx.all("set_vector_length", length=len(first))


def _put(tx: Transaction, scope: str, new: Mapping[str, Vector]) -> None:
    given = [{"id": task, "vector": list(vector)} for task, vector in new.items()]
    for at in range(0, len(given), _BITE):
        tx.all("put_vectors", scope=scope, vectors=given[at : at + _BITE])


def _refuse_other_length(tx: Transaction, vector: Vector) -> None:
    """The desk keeps the length of former vectors too, so another length is compared with those that are left."""
    if tx.value("vector_length") not in {None, len(vector)}:
        refuse_other_length(vector, tx.value("other_length", length=len(vector)))


def _kept(tx: Transaction, scope: str, *, finished: bool) -> dict[str, Vector]:
    rows = tx.all("vectors", scope=scope, statuses=_ANY if finished else _UNFINISHED)
    return {row["id"]: tuple(row["vector"]) for row in rows}


def _similar(
    tx: Transaction, scope: str, vector: Vector, text: str, limit: int, least: float, *, finished: bool
) -> Neighbours:
    """By vectors if there is an index of them, because a server without one may not compare vectors."""
    indexes = {row["name"]: row["length"] for row in tx.all("similarity")}
    asked = {"scope": scope, "statuses": _ANY if finished else _UNFINISHED}
    if VECTORS in indexes:
        _refuse_other_length(tx, vector)
        found = _closest(tx, vector, limit, asked, indexed=indexes[VECTORS] == len(vector))
        near = {row["id"]: score(row["score"]) for row in found}
        close = {task: each for task, each in near.items() if each >= least}
        return Neighbours(_neighbours(tx, scope, close), "vector")
    if FULL_TEXT not in indexes:
        raise Misconfigured(
            f"This database has neither of the indexes {VECTORS} and {FULL_TEXT}. 'dibs init' creates them."
        )
    words = " ".join(dict.fromkeys(re.findall(r"\w+", text.lower())[:_MOST_WORDS]))  # no operators of Lucene
    found = tx.all("by_words", words=words, limit=limit, **asked) if words else []
    return Neighbours(_neighbours(tx, scope, {row["id"]: None for row in found}), "text")


def similarity(tx: Transaction) -> str:
    """How similar tasks are found, for a person to read."""
    indexes = {row["name"] for row in tx.all("similarity")}
    if VECTORS in indexes:
        return "by vectors"
    how = "by words only" if FULL_TEXT in indexes else "not at all"
    return f"{how}: there is no index {VECTORS}; from Neo4j 5.18 on, 'dibs init' creates it"


def _closest(
    tx: Transaction, vector: Vector, limit: int, asked: Mapping[str, object], *, indexed: bool
) -> Sequence[Row]:
    given = {**asked, "vector": list(vector), "limit": limit}
    if indexed and tx.value("number_in_scope", limit=_FEW + 1, **asked) > _FEW:
        found = tx.all("closest_by_index", width=max(_WIDTH, 10 * limit), **given)
        if len(found) == limit:
            return found
    return tx.all("closest_of_all", **given)


def _neighbours(tx: Transaction, scope: str, near: Mapping[str, float | None]) -> tuple[Neighbour, ...]:
    rows = (row["task"] for row in tx.all("tasks_named", scope=scope, ids=list(near)))
    found = {task.id: task for task in map(task_from, rows)}
    return tuple(Neighbour(found[task], each) for task, each in near.items() if task in found)
