"""The schema, as the sum of its migrations: a new one runs them all, an older one those it lacks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg2.extensions

_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
NEWEST = 4


def version_of(cursor: psycopg2.extensions.cursor, schema: str) -> int:
    """0 where there is none. Asked of the catalog itself: what a session believes to know of it may be out of date."""
    cursor.execute(
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = %s AND relname = 'schema_version'",
        (schema,),
    )
    if cursor.fetchone() is None:
        return 0
    cursor.execute("SELECT max(version) FROM schema_version")
    row = cursor.fetchone()
    return row[0] if row else 0


def migrate(cursor: psycopg2.extensions.cursor, schema: str) -> None:
    """Run what is missing, in one transaction. Of two hosts that start at once, one waits and finds it done."""
    cursor.execute("BEGIN")
    try:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('dibs migration ' || %s, 0))", (schema,))
        version = version_of(cursor, schema)
        if version == 0:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for number, name in _migrations():
            if number > version:
                with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
                    cursor.execute(file.read())
        if version < NEWEST:
            cursor.execute("DELETE FROM schema_version")
            cursor.execute("INSERT INTO schema_version VALUES (%s)", (NEWEST,))
        cursor.execute("COMMIT")
    except BaseException:
        if not cursor.connection.closed:
            cursor.execute("ROLLBACK")
        raise


def _migrations() -> list[tuple[int, str]]:
    return sorted((int(name[:4]), name) for name in os.listdir(_FOLDER) if name.endswith(".sql"))
