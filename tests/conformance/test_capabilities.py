"""What a store declares is true."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from conformance.builders import fleet_of, settings_of, vectors_of
from dibs.core import checks
from dibs.core.errors import CycleDetected, Held, InvalidInput, LostLock, Unsupported
from dibs.core.events import Event
from dibs.core.fleet import Assignment, Profile
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Status
from dibs.desk import Desk
from dibs.stores.port import EventQuery, Query

from .builders import (
    MAKER,
    add,
    apply,
    blocks,
    claim,
    claim_ids,
    draft,
    get,
    hold,
    link,
    move,
    no_trace,
    nothing_changes,
    plan,
    quiet,
    request,
    state,
    statuses,
)
from .harness import LACKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness


RESOLVES = CanceledBlocker.RESOLVES


def test_a_store_declares_what_it_can_do(store: Store) -> None:
    assert store.capabilities.exclusive in {"strict", "timed"}
    assert isinstance(store.capabilities.transactions, bool)


NEED_TRANSACTIONS: dict[str, Callable[[Store], object]] = {
    "a plan": lambda store: store.apply_plan("x", plan({"id": "b"}), RESOLVES, MAKER, dry_run=False, progress=quiet),
    "a dry run": lambda store: store.apply_plan("x", plan({"id": "b"}), RESOLVES, MAKER, dry_run=True, progress=quiet),
    "an import": lambda store: store.restore([], MAKER, quiet),
    "a plan at the desk": lambda store: Desk(store).apply_plan(plan({"id": "b"})),
    "an import at the desk": lambda store: Desk(store).restore([]),
}


@pytest.mark.parametrize("what", NEED_TRANSACTIONS)
def test_a_store_without_transactions_refuses_what_needs_them_and_says_so(store: Store, what: str) -> None:
    if store.capabilities.transactions:
        return  # every other test of plans and imports is about such a store
    add(store, "a")
    with no_trace(store), pytest.raises(Unsupported) as refused:
        NEED_TRANSACTIONS[what](store)
    assert "cannot" in refused.value.message


# What a store refuses that says of itself that it lacks a capability.
LACKING: dict[tuple[str, str], Callable[[Store], object]] = {
    ("links", "a link"): lambda store: link(store, blocks("a", "b")),
    ("links", "no link any more"): lambda store: store.unlink("home", [blocks("a", "b")], MAKER),
    ("links", "a task with a link"): lambda store: add(store, "c", links=[blocks("c", "a")]),
    ("history", "what happened"): lambda store: store.events(EventQuery("home")),
    ("history", "an event of a protocol"): lambda store: store.record(Event(store.now(), "home", "a", "score")),
    ("history", "pruning"): lambda store: store.prune(events_before=store.now(), tasks_before=None, progress=quiet),
    ("scopes", "a task elsewhere"): lambda store: add(store, "c", scope="elsewhere"),
    ("scopes", "a look elsewhere"): lambda store: store.find(Query("elsewhere")),
    ("scopes", "a claim elsewhere"): lambda store: claim(store, scope="elsewhere"),
    ("scopes", "a move elsewhere"): lambda store: move(store, Verb.CANCEL, "a", scope="elsewhere"),
    ("fleet", "an agent that comes"): lambda store: fleet_of(store).register("ann", host=None, pid=None),
    ("fleet", "an agent that goes"): lambda store: fleet_of(store).deregister("ann"),
    ("fleet", "the agents"): lambda store: fleet_of(store).agents(),
    ("vectors", "a vector"): lambda store: vectors_of(store).keep("home", {"a": (1.0,)}),
    ("vectors", "no vector any more"): lambda store: vectors_of(store).keep("home", {"a": None}),
    ("vectors", "the vectors"): lambda store: vectors_of(store).kept("home", finished=False),
    ("vectors", "the vectors at the desk"): lambda store: Desk(store, scope="home").vectors(),
    ("vectors", "what is like a vector"): lambda store: vectors_of(store).similar(
        "home", (1.0,), "", 1, -1.0, finished=False
    ),
    ("vectors", "a vector at the desk"): lambda store: Desk(store, scope="home").keep_vectors({"a": [1.0]}),
    ("vectors", "what is like it at the desk"): lambda store: Desk(store, scope="home").similar([1.0]),
    ("settings", "a setting"): lambda store: settings_of(store).change("home", {"a": 1}, MAKER),
    ("settings", "the settings"): lambda store: settings_of(store).read("home"),
    ("settings", "a setting at the desk"): lambda store: Desk(store, scope="home").configure({"a": 1}),
    ("settings", "the settings at the desk"): lambda store: Desk(store, scope="home").settings(),
    ("fleet", "a member of the fleet"): lambda store: fleet_of(store).enrol(Profile("ann", "writer")),
    ("fleet", "a member less"): lambda store: fleet_of(store).dismiss("ann"),
    ("fleet", "the members"): lambda store: fleet_of(store).members(),
    ("fleet", "a task for a member"): lambda store: fleet_of(store).assign(Assignment((("home", "a"),), "ann"), MAKER),
}


def _has(store: Store, name: str) -> bool:
    """A declared capability, or an optional part."""
    parts = {"vectors": store.vectors, "settings": store.settings, "fleet": store.fleet}
    return parts[name] is not None if name in parts else getattr(store.capabilities, name)


def test_a_store_refuses_what_it_lacks_and_says_so(store: Store) -> None:
    add(store, "a", "b")
    before = state(store)
    for (capability, _), asked in LACKING.items():
        if not _has(store, capability):  # most other tests are about stores that have it
            with pytest.raises(Unsupported) as refused:
                asked(store)
            assert "cannot" in refused.value.message
    assert state(store) == before


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", ".hidden", "..", "x" * 120 + "😀" * 8 + "é" * 64])
def test_ids_that_a_store_cannot_keep_are_refused_and_those_it_can_are_kept(store: Store, name: str) -> None:
    if store.capabilities.ids == "any" and len(name) <= checks.NAME_MAX:
        assert [task.id for task in add(store, name)] == [name]
        return
    with no_trace(store), pytest.raises(InvalidInput):
        store.add("home", [checks.draft(draft(name))], [], MAKER)


def test_two_processes_see_one_store(store: Store, beside: Store) -> None:
    add(store, "a")
    token = hold(beside, "a")
    with nothing_changes(store), pytest.raises(Held):
        claim(store, "bob", "a")
    assert move(store, Verb.DONE, "a", token).task == get(beside, "a")


@pytest.mark.needs("strict claims")
def test_strict_claims_of_two_processes_never_overlap(store: Store, beside: Store, clock: Clock) -> None:
    add(store, "a", "b", "c", "d")
    assert [claim_ids(each, "twin") for each in (store, beside, beside, store, beside)] == [
        ["a"], ["b"], ["c"], ["d"], [],
    ]  # fmt: skip
    clock.advance(hours=1)
    assert claim_ids(beside, "twin", count=3) == ["a", "b", "c"]
    assert claim_ids(store, "twin", count=3) == ["d"]


@pytest.mark.needs("strict claims")
def test_a_late_holder_is_told_so_by_every_process(store: Store, beside: Store, clock: Clock) -> None:
    add(store, "a")
    token = hold(store, "a")
    clock.advance(hours=1)
    hold(beside, "a", "bob")
    with nothing_changes(store), pytest.raises(LostLock):
        move(store, Verb.DONE, "a", token)


@pytest.mark.needs("strict claims")
def test_many_claimants_at_once_get_every_task_exactly_once(store: Store, harness: StoreHarness) -> None:
    add(store, *(f"t{number:02}" for number in range(48)))
    got: list[str] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with harness.join(store) as mine:
                while claimed := mine.claim(request("twin", count=2)):
                    for one in claimed:
                        got.append(one.task.id)
                        move(mine, Verb.DONE, one.task.id, one.task.lease and one.task.lease.token)
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(got) == sorted(statuses(store))
    assert set(statuses(store).values()) == {Status.DONE}


@pytest.mark.needs("transactions")
def test_a_plan_that_fails_at_its_end_has_done_nothing(store: Store) -> None:
    add(store, "x", "y", links=[blocks("y", "x")])
    with no_trace(store), pytest.raises(CycleDetected):
        apply(store, plan({"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "x", "deps": ["y"]}))


@pytest.mark.needs("transactions")
def test_links_that_fail_at_their_end_have_done_nothing(store: Store) -> None:
    add(store, "a", "b", "c")
    with no_trace(store), pytest.raises(CycleDetected):
        link(store, blocks("b", "a"), blocks("c", "b"), blocks("a", "c"))


def test_what_the_suite_leaves_out_is_what_the_store_says_it_lacks(
    store: Store, request: pytest.FixtureRequest
) -> None:
    names = ("transactions", "links", "history", "scopes", "vectors", "settings", "fleet")
    lacking = {name for name in names if not _has(store, name)}
    lacking |= set() if store.capabilities.exclusive == "strict" else {"strict claims", "exact leases"}
    assert LACKS.get(request.node.callspec.params["harness"], set()) == lacking
