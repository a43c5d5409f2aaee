"""Broken connections: every verb happens once and returns its result."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.port import EventQuery
from dibs.stores.postgres.store import PostgresStore
from dibs.testing.conformance.builders import MAKER, SCOPE, add, claim, dump, events, get, hold, move, quiet, request
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

    from conformance.harness import PostgresHarness


def kill(store: PostgresStore, admin: Cursor) -> None:
    """End the store's session, and wait until it is over."""
    admin.execute("SELECT pg_terminate_backend(%s, 120000)", (store._database.connection.info.backend_pid,))


class Cut:
    """Breaks the connection before or after a statement that begins like this has been carried out, once."""

    def __init__(self, store: PostgresStore, admin: Cursor, begins: str, *, after: bool) -> None:
        self._store, self._admin, self._begins, self._after = store, admin, begins, after
        self._run = store._database.run
        self.times = 0

    def __call__(self, text: str, parameters: Any = ()) -> Any:
        if self.times or self._begins not in text:
            return self._run(text, parameters)
        self.times += 1
        if self._after:
            self._run(text, parameters)
        kill(self._store, self._admin)
        return self._run(text if not self._after else "SELECT 1", parameters if not self._after else ())


@pytest.fixture
def cut(store: PostgresStore, admin: Cursor, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], Cut]:
    def make(begins: str, after: bool) -> Cut:
        made = Cut(store, admin, begins, after=after)
        monkeypatch.setattr(store._database, "run", made)
        return made

    return make


def test_ended_session_is_replaced_by_the_next_verb(store: PostgresStore, admin: Cursor) -> None:
    add(store, "a")
    for ask in (lambda: get(store, "a"), lambda: store.counts(None), lambda: add(store, "b"), lambda: claim(store)):
        kill(store, admin)
        ask()
    assert get(store, "b").status is Status.READY


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_claim_over_a_broken_connection_gets_one_task(
    store: PostgresStore, cut: Callable[[str, bool], Cut], after: bool, named: bool
) -> None:
    add(store, "a", "b", "c")
    breaking = cut("claim_named" if named else "claim_head", after)
    asked = request("ann", "a") if named else request("ann")
    (got,) = store.claim(asked)
    assert breaking.times == 1
    assert got.task.id == "a"
    assert [task.id for task in (get(store, each) for each in "abc") if task.status is Status.ACTIVE] == ["a"]
    assert [event.verb for event in events(store, "a")] == ["add", "claim"]


@pytest.mark.parametrize("after", [False, True])
def test_finish_over_a_broken_connection_counts_once(
    store: PostgresStore, cut: Callable[[str, bool], Cut], after: bool
) -> None:
    add(store, "a", "b", "c")
    token = hold(store, "a")
    breaking = cut("finish_and_claim", after)
    moved = move(store, Verb.DONE, "a", token, then=request("ann"))
    assert breaking.times == 1
    assert (moved.task.status, moved.repeated) == (Status.DONE, after)
    assert [one.task.id for one in moved.next] == ["b"]
    assert [event.verb for event in events(store, "a")] == ["add", "claim", "done"]
    assert get(store, "c").status is Status.READY


@pytest.mark.parametrize("after", [False, True])
def test_commit_with_a_lost_answer_is_not_repeated(
    store: PostgresStore, cut: Callable[[str, bool], Cut], after: bool
) -> None:
    breaking = cut("COMMIT", after)
    add(store, "a")
    assert breaking.times == 1
    assert [event.verb for event in store.events(EventQuery(SCOPE, "a"))] == ["add"]


def test_interrupted_restore_reports_that_nothing_was_changed(
    store: PostgresStore, harness: PostgresHarness, cut: Callable[[str, bool], Cut]
) -> None:
    with harness.open() as source:
        add(source, "a")
        records = dump(source)
    cut("lock_scope", True)
    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        store.restore(iter(records), MAKER, quiet)
    assert store.scopes() == []


def test_deadlocked_transaction_is_repeated(store: PostgresStore, harness: PostgresHarness) -> None:
    add(store, "a", "b")
    with harness.join(store) as other:
        _deadlock(store, other)


def _deadlock(one: PostgresStore, two: PostgresStore) -> None:
    """Each transaction locks its first task, then waits for the other's: the server aborts one, which is repeated.

    The repeated transaction may lock its first task again before the waiting one: then they deadlock once more.
    """
    both_hold = threading.Barrier(2, timeout=120)
    turns: list[str] = []
    ends: list[str] = []

    def act(store: PostgresStore, first: str, second: str) -> None:
        def locking(tx: Any) -> None:
            turns.append(first)
            tx.one("lock_task", (SCOPE, first))
            if len(turns) <= 2:
                both_hold.wait()
            tx.one("lock_task", (SCOPE, second))

        store._database.write(locking)
        ends.append(first)

    other = threading.Thread(target=act, args=(two, "b", "a"))
    other.start()
    act(one, "a", "b")
    other.join()
    assert len(turns) >= 3
    assert sorted(ends) == ["a", "b"]


def test_lock_held_past_the_timeout_is_busy(harness: PostgresHarness, admin: Cursor) -> None:
    with harness.open() as store:
        add(store, "a")
        schema = store._database.target.schema
        admin.execute("BEGIN")
        admin.execute(f"LOCK TABLE {schema}.task IN ACCESS EXCLUSIVE MODE")
        try:
            with (
                PostgresStore(f"{shared_url()}&timeout=1&connect_timeout=30", schema=schema) as impatient,
                pytest.raises(StoreBusy),
            ):
                get(impatient, "a")
        finally:
            admin.execute("ROLLBACK")
        assert get(store, "a")


def test_slow_statement_is_not_interrupted(harness: PostgresHarness) -> None:
    with harness.open() as store:
        schema = store._database.target.schema
        with PostgresStore(f"{shared_url()}&timeout=1&connect_timeout=30", schema=schema) as hasty:
            assert hasty._database.run("SELECT 7, pg_sleep(2.5)").fetchall()[0][0] == 7
            assert hasty._database._losses == 0
