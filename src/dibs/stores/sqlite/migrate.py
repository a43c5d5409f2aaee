"""The schema, as the sum of its migrations: a new file runs them all, an older one those it lacks."""

from __future__ import annotations

import os
import sqlite3

from dibs.core.errors import StoreUnavailable

_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
NEWEST = 9
APPLICATION_ID = 0x64696273  # "dibs", so that a stranger's database is never taken for ours


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Run what is missing, in one transaction; the caller holds the write turn."""
    connection.execute("PRAGMA page_size = 2048")  # a move dirties a handful of pages; small ones commit faster
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode not in {"wal", "memory"}:
        raise StoreUnavailable(
            f"The file system of {path} cannot share a database between processes. Use a local disk."
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, name in _migrations():
            if number > version:
                for statement in _statements(os.path.join(_FOLDER, name)):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {NEWEST}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _migrations() -> list[tuple[int, str]]:
    return sorted((int(name[:4]), name) for name in os.listdir(_FOLDER) if name.endswith(".sql"))


def _statements(path: str) -> list[str]:
    """A trigger is one statement, with others inside it."""
    found = [""]
    with open(path, encoding="utf-8") as file:
        for line in file:
            found[-1] += line
            if sqlite3.complete_statement(found[-1]):
                found.append("")
    return found[:-1]
