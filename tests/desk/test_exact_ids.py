"""A policy under which ids are given in full; and who is at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import AlreadyExists, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit, Link

from .hands import add, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk

BY_NAME: dict[str, Callable[[Desk], object]] = {
    "get": lambda desk: desk.get("app"),
    "claim": lambda desk: desk.claim("ann", refs=["app"]),
    "move": lambda desk: desk.move(Verb.PAUSE, "app"),
    "edit": lambda desk: desk.edit("app", Edit(title="x")),
    "parent": lambda desk: desk.edit("cherry", Edit(parent="app")),
    "links": lambda desk: desk.links("app"),
    "several links": lambda desk: desk.links("banana", "app"),
    "link": lambda desk: desk.link([Link("cherry", "app")]),
    "unlink": lambda desk: desk.unlink([Link("banana", "app")]),
}


@pytest.fixture
def exact(fruit: Desk) -> Desk:
    return fruit.exact


@pytest.mark.parametrize("verb", BY_NAME)
def test_the_beginning_of_an_id_is_not_taken_for_it(exact: Desk, verb: str) -> None:
    before = state(exact)
    with pytest.raises(NotFound) as refused:
        BY_NAME[verb](exact)
    assert "app" in refused.value.message
    assert state(exact) == before


@pytest.mark.parametrize("verb", ["get", "claim", "move", "edit", "links", "several links", "link", "unlink"])
def test_elsewhere_it_is(fruit: Desk, verb: str) -> None:
    BY_NAME[verb](fruit)


def test_an_id_in_full_is_found(exact: Desk) -> None:
    add(exact, "apple2")
    assert exact.get("apple").id == "apple"
    assert exact.claim("ann", refs=["apple"])[0].task.id == "apple"


def test_exact_desk_differs_in_nothing_else(fruit: Desk) -> None:
    exact = fruit.at(".inbox.ann", internal=True).exact
    assert (exact.scope, exact.by) == (".inbox.ann", fruit.by)
    assert exact.policy == fruit.policy._replace(short_ids=False)


def test_events_of_a_beginning_are_none_on_an_exact_desk(fruit: Desk, exact: Desk) -> None:
    assert [event.task for event in fruit.events(ref="che")] == ["cherry"]
    assert exact.events(ref="che") == []
    assert exact.events(ref="cherry") == fruit.events(ref="cherry")


def test_has_takes_no_beginning_for_an_id(fruit: Desk) -> None:
    assert fruit.has("apple")
    assert not fruit.has("app")


def test_links_of_several_tasks_may_be_asked_for_by_beginnings(fruit: Desk) -> None:
    assert fruit.links("app", "ch") == fruit.links("apple", "cherry") == [Link("banana", "apple")]


def test_an_agent_is_registered_once_until_it_leaves(desk: Desk) -> None:
    made = desk.register("  ann ", host="box", pid=1)
    assert made.id == "ann"
    with pytest.raises(AlreadyExists):
        desk.register("ann")
    desk.deregister("ann")
    assert desk.register("ann").pid is None
    assert [agent.id for agent in desk.agents()] == ["ann"]


@pytest.mark.parametrize(
    "wrong", [{"agent": ""}, {"agent": "a\nb"}, {"agent": "a", "pid": -1}, {"agent": "a", "host": ""}]
)
def test_a_registration_is_checked(desk: Desk, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        desk.register(**wrong)
    assert desk.agents() == []
