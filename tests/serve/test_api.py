"""The API as its users meet it: tasks, claims, moves, links, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from serve.place import Server


class Desk:
    """The server, in one scope."""

    def __init__(self, server: Server, scope: str) -> None:
        self._server, self._scope = server, f"scope={scope}"

    def _at(self, path: str) -> str:
        return f"{path}{'&' if '?' in path else '?'}{self._scope}"

    def ok(self, method: str, path: str, body: object = None) -> Any:
        return self._server.ok(method, self._at(path), body)

    def fails(self, status: int, code: str, method: str, path: str, body: object = None) -> Any:
        return self._server.fails(status, code, method, self._at(path), body)

    def add(self, *tasks: str, **links: str) -> None:
        """`add("a", "b", b="a")`: b waits for a."""
        made = [{"title": f"Task {task}", "id": task} for task in tasks]
        self.ok("POST", "tasks", {"tasks": made, "links": [{"task": a, "on": b} for a, b in links.items()]})


@pytest.fixture
def desk(shared: Server, scope: str) -> Desk:
    return Desk(shared, scope)


def test_a_task_is_claimed_finished_and_sets_free_what_waited_for_it(desk: Desk) -> None:
    desk.add("first", "second", second="first")
    (claimed,) = desk.ok("POST", "claims", {"agent": "ann", "lease": "5m"})["claimed"]
    assert claimed["task"]["id"] == "first"
    assert desk.ok("POST", "claims", {"agent": "bob"}) == {"claimed": []}
    body = {"token": claimed["token"], "result": {"rows": 3}, "next": {"agent": "ann"}}
    moved = desk.ok("POST", "tasks/first/done", body)
    assert (moved["task"]["status"], moved["released"]) == ("done", ["second"])
    assert moved["claimed"][0]["handoffs"][0]["result"] == {"rows": 3}


def test_pages_of_tasks_follow_each_other_without_a_gap_though_some_are_added_meanwhile(desk: Desk) -> None:
    desk.add(*(f"t{number}" for number in range(5)))
    page = desk.ok("GET", "tasks?limit=2")
    found = [task["id"] for task in page["tasks"]]
    desk.ok("POST", "tasks", {"tasks": [{"title": "ahead", "id": "ahead", "priority": 0}]})
    while page["next"]:
        page = desk.ok("GET", f"tasks?limit=2&cursor={page['next']}")
        found += [task["id"] for task in page["tasks"]]
    assert found == [f"t{number}" for number in range(5)]


def test_an_id_may_have_a_slash_in_it(desk: Desk) -> None:
    desk.add("spec/1")
    assert desk.ok("GET", "tasks/spec%2F1")["task"]["id"] == "spec/1"
    assert desk.ok("POST", "tasks/spec%2F1/pause", {})["task"]["status"] == "paused"


def test_a_link_that_would_make_a_cycle_is_refused_with_the_way_round(desk: Desk) -> None:
    desk.add("a", "b", b="a")
    told = desk.fails(409, "CYCLE", "POST", "links", {"links": [{"task": "a", "on": "b"}]})
    assert "→" in told["detail"]
