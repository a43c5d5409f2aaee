"""The schema as the sum of its migrations, and the errors of the driver as errors of dibs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dibs.core.errors import (
    Misconfigured,
    NoStore,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreUnavailable,
)

if TYPE_CHECKING:
    import psycopg2
    import psycopg2.extensions

    from dibs.stores.postgres.connection import Target

_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
OLDEST = 8  # those before it were never released
NEWEST = 9
OLDEST_SERVER = 15


def version_of(cursor: psycopg2.extensions.cursor, target: Target) -> int:
    """0 where there is none. Asked of the catalog itself: what a session believes to know of it may be out of date."""
    cursor.execute(
        "SELECT has_schema_privilege(relnamespace, 'USAGE'), current_user FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relname = 'schema_version'",
        (target.schema,),
    )
    row = cursor.fetchone()
    if row is None:
        return 0
    usable, role = row
    if not usable:
        raise Misconfigured(
            f"There is a store at {target.place}, but the role '{role}' has no USAGE on its schema '{target.schema}'. "
            "The schema's owner grants it, with the other rights that the how-to page for PostgreSQL lists."
        )
    cursor.execute(f"SELECT max(version) FROM {target.schema}.schema_version")  # noqa: S608 - a name that `target_of` checked
    row = cursor.fetchone()
    return row[0] if row else 0


def id_of(cursor: psycopg2.extensions.cursor, target: Target, version: int) -> str | None:
    """Which store is in the schema now."""
    if version < OLDEST:
        return None
    cursor.execute(f"SELECT id FROM {target.schema}.store")  # noqa: S608 - a name that `target_of` checked
    row = cursor.fetchone()
    return row[0] if row else None


def refuse_old_server(number: int, place: str) -> None:
    """Refuse a server that lacks what the migrations need. Its number is `server_version_num`, such as 140012."""
    if number < OLDEST_SERVER * 10_000:
        raise Misconfigured(
            f"The server at {place} is PostgreSQL {number // 10_000}; dibs needs PostgreSQL {OLDEST_SERVER} or newer. "
            "Nothing was changed. Upgrade the server, or use another store."
        )


def migrate(cursor: psycopg2.extensions.cursor, target: Target) -> None:
    """Run what is missing, in one transaction. Of two hosts that start at once, one waits and finds it done."""
    refuse_old_server(cursor.connection.server_version, target.place)
    schema = target.schema
    cursor.execute("BEGIN")
    try:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('dibs migration ' || %s, 0))", (schema,))
        version = version_of(cursor, target)
        if version == 0:
            cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        cursor.execute("SELECT set_config('search_path', %s, true)", (schema,))
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


WRONG_VERSION = "DB001"  # raised by the function `enter`
_WRONG_SESSION = "DB003"  # likewise
_ANOTHER_STORE = "DB004"  # raised by the function `recognised`
_NOTHING_THERE = frozenset({"3F000", "42P01", "42883"})  # no such schema, table, function
NOT_ALLOWED = "42501"
_CANCELED = "57014"

_NOT_YET = (
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is in recovery mode",
    "the database system is not accepting connections",
    "the database system is not yet accepting connections",
)

# The server chose one of several transactions to give way; nothing of it was done.
GAVE_WAY = frozenset({"40001", "40P01"})


def says_schema(error: psycopg2.Error) -> bool:
    """Whether the schema is not there, not to be used by this role, or not the one this code was made for."""
    return error.pgcode in {WRONG_VERSION, NOT_ALLOWED} or error.pgcode in _NOTHING_THERE


def no_store(place: str) -> NoStore:
    return NoStore(f"There is no store at {place}. 'dibs init --store URL' makes one.")


def replaced(place: str, *, gone: bool) -> StoreReplaced:
    what = "gone: it was dropped or renamed" if gone else "another store than the one that was opened: it was made"
    return StoreReplaced(
        f"{place} is {what} while it was open. Nothing was written. Restart this program to use the new content."
    )


def too_new(place: str, version: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"{place} was written by a newer dibs (schema {version}, this one knows {NEWEST}). Upgrade dibs."
    )


def too_old(place: str, version: int) -> StoreError:
    return StoreError(
        f"{place} was made by a dibs from before its first release (schema {version}); this one reads {OLDEST} and "
        "newer. Export it with the dibs that made it ('dibs export --secrets'), and import the file into a new store."
    )


def unavailable(place: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(f"Cannot reach {place}: {why}. Check that the server runs and may be reached.")


def not_connected(place: str, error: psycopg2.Error) -> StoreError:
    """StoreBusy if the server has no free connection, else StoreUnavailable with libpq's message."""
    told = first_line(error)
    if "too many connections" in told or "connection slots" in told:
        return StoreBusy(f"{place} has no connection left: {told}. Try again in a moment.", retry_after_ms=1000)
    return unavailable(place, told)


def starts(error: StoreError) -> bool:
    """Whether the server refused the connection because it starts, stops or recovers; libpq has no code for it."""
    return any(word in error.message for word in _NOT_YET)


def first_line(error: BaseException) -> str:
    """What the server or libpq said, on one line and without its full stop or the statement."""
    return " ".join(re.split(r"\n(?:LINE \d+|CONTEXT):", str(error))[0].split()).rstrip(".") or type(error).__name__


def translated(error: psycopg2.Error, place: str) -> StoreError:
    code = error.pgcode or ""
    told = first_line(error)
    if code in GAVE_WAY or code in {"55P03", "53300"}:
        return StoreBusy(f"{place} is busy with other writers. Try again in a moment.", retry_after_ms=1000)
    if code == "25006":
        return StoreReadOnly(
            f"{place} cannot be written: {told}. Either the server is a standby, or the role's sessions are read-only. "
            "Use the primary's address: with several hosts in the URL dibs finds it."
        )
    if code == NOT_ALLOWED:
        return StoreReadOnly(f"{place} refused the role: {told}. Grant it what the how-to page for PostgreSQL lists.")
    if code == _CANCELED:
        return StoreBusy(
            f"{place} canceled a statement before it was done: {told}. Nothing was changed. Try again in a moment; if "
            "it persists, raise the role's or the database's statement_timeout.",
            retry_after_ms=1000,
        )
    if code == _ANOTHER_STORE:
        return replaced(place, gone=False)
    if code == _WRONG_SESSION:
        return StoreUnavailable(
            f"{place} gave a session that dibs cannot work in: {told}. Nothing was changed. Check the settings of the "
            "role, the database and the pooler."
        )
    if code in {"53100", "53200"}:
        return StoreFull(f"No room left for {place}: {told}. Free some space and try again; nothing was changed.")
    if code in {"XX001", "XX002"}:
        return StoreCorrupt(f"{place} is damaged: {told}. Restore it from an export or a backup.")
    if not code or code[:2] in {"08", "57"}:
        return unavailable(place, told)
    # Not in the server's words: they may hold values of a row, a token among them.
    return StoreError(f"{place} refused a statement ({type(error).__name__}, {code}). See the server's log.")
