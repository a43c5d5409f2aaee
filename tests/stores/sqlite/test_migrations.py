"""The schema is the sum of its migrations. Concurrent processes upgrade a store once and completely."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import SchemaTooNew, StoreError
from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.stores.sqlite import migrate
from dibs.stores.sqlite.store import SqliteStore
from interleave import mutants
from interleave.stepper import Order, Paused, settle
from support.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

    from interleave.stepper import Player

BROKEN = "CREATE TABLE next_one (a ANY) STRICT;\nCREATE TABLE task (again);\n"
GOOD = "CREATE TABLE next_one (a ANY) STRICT;\nCREATE INDEX next_index ON next_one (a);\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store of today's schema, with a task in it."""
    place = str(tmp_path / "dibs.db")
    with Desk(SqliteStore(place, create=True), scope="s", by=Actor("tester")) as desk:
        desk.add([Draft("A", "a")])
    return place


def look(path: str, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def schema(path: str) -> list[tuple[object, ...]]:
    return look(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")


def version(path: str) -> object:
    return look(path, "PRAGMA user_version")[0][0]


@pytest.fixture
def upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """This process is a newer dibs; the folder of its migrations."""
    folder = str(tmp_path / "migrations")
    shutil.copytree(migrate._FOLDER, folder)
    monkeypatch.setattr(migrate, "_FOLDER", folder)
    monkeypatch.setattr(migrate, "NEWEST", migrate.NEWEST + 1)
    return folder


def write_next(folder: str, text: str) -> None:
    with open(os.path.join(folder, f"{migrate.NEWEST:04}_next.sql"), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_new_store_is_the_sum_of_all_migrations(path: str, tmp_path: Path) -> None:
    by_hand = str(tmp_path / "by-hand.db")
    connection = sqlite3.connect(by_hand)
    for _, name in migrate._migrations():
        with open(os.path.join(migrate._FOLDER, name), encoding="utf-8") as file:
            connection.executescript(file.read())
    connection.close()
    assert schema(path) == schema(by_hand)


@pytest.mark.parametrize("number", range(1, migrate.NEWEST))
def test_store_of_any_older_schema_is_migrated(path: str, tmp_path: Path, number: int) -> None:
    older = str(tmp_path / "older.db")
    connection = sqlite3.connect(older)
    for _, name in migrate._migrations()[:number]:
        with open(os.path.join(migrate._FOLDER, name), encoding="utf-8") as file:
            connection.executescript(file.read())
    connection.executescript(f"PRAGMA user_version = {number}; PRAGMA application_id = {migrate.APPLICATION_ID}")
    connection.close()
    with SqliteStore(older) as store:
        assert store.check(fix=False) == []
    assert (schema(older), version(older)) == (schema(path), migrate.NEWEST)


def test_migrations_are_numbered_without_gaps_up_to_the_newest(path: str) -> None:
    assert [number for number, _ in migrate._migrations()] == list(range(1, migrate.NEWEST + 1))
    assert version(path) == migrate.NEWEST
    assert look(path, "PRAGMA application_id") == [(migrate.APPLICATION_ID,)]
    assert look(path, "PRAGMA journal_mode") == [("wal",)]


def test_opening_an_up_to_date_store_writes_nothing(path: str) -> None:
    before = os.stat(path).st_mtime_ns
    SqliteStore(path).close()
    SqliteStore(path, create=True).close()
    assert os.stat(path).st_mtime_ns == before


def test_migration_keeps_the_content(path: str, upgraded: str) -> None:
    write_next(upgraded, GOOD)
    with SqliteStore(path) as store:
        assert store.get("s", "a").title == "A"
        assert store.check(fix=False) == []
    assert version(path) == migrate.NEWEST
    assert ("next_index",) in look(path, "SELECT name FROM sqlite_master")


def test_an_older_dibs_refuses_an_upgraded_store(path: str, upgraded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_next(upgraded, GOOD)
    SqliteStore(path).close()
    monkeypatch.undo()
    with pytest.raises(SchemaTooNew) as refused:
        SqliteStore(path)
    assert path in refused.value.message


def test_failed_migration_leaves_the_store_unchanged(path: str, upgraded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_next(upgraded, BROKEN)
    before = schema(path)
    with pytest.raises(StoreError) as failed:
        SqliteStore(path)
    assert path in failed.value.message
    assert schema(path) == before
    monkeypatch.undo()
    with Desk(SqliteStore(path), scope="s") as desk:
        assert version(path) == migrate.NEWEST
        assert desk.claim("ann")[0].task.id == "a"
        assert desk.check() == []


def test_failed_migration_can_be_retried_after_a_fix(path: str, upgraded: str) -> None:
    write_next(upgraded, BROKEN)
    for _ in range(2):
        with pytest.raises(StoreError):
            SqliteStore(path)
    write_next(upgraded, GOOD)
    SqliteStore(path).close()
    assert version(path) == migrate.NEWEST


def test_failed_open_leaks_no_descriptor(path: str, upgraded: str) -> None:
    write_next(upgraded, BROKEN)
    for _ in range(10):
        with suppress(StoreError):
            SqliteStore(path)
    gc.collect()
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    assert [target for target in map(target_of, links) if target.startswith(path)] == []


def target_of(link: str) -> str:
    """The file a link names; empty if the link has gone."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def test_concurrent_upgrades_migrate_once_at_every_boundary(
    path: str, upgraded: str, players: tuple[Player, ...], tmp_path: Path
) -> None:
    write_next(upgraded, GOOD)
    place = str(tmp_path / "copy.db")
    become_newer = partial(mutants.one_more_migration, upgraded)
    order = Order(place, None, Clock(), mutant=become_newer)
    one, other = players[:2]
    statement, going = 0, True
    while going:
        statement += 1
        shutil.copyfile(path, place)
        one.start(order)
        going = isinstance(one.run_to(statement), Paused)
        other.start(order)
        answers = settle(one, other)
        assert [getattr(answer, "code", answer) for answer in answers] == [None, None], statement
        assert version(place) == migrate.NEWEST
        with SqliteStore(place) as store:
            assert store.check(fix=False) == []
    assert statement > 10
