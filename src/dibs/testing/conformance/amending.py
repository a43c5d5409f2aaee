"""Editing tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import Changed, CycleDetected, IllegalMove, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, ServiceClass, Status

from .builders import (
    LEASE,
    SCOPE,
    UNFINISHED,
    add,
    amend,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    events,
    get,
    hold,
    move,
    no_trace,
    only,
    peek_ids,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from dibs.stores.port import Store
    from dibs.testing import Clock


NEW: dict[str, Any] = {
    "title": "Another title",
    "description": "More\nlines",
    "service_class": ServiceClass.EXPEDITE,
    "override": True,
    "priority": 0.25,
    "category": "new",
    "deliverable": "report",
    "steps": ("one", "two"),
    "spec_ref": "specs/new.md",
    "ref": "42",
    "parent": "p",
    "requires": ("gpu",),
    "assigned_to": "bob",
    "max_retries": 7,
    "extra": {"k": ["v", 1, None]},
}
CLEARED: dict[str, Any] = {
    **dict.fromkeys(("category", "deliverable", "spec_ref", "ref", "parent", "assigned_to", "max_retries")),
    "description": "",
    "steps": (),
    "requires": (),
    "extra": {},
    "override": False,
}


class AmendingTests(Suite):
    """Editing: what an unfinished task says may change, and the desk acts on the new word at once."""

    def test_an_edit_changes_its_field_and_nothing_else(self, store: Store, clock: Clock) -> None:
        add(store, "p", *NEW)
        clock.advance(minutes=1)
        for field, value in NEW.items():
            before = get(store, field)
            edited = amend(store, field, Edit(**{field: value}))
            assert edited == before._replace(updated_at=store.now(), **{field: value})
            assert get(store, field) == edited

    def test_an_edit_can_clear_a_field(self, store: Store) -> None:
        full = {name: NEW[name] for name in CLEARED if name != "ref"}
        add(store, "p", *(draft(field, **full, ref=f"# {field}") for field in CLEARED))
        for field, value in CLEARED.items():
            before = get(store, field)
            assert amend(store, field, Edit(**{field: value})) == before._replace(**{field: value})
            assert get(store, field) == before._replace(**{field: value})

    def test_edit_can_change_all_fields(self, store: Store) -> None:
        add(store, "a", "p")
        when = store.now() + LEASE
        edited = amend(store, "a", Edit(**NEW, queued_at=when, not_before=when))
        assert {name: getattr(edited, name) for name in NEW} == NEW
        assert (edited.queued_at, edited.not_before) == (when, when)
        assert get(store, "a") == edited

    def test_edit_without_a_difference_records_nothing(self, store: Store, clock: Clock) -> None:
        add(store, "p", draft("a", **NEW))
        clock.advance(minutes=1)
        with no_trace(store):
            assert amend(store, "a", Edit(**NEW)) == get(store, "a")
            assert amend(store, "a", Edit(priority=0.250)) == get(store, "a")
            assert amend(store, "a", Edit()) == get(store, "a")

    @pytest.mark.parametrize("status", UNFINISHED)
    def test_unfinished_task_of_any_status_can_be_edited(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        before = get(store, "a")
        assert amend(store, "a", Edit(title="New")) == before._replace(title="New")
        assert ("a" in peek_ids(store)) is (status is Status.READY)

    @pytest.mark.parametrize("status", [Status.DONE, Status.CANCELED])
    def test_finished_task_cannot_be_edited(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        with no_trace(store), pytest.raises(IllegalMove):
            amend(store, "a", Edit(title="New"))
        with no_trace(store):
            amend(store, "a", Edit(title="Task a"))

    def test_extra_can_be_kept_for_a_task_of_any_status(self, store: Store) -> None:
        for status in Status:
            bring(store, status.value, status, extra={"old": 1, "gone": [2]})
            before = get(store, status.value)
            kept = amend(store, status.value, Edit(keep={"new": {"x": None}, "gone": None}))
            assert kept == get(store, status.value) == before._replace(extra={"old": 1, "new": {"x": None}})
        assert peek_ids(store) == [Status.READY]

    def test_finished_task_accepts_only_extra_fields(self, store: Store) -> None:
        bring(store, "a", Status.DONE)
        for edit in (Edit(title="New", keep={"k": 1}), Edit(extra={"k": 1})):
            with no_trace(store), pytest.raises(IllegalMove):
                amend(store, "a", edit)

    def test_edit_based_on_outdated_values_changes_nothing(self, store: Store) -> None:
        add(store, "a")
        amend(store, "a", Edit(priority=1))
        edit = Edit(priority=9, keep={"k": 1}, was={"priority": 2, "status": Status.READY})
        with no_trace(store), pytest.raises(Changed):
            amend(store, "a", edit)
        assert amend(store, "a", edit._replace(was={"priority": 1, "status": Status.READY})).priority == 9

    @needs("scopes")
    def test_an_unknown_task_or_parent_is_not_found(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", scope="elsewhere")
        for task, edit in (("b", Edit(title="x")), ("a", Edit(parent="nowhere")), ("a", Edit(parent="b"))):
            with no_trace(store), pytest.raises(NotFound):
                amend(store, task, edit)

    @needs("exact leases")
    @pytest.mark.parametrize("named", [(), ("a",)], ids=["next", "named"])
    def test_a_holder_keeps_its_lease_through_an_edit(self, store: Store, clock: Clock, named: tuple[str, ...]) -> None:
        add(store, "a")
        token = hold(store, "a")
        amend(store, "a", Edit(priority=1, not_before=store.now() + 9 * LEASE))
        assert claim(store, "bob") == []
        assert move(store, Verb.RENEW, "a", token, lease=LEASE).task.held(store.now())
        clock.advance(minutes=20)
        assert claim_ids(store, "bob", *named) == ["a"]

    def test_not_before_puts_a_task_off_until_it_is_due(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        amend(store, "a", Edit(not_before=store.now() + LEASE))
        assert peek_ids(store) == claim_ids(store) == []
        clock.advance(minutes=19)
        assert peek_ids(store) == claim_ids(store) == []
        clock.advance(minutes=1)
        assert peek_ids(store) == claim_ids(store) == ["a"]

    @pytest.mark.parametrize("back", ["cleared", "now"])
    def test_not_before_can_be_taken_back(self, store: Store, back: str) -> None:
        add(store, draft("a", not_before=store.now() + LEASE))
        amend(store, "a", Edit(not_before=None if back == "cleared" else store.now()))
        assert peek_ids(store) == claim_ids(store) == ["a"]

    def test_not_before_can_be_put_off_again_after_it_was_due(self, store: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + LEASE), "b")
        clock.advance(minutes=30)
        hold(store, "b")
        amend(store, "a", Edit(not_before=store.now() + LEASE))
        assert peek_ids(store) == claim_ids(store) == []
        clock.advance(minutes=20)
        assert claim_ids(store, count=1) == ["a"]

    @needs("links")
    def test_a_waiting_task_stays_waiting_through_an_edit(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        amend(store, "b", Edit(priority=0, not_before=store.now()))
        assert peek_ids(store) == claim_ids(store, count=5) == ["a"]

    @pytest.mark.parametrize(
        ("edit", "expected"),
        [
            (Edit(priority=9), ["b", "c", "a"]),
            (Edit(override=True), ["a", "b", "c"]),
            (Edit(service_class=ServiceClass.INTANGIBLE), ["b", "c", "a"]),
            (Edit(assigned_to="bob"), ["b", "c"]),
            (Edit(requires=("gpu",)), ["b", "c"]),
        ],
    )
    def test_an_edit_counts_in_the_next_claim(self, store: Store, edit: Edit, expected: list[str]) -> None:
        add(store, "a", "b", "c")
        amend(store, "a", edit)
        assert peek_ids(store) == claim_ids(store, count=5) == expected

    def test_a_task_does_not_become_its_own_ancestor(self, store: Store) -> None:
        add(store, "a", draft("b", parent="a"), draft("c", parent="b"))
        for parent in ("a", "b", "c"):
            with no_trace(store), pytest.raises(CycleDetected) as refused:
                amend(store, "a", Edit(parent=parent))
            assert refused.value.path[0] == refused.value.path[-1]

    @needs("links")
    def test_prerequisite_cannot_become_the_parent(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        with no_trace(store), pytest.raises(CycleDetected):
            amend(store, "b", Edit(parent="a"))
        assert amend(store, "a", Edit(parent="b")).parent == "b"

    def test_a_child_may_change_its_parent_and_leave_it(self, store: Store) -> None:
        add(store, "p", "q", draft("a", parent="p"))
        amend(store, "a", Edit(parent="q"))
        amend(store, "p", Edit(parent="a"))
        assert amend(store, "a", Edit(parent=None)).parent is None
        assert amend(store, "q", Edit(parent="p")).parent == "p"

    @needs("history")
    def test_an_edit_is_on_record_with_old_and_new(self, store: Store) -> None:
        add(store, draft("a", steps=("x",)))
        edit = Edit(
            title="New", priority=1, requires=("gpu", "web"), assigned_to="bob", description="secret?", steps=()
        )
        store.amend(SCOPE, "a", edit, Actor("zoe", "r"))
        told = only(events(store, "a")[1:])
        assert (told.verb, told.agent, told.run, told.source, told.target) == ("edit", "zoe", "r", None, None)
        assert told.detail == {
            "title": ["Task a", "New"],
            "priority": [2, 1],
            "requires": [[], ["gpu", "web"]],
            "assigned_to": [None, "bob"],
            "description": None,
            "steps": None,
        }

    @needs("history")
    def test_an_edit_may_say_why_and_that_is_for_the_record_alone(self, store: Store) -> None:
        (task,) = add(store, "a")
        edited = store.amend(SCOPE, "a", Edit(priority=1, why="the user said so"), Actor("zoe"))
        assert edited._replace(updated_at=task.updated_at) == task._replace(priority=1)
        assert events(store, "a")[-1].reason == "the user said so"
        with no_trace(store):
            amend(store, "a", Edit(priority=1, why="said twice"))
