"""The optional parts `vectors`, `settings` and `output` of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.search import nearest, packed, refuse_other_length, unpacked
from dibs.stores.reports import Neighbour, Neighbours
from dibs.stores.sql import transactions
from dibs.stores.sqlite.links import key_of
from dibs.stores.sqlite.rows import setting_from, to_json
from dibs.stores.sqlite.tasks import get

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.output import OutputPage
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Json
    from dibs.stores.sqlite.database import Database, Transaction


class SqliteVectors:
    """The optional part `vectors` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        self._database.change(lambda tx: _keep(tx, scope, vectors))

    def kept(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:
        with self._database.read() as tx:
            return {task: unpacked(unit) for task, unit in tx.all("vectors", {"scope": scope, "finished": finished})}

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
        with self._database.read() as tx:
            refuse_other_length(vector, tx.value("vector_length"))
            there = tx.all("vectors", {"scope": scope, "finished": finished})
            found = nearest(vector, there, limit, least)
            return Neighbours(tuple(Neighbour(get(tx, scope, task), score) for task, score in found), "vector")


def _keep(tx: Transaction, scope: str, vectors: Mapping[str, Vector | None]) -> None:
    keys = {task: key_of(tx, scope, task) for task in vectors}
    for task, vector in vectors.items():
        if vector is None:
            tx.run("drop_vector", (keys[task],))
    length = tx.value("vector_length")
    for task, vector in vectors.items():
        if vector is not None:
            refuse_other_length(vector, length)
            length = len(vector)
            tx.run("put_vector", (keys[task], packed(vector)))


class SqliteSettings:
    """The optional part `settings` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, scope: str) -> Mapping[str, Json]:
        with self._database.read() as tx:
            return transactions.settings(tx, scope, setting_from)

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._database.change(lambda tx: transactions.configure(tx, scope, changes, by, setting_from, to_json))


class SqliteOutput:
    """The optional part `output` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, scope: str, task: str, token: str, start: int, text: str) -> int:
        return self._database.change(lambda tx: _append(tx, scope, task, token, start, text))

    def read(self, scope: str, task: str, attempt: int | None, after: int) -> OutputPage:
        with self._database.read() as tx:
            return transactions.output_page(tx, get(tx, scope, task), key_of(tx, scope, task), attempt, after)


def _append(tx: Transaction, scope: str, task: str, token: str, start: int, text: str) -> int:
    found, key = get(tx, scope, task), key_of(tx, scope, task)
    return transactions.append_output(tx, found, key, token, start, text, tx.micros)
