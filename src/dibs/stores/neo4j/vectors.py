"""What tasks are about: vectors on their nodes, the shared index over them, and words where there is none.

The index knows neither desks nor scopes, so what it finds is filtered, and it is asked for far more than is wanted. A
scope of some hundred tasks is compared as a whole instead, and so is a larger one of which the index has shown too few.
The index also rounds: each task it finds is compared anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.core.errors import Misconfigured
from dibs.core.task import TERMINAL, Status
from dibs.core.vectors import refuse_other_length, score
from dibs.stores.neo4j import tasks
from dibs.stores.neo4j.rows import WORDS, task_from
from dibs.stores.reports import Neighbour, Neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.core.vectors import Vector
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.rows import Row
    from dibs.stores.neo4j.transaction import Transaction

VECTORS, FULL_TEXT = "task_embedding", "task_fulltext"  # the names that people's own queries know

_FEW = 1000  # tasks that are compared as quickly as the index is asked
_WIDTH = 1000  # the least that the index is asked for
_MOST_WORDS = 100  # of a text; the server takes no search for a thousand
_BITE = 500

_UNFINISHED = [WORDS[status] for status in Status if status not in TERMINAL]
_ANY = list(WORDS.values())


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
        tx.all("lock_desk", now=tx.now)  # only now: whoever writes an event needs it too
        _refuse_other_length(tx, first)
        tx.all("set_vector_length", length=len(first))


def _put(tx: Transaction, scope: str, new: Mapping[str, Vector]) -> None:
    given = [{"id": task, "vector": list(vector)} for task, vector in new.items()]
    for at in range(0, len(given), _BITE):
        tx.all("put_vectors", scope=scope, vectors=given[at : at + _BITE])


def _refuse_other_length(tx: Transaction, vector: Vector) -> None:
    """The desk knows the length, but not whether any of that length are left: one looks only when it matters."""
    if tx.value("vector_length") not in {None, len(vector)}:
        refuse_other_length(vector, tx.value("other_length", length=len(vector)))


def _kept(tx: Transaction, scope: str, *, finished: bool) -> dict[str, Vector]:
    rows = tx.all("vectors", scope=scope, statuses=_ANY if finished else _UNFINISHED)
    return {row["id"]: tuple(row["vector"]) for row in rows}


def _similar(
    tx: Transaction, scope: str, vector: Vector, text: str, limit: int, least: float, *, finished: bool
) -> Neighbours:
    """By their vectors, if there is an index of them: a server without one may not know how to compare them either."""
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
            f"This database has neither of the indexes {VECTORS} and {FULL_TEXT}. 'dibs init' makes them again."
        )
    words = " ".join(dict.fromkeys(re.findall(r"\w+", text.lower())[:_MOST_WORDS]))  # nothing that means more to Lucene
    found = tx.all("by_words", words=words, limit=limit, **asked) if words else []
    return Neighbours(_neighbours(tx, scope, {row["id"]: None for row in found}), "text")


def described(tx: Transaction) -> str:
    """How tasks are found that are about the same, for a person to read."""
    indexes = {row["name"] for row in tx.all("similarity")}
    if VECTORS in indexes:
        return "by vectors"
    how = "by words alone" if FULL_TEXT in indexes else "not at all"
    return f"{how}: there is no index {VECTORS}; from Neo4j 5.18 on 'dibs init' makes it"


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
