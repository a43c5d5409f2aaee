"""The optional parts `settings`, `vectors` and `output` of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import NotFound
from dibs.core.search import nearest, packed, refuse_other_length, unpacked
from dibs.stores.postgres.rows import KEY, setting_from, task_from, to_json
from dibs.stores.reports import Neighbour, Neighbours
from dibs.stores.sql import transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.core.output import OutputPage
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Json
    from dibs.stores.postgres.database import Database
    from dibs.stores.postgres.transaction import Transaction


class PostgresSettings:
    """The optional part `settings` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, scope: str) -> Mapping[str, Json]:
        return self._database.read(lambda tx: transactions.settings(tx, scope, setting_from))

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._database.write(lambda tx: _change(tx, scope, changes, by))


def _change(tx: Transaction, scope: str, changes: Mapping[str, Json], by: Actor) -> dict[str, Json]:
    tx.lock_scope(scope)
    return transactions.configure(tx, scope, changes, by, setting_from, to_json)


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
    """Under a lock, because concurrent first vectors could differ in length."""
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


class PostgresOutput:
    """The optional part `output` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, scope: str, task: str, token: str, start: int, text: str) -> int:
        return self._database.write(lambda tx: _append(tx, scope, task, token, start, text))

    def read(self, scope: str, task: str, attempt: int | None, after: int) -> OutputPage:
        return self._database.read(lambda tx: _page(tx, scope, task, attempt, after))


def _page(tx: Transaction, scope: str, task: str, attempt: int | None, after: int) -> OutputPage:
    row = tx.one("tasks_named", ([task], scope))
    if row is None:
        raise NotFound(f"There is no task '{task}' in {scope}.")
    return transactions.output_page(tx, task_from(row), row[KEY], attempt, after)


def _append(tx: Transaction, scope: str, task: str, token: str, start: int, text: str) -> int:
    row = tx.one("lock_task", (scope, task))
    if row is None:
        raise NotFound(f"There is no task '{task}' in {scope}.")
    return transactions.append_output(tx, task_from(row), row[KEY], token, start, text, tx.now)
