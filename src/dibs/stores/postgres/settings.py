"""Settings of a scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import telling
from dibs.core.settings import Setting, differing
from dibs.stores.postgres.rows import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Changes that change nothing leave no trace."""
    tx.lock_scope(scope)
    made = differing(_settings(tx, scope), changes)
    for name, value in made.items():
        put = ("drop_setting", (scope, name)) if value is None else ("put_setting", (scope, name, to_json(value)))
        tx.run(*put)
    if made:
        tx.record(telling.configured(scope, made, by, tx.now))
    return _settings(tx, scope)
