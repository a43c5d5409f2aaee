"""What can be claimed and what is held, seen at one moment; and the links of several tasks at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import NotFound
from dibs.core.lifecycle import Verb

from .builders import SCOPE, add, blocks, feeds, hold, hold_as_human, link, move, parallel, request

if TYPE_CHECKING:
    from clock import Clock
    from dibs.stores.port import Store


def landscape(store: Store, agent: str = "ann", *, limit: int = 100, scope: str | None = SCOPE) -> list[str]:
    return [task.id for task in store.peek(request(agent, scope=scope), limit, held=True)]


def test_what_is_held_comes_after_what_can_be_claimed(store: Store) -> None:
    add(store, *"abcd", priority=2)
    add(store, "z", priority=0)
    hold(store, "z", "bob")
    hold(store, "b", "ann")
    assert landscape(store) == ["a", "c", "d", "z", "b"]


def test_the_limit_is_for_what_can_be_claimed_only(store: Store) -> None:
    add(store, *"abcde")
    for task in "abc":
        hold(store, task, "bob")
    assert landscape(store, limit=1) == ["d", "a", "b", "c"]


def test_an_abandoned_task_can_be_claimed_and_is_not_held(store: Store, clock: Clock) -> None:
    add(store, "a", "b")
    hold(store, "a", "bob")
    clock.advance(minutes=30)
    hold(store, "b", "bob")
    assert landscape(store) == ["a", "b"]


@pytest.mark.needs("links")
def test_an_abandoned_task_that_is_blocked_is_in_neither_list(store: Store, clock: Clock) -> None:
    add(store, "a", "b")
    hold(store, "a", "bob")
    link(store, blocks("a", "b"))
    clock.advance(minutes=30)
    assert landscape(store) == ["b"]


def test_what_a_person_holds_is_held_however_long(store: Store, clock: Clock) -> None:
    add(store, "a")
    hold_as_human(store, "a")
    clock.advance(days=365)
    assert landscape(store) == ["a"]


@pytest.mark.needs("links")
def test_what_waits_rests_or_is_over_is_not_in_it(store: Store) -> None:
    add(store, "waiting", "done", "paused", "ready")
    link(store, blocks("waiting", "ready"))
    move(store, Verb.DONE, "done", hold(store, "done"))
    move(store, Verb.PAUSE, "paused")
    assert landscape(store) == ["ready"]


def test_what_others_hold_is_seen_whomever_it_was_meant_for(store: Store) -> None:
    add(store, "a", assigned_to="bob")
    add(store, "b", assigned_to="bob")
    hold(store, "a", "bob")
    assert landscape(store, "ann") == ["a"]


@pytest.mark.needs("scopes")
def test_it_is_of_one_scope_or_of_all(store: Store) -> None:
    add(store, "a")
    add(store, "b", scope="away")
    hold(store, "b", scope="away")
    assert landscape(store) == ["a"]
    assert landscape(store, scope=None) == ["a", "b"]


def test_without_being_asked_for_what_is_held_is_left_out(store: Store) -> None:
    add(store, "a", "b")
    hold(store, "a")
    assert [task.id for task in store.peek(request(), 9)] == ["b"]


@pytest.mark.needs("links")
def test_links_of_several_tasks_come_each_once_and_in_order(store: Store) -> None:
    add(store, *"abcde")
    made = [blocks("b", "a"), feeds("c", "b"), parallel("a", "d"), blocks("e", "d")]
    link(store, *made)
    assert store.links(SCOPE, "a", "b", "c") == sorted(made[:3])
    assert store.links(SCOPE, "e", "c") == sorted([made[1], made[3]])
    assert store.links(SCOPE, "c", "e", "c") == sorted([made[1], made[3]])


@pytest.mark.needs("links")
def test_links_of_no_tasks_are_none(store: Store) -> None:
    add(store, "a", "b", links=[blocks("b", "a")])
    assert store.links(SCOPE) == []


def test_one_unknown_task_among_several_is_not_found(store: Store) -> None:
    add(store, "a")
    with pytest.raises(NotFound) as refused:
        store.links(SCOPE, "a", "nowhere")
    assert "nowhere" in refused.value.message
