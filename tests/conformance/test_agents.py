"""Registrations: who says that it is at work, for people to look at. They prove nothing and gate nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conformance.builders import fleet_of
from dibs.core.agent import Agent, AgentStatus
from dibs.core.errors import AlreadyExists, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Status

from .builders import (
    add,
    dump,
    get,
    hold,
    move,
    restore,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from clock import Clock
    from dibs.stores.port import Store

pytestmark = pytest.mark.needs("fleet")


def register(store: Store, name: str, host: str | None = "box", pid: int | None = 7) -> Agent:
    return fleet_of(store).register(name, host=host, pid=pid)


def test_a_new_store_has_no_agents(store: Store) -> None:
    assert fleet_of(store).agents() == []


def test_a_registered_agent_is_active_since_the_stores_time(store: Store, clock: Clock) -> None:
    made = register(store, "ann")
    assert made == Agent("ann", "box", 7, clock.time, AgentStatus.ACTIVE, None)
    assert fleet_of(store).agents() == [made]


def test_where_it_runs_may_be_left_out(store: Store) -> None:
    made = register(store, "ann", None, None)
    assert (made.host, made.pid) == (None, None)
    assert fleet_of(store).agents() == [made]


def test_agents_are_listed_in_the_order_of_their_start_and_then_by_name(store: Store, clock: Clock) -> None:
    register(store, "zoe")
    clock.advance(seconds=1)
    register(store, "cid")
    register(store, "bob")
    assert [agent.id for agent in fleet_of(store).agents()] == ["zoe", "bob", "cid"]


def test_a_name_that_is_at_work_cannot_be_registered_again(store: Store, clock: Clock) -> None:
    made = register(store, "ann")
    clock.advance(days=30)
    with pytest.raises(AlreadyExists) as refused:
        register(store, "ann", "elsewhere", 8)
    assert "ann" in refused.value.message
    assert fleet_of(store).agents() == [made]


def test_a_deregistered_agent_is_gone_and_stays_on_the_list(store: Store, clock: Clock) -> None:
    made = register(store, "ann")
    clock.advance(minutes=5)
    gone = fleet_of(store).deregister("ann")
    assert gone == made._replace(status=AgentStatus.GONE, ended_at=clock.time)
    assert fleet_of(store).agents() == [gone]


def test_going_twice_changes_nothing(store: Store, clock: Clock) -> None:
    register(store, "ann")
    gone = fleet_of(store).deregister("ann")
    clock.advance(minutes=5)
    assert fleet_of(store).deregister("ann") == gone
    assert fleet_of(store).agents() == [gone]


def test_who_is_gone_may_register_again(store: Store, clock: Clock) -> None:
    register(store, "ann")
    register(store, "bob")
    fleet_of(store).deregister("ann")
    clock.advance(minutes=5)
    again = register(store, "ann", "elsewhere", 8)
    assert again == Agent("ann", "elsewhere", 8, clock.time)
    assert [agent.id for agent in fleet_of(store).agents()] == ["bob", "ann"]


def test_who_never_registered_cannot_leave(store: Store) -> None:
    with pytest.raises(NotFound) as refused:
        fleet_of(store).deregister("nobody")
    assert "nobody" in refused.value.message


def test_others_see_a_registration_and_so_does_a_newcomer(
    store: Store, beside: Store, reopen: Callable[[], Store]
) -> None:
    made = register(store, "ann")
    assert fleet_of(beside).agents() == [made]
    with pytest.raises(AlreadyExists):
        register(beside, "ann")
    assert fleet_of(reopen()).agents() == [made]


def test_what_an_agent_holds_stays_its_own_when_it_deregisters(store: Store) -> None:
    add(store, "a")
    register(store, "ann")
    token = hold(store, "a", "ann")
    fleet_of(store).deregister("ann")
    assert get(store, "a").status is Status.ACTIVE
    assert move(store, Verb.DONE, "a", token).task.status is Status.DONE


def test_nobody_needs_to_register_to_work(store: Store) -> None:
    add(store, "a")
    hold(store, "a", "stranger")
    assert fleet_of(store).agents() == []


@pytest.mark.needs("transactions")
def test_registrations_are_no_part_of_an_export(store: Store, another: Store) -> None:
    add(store, "a")
    register(store, "ann")
    restore(another, dump(store))
    assert fleet_of(another).agents() == []
    assert len(fleet_of(store).agents()) == 1
