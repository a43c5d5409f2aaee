"""Settings of a scope: one node, with a property for each as far as Neo4j can hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import events
from dibs.core.errors import AlreadyExists
from dibs.core.settings import Setting, differing
from dibs.stores.neo4j.rows import SENSELESS, gathered, senseless, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dibs.core.task import Actor, Json
    from dibs.stores.neo4j.database import Database
    from dibs.stores.neo4j.transaction import Transaction

_TAKEN = frozenset({"desk", "sender_hash", "extra"})


class Neo4jSettings:
    """The optional part `settings` of the port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, scope: str) -> Mapping[str, Json]:
        return self._database.read(lambda tx: settings(tx, scope))

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._database.write(lambda tx: _change(tx, scope, changes, by), scopes=[scope], lock="make_scopes")


def settings(tx: Transaction, scope: str) -> dict[str, Json]:
    row = tx.one("settings", scope=scope)
    try:
        return {} if row is None else dict(sorted(gathered(row["settings"], _TAKEN, "extra").items()))
    except SENSELESS as error:
        raise senseless("configuration of", scope) from error


def _change(tx: Transaction, scope: str, changes: Mapping[str, Json], by: Actor) -> dict[str, Json]:
    """Changes that change nothing leave no trace."""
    before = settings(tx, scope)
    made = differing(before, changes)
    if not made:
        return before
    tx.record(events.configured(scope, made, by, tx.now))
    return _put(tx, scope, {name: value for name, value in {**before, **made}.items() if value is not None})


def restore(tx: Transaction, scope: str, given: Iterable[Setting]) -> None:
    known = settings(tx, scope)
    for name, value in given:
        if name in known:
            raise AlreadyExists(f"There is a setting '{name}' in {scope} already.")
        known[name] = value
    _put(tx, scope, known)


def _put(tx: Transaction, scope: str, values: Mapping[str, Json]) -> dict[str, Json]:
    own = {"desk": tx.desk, "sender_hash": scope}
    tx.all("put_settings", scope=scope, values={**spread(values, _TAKEN, "extra"), **own})
    return settings(tx, scope)
