"""Listing, looking at what is ready and claiming, narrowed to some of the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import NotForYou
from dibs.core.fields import Filter
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Edit
from dibs.stores.port import Query

from .builders import LEASE, MAKER, SCOPE, add, amend, claim_ids, draft, hold, peek_ids, request
from .suite import Suite, needs

if TYPE_CHECKING:
    from dibs.stores.port import Store
    from dibs.testing.clock import Clock

DOCS = Filter(category="docs")
URGENT = Filter(labels=("urgent",))
LATE = Filter(labels=("late",))


def found(store: Store, only: Filter) -> list[str]:
    return [task.id for task in store.find(Query(SCOPE, only=only))]


def sample(store: Store) -> None:
    add(
        store,
        draft("a", category="code"),
        draft("b", category="docs", spec_ref="one", labels=("urgent",)),
        draft("c", category="docs", spec_ref="two", labels=("café, 2nd floor", "urgent")),
        draft("d", labels=("late",)),
    )


class FilterTests(Suite):
    def test_a_filter_narrows_listings_and_looks(self, store: Store) -> None:
        sample(store)
        assert found(store, Filter()) == peek_ids(store, only=Filter()) == ["a", "b", "c", "d"]
        assert found(store, DOCS) == peek_ids(store, only=DOCS) == ["b", "c"]
        assert found(store, Filter(spec_ref="two")) == peek_ids(store, only=Filter(spec_ref="two")) == ["c"]
        both = Filter(category="code", spec_ref="one")
        assert found(store, both) == peek_ids(store, only=both) == []
        assert found(store, Filter(category="Docs")) == peek_ids(store, only=Filter(category="Docs")) == []

    def test_every_label_of_a_filter_must_match(self, store: Store) -> None:
        sample(store)
        assert found(store, URGENT) == peek_ids(store, only=URGENT) == ["b", "c"]
        both = Filter(labels=("café, 2nd floor", "urgent"))
        assert found(store, both) == peek_ids(store, only=both) == claim_ids(store, only=both) == ["c"]
        assert claim_ids(store, only=both) == []
        assert claim_ids(store, only=Filter(labels=("URGENT",))) == []
        assert claim_ids(store, only=Filter(labels=("urgent", "late"))) == []
        assert claim_ids(store, only=Filter(category="docs", labels=("urgent",))) == ["b"]

    def test_labels_are_kept_and_can_be_changed(self, store: Store) -> None:
        sample(store)
        assert store.get(SCOPE, "c").labels == ("café, 2nd floor", "urgent")
        assert amend(store, "c", Edit(labels=("late",))).labels == store.get(SCOPE, "c").labels == ("late",)
        assert amend(store, "d", Edit(labels=())).labels == store.get(SCOPE, "d").labels == ()
        assert found(store, Filter(labels=("late",))) == ["c"]

    def test_a_filter_narrows_claims(self, store: Store) -> None:
        sample(store)
        assert claim_ids(store, count=3, only=DOCS) == ["b", "c"]
        assert claim_ids(store, only=DOCS) == []
        assert claim_ids(store, count=3) == ["a", "d"]

    @needs("scopes")
    def test_a_filter_narrows_claims_from_any_scope(self, store: Store) -> None:
        sample(store)
        add(store, draft("x", category="docs", priority=0), scope="other")
        add(store, draft("y", priority=0), scope="other")
        assert claim_ids(store, scope=None, count=2, only=DOCS) == ["x", "b"]

    def test_a_named_task_that_does_not_match_is_refused(self, store: Store) -> None:
        sample(store)
        with pytest.raises(NotForYou, match="docs"):
            claim_ids(store, "ann", "a", only=DOCS)
        assert claim_ids(store, "ann", "c", only=DOCS) == ["c"]

    def test_a_finish_goes_on_with_what_matches(self, store: Store) -> None:
        sample(store)
        done = Move(Verb.DONE, "c", SCOPE, MAKER, hold(store, "c"))
        moved = store.move(done, CanceledBlocker.RESOLVES, request(only=LATE))
        assert [claimed.task.id for claimed in moved.next] == ["d"], "not 'a', which comes first in order"

    def test_finishing_many_goes_on_with_what_matches(self, store: Store) -> None:
        sample(store)
        done = [Move(Verb.DONE, task, SCOPE, MAKER, hold(store, task)) for task in ("b", "c")]
        batch = store.move_all(done, CanceledBlocker.RESOLVES, request(count=2, only=LATE))
        assert [claimed.task.id for claimed in batch.next] == ["d"]

    @needs("exact leases")
    def test_an_expired_lease_is_handed_on_to_a_claim_that_matches(self, store: Store, clock: Clock) -> None:
        sample(store)
        hold(store, "a")
        hold(store, "b")
        clock.advance(seconds=LEASE.total_seconds() + 1)
        assert peek_ids(store, "bob", only=DOCS) == ["b", "c"]
        assert claim_ids(store, "bob", only=DOCS) == ["b"]
        assert claim_ids(store, "bob", only=Filter(category="code")) == ["a"]

    @needs("fleet")
    def test_a_filter_narrows_what_is_assigned(self, store: Store) -> None:
        sample(store)
        add(store, draft("e", category="docs", assigned_to="ann"), draft("f", assigned_to="ann"))
        assert peek_ids(store, assigned=True) == ["e", "f"]
        assert peek_ids(store, assigned=True, only=DOCS) == ["e"]
        assert claim_ids(store, count=2, assigned=True, only=DOCS) == ["e"]
