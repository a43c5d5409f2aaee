"""Schemas for the tests' stores, and a clock that the server itself goes by.

Making a schema takes longer than most tests. Those that have been used are emptied and used again; when the tests are
over, all are dropped.
"""

from __future__ import annotations

import atexit
import os
import weakref
from functools import cache
from typing import TYPE_CHECKING

import psycopg2

from dibs.stores.postgres.store import PostgresStore
from support.clock import Clock
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

_free: list[str] = []
_made: list[str] = []


@cache
def _admin() -> Cursor:
    """A connection of the tests' own. The clocks are kept in a schema beside those of the stores."""
    connection = psycopg2.connect(shared_url())
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute(f"CREATE SCHEMA {_clocks()}")
    cursor.execute(f"CREATE TABLE {_clocks()}.clock (number serial PRIMARY KEY, at timestamptz NOT NULL)")
    atexit.register(_drop_all)
    return cursor


def _clocks() -> str:
    return f"dibs_test_{os.getpid()}_clocks"


def _drop_all() -> None:
    try:
        for schema in (*_made, _clocks()):
            _admin().execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
    except psycopg2.Error:
        return  # the server is gone, and the schemas with it
    _admin().connection.close()


class ServerClock(Clock):
    """A clock for every connection to a schema that was made for it, of this process or another."""

    def __init__(self) -> None:
        self._number = 0
        super().__init__()
        _admin().execute(f"INSERT INTO {_clocks()}.clock (at) VALUES (%s) RETURNING number", (self.time,))
        self._number = (_admin().fetchone() or (0,))[0]

    @property
    def time(self) -> datetime:
        return self._time

    @time.setter
    def time(self, moment: datetime) -> None:
        self._time = moment
        if self._number:
            _admin().execute(f"UPDATE {_clocks()}.clock SET at = %s WHERE number = %s", (moment, self._number))

    @property
    def query(self) -> str:
        return f"SELECT at FROM {_clocks()}.clock WHERE number = {self._number}"


def fresh_schema(clock: Clock) -> str:
    """An empty schema whose stores live by this clock; it is free again when the clock is forgotten."""
    schema = _free.pop() if _free else _new_schema()
    assert isinstance(clock, ServerClock)
    _admin().execute(
        f"SET search_path = {schema}; DELETE FROM link; DELETE FROM task; DELETE FROM event; DELETE FROM agent;"
        "DELETE FROM setting; DELETE FROM member;"
        "CREATE OR REPLACE FUNCTION desk_now() RETURNS timestamptz LANGUAGE sql STABLE"
        f" AS '{clock.query}'"
    )
    weakref.finalize(clock, _free.append, schema)
    return schema


def _new_schema() -> str:
    schema = f"dibs_test_{os.getpid()}_{len(_made)}"
    _made.append(schema)
    _admin()
    PostgresStore(shared_url(), schema=schema, create=True).close()
    return schema
