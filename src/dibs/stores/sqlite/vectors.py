"""Vectors of tasks, and the tasks closest to one. Exact, and quick for some thousand tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.vectors import nearest, packed, refuse_other_length, unpacked
from dibs.stores.reports import Neighbour, Neighbours
from dibs.stores.sqlite.links import key_of
from dibs.stores.sqlite.tasks import get

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.vectors import Vector
    from dibs.stores.sqlite.database import Database


class SqliteVectors:
    """The optional part `vectors` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        with self._database.write() as tx:
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
