"""What a store declares is true; its errors have codes; waiting ends when something happens."""

from __future__ import annotations

import re
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core import checks
from dibs.core.errors import CycleDetected, DibsError, Held, InvalidInput, LostLock, Unsupported
from dibs.core.events import Event
from dibs.core.fleet import Assignment, Profile, Quota
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Edit, Status
from dibs.desk import Desk
from dibs.stores.port import EventQuery, Query, Terms

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    amend,
    apply,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    dump,
    fleet_of,
    get,
    hold,
    hold_as_human,
    link,
    move,
    no_trace,
    nothing_changes,
    output_of,
    plan,
    quiet,
    request,
    restore,
    settings_of,
    state,
    statuses,
    unlink,
    vectors_of,
)
from .suite import Suite, lacking, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store
    from dibs.testing import Clock

    from .suite import Harness

    Woken = Callable[[Callable[[Store], object]], float]


RESOLVES = CanceledBlocker.RESOLVES
HOUR = timedelta(hours=1)

NEED_TRANSACTIONS: dict[str, Callable[[Store], object]] = {
    "a plan": lambda store: store.apply_plan("x", plan({"id": "b"}), RESOLVES, MAKER, dry_run=False, progress=quiet),
    "a dry run": lambda store: store.apply_plan("x", plan({"id": "b"}), RESOLVES, MAKER, dry_run=True, progress=quiet),
    "tasks on terms": lambda store: store.add("home", [draft("b")], [], MAKER, Terms(Quota(1, HOUR))),
    "an import": lambda store: store.restore([], MAKER, quiet),
    "a plan at the desk": lambda store: Desk(store).apply_plan(plan({"id": "b"})),
    "an import at the desk": lambda store: Desk(store).restore([]),
}

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
    ("vectors", "similar vectors"): lambda store: vectors_of(store).similar(
        "home", (1.0,), "", 1, -1.0, finished=False
    ),
    ("vectors", "a vector at the desk"): lambda store: Desk(store, scope="home").keep_vectors({"a": [1.0]}),
    ("vectors", "similar tasks"): lambda store: Desk(store, scope="home").similar([1.0]),
    ("settings", "a setting"): lambda store: settings_of(store).change("home", {"a": 1}, MAKER),
    ("settings", "the settings"): lambda store: settings_of(store).read("home"),
    ("settings", "a setting at the desk"): lambda store: Desk(store, scope="home").configure({"a": 1}),
    ("settings", "the settings at the desk"): lambda store: Desk(store, scope="home").settings(),
    ("output", "output of an attempt"): lambda store: output_of(store).append("home", "a", "secret-x", 0, "x"),
    ("output", "the output"): lambda store: output_of(store).read("home", "a", None, 0),
    ("output", "output at the desk"): lambda store: Desk(store, scope="home").append_output("a", "secret-x", 0, "x"),
    ("output", "the output at the desk"): lambda store: Desk(store, scope="home").output("a"),
    ("fleet", "a member of the fleet"): lambda store: fleet_of(store).enrol(Profile("ann", "writer")),
    ("fleet", "a member less"): lambda store: fleet_of(store).dismiss("ann"),
    ("fleet", "the members"): lambda store: fleet_of(store).members(),
    ("fleet", "a task for a member"): lambda store: fleet_of(store).assign(Assignment((("home", "a"),), "ann"), MAKER),
}


class CapabilitiesTests(Suite):
    """What a store declares is true."""

    def test_store_declares_its_capabilities(self, store: Store) -> None:
        assert store.capabilities.exclusive in {"strict", "timed"}
        assert isinstance(store.capabilities.transactions, bool)

    @pytest.mark.parametrize("what", NEED_TRANSACTIONS)
    def test_store_without_transactions_refuses_batches(self, store: Store, what: str) -> None:
        if store.capabilities.transactions:
            return  # every other test of plans and imports is about such a store
        add(store, "a")
        with no_trace(store), pytest.raises(Unsupported) as refused:
            NEED_TRANSACTIONS[what](store)
        assert "cannot" in refused.value.message

    def test_missing_capability_is_refused_with_its_name(self, store: Store) -> None:
        add(store, "a", "b")
        before = state(store)
        for (capability, _), asked in LACKING.items():
            if capability in lacking(store):  # most other tests are about stores that have it
                with pytest.raises(Unsupported) as refused:
                    asked(store)
                assert "cannot" in refused.value.message
        assert state(store) == before

    @pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", ".hidden", "..", "x" * 120 + "😀" * 8 + "é" * 64])
    def test_ids_that_a_store_cannot_keep_are_refused_and_those_it_can_are_kept(self, store: Store, name: str) -> None:
        if store.capabilities.ids == "any" and len(name) <= checks.NAME_MAX:
            assert [task.id for task in add(store, name)] == [name]
            return
        with no_trace(store), pytest.raises(InvalidInput):
            store.add("home", [checks.draft(draft(name))], [], MAKER)

    def test_two_processes_see_one_store(self, store: Store, beside: Store) -> None:
        add(store, "a")
        token = hold(beside, "a")
        with nothing_changes(store), pytest.raises(Held):
            claim(store, "bob", "a")
        assert move(store, Verb.DONE, "a", token).task == get(beside, "a")

    @needs("strict claims")
    def test_strict_claims_of_two_processes_never_overlap(self, store: Store, beside: Store, clock: Clock) -> None:
        add(store, "a", "b", "c", "d")
        assert [claim_ids(each, "twin") for each in (store, beside, beside, store, beside)] == [
            ["a"], ["b"], ["c"], ["d"], [],
        ]  # fmt: skip
        clock.advance(hours=1)
        assert claim_ids(beside, "twin", count=3) == ["a", "b", "c"]
        assert claim_ids(store, "twin", count=3) == ["d"]

    @needs("strict claims")
    def test_late_holder_is_rejected_by_every_process(self, store: Store, beside: Store, clock: Clock) -> None:
        add(store, "a")
        token = hold(store, "a")
        clock.advance(hours=1)
        hold(beside, "a", "bob")
        with nothing_changes(store), pytest.raises(LostLock):
            move(store, Verb.DONE, "a", token)

    @needs("strict claims")
    def test_concurrent_claims_take_every_task_once(self, store: Store, harness: Harness[Store]) -> None:
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
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert sorted(got) == sorted(statuses(store))
        assert set(statuses(store).values()) == {Status.DONE}

    @needs("transactions")
    def test_a_plan_that_fails_at_its_end_has_done_nothing(self, store: Store) -> None:
        add(store, "x", "y", links=[blocks("y", "x")])
        with no_trace(store), pytest.raises(CycleDetected):
            apply(store, plan({"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "x", "deps": ["y"]}))

    @needs("transactions")
    def test_links_that_fail_at_their_end_have_done_nothing(self, store: Store) -> None:
        add(store, "a", "b", "c")
        with no_trace(store), pytest.raises(CycleDetected):
            link(store, blocks("b", "a"), blocks("c", "b"), blocks("a", "c"))

    def test_skipped_tests_match_the_declared_capabilities(self, store: Store) -> None:
        assert self.lacks in (frozenset(), lacking(store))


# A call on the store below, with the code and exit status of its error.
ASKED: dict[str, tuple[Callable[[Store], object], str, int]] = {
    "get": (lambda store: get(store, "nowhere"), "NOT_FOUND", 3),
    "links": (lambda store: store.links(SCOPE, "nowhere"), "NOT_FOUND", 3),
    "claim": (lambda store: claim(store, "ann", "nowhere"), "NOT_FOUND", 3),
    "move": (lambda store: move(store, Verb.DONE, "nowhere", "secret-x"), "NOT_FOUND", 3),
    "amend": (lambda store: amend(store, "nowhere", Edit(title="x")), "NOT_FOUND", 3),
    "link": (lambda store: link(store, blocks("ready", "nowhere")), "NOT_FOUND", 3),
    "unlink": (lambda store: unlink(store, blocks("ready", "done")), "NOT_FOUND", 3),
    "plan": (lambda store: apply(store, plan({"id": "x", "deps": ["nowhere"]})), "PLAN_INVALID", 2),
    "held": (lambda store: claim(store, "ann", "active"), "HELD", 4),
    "held by a person": (lambda store: claim(store, "ann", "human"), "HELD", 4),
    "no token": (lambda store: move(store, Verb.DONE, "active"), "HELD", 4),
    "expired, no token": (lambda store: move(store, Verb.DONE, "expired"), "ILLEGAL_MOVE", 4),
    "wrong token": (lambda store: move(store, Verb.DONE, "active", "secret-x"), "LOST_LOCK", 5),
    "late": (lambda store: move(store, Verb.DONE, "expired", _token(store, "expired")), "LOST_LOCK", 5),
    "spent": (lambda store: move(store, Verb.CANCEL, "done", get(store, "done").spent_token), "LOST_LOCK", 5),
    "waiting": (lambda store: claim(store, "ann", "waiting"), "WAITING", 4),
    "early": (lambda store: claim(store, "ann", "early"), "WAITING", 4),
    "assigned": (lambda store: claim(store, "ann", "assigned"), "NOT_FOR_YOU", 4),
    "skilled": (lambda store: claim(store, "ann", "skilled"), "NOT_FOR_YOU", 4),
    "finished": (lambda store: claim(store, "ann", "done"), "ILLEGAL_MOVE", 4),
    "idle": (lambda store: claim(store, "ann", "blocked"), "ILLEGAL_MOVE", 4),
    "verb": (lambda store: move(store, Verb.APPROVE, "ready"), "ILLEGAL_MOVE", 4),
    "rewritten": (lambda store: amend(store, "done", Edit(title="x")), "ILLEGAL_MOVE", 4),
    "cycle": (lambda store: link(store, blocks("active", "waiting")), "CYCLE", 6),
    "children": (lambda store: move(store, Verb.DONE, "parent", _token(store, "parent")), "INCOMPLETE_SUBTASKS", 6),
    "taken": (lambda store: add(store, "ready"), "ALREADY_EXISTS", 6),
    "restored twice": (lambda store: restore(store, dump(store)), "ALREADY_EXISTS", 6),
}


def _token(store: Store, task: str) -> str | None:
    lease = get(store, task).lease
    return lease and lease.token


# Plans and imports, which not every store takes.
_WHOLE = {"plan", "restored twice"}


class ErrorsTests(Suite):
    """Errors: the ones of the tree, with stable codes, and without secrets."""

    @pytest.fixture
    def busy(self, store: Store, clock: Clock) -> Store:
        add(
            store,
            "expired",
            draft("early", not_before=store.now().replace(year=2100)),
            draft("assigned", assigned_to="x"),
        )
        add(store, draft("skilled", requires=("x",)), "waiting", "human", "parent", draft("child", parent="parent"))
        hold(store, "expired")
        clock.advance(minutes=30)
        for status in (Status.READY, Status.ACTIVE, Status.BLOCKED, Status.DONE):
            bring(store, status.value, status)
        hold(store, "parent", lease=9 * LEASE)
        hold_as_human(store, "human")
        link(store, blocks("waiting", "active"))
        return store

    @needs("links")
    def test_errors_have_codes_and_messages_without_secrets(self, busy: Store) -> None:
        for asked, (ask, code, exit_status) in ASKED.items():
            if asked in _WHOLE and not busy.capabilities.transactions:
                continue
            with pytest.raises(DibsError) as raised:
                ask(busy)
            error = raised.value
            assert (asked, error.code, error.exit_status) == (asked, code, exit_status)
            assert "secret-" not in str(error) + repr(error) + error.message
            assert re.search(r"\w", error.message)

    @needs("links")
    def test_values_keep_secrets_when_they_are_shown(self, busy: Store) -> None:
        for task in ("active", "done", "human"):
            shown = get(busy, task)
            assert "secret-" not in repr(shown) + str(shown) + repr(shown.lease)


LONG = 120.0


def settle(store: Store) -> None:
    """A hint may be left from before; then nothing happens."""
    for _ in range(10):
        if not store.wait(0.2):
            return
    raise AssertionError("there is always something new")


def _waited(store: Store, act: Callable[[], None]) -> float:
    settle(store)
    soon = threading.Timer(0.3, act)
    soon.start()
    began = time.monotonic()
    heard = store.wait(LONG)
    took = time.monotonic() - began
    soon.join()
    assert heard, "the time was over before a hint came"
    return took


class WaitingTests(Suite):
    """A wait ends with new claimable work or at a due time, and never takes longer than requested."""

    @pytest.fixture
    def woken(self, store: Store, harness: Harness[Store]) -> Callable[[Callable[[Store], object]], float]:
        """How long a wait takes during which someone else does this; a wait that is not woken fails."""

        def others_do(act: Callable[[Store], object]) -> None:
            with harness.join(store) as theirs:
                act(theirs)

        return lambda act: _waited(store, lambda: others_do(act))

    def test_a_wait_in_which_nothing_happens_ends_when_its_time_is_over(self, store: Store) -> None:
        settle(store)
        began = time.monotonic()
        assert not store.wait(0.5)
        assert 0.4 < time.monotonic() - began < LONG / 2

    def test_no_time_is_no_wait(self, store: Store) -> None:
        settle(store)
        began = time.monotonic()
        assert not store.wait(0)
        assert time.monotonic() - began < LONG / 2

    def test_new_task_wakes_a_waiting_store(self, store: Store, woken: Woken) -> None:
        assert woken(lambda theirs: add(theirs, "a")) < LONG / 2
        assert claim_ids(store) == ["a"]

    @needs("links")
    def test_finished_prerequisite_wakes_a_waiting_store(self, store: Store, woken: Woken) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        token = hold(store, "a")
        assert woken(lambda theirs: move(theirs, Verb.DONE, "a", token)) < LONG / 2
        assert claim_ids(store) == ["b"]

    def test_released_task_wakes_a_waiting_store(self, store: Store, woken: Woken) -> None:
        add(store, "a")
        token = hold(store, "a")
        assert woken(lambda theirs: move(theirs, Verb.RELEASE, "a", token)) < LONG / 2
        assert claim_ids(store) == ["a"]

    @needs("links")
    def test_removed_link_wakes_a_waiting_store(self, store: Store, woken: Woken) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        hold(store, "a")
        assert woken(lambda theirs: unlink(theirs, blocks("b", "a"))) < LONG / 2
        assert claim_ids(store) == ["b"]

    def test_expired_lease_wakes_a_waiting_store(self, store: Store, clock: Clock, woken: Woken) -> None:
        add(store, "a")
        hold(store, "a")
        assert woken(lambda _: clock.advance(hours=1)) < LONG / 2
        assert claim_ids(store, "bob") == ["a"]

    def test_due_task_wakes_a_waiting_store(self, store: Store, clock: Clock, woken: Woken) -> None:
        add(store, draft("a", not_before=store.now().replace(year=2100)))
        assert woken(lambda _: clock.advance(days=365 * 100)) < LONG / 2
        assert claim_ids(store) == ["a"]

    def test_event_between_two_waits_ends_the_second(self, store: Store, beside: Store) -> None:
        settle(store)
        add(beside, "a")
        began = time.monotonic()
        assert store.wait(LONG)
        assert time.monotonic() - began < LONG / 2
