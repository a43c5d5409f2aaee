"""The API: the answers and refusals of each route."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import pytest

from core.samples import make_task
from dibs.core.task import Actor
from dibs.desk import quiet
from dibs.serve.app import ROUTES, Router
from dibs.stores.opening import open_store
from dibs.stores.reports import Record
from support.http import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.http import Answer, Server

Test = TypeVar("Test", bound="Callable[..., None]")

_ROUTER = Router(ROUTES)
_TESTED: dict[str, set[str]] = {}  # test → the routes that it is about


def of(*routes: str) -> Callable[[Test], Test]:
    """Which routes a test is about. It has to ask each of them."""

    def note(test: Test) -> Test:
        _TESTED[test.__name__] = set(routes)
        return test

    return note


class Desk:
    """The server, in one scope, on one connection."""

    def __init__(self, line: Line, scope: str) -> None:
        self._line, self._scope = line, f"scope={quote(scope)}"
        self.asked: set[str] = set()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        route, _ = _ROUTER.find(method, f"/{path.partition('?')[0]}")
        self.asked.add(f"{route.method} {route.path}")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._line.ask(method, f"{path}{'&' if '?' in path else '?'}{self._scope}", body, sent)

    def ok(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert answer.status < 300, answer
        return answer.data

    def fails(self, status: int, code: str, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert (answer.status, answer.data["code"]) == (status, code), answer
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.data["detail"]
        return answer.data

    def add(self, *tasks: str, **links: str) -> None:
        """`add("a", "b", b="a")`: b waits for a."""
        made = [{"title": f"Task {task}", "id": task} for task in tasks]
        self.ok("POST", "tasks", {"tasks": made, "links": [{"task": a, "on": b} for a, b in links.items()]})

    def hold(self, task: str, agent: str = "ann", **said: object) -> str:
        """The token under which it is held."""
        (claimed,) = self.ok("POST", "claims", {"agent": agent, "ids": [task], **said})["claimed"]
        return str(claimed["token"])

    def ids(self, path: str) -> list[str]:
        return [task["id"] for task in self.ok("GET", path)["tasks"]]

    def status(self, task: str) -> str:
        return str(self.ok("GET", f"tasks/{task}")["task"]["status"])


@pytest.fixture
def desk(shared: Server, scope: str, request: pytest.FixtureRequest) -> Iterator[Desk]:
    with Line(shared.port) as line:
        desk = Desk(line, scope)
        yield desk
    missing = _TESTED.get(request.function.__name__, set()) - desk.asked
    assert not missing, f"the test says that it is about {missing}, and does not ask"


def test_no_route_is_without_a_test_here() -> None:
    table = {f"{route.method} {route.path}" for route in ROUTES}
    assert set().union(*_TESTED.values()) == table


# Tasks


@of("POST /tasks", "POST /claims", "POST /tasks/{id}/done")
def test_finished_task_unblocks_its_dependents(desk: Desk) -> None:
    desk.add("first", "second", second="first")
    (claimed,) = desk.ok("POST", "claims", {"agent": "ann", "lease": "5m"})["claimed"]
    assert claimed["task"]["id"] == "first"
    assert desk.ok("POST", "claims", {"agent": "bob"}) == {"claimed": []}
    body = {"token": claimed["token"], "result": {"rows": 3}, "next": {"agent": "ann"}}
    moved = desk.ok("POST", "tasks/first/done", body)
    assert (moved["task"]["status"], moved["unblocked"]) == ("done", ["second"])
    assert moved["claimed"][0]["inputs"][0]["result"] == {"rows": 3}


@of("POST /tasks", "GET /tasks", "POST /claims", "POST /tasks/{id}/done", "PATCH /tasks/{id}")
def test_labels_categories_and_specs_filter_lists_and_claims(desk: Desk) -> None:
    drafts: list[dict[str, object]] = [
        {"title": "Header", "id": "header", "labels": ["web", "urgent", "web"]},
        {"title": "Footer", "id": "footer", "labels": ["web"], "category": "bug", "spec_ref": "site"},
        {"title": "Help", "id": "help", "category": "docs"},
    ]
    made = desk.ok("POST", "tasks", {"tasks": drafts})["tasks"]
    assert made[0]["labels"] == ["urgent", "web"]
    assert sorted(desk.ids("tasks?labels=web")) == ["footer", "header"]
    assert desk.ids("tasks?labels=web,urgent") == desk.ids("tasks?ready=1&labels=web,urgent") == ["header"]
    assert desk.ids("tasks?category=bug&spec_ref=site") == ["footer"]
    (claimed,) = desk.ok("POST", "claims", {"agent": "ann", "labels": ["urgent"]})["claimed"]
    assert claimed["task"]["id"] == "header"
    assert desk.ok("POST", "claims", {"agent": "ann", "labels": ["urgent"]}) == {"claimed": []}
    body = {"token": claimed["token"], "next": {"agent": "ann", "category": "docs"}}
    assert desk.ok("POST", "tasks/header/done", body)["claimed"][0]["task"]["id"] == "help"
    assert "labels" not in desk.ok("PATCH", "tasks/footer", {"labels": []})["task"]
    desk.fails(400, "INVALID_INPUT", "POST", "claims", {"agent": "ann", "labels": "web"})


@of("GET /search", "GET /overview", "POST /tasks/{id}/close", "POST /tasks/{id}/reopen", "POST /undo")
def test_tasks_are_searched_closed_reopened_and_changes_undone(desk: Desk) -> None:
    drafts = [{"title": "Write the parser", "id": "parser"}, {"title": "Test", "id": "tests", "description": "parsers"}]
    desk.ok("POST", "tasks", {"tasks": drafts})
    assert desk.ids("search?text=pars") == ["parser", "tests"]
    assert desk.ok("POST", "tasks/parser/close", {"result": "by hand"})["task"]["status"] == "done"
    assert desk.ids("search?text=pars&finished=0") == ["tests"]
    assert desk.ok("POST", "tasks/parser/reopen")["task"]["status"] == "ready"
    seen = desk.ok("GET", "overview?agent=ann")
    assert ([task["id"] for task in seen["ready"]], seen["held"]) == (["parser", "tests"], [])
    desk.ok("PATCH", "tasks/parser", {"title": "Other"}, X_Dibs_Actor="zoe")
    undone = desk.ok("POST", "undo", {"agent": "zoe"}, X_Dibs_Actor="zoe")
    assert (undone["undone"]["verb"], undone["task"]["title"]) == ("edit", "Write the parser")
    desk.fails(404, "NOT_FOUND", "POST", "undo", {"agent": "nobody"})
    desk.fails(400, "INVALID_INPUT", "GET", "search?text=%3F")


@of("POST /tasks")
def test_tasks_are_added_all_or_none(desk: Desk) -> None:
    answer = desk.ask("POST", "tasks", {"tasks": [{"title": "Own id", "id": "a"}, {"title": "None given"}]})
    assert answer.status == 201
    own, minted = (task["id"] for task in answer.data["tasks"])
    assert own == "a"
    assert minted
    both = [{"title": "New", "id": "b"}, {"title": "There already", "id": "a"}]
    desk.fails(409, "ALREADY_EXISTS", "POST", "tasks", {"tasks": both})
    desk.fails(404, "NOT_FOUND", "POST", "tasks", {"tasks": both[:1], "links": [{"task": "b", "on": "nowhere"}]})
    round_about = [{"task": "b", "on": "a"}, {"task": "a", "on": "b"}]
    desk.fails(409, "CYCLE", "POST", "tasks", {"tasks": both[:1], "links": round_about})
    assert sorted(desk.ids("tasks")) == sorted([own, minted])


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [{}],
        [{"title": ""}],
        [{"title": "t", "id": "two words"}],
        [{"title": "t", "priority": "high"}],
        [{"title": "t", "status": "done"}],
        [{"title": "t", "not_before": "tomorrow"}],
        [{"title": "t", "colour": "red"}],
        [{"title": 7}],
        "t",
    ],
    ids=str,
)
@of("POST /tasks")
def test_wrong_field_is_named_and_nothing_is_stored(desk: Desk, tasks: object) -> None:
    desk.fails(400, "INVALID_INPUT", "POST", "tasks", {"tasks": tasks})
    assert desk.ids("tasks") == []


@of("GET /tasks")
def test_pages_have_no_gap_when_tasks_are_added(desk: Desk) -> None:
    desk.add(*(f"t{number}" for number in range(5)))
    page = desk.ok("GET", "tasks?limit=2")
    found = [task["id"] for task in page["tasks"]]
    desk.ok("POST", "tasks", {"tasks": [{"title": "ahead", "id": "ahead", "priority": 0}]})
    while page["next"]:
        page = desk.ok("GET", f"tasks?limit=2&cursor={page['next']}")
        found += [task["id"] for task in page["tasks"]]
    assert found == [f"t{number}" for number in range(5)]


@of("GET /tasks")
def test_exactly_full_page_is_the_last(desk: Desk) -> None:
    desk.add("a", "b", "c", "d")
    first = desk.ok("GET", "tasks?limit=2")
    last = desk.ok("GET", f"tasks?limit=2&cursor={first['next']}")
    assert ([task["id"] for task in last["tasks"]], last["next"]) == (["c", "d"], None)
    desk.ok("POST", "tasks/c/cancel", {})
    assert desk.ids(f"tasks?limit=2&all=0&cursor={first['next']}") == ["d"]
    assert desk.ok("GET", "tasks?limit=4")["next"] is None
    assert desk.ok("GET", "tasks?limit=2000")["next"] is None


@pytest.mark.parametrize(
    "asked",
    [
        "limit=0", "limit=2001", "limit=-1", "limit=many", "cursor=x", "cursor=W10", "cursor=" + "A" * 400,
        "cursor=WzksMSwyLDAsImEiLCJiIl0", "status=lost", "all=maybe", "colour=red", "limit=1&limit=2",
    ],
)  # fmt: skip
@of("GET /tasks")
def test_invalid_query_is_refused(desk: Desk, asked: str) -> None:
    desk.fails(400, "INVALID_INPUT", "GET", f"tasks?{asked}")


@of("GET /tasks")
def test_list_is_filtered_by_its_parameters(desk: Desk) -> None:
    drafts = [
        {"title": "Water the plants", "id": "plants", "category": "home", "assigned_to": "ann"},
        {"title": "Feed the cat", "id": "cat", "description": "and water it", "spec_ref": "pets"},
        {"title": "Brush", "id": "brush", "parent": "cat"},
        {"title": "Later", "id": "later", "status": "backlog"},
    ]
    desk.ok("POST", "tasks", {"tasks": drafts})
    desk.hold("cat", "bob")
    desk.ok("POST", "tasks/brush/cancel", {})
    expected = {
        "status=backlog": ["later"],
        "status=backlog,canceled": ["brush", "later"],
        "agent=bob": ["cat"],
        "assigned_to=ann": ["plants"],
        "category=home": ["plants"],
        "spec_ref=pets": ["cat"],
        "parent=cat": ["brush"],
        "text=WATER": ["cat", "plants"],
        "all=0": ["cat", "later", "plants"],
        "ready=1": [],
        "ready=1&agent=ann": ["plants"],
        "ids=cat,nowhere": ["cat"],
    }
    assert {asked: sorted(desk.ids(f"tasks?{asked}")) for asked in expected} == expected


@of("GET /tasks")
def test_tasks_by_id_come_with_their_dependents(desk: Desk) -> None:
    desk.add("a", "b", "c", b="a", c="b")
    assert desk.ids("tasks?ids=a&dependents=1") == ["a", "b"]


@of("GET /tasks/{id}")
def test_task_is_shown_with_links_parts_and_history(desk: Desk) -> None:
    desk.add("whole", "before", whole="before")
    desk.ok("POST", "tasks", {"tasks": [{"title": "Part", "id": "part", "parent": "whole"}]})
    shown = desk.ok("GET", "tasks/who")  # an unambiguous beginning will do
    assert shown["task"]["id"] == "whole"
    assert [(link["task"], link["on"]) for link in shown["links"]] == [("whole", "before")]
    assert shown["children"] == ["part"]
    assert [event["verb"] for event in shown["events"]] == ["add", "link"]
    desk.fails(404, "NOT_FOUND", "GET", "tasks/nowhere")
    desk.add("part2")
    assert "part2" in desk.fails(404, "AMBIGUOUS_ID", "GET", "tasks/par")["detail"]


@of("GET /tasks/{id}", "POST /tasks/{id}/pause")
def test_imported_id_may_have_a_slash(shared: Server, scope: str, desk: Desk) -> None:
    """New ids have none, and imported tasks keep theirs."""
    with open_store(shared.store) as store:
        store.restore([Record(scope, make_task("spec/1")._replace(scope=scope))], Actor("ann"), quiet)
    assert desk.ok("GET", "tasks/spec%2F1")["task"]["id"] == "spec/1"
    assert desk.ok("POST", "tasks/spec%2F1/pause", {})["task"]["status"] == "paused"


@of("PATCH /tasks/{id}")
def test_edit_with_an_outdated_was_is_refused(desk: Desk) -> None:
    desk.add("a")
    said = {"title": "Better", "category": "home", "was": {"title": "Task a"}}
    edited = desk.ok("PATCH", "tasks/a", said)["task"]
    assert (edited["title"], edited["category"]) == ("Better", "home")
    desk.fails(409, "CHANGED", "PATCH", "tasks/a", said)
    assert desk.ok("PATCH", "tasks/a", {"category": None})["task"].get("category") is None
    assert desk.ok("PATCH", "tasks/a", {"status": "backlog"})["task"]["status"] == "backlog"
    desk.fails(400, "INVALID_INPUT", "PATCH", "tasks/a", {})
    desk.fails(400, "INVALID_INPUT", "PATCH", "tasks/a", {"title": ""})
    desk.fails(404, "NOT_FOUND", "PATCH", "tasks/nowhere", {"title": "x"})
    desk.fails(409, "CYCLE", "PATCH", "tasks/a", {"parent": "a"})
    desk.ok("POST", "tasks/a/cancel", {})
    desk.fails(409, "ILLEGAL_MOVE", "PATCH", "tasks/a", {"title": "Too late"})


@of("POST /tasks/{id}/comments")
def test_comment_is_added_once_per_key(desk: Desk) -> None:
    desk.add("a")
    for _ in range(2):
        answer = desk.ask("POST", "tasks/a/comments", {"text": "mind the step"}, Idempotency_Key="remark")
        assert answer.status == 201
    desk.ok("POST", "tasks/a/comments", {"text": "mind the step"})
    said = [event["reason"] for event in desk.ok("GET", "tasks/a")["events"] if event["verb"] == "comment"]
    assert said == ["mind the step", "mind the step"]
    desk.fails(400, "INVALID_INPUT", "POST", "tasks/a/comments", {"text": "  "})
    desk.fails(404, "NOT_FOUND", "POST", "tasks/nowhere/comments", {"text": "hello"})


@of("GET /tasks/{id}/output", "POST /tasks/{id}/output")
def test_output_is_appended_once_and_read_from_any_byte(desk: Desk) -> None:
    desk.add("a")
    token = desk.hold("a")
    for _ in range(2):
        assert desk.ok("POST", "tasks/a/output", {"token": token, "start": 0, "text": "one\n"}) == {"end": 4}
    assert desk.ok("POST", "tasks/a/output", {"token": token, "start": 4, "text": "zwei ☕\n"})["end"] == 13
    page = {"attempt": 1, "pieces": [{"start": 4, "text": "zwei ☕\n"}], "end": 13, "over": False, "attempts": [1]}
    assert desk.ok("GET", "tasks/a/output?after=4") == page
    assert desk.ok("GET", "tasks/a/output?attempt=2")["pieces"] == []
    desk.ok("POST", "tasks/a/done", {"token": token})
    assert desk.ok("GET", "tasks/a/output?after=13") == {**page, "pieces": [], "over": True}
    desk.fails(409, "LOST_LOCK", "POST", "tasks/a/output", {"token": "another", "start": 0, "text": "x"})
    desk.fails(404, "NOT_FOUND", "POST", "tasks/nowhere/output", {"token": token, "start": 0, "text": "x"})
    desk.fails(404, "NOT_FOUND", "GET", "tasks/nowhere/output")
    desk.fails(400, "INVALID_INPUT", "POST", "tasks/a/output", {"token": token, "start": -1, "text": "x"})
    desk.fails(400, "INVALID_INPUT", "GET", "tasks/a/output?after=-1")


@of("GET /tasks/{id}/diff")
def test_diff_is_not_found_where_no_worktree_was_made(desk: Desk) -> None:
    desk.add("a")
    desk.fails(404, "NOT_FOUND", "GET", "tasks/a/diff")
    desk.fails(404, "NOT_FOUND", "GET", "tasks/nowhere/diff")


# Work


@of("POST /claims")
def test_claim_takes_next_or_named_task_but_no_held_one(desk: Desk) -> None:
    desk.add("a", "b", "c", c="b")
    took = desk.ok("POST", "claims", {"agent": "ann", "count": 5})["claimed"]
    assert [one["task"]["id"] for one in took] == ["a", "b"]
    assert desk.fails(409, "HELD", "POST", "claims", {"agent": "bob", "ids": ["a"]})["holder"]
    desk.fails(409, "WAITING", "POST", "claims", {"agent": "bob", "ids": ["c"]})
    desk.fails(404, "NOT_FOUND", "POST", "claims", {"agent": "bob", "ids": ["nowhere"]})
    for wrong in ({"count": 0}, {"lease": "soon"}, {"ids": "a"}, {"holder": "human"}, {"agent": ""}):
        desk.fails(400, "INVALID_INPUT", "POST", "claims", {"agent": "bob", **wrong})
    (held,) = desk.ok("POST", "claims", {"agent": "eve", "ids": ["a"], "holder": "human", "force": True})["claimed"]
    assert (held["task"]["lease"]["agent"], held["task"]["lease"].get("expires_at")) == ("eve", None)


@of("POST /claims")
def test_repeated_claim_gets_the_same_answer(desk: Desk) -> None:
    desk.add("a", "b")
    first = desk.ask("POST", "claims", {"agent": "ann"}, Idempotency_Key="k")
    again = desk.ask("POST", "claims", {"agent": "ann"}, Idempotency_Key="k")
    assert first.body == again.body
    assert desk.ids("tasks?status=active") == ["a"]
    desk.fails(422, "WRONG_KEY", "POST", "claims", {"agent": "bob"}, Idempotency_Key="k")


# verb → setup, body, and the expected status
MOVES: dict[str, tuple[tuple[str, ...], dict[str, object], str]] = {
    "renew": (("claim",), {"lease": "1h"}, "active"),
    "done": (("claim",), {"result": 7, "artifacts": ["out.txt"]}, "done"),
    "fail": (("claim",), {"reason": "no network"}, "ready"),
    "block": (("claim",), {"reason": "no key", "unblock_action": "send one"}, "blocked"),
    "unblock": (("claim", "block"), {}, "ready"),
    "review": (("claim",), {"result": "a draft"}, "review"),
    "approve": (("claim", "review"), {}, "done"),
    "rework": (("claim", "review"), {"reason": "too short"}, "ready"),
    "cancel": ((), {"reason": "not wanted"}, "canceled"),
    "release": (("claim",), {}, "ready"),
    "pause": ((), {}, "paused"),
    "resume": (("pause",), {}, "ready"),
    "queue": (("shelve",), {}, "ready"),
    "shelve": ((), {}, "backlog"),
    "reopen": (("cancel",), {}, "ready"),
}


@of(*(f"POST /tasks/{{id}}/{verb}" for verb in MOVES))
def test_moves_follow_the_lifecycle_table(desk: Desk) -> None:
    desk.add(*MOVES, "at-its-end")
    desk.ok("POST", "tasks/at-its-end/cancel", {})
    for verb, (before, said, status) in MOVES.items():
        token = {}
        for step in before:
            if step == "claim":
                token = {"token": desk.hold(verb)}
            else:
                desk.ok("POST", f"tasks/{verb}/{step}", token)
                token = {}
        moved = desk.ok("POST", f"tasks/{verb}/{verb}", {**said, **token})
        assert (moved["task"]["status"], moved["repeated"]) == (status, False), verb
        desk.fails(404, "NOT_FOUND", "POST", f"tasks/nowhere/{verb}", {})
        desk.fails(400, "INVALID_INPUT", "POST", f"tasks/{verb}/{verb}", {"colour": "red"})
        if verb not in {"cancel", "reopen"}:
            desk.fails(409, "ILLEGAL_MOVE", "POST", f"tasks/at-its-end/{verb}", {})


@of("POST /tasks/{id}/done", "POST /tasks/{id}/renew")
def test_late_and_foreign_tokens_are_refused_and_repeats_recognised(desk: Desk) -> None:
    desk.add("a", "b")
    old = desk.hold("a")
    desk.ok("POST", "tasks/a/release", {"token": old})
    new = desk.hold("a", "bob")
    for verb in ("done", "renew"):
        desk.fails(409, "LOST_LOCK", "POST", f"tasks/a/{verb}", {"token": old})
    desk.fails(409, "HELD", "POST", "tasks/a/done", {})
    assert desk.status("a") == "active"
    desk.ok("POST", "tasks/a/done", {"token": new})
    assert desk.ok("POST", "tasks/a/done", {"token": new})["repeated"] is True


@of("POST /tasks/{id}/done", "POST /tasks/{id}/cancel")
def test_parent_waits_for_subtasks_and_cancel_handles_dependents(desk: Desk) -> None:
    desk.add("whole", "a", "b", b="a")
    desk.ok("POST", "tasks", {"tasks": [{"title": "Part", "id": "part", "parent": "whole"}]})
    token = desk.hold("whole")
    desk.fails(409, "INCOMPLETE_SUBTASKS", "POST", "tasks/whole/done", {"token": token})
    assert desk.ok("POST", "tasks/a/cancel", {"dependents": "cascade"})["canceled"] == ["b"]


# Links, plans


@of("POST /links", "DELETE /links")
def test_links_are_added_and_removed_and_cycles_refused(desk: Desk) -> None:
    desk.add("a", "b", b="a")
    told = desk.fails(409, "CYCLE", "POST", "links", {"links": [{"task": "a", "on": "b"}]})
    assert "→" in told["detail"]
    desk.fails(404, "NOT_FOUND", "POST", "links", {"links": [{"task": "a", "on": "nowhere"}]})
    desk.fails(400, "INVALID_INPUT", "POST", "links", {"links": [{"task": "a", "on": "b", "kind": "likes"}]})
    gone = desk.ok("DELETE", "links", {"links": [{"task": "b", "on": "a"}]})["links"]
    assert [(link["task"], link["on"]) for link in gone] == [("b", "a")]
    desk.fails(404, "NOT_FOUND", "DELETE", "links", {"links": [{"task": "b", "on": "a"}]})
    assert desk.ok("POST", "links", {"links": [{"task": "a", "on": "b"}]})["links"]
    assert desk.ok("POST", "links", {"links": [{"task": "a", "on": "b"}]})["links"] == []  # it was there


@of("GET /graph")
def test_graph_has_layers_and_critical_path(desk: Desk) -> None:
    desk.add("a", "b", "c", "d", b="a", c="b")
    desk.ok("POST", "tasks/a/cancel", {})
    left, everything = desk.ok("GET", "graph"), desk.ok("GET", "graph?finished=1")
    assert left["critical_path"] == everything["critical_path"] == ["b", "c"]
    assert [task["id"] for task in everything["tasks"]] == ["a", "b", "c", "d"]
    assert left["layers"] == [["b", "d"], ["c"]]


@of("POST /plan", "GET /plan")
def test_plan_is_previewed_applied_and_shown(desk: Desk) -> None:
    text = "spec: s\ntasks:\n  - {id: one, title: One}\n  - {id: two, title: Two, deps: [one]}\n"
    assert desk.ok("POST", "plan?dry_run=1", {"text": text})["inserted"] == ["one", "two"]
    assert desk.ids("tasks") == []
    assert desk.ok("POST", "plan", {"text": text})["inserted"] == ["one", "two"]
    assert desk.ok("POST", "plan", {"text": text})["inserted"] == []
    assert "Two" in desk.ok("GET", "plan?format=text")["text"]
    assert desk.ok("GET", "plan?format=mermaid")["mermaid"].startswith("flowchart")
    assert len(desk.ok("GET", "plan")["phases"]) == 2
    desk.fails(400, "PLAN_INVALID", "POST", "plan", {"text": "tasks: [{id: x"})
    around = "tasks:\n  - {id: x, title: X, deps: [y]}\n  - {id: y, title: Y, deps: [x]}\n"
    desk.fails(409, "CYCLE", "POST", "plan", {"text": around})
    desk.fails(400, "INVALID_INPUT", "GET", "plan?format=oil")


# The record


@of("GET /events")
def test_events_are_read_after_a_cursor_or_from_the_end(desk: Desk) -> None:
    desk.add("a", "b")
    desk.ok("POST", "tasks/a/pause", {}, X_Dibs_Actor="mira")
    page = desk.ok("GET", "events?limit=2")
    assert [event["verb"] for event in page["events"]] == ["add", "add"]
    (last,) = desk.ok("GET", f"events?after={page['next']}")["events"]
    assert (last["verb"], last["agent"]) == ("pause", "mira")
    assert desk.ok("GET", "events?last=1")["events"] == [last]
    assert [event["task"] for event in desk.ok("GET", "events?ref=b")["events"]] == ["b"]
    desk.fails(404, "NOT_FOUND", "GET", "events?ref=nowhere")
    for wrong in ("limit=0", "limit=1001", "after=yesterday", "after=-1"):
        desk.fails(400, "INVALID_INPUT", "GET", f"events?{wrong}")


@of("GET /scores")
def test_scores_count_finished_tasks_per_agent(desk: Desk) -> None:
    desk.add("a", "b")
    desk.ok("POST", "tasks/a/done", {"token": desk.hold("a")})
    desk.ok("POST", "tasks/b/fail", {"token": desk.hold("b", "bob"), "reason": "no"})
    found = {row["agent"]: row for row in desk.ok("GET", "scores")["agents"]}
    assert found.keys() == {"ann", "bob"}
    assert desk.ok("GET", "scores?since=1h")["agents"]
    assert desk.ok("GET", "scores?since=2999-01-01T00:00:00Z")["agents"] == []
    desk.fails(400, "INVALID_INPUT", "GET", "scores?since=lately")


# The desk


@of("GET /counts", "GET /scopes")
def test_counts_and_scopes_match_the_store(desk: Desk, scope: str) -> None:
    assert desk.ok("GET", "counts")["claimable"] == 0
    desk.add("a", "b", "c", b="a")
    desk.hold("c")
    told = desk.ok("GET", "counts")
    assert (told["scope"], told["claimable"], told["waiting"]) == (scope, 1, 1)
    assert {status: number for status, number in told["by_status"].items() if number} == {"ready": 2, "active": 1}
    assert told["next_due"] > told["now"]
    found = desk.ok("GET", "scopes")
    assert scope in found["scopes"]
    assert found["default"] == scope


@of("GET /agents")
def test_agents_are_listed_with_their_tasks(desk: Desk) -> None:
    desk.add("a", "b")
    desk.hold("a")
    (row,) = (row for row in desk.ok("GET", "agents")["agents"] if row["holds"])
    assert (row["agent"], [held["id"] for held in row["holds"]]) == ("ann", ["a"])
    assert row["holds"][0]["lease"]["expires_at"]


@of("GET /settings", "PATCH /settings")
def test_settings_are_changed_all_or_none(desk: Desk) -> None:
    assert desk.ok("GET", "settings") == {"settings": {}}
    both = {"settings": {"chat_window": 45, "mine": [1, 2]}}
    assert desk.ok("PATCH", "settings", both) == both
    assert desk.ok("PATCH", "settings", {"settings": {"mine": None}}) == {"settings": {"chat_window": 45}}
    desk.fails(400, "INVALID_INPUT", "PATCH", "settings", {"settings": {"": 1, "chat_window": 46}})
    desk.fails(400, "INVALID_INPUT", "PATCH", "settings", {})
    assert desk.ok("GET", "settings") == {"settings": {"chat_window": 45}}


@of("GET /trends", "GET /attempts")
def test_trends_and_attempts_show_how_work_ended(desk: Desk) -> None:
    desk.ok("POST", "tasks", {"tasks": [{"title": "A", "id": "a", "labels": ["web"]}, {"title": "B", "id": "b"}]})
    desk.ok("POST", "tasks/a/done", {"token": desk.hold("a")})
    desk.ok("POST", "tasks/b/fail", {"token": desk.hold("b", "bob"), "reason": "no network"})
    desk.hold("b", "bob")
    trends = desk.ok("GET", "trends?since=1h")
    assert (trends["finished"], trends["failed"]) == (1, 1)
    agents = {row["name"]: (row["finished"], row["failed"]) for row in trends["agents"]}
    assert agents == {"ann": (1, 0), "bob": (0, 1)}
    assert [row["name"] for row in trends["labels"]] == ["web"]
    attempts = [(one["task"], one["agent"], one["outcome"]) for one in desk.ok("GET", "attempts")["attempts"]]
    assert attempts == [("a", "ann", "done"), ("b", "bob", "failed"), ("b", "bob", "running")]
    for wrong in ("0s", "32d", "lately"):
        desk.fails(400, "INVALID_INPUT", "GET", f"trends?since={wrong}")
        desk.fails(400, "INVALID_INPUT", "GET", f"attempts?since={wrong}")


@of("GET /views", "PUT /views/{name}", "DELETE /views/{name}")
def test_named_view_is_kept_replaced_and_deleted(desk: Desk) -> None:
    assert desk.ok("GET", "views") == {"views": []}
    desk.ok("PUT", "views/My%20web%20tasks", {"address": "#/list?labels=web"})
    kept = {"name": "My web tasks", "address": "#/board?labels=web"}
    assert desk.ok("PUT", "views/My%20web%20tasks", {"address": kept["address"]}) == kept
    desk.ok("PUT", "views/agents", {"address": "#/agents"})
    assert [view["name"] for view in desk.ok("GET", "views")["views"]] == ["My web tasks", "agents"]
    desk.fails(400, "INVALID_INPUT", "PUT", "views/evil", {"address": "https://example.org/"})
    desk.fails(400, "INVALID_INPUT", "PUT", "views/long", {"address": "#/" + "x" * 2000})
    desk.fails(400, "INVALID_INPUT", "PUT", f"views/{'x' * 61}", {"address": "#/board"})
    desk.ok("DELETE", "views/agents")
    assert desk.ok("GET", "views") == {"views": [kept]}


# Talking


@of("POST /say", "POST /flush", "GET /inbox", "POST /inbox/seen")
def test_messages_are_processed_and_notes_marked_as_seen(desk: Desk) -> None:
    mira = {"sender": "mira"}
    previewed = desk.ok("POST", "say", {"text": "Write a poem about the sea.", "preview": True, **mira})
    assert previewed["kind"]
    desk.ok("POST", "say", {"text": "Write a poem about the sea.", **mira})
    (read,) = desk.ok("POST", "flush", mira)["read"]
    assert len(read["tasks"]) == 1
    notes = desk.ok("GET", "inbox?sender=mira")["notes"]
    assert desk.ok("POST", "inbox/seen", {"tokens": {note["id"]: note["token"] for note in notes}, **mira}) == {}
    assert {note["id"] for note in desk.ok("GET", "inbox?sender=mira&all=1")["notes"]} >= {note["id"] for note in notes}
    desk.fails(400, "INVALID_INPUT", "POST", "say", {"text": "Who am I?"})
    desk.fails(400, "INVALID_INPUT", "GET", "inbox?sender_hash=short")
    desk.fails(404, "NOT_FOUND", "POST", "inbox/seen", {"tokens": {"nowhere": "t"}, **mira})


# Common behaviour


def test_unknown_addresses_and_methods_are_refused(shared: Server) -> None:
    shared.fails(404, "NOT_FOUND", "GET", "nowhere")
    answer = shared.ask("DELETE", "tasks")
    assert (answer.status, answer.data["code"], answer.headers["allow"]) == (405, "METHOD_NOT_ALLOWED", "GET, POST")
    body, form = b"agent=ann", {"Content-Type": "application/x-www-form-urlencoded"}
    told = shared.ask("POST", "claims", body, form)
    assert (told.status, told.data["code"]) == (415, "WRONG_TYPE")
    shared.fails(400, "INVALID_INPUT", "POST", "claims", b'{"agent": ')
    shared.fails(400, "INVALID_INPUT", "POST", "claims", [])
    shared.fails(400, "INVALID_INPUT", "GET", "counts?scope=" + "x" * 300)
