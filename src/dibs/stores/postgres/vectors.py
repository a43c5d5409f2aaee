"""Vectors of tasks, and the tasks closest to one. Exact, and quick for some thousand tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import NotFound
from dibs.core.vectors import nearest, packed, refuse_other_length, unpacked
from dibs.stores.postgres.rows import task_from
from dibs.stores.reports import Neighbour, Neighbours

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.core.vectors import Vector
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.transaction import Transaction


class PostgresVectors:
    """The optional part `vectors` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        self._database.write(lambda tx: _keep(tx, scope, vectors))

    def kept(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:
        with self._database.planning_freely():
            return self._database.read(lambda tx: _kept(tx, scope, finished=finished))

    def similar(
        self,
        scope: str,
        vector: Vector,
        text: str,  # noqa: ARG002 - vectors can always be compared here
        limit: int,
        least: float,
        *,
        finished: bool,
    ) -> Neighbours:
        with self._database.planning_freely():
            return self._database.read(lambda tx: _similar(tx, scope, vector, limit, least, finished=finished))


def _keep(tx: Transaction, scope: str, vectors: Mapping[str, Vector | None]) -> None:
    """One at a time: two who keep the first ones could otherwise do so in different lengths."""
    tx.one("lock_vectors")
    keys = _keys(tx, scope, list(vectors))
    tx.run("drop_vectors", ([keys[task] for task, vector in vectors.items() if vector is None],))
    new = {keys[task]: vector for task, vector in vectors.items() if vector is not None}
    length = tx.value("vector_length")
    for vector in new.values():
        refuse_other_length(vector, length)
        length = len(vector)
    tx.run("put_vectors", (list(new), [packed(vector) for vector in new.values()]))


def _keys(tx: Transaction, scope: str, tasks: Sequence[str]) -> dict[str, int]:
    keys: dict[str, int] = {row[0]: row[1] for row in tx.all("keep_tasks", (scope, tasks))}
    for task in tasks:
        if task not in keys:
            raise NotFound(f"There is no task '{task}' in {scope}.")
    return keys


def _kept(tx: Transaction, scope: str, *, finished: bool) -> dict[str, Vector]:
    return {task: unpacked(bytes(unit)) for task, unit in tx.all("vectors", (scope, finished))}


def _similar(tx: Transaction, scope: str, vector: Vector, limit: int, least: float, *, finished: bool) -> Neighbours:
    refuse_other_length(vector, tx.value("vector_length"))
    there = [(task, bytes(unit)) for task, unit in tx.all("vectors", (scope, finished))]
    scores = dict(nearest(vector, there, limit, least))
    found = {task.id: task for task in map(task_from, tx.all("tasks_named", (list(scores), scope)))}
    return Neighbours(tuple(Neighbour(found[task], score) for task, score in scores.items()), "vector")
