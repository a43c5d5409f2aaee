"""SQLite's check finds every wrong derived value, and corrects it only with `fix`."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreCorrupt
from dibs.core.task import Edit, Status
from dibs.stores.port import EventQuery
from dibs.stores.sqlite.store import SqliteStore
from dibs.testing.conformance.builders import (
    MAKER,
    SCOPE,
    add,
    amend,
    blocks,
    claim,
    claim_ids,
    draft,
    finish,
    get,
    hold,
    link,
    no_trace,
    only,
    peek_ids,
    settings_of,
    vectors_of,
    verbs,
)

from .harness import SqliteHarness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dibs.stores.port import Store


@pytest.fixture
def harness(tmp_path: Path) -> SqliteHarness:
    return SqliteHarness(str(tmp_path))


@pytest.fixture
def store(harness: SqliteHarness) -> Store:
    """a is done, b waits for c, d is early, e is held, f is p's child."""
    store = harness.open()
    add(store, "a", "b", "c", draft("d", not_before=store.now().replace(year=2100)), "e", "p", draft("f", parent="p"))
    finish(store, "a")
    hold(store, "e")
    link(store, blocks("b", "a"), blocks("b", "c"))
    vectors_of(store).keep(SCOPE, {"a": (1.0,), "b": (1.0,)})
    settings_of(store).change(SCOPE, {"x": 1}, MAKER)
    return store


@pytest.fixture
def damage(store: Store) -> Callable[..., None]:
    """Writes behind the store's back."""

    def run(*statements: str) -> None:
        with closing(sqlite3.connect(store.describe()["place"])) as connection:
            for statement in statements:
                assert connection.execute(statement).rowcount > 0
            connection.commit()

    return run


def rows(store: Store) -> list[tuple[object, ...]]:
    """All rows of the file, unparsed: a damaged one may not be readable as a task."""
    with closing(sqlite3.connect(store.describe()["place"])) as connection:
        tables = ("task", "link", "event", "vector", "setting")
        return [row for table in tables for row in connection.execute(f"SELECT * FROM {table}")]


REPAIRABLE = {
    "blockers too high": "UPDATE task SET blockers = 2 WHERE id = 'b'",
    "blockers too low": "UPDATE task SET blockers = 0 WHERE id = 'b'",
    "blockers from nowhere": "UPDATE task SET blockers = 1, opens_at = NULL WHERE id = 'c'",
    "a ready task that cannot be claimed": "UPDATE task SET opens_at = NULL WHERE id = 'c'",
    "a waiting task that can": "UPDATE task SET opens_at = 9223372036854775807 WHERE id = 'b'",
    "an early task that can": "UPDATE task SET opens_at = 9223372036854775807 WHERE id = 'd'",
    "an early task that never wakes": "UPDATE task SET opens_at = NULL WHERE id = 'd'",
    "an early task that wakes too early": "UPDATE task SET opens_at = opens_at - 1 WHERE id = 'd'",
    "a held task that can be claimed": "UPDATE task SET opens_at = 9223372036854775807 WHERE id = 'e'",
    "a held task that never wakes": "UPDATE task SET opens_at = NULL WHERE id = 'e'",
    "a held task that wakes too late": "UPDATE task SET opens_at = opens_at + 1 WHERE id = 'e'",
    "a finished task that can be claimed": "UPDATE task SET opens_at = 9223372036854775807 WHERE id = 'a'",
    "a finished task that wakes": "UPDATE task SET opens_at = 1 WHERE id = 'a'",
    "a held task that counts as set aside": "UPDATE task SET aside = 'active' WHERE id = 'e'",
    "a finished task that counts as set aside": "UPDATE task SET aside = 'done' WHERE id = 'a'",
    "a waiting task that is in no listing": "UPDATE task SET aside = NULL WHERE id = 'b'",
    "a link from nowhere": "INSERT INTO link SELECT 99, key, 'blocks', 1.0, 'x', 1.0 FROM task WHERE id = 'a'",
    "a link to nowhere": "INSERT INTO link SELECT key, 99, 'feeds_into', 1.0, 'x', 1.0 FROM task WHERE id = 'a'",
    "a parent that is not there": "UPDATE task SET parent = 'nowhere' WHERE id = 'f'",
}


@pytest.mark.parametrize("statement", REPAIRABLE.values(), ids=REPAIRABLE)
def test_derived_data_is_checked_and_repaired_on_request(
    store: Store, damage: Callable[..., None], statement: str
) -> None:
    assert store.check(fix=False) == []
    damage(statement)
    with no_trace(store):
        found = store.check(fix=False)
        assert found
        assert all(finding.fixable and not finding.fixed for finding in found)
    fixed = store.check(fix=True)
    assert [finding._replace(fixed=False) for finding in fixed] == found
    assert all(finding.fixed for finding in fixed)
    assert store.check(fix=False) == []
    assert store.check(fix=True) == []
    assert peek_ids(store) == ["c", "f", "p"]
    assert get(store, "b").blockers == 1
    repairs = [event for event in store.events(EventQuery()) if event.verb == "repair"]
    assert len(repairs) == 1


BEYOND_REPAIR = {
    "a class that does not exist": "UPDATE task SET class_rank = 5 WHERE id = 'a'",
    "an override that is neither": "UPDATE task SET override_rank = 2 WHERE id = 'a'",
    "a place in the queue before all time": "UPDATE task SET queued_at = 0 WHERE id = 'a'",
    "a birth before all time": "UPDATE task SET created_at = 0 WHERE id = 'a'",
    "an active task without a holder": "UPDATE task SET holder = NULL, opens_at = NULL, aside = status WHERE id = 'e'",
    "a ready task with a holder": "UPDATE task SET holder = 'agent', agent = 'x', token = 't' WHERE id = 'c'",
    "a lease without a token": "UPDATE task SET token = NULL WHERE id = 'e'",
    "a lease without an agent": "UPDATE task SET agent = NULL WHERE id = 'e'",
    "a lease without a beginning": "UPDATE task SET claimed_at = NULL WHERE id = 'e'",
    "a lease without an attempt": "UPDATE task SET attempt = 0 WHERE id = 'e'",
    "an agent without a lease": "UPDATE task SET agent = 'x' WHERE id = 'c'",
    "an end without a lease": "UPDATE task SET expires_at = 1 WHERE id = 'c'",
    "an attempt that went back": "UPDATE task SET attempt = 0 WHERE id = 'a'",
    "a vector of another length": "UPDATE vector SET unit = zeroblob(8) WHERE task = (SELECT max(task) FROM vector)",
    "a vector cut short": "UPDATE vector SET unit = zeroblob(3)",
    "a setting that is no JSON": "UPDATE setting SET value = '{'",
}


@pytest.mark.parametrize("statement", BEYOND_REPAIR.values(), ids=BEYOND_REPAIR)
def test_undecidable_damage_is_reported_and_kept(store: Store, damage: Callable[..., None], statement: str) -> None:
    damage(statement)
    found = store.check(fix=False)
    assert found
    assert not any(finding.fixable or finding.fixed for finding in found)
    before = rows(store)
    assert store.check(fix=True) == found
    assert rows(store) == before


def test_a_human_hold_with_an_end_is_found(store: Store, damage: Callable[..., None]) -> None:
    damage("UPDATE task SET holder = 'human', opens_at = NULL, aside = 'active' WHERE id = 'e'")
    assert [finding.subject for finding in store.check(fix=False)] == ["home/e"]


def test_a_link_into_another_scope_is_found(store: Store, damage: Callable[..., None]) -> None:
    add(store, "x", scope="elsewhere")
    damage(
        "INSERT INTO link SELECT a.key, b.key, 'parallel_ok', 1.0, 'x', 1.0 FROM task AS a, task AS b "
        "WHERE a.id = 'x' AND b.id = 'a'"
    )
    found = only(store.check(fix=False))
    assert (found.subject, found.fixable) == ("elsewhere/x → home/a", False)


@pytest.mark.parametrize("kind", ["blocks", "feeds_into", "parent"])
def test_a_cycle_is_found_and_named(store: Store, damage: Callable[..., None], kind: str) -> None:
    if kind == "parent":
        damage("UPDATE task SET parent = 'b' WHERE id = 'a'", "UPDATE task SET parent = 'a' WHERE id = 'b'")
    else:
        damage(
            f"INSERT INTO link SELECT a.key, b.key, '{kind}', 1.0, 'x', 1.0 FROM task AS a, task AS b "
            "WHERE a.id = 'c' AND b.id = 'b'"
        )
    found = [finding for finding in store.check(fix=False) if "→" in finding.problem]
    assert [(finding.subject, finding.fixable) for finding in found] == [(SCOPE, False)]
    assert "b" in only(found).problem


def test_findings_name_the_task_and_its_scope(store: Store, damage: Callable[..., None]) -> None:
    damage("UPDATE task SET opens_at = NULL WHERE id = 'c'")
    assert [finding.subject for finding in store.check(fix=False)] == ["home/c"]


def test_passing_time_is_no_finding(store: Store, harness: SqliteHarness) -> None:
    for _ in range(3):
        harness.clock.advance(days=365)
        assert store.check(fix=False) == []
        amend(store, "c", Edit(priority=get(store, "c").priority + 1))
    claim(store, scope="elsewhere")
    assert store.check(fix=False) == []


def test_repair_opens_due_tasks(store: Store, damage: Callable[..., None], harness: SqliteHarness) -> None:
    harness.clock.advance(days=365 * 100)
    damage("UPDATE task SET blockers = 5 WHERE id = 'b'")
    store.check(fix=True)
    assert store.check(fix=False) == []
    assert claim_ids(store, count=9) == ["c", "d", "e", "f", "p"]


def test_a_repair_lets_no_expired_task_pass_its_last_retry(
    store: Store, damage: Callable[..., None], harness: SqliteHarness
) -> None:
    add(store, draft("g", max_retries=0, priority=1))
    hold(store, "g")
    harness.clock.advance(hours=1)
    damage("UPDATE task SET blockers = 5 WHERE id = 'b'")
    store.check(fix=True)
    assert "g" not in claim_ids(store, count=9)
    assert get(store, "g").status is Status.ESCALATED
    assert verbs(store, "g")[-1] == "exhaust"


def test_a_damaged_file_is_called_damaged(tmp_path: Path) -> None:
    path = str(tmp_path / "broken.db")
    with SqliteStore(path, create=True, durable=False) as store:
        add(store, *(f"t{number}" for number in range(500)))
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)  # among the tasks: with a damaged schema it could not even be opened
        file.write(b"\xff" * 4096 * 4)
    with SqliteStore(path) as store, pytest.raises(StoreCorrupt):
        store.check(fix=False)
