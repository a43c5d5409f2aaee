"""The rest of the Desk: placing tasks, missing capabilities, and verbs that it passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, IllegalMove, InvalidInput, LostLock, Unsupported
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.plan import parse_jsonl
from dibs.core.policy import NATIVE, OwnerProof
from dibs.core.task import Holder, Status
from dibs.desk import Desk
from dibs.stores.port import Capabilities, Moved
from dibs.stores.sqlite.store import SqliteStore

from .hands import HOUR, add, hold, state

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.stores.port import Store
    from support.clock import Clock

# Placing


def place(desk: Desk, ref: str, status: Status) -> Status:
    return desk.move(verb_to(desk.get(ref), status), ref).task.status


IDLE = {
    Status.READY: Status.BACKLOG,
    Status.BACKLOG: Status.READY,
    Status.BLOCKED: Status.READY,
    Status.ESCALATED: Status.READY,
    Status.PAUSED: Status.READY,
    Status.CANCELED: Status.READY,
}
LEADING_TO = {
    Status.BACKLOG: Verb.SHELVE,
    Status.BLOCKED: Verb.BLOCK,
    Status.ESCALATED: Verb.ESCALATE,
    Status.PAUSED: Verb.PAUSE,
    Status.CANCELED: Verb.CANCEL,
}


@pytest.mark.parametrize("source", IDLE)
@pytest.mark.parametrize("target", Status)
def test_edit_status_moves_only_between_ready_and_backlog(desk: Desk, source: Status, target: Status) -> None:
    add(desk, "a")
    if source is not Status.READY:
        desk.move(LEADING_TO[source], "a")
    before = state(desk)
    if IDLE[source] is target:
        assert place(desk, "a", target) is target
        assert [task.id for task in desk.ready(limit=9)] == (["a"] if target is Status.READY else [])
        return
    with pytest.raises(IllegalMove):
        place(desk, "a", target)
    assert state(desk) == before


@pytest.mark.parametrize("source", [Status.BACKLOG, Status.BLOCKED, Status.ESCALATED])
def test_paused_task_is_not_reported_ready(desk: Desk, source: Status) -> None:
    add(desk, "a")
    desk.move(LEADING_TO[source], "a")
    desk.move(Verb.PAUSE, "a")
    try:
        placed = place(desk, "a", Status.READY)
    except IllegalMove:
        placed = None
    assert placed in {None, Status.READY}


@pytest.mark.parametrize("target", Status)
def test_a_held_task_is_not_placed(desk: Desk, target: Status) -> None:
    add(desk, "a")
    hold(desk, "a")
    with pytest.raises(IllegalMove):
        place(desk, "a", target)
    assert desk.get("a").status is Status.ACTIVE


# What a store cannot do


class Simple(SqliteStore):
    capabilities = Capabilities(exclusive="timed", transactions=False)


def test_unsupported_verb_is_refused_with_its_name(tmp_path: Path) -> None:
    with Desk(Simple(str(tmp_path / "simple.db"), create=True, durable=False), scope="home") as desk:
        add(desk, "a")
        before = list(desk.dump())
        with pytest.raises(Unsupported, match="transactions"):
            desk.apply_plan(parse_jsonl('{"id": "b", "t": "B"}'))
        with pytest.raises(Unsupported, match="transactions"):
            desk.restore([])
        assert list(desk.dump()) == before
        assert hold(desk, "a")


# Everything else goes straight through


def test_claim_passes_count_and_scope(desk: Desk, store: Store) -> None:
    other = Desk(store, scope="work")
    add(desk, "a", "b", "c", priority=5)
    add(other, "z", priority=1)
    assert [claimed.task.id for claimed in desk.claim("ann", count=2)] == ["a", "b"]
    assert [claimed.task.id for claimed in desk.claim("ann", count=5, anywhere=True)] == ["z", "c"]
    assert desk.claim("ann") == []


def test_each_claimed_task_has_its_own_token(desk: Desk) -> None:
    add(desk, "a", "b", "c")
    leases = [claimed.task.lease for claimed in desk.claim("ann", count=3, run="r")]
    assert len({lease.token for lease in leases if lease}) == 3
    assert {(lease.agent, lease.run) for lease in leases if lease} == {("ann", "r")}


def test_claim_keeps_the_tokens_of_the_caller(desk: Desk) -> None:
    add(desk, "a", "b", "c")
    (named,) = desk.claim("ann", refs=["c"], tokens=["mine"])
    both = desk.claim("ann", count=2, tokens=["one", "two"])
    leases = [claimed.task.lease for claimed in (named, *both)]
    assert [lease.token for lease in leases if lease is not None] == ["mine", "one", "two"]


@pytest.mark.parametrize("tokens", [["me"], ["me", "you", "it"], ["me", "me"], ["me", ""], ["me", "you\n"]])
def test_wrong_tokens_claim_nothing(desk: Desk, tokens: list[str]) -> None:
    add(desk, "a", "b")
    before = state(desk)
    with pytest.raises(InvalidInput, match="Give 2 different tokens"):
        desk.claim("ann", count=2, tokens=tokens)
    assert state(desk) == before


def test_a_person_holds_and_takes_over_by_name(desk: Desk) -> None:
    add(desk, "a")
    hold(desk, "a", "bob")
    with pytest.raises(Held):
        desk.claim("hannah", refs=["a"], holder=Holder.HUMAN)
    (claimed,) = desk.claim("hannah", refs=["a"], holder=Holder.HUMAN, force=True)
    assert claimed.task.lease is not None
    assert (claimed.task.lease.holder, claimed.task.lease.expires_at) == (Holder.HUMAN, None)


def test_force_alone_takes_nothing_away(desk: Desk) -> None:
    add(desk, "a")
    hold(desk, "a", "bob")
    with pytest.raises(Held):
        desk.claim("ann", refs=["a"], force=True)


def test_ready_tasks_match_the_asking_agent(desk: Desk, store: Store) -> None:
    add(desk, "a")
    add(desk, "b", assigned_to="bob")
    add(desk, "c", requires=("gpu",))
    add(Desk(store, scope="work"), "w", priority=1)
    assert [task.id for task in desk.ready(limit=9)] == ["a"]
    assert [task.id for task in desk.ready(limit=9, agent="bob", can=["gpu"])] == ["a", "b", "c"]
    assert [task.id for task in desk.ready(limit=1, agent="bob")] == ["a"]
    assert [task.id for task in desk.ready(limit=9, anywhere=True)] == ["w", "a"]


def test_finish_claims_the_next_task(desk: Desk) -> None:
    add(desk, "a", "b")
    moved = desk.move(Verb.DONE, "a", token=hold(desk, "a"), result={"n": 1}, then=desk.next_request("ann", run="r"))
    assert [(claimed.task.id, claimed.task.lease and claimed.task.lease.run) for claimed in moved.next] == [("b", "r")]


def test_looking_shows_this_scope(fruit: Desk, store: Store) -> None:
    add(Desk(store, scope="work"), "w")
    assert {task.id for task in fruit.graph().tasks} == {"apple", "banana", "cherry"}
    assert fruit.counts().by_status[Status.READY] == 3
    fruit.move(Verb.CANCEL, "cherry")
    assert {task.id for task in fruit.graph(finished=False).tasks} == {"apple", "banana"}
    told = fruit.events()
    assert [event.scope for event in told] == ["home"] * 5
    assert fruit.events(after=told[1].seq, limit=2) == told[2:4]
    assert fruit.events(last=2) == told[-2:]


def test_a_store_moves_through_desks(fruit: Desk, tmp_path: Path, clock: Clock) -> None:
    steps: list[int] = []
    with Desk(SqliteStore(str(tmp_path / "b.db"), create=True, durable=False, clock=clock), scope="home") as other:
        assert other.restore(fruit.dump(), steps.append) == 3
        assert state(other) == state(fruit)
        assert sum(steps) == len(list(fruit.dump()))
        clock.advance(days=1)
        other.move(Verb.CANCEL, "cherry")
        assert other.prune(events_before=None, tasks_before=clock() + HOUR) == (0, 1)
        assert other.check() == []
        assert other.describe()["kind"] == "sqlite"


# Many at once


def test_many_finishes_of_one_worker_are_one_call(fruit: Desk) -> None:
    tokens = {ref: hold(fruit, ref) for ref in ("apple", "cherry")}
    batch = fruit.move_all(Verb.DONE, tokens, results={"apple": [1]}, then=fruit.next_request("ann", count=3))
    assert [outcome.task.result for outcome in batch.outcomes if isinstance(outcome, Moved)] == [[1], None]
    assert [claimed.task.id for claimed in batch.next] == ["banana"]


def test_policy_may_accept_names_for_batch_finishes(store: Store, fruit: Desk) -> None:
    by_name = Desk(store, scope="home", policy=NATIVE._replace(owner_proof=OwnerProof.NAME), by=fruit.by)
    hold(fruit, "apple")
    [refused] = by_name.move_all(Verb.DONE, {"apple": "not the token"}).outcomes
    assert isinstance(refused, LostLock)


@pytest.mark.parametrize("ref", ["", "a b", "a\0b", "-a", "x" * 200])
def test_invalid_id_in_a_batch_never_reaches_the_store(fruit: Desk, ref: str) -> None:
    token = hold(fruit, "apple")
    with pytest.raises(InvalidInput):
        fruit.move_all(Verb.DONE, {"apple": token, ref: "token"})
    assert fruit.get("apple").status is Status.ACTIVE
