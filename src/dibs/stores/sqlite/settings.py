"""Settings of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import telling
from dibs.core.settings import differing
from dibs.stores.sqlite.rows import setting_from, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Actor, Json
    from dibs.stores.sqlite.database import Database, Transaction


class SqliteSettings:
    """The optional part `settings` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, scope: str) -> Mapping[str, Json]:
        with self._database.read() as tx:
            return _settings(tx, scope)

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        with self._database.write() as tx:
            made = differing(_settings(tx, scope), changes)
            for name, value in made.items():
                put = (
                    ("drop_setting", (scope, name)) if value is None else ("put_setting", (scope, name, to_json(value)))
                )
                tx.run(*put)
            if made:
                tx.record(telling.configured(scope, made, by, tx.now))
            return _settings(tx, scope)


def _settings(tx: Transaction, scope: str) -> dict[str, Json]:
    return dict(setting_from(row) for row in tx.all("settings", (scope,)))
