"""The optional parts `settings`, `vectors` and `output` of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events, output
from dibs.core.errors import NotFound
from dibs.core.search import nearest, packed, refuse_other_length, unpacked
from dibs.core.settings import Setting, differing
from dibs.stores.postgres.rows import KEY, from_json, task_from, to_json
from dibs.stores.reports import Neighbour, Neighbours

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
        return self._database.read(lambda tx: _settings(tx, scope))

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._database.write(lambda tx: _change(tx, scope, changes, by))


def _settings(tx: Transaction, scope: str) -> dict[str, Json]:
    return dict(Setting(name, from_json(value)) for name, value in tx.all("settings", (scope,)))


def _change(tx: Transaction, scope: str, changes: Mapping[str, Json], by: Actor) -> dict[str, Json]:
    """Write only actual changes."""
    tx.lock_scope(scope)
    made = differing(_settings(tx, scope), changes)
    for name, value in made.items():
        put = ("drop_setting", (scope, name)) if value is None else ("put_setting", (scope, name, to_json(value)))
        tx.run(*put)
    if made:
        tx.record(events.configured(scope, made, by, tx.now))
    return _settings(tx, scope)


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
    found = task_from(row)
    number = found.attempt if attempt is None else attempt
    kept = (output.OutputPiece(*piece) for piece in tx.all("output_from", (row[KEY], number, after)))
    attempts = (each[0] for each in tx.all("output_attempts", (row[KEY],)))
    return output.page(found, number, kept, after, attempts, tx.now)


def _append(tx: Transaction, scope: str, task: str, token: str, start: int, text: str) -> int:
    """The task's row is locked: of two that append for one attempt, the second sees what the first has kept."""
    row = tx.one("lock_task", (scope, task))
    if row is None:
        raise NotFound(f"There is no task '{task}' in {scope}.")
    found, key = task_from(row), row[KEY]
    output.refuse_other_attempt(found, token)
    end: int = tx.value("output_end", (key, found.attempt))
    if not end:
        tx.run("drop_early_output", (key, found.attempt - output.ATTEMPTS))
    for piece in output.pieces(start, text, end):
        end = piece.end
        tx.run("put_output", (key, found.attempt, piece.start, end - piece.start, tx.now, piece.text))
    tx.run("drop_middle_of_output", (key, found.attempt, output.HEAD, end - output.TAIL))
    return end
