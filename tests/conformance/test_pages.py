"""A listing page by page: what did not move is shown once, whatever happened to the others meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.order import order_key
from dibs.core.task import Actor, Edit, Status
from dibs.stores.port import Query

from .builders import SCOPE, UNFINISHED, add, blocks, bring, claim, draft, finish, hold, move

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clock import Clock
    from dibs.core.task import Task
    from dibs.stores.port import Store


def nothing(_shown: Sequence[Task]) -> None:
    """Nobody does anything between two pages."""


def paged(store: Store, query: Query, size: int, between: Callable[[Sequence[Task]], None] = nothing) -> list[str]:
    """All pages of so many tasks, one after the other, each from where the last one ended."""
    shown: list[Task] = []
    while page := store.find(query._replace(limit=size, after=order_key(shown[-1]) if shown else None)):
        assert len(page) <= size
        shown += page
        between(shown)
    return [task.id for task in shown]


def whole(store: Store, query: Query) -> list[str]:
    return [task.id for task in store.find(query)]


def one_of_each_kind(store: Store) -> None:
    """Every status, several priorities, and what is ready but not due."""
    for status in Status:
        bring(store, f"{status}-a", status)
    add(store, draft("first", priority=1), draft("last", priority=9), draft("same"), draft("again"))
    add(store, draft("early", not_before=store.now() + timedelta(hours=9), priority=1))
    hold(store, "last")


def test_pages_together_are_the_whole_listing(store: Store) -> None:
    one_of_each_kind(store)
    for statuses in (tuple(Status), UNFINISHED, (Status.DONE, Status.CANCELED), (Status.READY,), (Status.ACTIVE,)):
        query = Query(SCOPE, statuses)
        together = whole(store, query)
        for size in (2, len(together), 100):
            assert paged(store, query, size) == together, (statuses, size)


@pytest.mark.needs("links")
@pytest.mark.parametrize("woken", [False, True])
def test_what_waits_and_what_has_expired_is_in_its_place_on_a_page(store: Store, clock: Clock, woken: bool) -> None:
    add(store, draft("a", max_retries=0), "b", "c", "d", "e", "f", links=[blocks("c", "f"), blocks("d", "c")])
    hold(store, "a")
    hold(store, "b")
    clock.advance(hours=1)
    if woken:
        claim(store, scope="elsewhere")
    finish(store, "f")
    expected = [task for task in "abcdef" if store.get(SCOPE, task).status is not Status.DONE]
    assert paged(store, Query(SCOPE, UNFINISHED), 2) == expected


def test_a_task_that_stays_where_it_is_is_shown_once_though_others_come_go_and_move(store: Store) -> None:
    stay = [f"s{number}" for number in range(4)]
    add(store, "goes", stay[0], "moves", stay[1], "claimed", stay[2], stay[3], "finished")
    done: list[int] = []

    def between(shown: Sequence[Task]) -> None:
        turn = len(done)
        done.append(len(shown))
        if turn == 0:
            move(store, Verb.CANCEL, "goes")
            add(store, draft("ahead", priority=0), draft("behind", priority=9))
            store.amend(SCOPE, "moves", Edit(priority=8), Actor())
        if turn == 1:
            hold(store, "claimed")
            finish(store, "finished")

    shown = paged(store, Query(SCOPE, UNFINISHED), 2, between)
    assert [task for task in shown if task in stay] == stay
    assert "behind" in shown
    assert "ahead" not in shown
    assert shown.count("claimed") == 1


def test_a_place_is_a_place_though_its_task_is_gone_or_was_never_there(store: Store) -> None:
    add(store, "a", "b", "c")
    rank, behind, priority, queued_at, _, scope = order_key(store.get(SCOPE, "b"))
    move(store, Verb.CANCEL, "b")
    assert whole(store, Query(SCOPE, UNFINISHED, after=(rank, behind, priority, queued_at, "b", scope))) == ["c"]
    assert whole(store, Query(SCOPE, after=(rank, behind, 1000.0, queued_at, "", ""))) == []


@pytest.mark.parametrize(
    "narrow",
    [{"assigned_to": "ann"}, {"parent": "p"}, {"text": "wanted"}, *({name: "x"} for name in ("category", "spec_ref"))],
    ids=lambda narrow: next(iter(narrow)),
)
def test_pages_of_a_narrow_listing_hold_what_fits_and_nothing_else(store: Store, narrow: dict[str, Any]) -> None:
    fields = {"title": "Wanted"} if "text" in narrow else narrow
    add(store, "p")
    for number in range(5):
        add(store, draft(f"fits-{number}", **fields), f"not-{number}")
    asked = {"only": Filter(**narrow)} if narrow.keys() <= set(Filter._fields) else narrow
    assert paged(store, Query(SCOPE, **asked), 2) == [f"fits-{number}" for number in range(5)]


def test_pages_of_what_somebody_holds(store: Store) -> None:
    add(store, *"abcde")
    for task in "abce":
        hold(store, task, "bob" if task == "b" else "ann")
    assert paged(store, Query(SCOPE, agent="ann"), 2) == ["a", "c", "e"]


@pytest.mark.needs("scopes")
def test_pages_of_all_scopes_do_not_confuse_tasks_of_the_same_name(store: Store) -> None:
    for scope in ("one", "two", "three"):
        add(store, "a", "b", scope=scope)
    everything = [(task.scope, task.id) for task in store.find(Query())]
    shown: list[Task] = []
    while page := store.find(Query(limit=1, after=order_key(shown[-1]) if shown else None)):
        shown += page
    assert [(task.scope, task.id) for task in shown] == everything
    assert len(set(everything)) == 6


@pytest.mark.needs("transactions")
def test_internal_scopes_are_in_no_listing_or_count_of_all(store: Store) -> None:
    add(store, "a")
    for scope in (".inbox.mira", ".outbox.mira", ".mail.ann"):
        add(store, "message", scope=scope)
    assert whole(store, Query()) == ["a"]
    assert store.counts(None) == store.counts(SCOPE)
    assert whole(store, Query(".inbox.mira")) == ["message"]
    assert store.counts(".mail.ann").by_status[Status.READY] == 1


@pytest.mark.needs("scopes")
def test_scopes_of_users_are_in_every_listing(store: Store) -> None:
    for scope in ("mail.team", "inbox.x"):
        add(store, "a", scope=scope)
    assert {task.scope for task in store.find(Query())} == {"mail.team", "inbox.x"}
    assert store.counts(None).by_status[Status.READY] == 2
