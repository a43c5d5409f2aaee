"""The database functions for claim, renew and finish write exactly what the lifecycle computes: the same move is made
on a twin the long way, where `dibs.core.lifecycle` decides, and every column and every event is compared."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Status
from dibs.stores.port import EventQuery
from dibs.stores.postgres import claims, moves
from dibs.testing.conformance.builders import LEASE, SCOPE, add, blocks, claim, draft, get, hold, link, move, request

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.stores.postgres.store import PostgresStore
    from support.clock import Clock

RICH: dict[str, Any] = {
    "title": "Twin", "description": "long", "category": "c", "steps": ("one", "two"), "requires": ("gpu",),
    "assigned_to": "ann", "extra": {"k": [1, None]}, "max_retries": 3, "spec_ref": "s", "priority": 2.5,
}  # fmt: skip


def row(store: PostgresStore, task: str) -> dict[str, Any]:
    """A task's row without the columns that differ between twins."""
    cursor = store._database.run("SELECT * FROM task WHERE id = %s", (task,))
    names = [column.name for column in cursor.description or ()]
    found = dict(zip(names, cursor.fetchone() or (), strict=True))
    return {
        name: value for name, value in found.items() if name not in {"key", "id", "token", "last_event", "event_before"}
    }


def told(store: PostgresStore, task: str) -> list[tuple[object, ...]]:
    return [event._replace(seq=0, task="") for event in store.events(EventQuery(SCOPE, task))]


def same(store: PostgresStore) -> None:
    assert row(store, "quick") == row(store, "long")
    assert told(store, "quick") == told(store, "long")


def claimed_the_long_way(store: PostgresStore, asked: ClaimRequest) -> str:
    store._database.write(lambda tx: claims._claim_named(tx, asked))
    return asked.tokens[0]


def moved_the_long_way(store: PostgresStore, asked: Move) -> None:
    store._database.write(lambda tx: moves._move_and_claim(tx, asked, CanceledBlocker.ESCALATES, None))


@pytest.fixture
def calls(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the database functions that are called."""
    names: list[str] = []
    ask = store._database.call_within

    def listening(name: str, parameters: Any) -> Any:
        names.append(name)
        return ask(name, parameters)

    monkeypatch.setattr(store._database, "call_within", listening)
    return names


@pytest.fixture
def twins(store: PostgresStore) -> PostgresStore:
    add(store, draft("quick", **RICH), draft("long", **RICH))
    return store


def before(store: PostgresStore, clock: Clock, how: str) -> None:
    """Both twins get a past."""
    for twin in ("quick", "long"):
        token = hold(store, twin, can=frozenset({"gpu"}), run="run-1")
        if how == "failed":
            move(store, Verb.FAIL, twin, token, reason="no luck")
        elif how == "unblocked":
            move(store, Verb.BLOCK, twin, token, reason="why", unblock_action="ask", next_check_at=store.now())
            move(store, Verb.UNBLOCK, twin)
        elif how == "reviewed":
            move(store, Verb.REVIEW, twin, token, result={"r": 1}, artifacts=("a",), reason="see")
            move(store, Verb.REWORK, twin, reason="again")
    clock.advance(minutes=30)


@pytest.mark.parametrize("how", ["new", "expired", "failed", "unblocked", "reviewed"])
@pytest.mark.parametrize("named", [True, False])
def test_a_claim(twins: PostgresStore, clock: Clock, calls: list[str], how: str, named: bool) -> None:
    if how != "new":
        before(twins, clock, how)
    can = frozenset({"gpu", "more"})
    calls.clear()
    claimed_the_long_way(twins, request("ann", "long", can=can, run="run-2"))
    assert calls == []
    wanted = request("ann", "quick", can=can, run="run-2") if named else request("ann", can=can, run="run-2")
    if how == "expired" and named:
        claim(twins, "nobody", scope="elsewhere")  # wakes what has expired
    (answer,) = twins.claim(wanted)
    assert calls[-1] in ({"claim_named"} if named else {"claim_head", "claim_next"})
    assert answer.task == get(twins, "quick")
    same(twins)


def test_several_claims_at_once(twins: PostgresStore, calls: list[str]) -> None:
    add(twins, "third")
    can = frozenset({"gpu"})
    claimed_the_long_way(twins, request("ann", "long", can=can))
    assert {one.task.id for one in twins.claim(request("ann", count=2, can=can))} == {"quick", "third"}
    assert calls == ["claim_heads"]
    same(twins)


@pytest.mark.parametrize("more", [{}, {"requeue": True}, {"late_ok": True}])
def test_a_renewal(twins: PostgresStore, clock: Clock, calls: list[str], more: dict[str, Any]) -> None:
    asked = _held(twins, Verb.RENEW, lease=2 * LEASE, **more)
    clock.advance(minutes=30 if "late_ok" in more else 5)
    calls.clear()
    moved_the_long_way(twins, asked["long"])
    twins.move(asked["quick"], CanceledBlocker.ESCALATES)
    assert calls == ["renew"]
    same(twins)


@pytest.mark.parametrize(
    "more",
    [{}, {"result": {"n": [1, None]}}, {"result": False}, {"artifacts": ("x", 'y"\\')}, {"reason": "why"},
     {"requeue": True}, {"late_ok": True}, {"by": Actor("someone", "run-9")}],
)  # fmt: skip
def test_a_finish(twins: PostgresStore, clock: Clock, calls: list[str], more: dict[str, Any]) -> None:
    before(twins, clock, "reviewed")
    asked = _held(twins, Verb.DONE, **more)
    clock.advance(minutes=30 if "late_ok" in more else 5)
    calls.clear()
    moved_the_long_way(twins, asked["long"])
    twins.move(asked["quick"], CanceledBlocker.ESCALATES)
    assert calls == ["finish"]
    same(twins)


@pytest.mark.parametrize("result", [None, {"n": 1}, [], 0])
def test_several_finishes_at_once(twins: PostgresStore, clock: Clock, calls: list[str], result: Any) -> None:
    before(twins, clock, "reviewed")
    asked = _held(twins, Verb.DONE, result=result)
    add(twins, "third")
    third = asked["quick"]._replace(id="third", token=hold(twins, "third"), result=None)
    calls.clear()
    moved_the_long_way(twins, asked["long"])
    batch = twins.move_all([asked["quick"], third], CanceledBlocker.ESCALATES)
    assert calls == ["finish_all"]
    assert [getattr(outcome, "task", None) for outcome in batch.outcomes] == [get(twins, "quick"), get(twins, "third")]
    same(twins)


@pytest.mark.parametrize("several", [True, False])
def test_a_finish_counts_down_what_waited_for_it(store: PostgresStore, calls: list[str], several: bool) -> None:
    add(store, "quick", "long", "both", "one", "off", links=[blocks("both", "quick"), blocks("both", "long")])
    link(store, blocks("one", "quick"), blocks("off", "quick"))
    move(store, Verb.SHELVE, "off")
    tokens = {task: hold(store, task) for task in ("quick", "long")}
    asked = _move(Verb.DONE, "quick", tokens["quick"])
    assert [get(store, task).blockers for task in ("both", "one", "off")] == [2, 1, 1]
    calls.clear()
    if several:
        last = store.move_all([asked, _move(Verb.DONE, "long", tokens["long"])], CanceledBlocker.ESCALATES).outcomes
        assert [getattr(outcome, "unblocked", None) for outcome in last] == [("one",), ("both",)]
    else:
        assert store.move(asked, CanceledBlocker.ESCALATES).unblocked == ("one",)
        assert store.move(_move(Verb.DONE, "long", tokens["long"]), CanceledBlocker.ESCALATES).unblocked == ("both",)
    assert [get(store, task).blockers for task in ("both", "one", "off")] == [0, 0, 0]
    assert get(store, "off").status is Status.BACKLOG


def _move(verb: Verb, task: str, token: str, **more: Any) -> Move:
    from dibs.core.lifecycle import Move

    return Move(verb, task, SCOPE, token=token, **({"by": Actor("ann")} | more))


def _held(store: PostgresStore, verb: Verb, **more: Any) -> dict[str, Move]:
    """Lease both twins, and return a move for each."""
    can = frozenset({"gpu"})
    return {twin: _move(verb, twin, hold(store, twin, can=can, lease=LEASE), **more) for twin in ("quick", "long")}


def test_each_hot_verb_is_one_round_trip(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, *(f"t{number}" for number in range(9)))
    hold(store, "t8")
    statements: list[str] = []
    run = store._database.run

    def counting(text: str, parameters: Any = ()) -> Any:
        statements.append(text)
        return run(text, parameters)

    monkeypatch.setattr(store._database, "run", counting)
    for rounds in range(2):  # prepared in the first
        asked = request("ann")
        (one,) = store.claim(asked)
        (two,) = store.claim(request("ann", f"t{7 - rounds}"))
        move(store, Verb.RENEW, one.task.id, asked.tokens[0], lease=timedelta(hours=1))
        token = two.task.lease.token if two.task.lease else ""
        moved = move(store, Verb.DONE, two.task.id, token, then=request("ann"))
        move(store, Verb.DONE, one.task.id, asked.tokens[0])
        assert len(moved.next) == 1
    assert len(statements) == 10
    assert all(text.startswith("EXECUTE") for text in statements[5:])
