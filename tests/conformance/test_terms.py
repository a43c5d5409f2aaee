"""Taking tasks in on terms: within a quota, and only along with the end of others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import AlreadyExists, CycleDetected, LostLock, NotFound, OverQuota, Unsupported
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.quota import Quota
from dibs.core.task import Actor, Status, Task
from dibs.stores.port import Terms

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    blocks,
    claim,
    draft,
    events,
    finish,
    get,
    hold,
    link,
    move,
    no_trace,
    peek_ids,
    statuses,
)

if TYPE_CHECKING:
    from clock import Clock
    from dibs.stores.port import Store

    from .harness import StoreHarness

INBOX = "inbox"
HOUR = timedelta(hours=1)
pytestmark = pytest.mark.needs("transactions")


def done(task: str, token: str, scope: str = INBOX) -> Move:
    return Move(Verb.DONE, task, scope, Actor("ann"), token=token)


def hand_in(store: Store, *ids: str, ending: tuple[Move, ...] = (), quota: Quota | None = None) -> list[Task]:
    return store.add(SCOPE, [draft(task) for task in ids], [], MAKER, Terms(quota, ending))


def test_tasks_come_in_along_with_the_end_of_others_in_another_scope(store: Store) -> None:
    add(store, "m1", "m2", scope=INBOX)
    held = {task: hold(store, task, scope=INBOX) for task in ("m1", "m2")}
    added = hand_in(store, "a", "b", ending=tuple(done(task, token) for task, token in held.items()))
    assert [task.id for task in added] == ["a", "b"]
    assert statuses(store, INBOX) == {"m1": Status.DONE, "m2": Status.DONE}
    assert peek_ids(store) == ["a", "b"]
    assert [event.verb for event in events(store, "m1", INBOX)] == ["add", "claim", "done"]


def test_who_has_lost_a_lease_hands_in_nothing(store: Store, clock: Clock) -> None:
    add(store, "m1", "m2", scope=INBOX)
    kept, lost = hold(store, "m1", scope=INBOX, lease=3 * LEASE), hold(store, "m2", scope=INBOX)
    clock.advance(seconds=(2 * LEASE).total_seconds())
    with no_trace(store), pytest.raises(LostLock):
        hand_in(store, "a", ending=(done("m1", kept), done("m2", lost)))
    taken = claim(store, "bob", "m2", scope=INBOX)[0].task.lease
    assert taken is not None
    hand_in(store, "a", ending=(done("m1", kept), done("m2", taken.token)))
    assert statuses(store) == {"a": Status.READY}


def test_what_was_handed_in_before_is_not_handed_in_again(store: Store) -> None:
    add(store, "m1", scope=INBOX)
    ending = (done("m1", hold(store, "m1", scope=INBOX)),)
    hand_in(store, "a", ending=ending)
    with no_trace(store), pytest.raises(LostLock):
        hand_in(store, "b", ending=ending)


def test_what_is_wrong_with_the_tasks_leaves_the_others_as_they_were(store: Store) -> None:
    add(store, "m1", scope=INBOX)
    add(store, "a")
    ending = (done("m1", hold(store, "m1", scope=INBOX)),)
    with no_trace(store), pytest.raises(AlreadyExists):
        hand_in(store, "b", "a", ending=ending)
    drafts, links = [draft("b"), draft("c")], [blocks("b", "c"), blocks("c", "b")]
    with no_trace(store), pytest.raises(CycleDetected):
        store.add(SCOPE, drafts, links, MAKER, Terms(ending=ending))
    with no_trace(store), pytest.raises(NotFound):
        hand_in(store, "b", ending=(*ending, done("nobody", "no token")))


def test_a_task_can_come_in_merged_into_another_and_be_taken_out_again(store: Store) -> None:
    add(store, "a")
    merging = Move(Verb.CANCEL, "b", SCOPE, MAKER, reason="says the same as a", merged_into="a")
    (merged,) = hand_in(store, "b", ending=(merging,))
    assert (merged.status, merged.merged_into, merged.reason) == (Status.CANCELED, "a", "says the same as a")
    assert get(store, "b") == merged
    assert events(store, "b")[-1].detail == {"merged_into": "a"}
    move(store, Verb.REOPEN, "b")
    assert (get(store, "b").status, get(store, "b").merged_into) == (Status.READY, None)


def test_what_a_cancelation_means_for_others_is_told_by_the_terms(store: Store) -> None:
    add(store, "a", "b")
    link(store, blocks("b", "a"))
    canceling = Move(Verb.CANCEL, "a", SCOPE, MAKER)
    store.add(SCOPE, [draft("c")], [], MAKER, Terms(ending=(canceling,), on_cancel=CanceledBlocker.CASCADES))
    assert statuses(store) == {"a": Status.CANCELED, "b": Status.CANCELED, "c": Status.READY}


def test_a_quota_counts_what_came_in_within_its_span(store: Store, clock: Clock) -> None:
    quota = Quota(3, HOUR)
    hand_in(store, "a", quota=quota)
    clock.advance(minutes=20)
    hand_in(store, "b", quota=quota)
    add(store, "elsewhere", scope="another")
    finish(store, "b")
    with no_trace(store), pytest.raises(OverQuota) as refused:
        hand_in(store, "c", "d", quota=quota)
    assert refused.value.room == 1
    assert refused.value.retry_after_ms == pytest.approx(40 * 60 * 1000, abs=2)
    hand_in(store, "c", quota=quota)
    clock.advance(minutes=40, milliseconds=1)
    hand_in(store, "d", quota=quota)
    with pytest.raises(OverQuota) as refused:
        hand_in(store, "e", quota=quota)
    assert refused.value.room == 0


def test_a_quota_that_is_too_small_for_the_batch_says_so_in_an_empty_scope(store: Store) -> None:
    with no_trace(store), pytest.raises(OverQuota) as refused:
        hand_in(store, "a", "b", quota=Quota(1, HOUR))
    assert refused.value.room == 1


def test_two_at_once_do_not_both_get_the_last_places_of_a_quota(store: Store, harness: StoreHarness) -> None:
    turns = 5
    together = Barrier(2)

    def try_to(who: str) -> list[bool]:
        with harness.join(store) as own:
            return [_hand_in_three(own, f"{who}{turn}", Quota(5 + 3 * turn, HOUR), together) for turn in range(turns)]

    with ThreadPoolExecutor(2) as pool:
        tries = zip(*pool.map(try_to, "ab", timeout=240), strict=True)
        assert [sorted(both) for both in tries] == [[False, True]] * turns


def _hand_in_three(store: Store, name: str, quota: Quota, together: Barrier) -> bool:
    together.wait(timeout=120)
    try:
        hand_in(store, *(f"{name}{number}" for number in range(3)), quota=quota)
    except OverQuota:
        return False
    return True


@pytest.mark.needs("scopes")
def test_scopes_with_something_to_claim(store: Store, clock: Clock) -> None:
    add(store, "a", "b", scope="held")
    hold(store, "a", scope="held")
    hold(store, "b", scope="held")
    add(store, draft("a", not_before=store.now() + 2 * LEASE), scope="later")
    add(store, draft("a", requires=("ears",)), draft("b", assigned_to="cid"), scope="special")
    add(store, draft("a", max_retries=0), scope="hopeless")
    hold(store, "a", scope="hopeless")
    move(store, Verb.CANCEL, add(store, "a", scope="over")[0].id, scope="over")
    assert store.scopes(claimable=True) == ["special"]
    clock.advance(seconds=LEASE.total_seconds())
    assert store.scopes(claimable=True) == ["held", "special"]
    clock.advance(seconds=LEASE.total_seconds())
    assert store.scopes(claimable=True) == ["held", "later", "special"]
    claim(store, scope="held")
    assert store.scopes(claimable=True) == ["held", "later", "special"]
    claim(store, scope="held")
    assert store.scopes(claimable=True) == ["later", "special"]


def test_a_store_without_transactions_refuses_terms() -> None:
    from dibs.stores.vault.store import VaultStore

    with pytest.raises(Unsupported):
        VaultStore.add(object(), SCOPE, [draft("a")], [], MAKER, Terms(Quota(1, HOUR)))  # type: ignore[arg-type]
