"""The page of the PostgreSQL schema has every table, column and index that there is, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.postgres.store import PostgresStore
from docs.test_reference import coded, page, rows, sections
from support.postgres_schemas import ServerClock, fresh_schema
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

_COLUMNS = """
    SELECT relation.relname, attribute.attname, format_type(attribute.atttypid, attribute.atttypmod)
    FROM pg_attribute AS attribute JOIN pg_class AS relation ON relation.oid = attribute.attrelid
    WHERE relation.relnamespace = %s::regnamespace AND relation.relkind = 'r'
      AND attribute.attnum > 0 AND NOT attribute.attisdropped
"""
_INDEXES = """
    SELECT tablename, indexname FROM pg_indexes
    WHERE schemaname = %s AND indexname NOT LIKE '%%_pkey' AND indexname NOT LIKE '%%_key'
"""


def test_the_page_has_every_table_column_and_index(admin: Cursor) -> None:
    clock = ServerClock()  # reserves the schema while it exists
    schema = fresh_schema(clock)
    with PostgresStore(shared_url(), schema=schema) as store:
        version = store.describe()["schema"].rpartition(" ")[2]
    admin.execute(_COLUMNS, (schema,))
    columns = {(table, name, kind.replace("timestamp with time zone", "timestamptz")) for table, name, kind in admin}
    admin.execute(_INDEXES, (schema,))
    indexes = {*admin}
    found = sections(page("postgresql-schema.md"))
    tables = {(table, cells) for table, text in found.items() for cells in map(tuple, rows(text)) if coded(cells[0])}
    assert {
        (table, name, cells[1]) for table, cells in tables if len(cells) == 3 for name in coded(cells[0])
    } == columns
    assert {(table, coded(cells[0])[0]) for table, cells in tables if len(cells) == 2} | {
        ("link", "link_on")
    } == indexes
    assert "`link_on`" in found["link"]
    assert f"has the version, {version}." in page("postgresql-schema.md")
