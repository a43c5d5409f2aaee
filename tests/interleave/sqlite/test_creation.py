"""Races of several processes that create or open the same new store."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.stores.sqlite.store import SqliteStore
from interleave import acts
from interleave.stepper import PATIENCE, Order, Paused, Waiting, settle
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interleave.stepper import Player, Sign


def opening(path: str, *, create: bool = True) -> Order:
    return Order(path, None, Clock(), create=create)


def schema_of(path: str) -> list[tuple[str, str]]:
    """A database without its rows."""
    connection = sqlite3.connect(path)
    try:
        found = [(name, sql) for name, sql in connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name")]
        versions = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
        return [*found, ("versions", str(versions))]
    finally:
        connection.close()


@pytest.fixture
def one_at_a_time(tmp_path: Path) -> list[tuple[str, str]]:
    path = str(tmp_path / "alone.db")
    SqliteStore(path, create=True, durable=False).close()
    return schema_of(path)


def schedules(players: tuple[Player, ...], folder: Path, *, create: bool) -> Iterator[tuple[str, Sign, Sign]]:
    """Every pair of pauses: the first before its n-th statement, the second before its m-th."""
    one, other = players[:2]
    statement = 0
    first_runs_on = True
    while first_runs_on:
        statement += 1
        until = 1
        while True:
            path = str(folder / f"{statement}-{until}.db")
            one.start(opening(path))
            first_runs_on = isinstance(one.run_to(statement), Paused)
            other.start(opening(path, create=create))
            stood = other.run_to(until)
            first, second = settle(one, other)
            yield path, first, second
            if isinstance(stood, Waiting) or not isinstance(stood, Paused):
                break
            until += 1


def test_concurrent_creations_succeed_at_every_statement(
    players: tuple[Player, ...], tmp_path: Path, one_at_a_time: list[tuple[str, str]]
) -> None:
    wrong = []
    for path, first, second in schedules(players, tmp_path, create=True):
        if getattr(first, "code", "") is not None or getattr(second, "code", "") is not None:
            wrong.append((os.path.basename(path), first, second))
            continue
        assert schema_of(path) == one_at_a_time
        with SqliteStore(path, durable=False) as store:
            assert store.check(fix=False) == []
    assert wrong == []


def test_open_during_creation_succeeds_or_reports_no_store(
    players: tuple[Player, ...], tmp_path: Path, one_at_a_time: list[tuple[str, str]]
) -> None:
    wrong = []
    for path, first, second in schedules(players, tmp_path, create=False):
        if getattr(first, "code", "") is not None or getattr(second, "code", "") not in {None, "NO_STORE"}:
            wrong.append((os.path.basename(path), first, second))
        assert schema_of(path) == one_at_a_time
    assert wrong == []


def test_four_concurrent_creators_lose_no_task(
    players: tuple[Player, ...], tmp_path: Path, one_at_a_time: list[tuple[str, str]]
) -> None:
    for attempt in range(10):
        path = str(tmp_path / f"{attempt}.db")
        for number, player in enumerate(players):
            act = partial(acts.add_one, task=f"t{number}")
            player.send(Order(path, act, Clock(), PATIENCE, create=True, stepwise=False))
        for player in players:
            assert player.finish().code is None
        assert schema_of(path) == one_at_a_time
        with SqliteStore(path, durable=False) as store:
            assert store.match("s", "t", 9) == ["t0", "t1", "t2", "t3"]
            assert store.check(fix=False) == []
