"""Races of several hosts that create or open the same new store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.stores.postgres.store import PostgresStore
from interleave.stepper import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interleave.postgres.stage import Stage

_WHAT_IS_THERE = """
SELECT 'column', table_name || '.' || column_name, data_type FROM information_schema.columns WHERE table_schema = %(in)s
UNION ALL SELECT 'index', indexname, replace(indexdef, %(in)s, '') FROM pg_indexes WHERE schemaname = %(in)s
UNION ALL SELECT 'function', regexp_replace(proname, '^store_[0-9a-f]+$', 'the id'), prosrc
FROM pg_proc WHERE pronamespace = %(in)s::regnamespace
ORDER BY 1, 2, 3
"""
_MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('dibs migration ' || %s, 0))"


@pytest.fixture
def new_schema(theatre: Stage) -> Iterator[Callable[[], str]]:
    """Names of schemas that do not exist yet."""
    name = f"{theatre.conductor.schema}_new"
    drop = f"DROP SCHEMA IF EXISTS {name} CASCADE"

    def fresh() -> str:
        theatre.conductor.cursor.execute(drop)
        return name

    yield fresh
    theatre.conductor.cursor.execute(drop)
    for player in theatre.players:
        player.close()


def there(scene: Stage, schema: str) -> list[tuple[str, ...]]:
    scene.conductor.cursor.execute(_WHAT_IS_THERE, {"in": schema})
    return scene.conductor.cursor.fetchall()


def places_of_making(scene: Stage, schema: str) -> int:
    player = scene.players[0]
    player.start_opening(schema, create=True)
    assert player.finish() == Answer()
    return len(player.places)


def meeting(scene: Stage, schema: str, at: int, rewrites: dict[str, str], *, create: bool) -> list[Answer]:
    one, other = scene.players[:2]
    one.start_opening(schema, create=True, stop=at, rewrites=rewrites)
    other.start_opening(schema, create=create, rewrites=rewrites)
    one.let_go()
    return [one.finish(), other.finish()]


def test_concurrent_creations_of_a_store_both_succeed(theatre: Stage, new_schema: Callable[[], str]) -> None:
    schema = new_schema()
    places = places_of_making(theatre, schema)
    alone = there(theatre, schema)
    for at in range(1, places + 1):
        schema = new_schema()
        assert meeting(theatre, schema, at, {}, create=True) == [Answer(), Answer()], at
        assert there(theatre, schema) == alone
        with PostgresStore(theatre.conductor.url, schema=schema) as store:
            assert store.check(fix=False) == []


def test_open_during_creation_succeeds_or_reports_no_store(theatre: Stage, new_schema: Callable[[], str]) -> None:
    places = places_of_making(theatre, new_schema())
    codes = set()
    for at in range(1, places + 1):
        made, opened = meeting(theatre, new_schema(), at, {}, create=False)
        assert made == Answer(), at
        codes.add(opened.code)
    assert codes <= {None, "NO_STORE"}


def test_concurrent_creations_without_their_lock_fail(theatre: Stage, new_schema: Callable[[], str]) -> None:
    careless = {_MIGRATION_LOCK: "SELECT %s"}
    places = places_of_making(theatre, new_schema())
    assert any(
        answer.code
        for at in range(1, places + 1)
        for answer in meeting(theatre, new_schema(), at, careless, create=True)
    )
