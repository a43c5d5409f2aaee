"""The emulator's own addresses, for processes that do not hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulator.asking import loopback, task

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain

Tell = Any


@pytest.fixture
def http(notion: Emulator) -> Iterator[httpx.Client]:
    with loopback(base_url=notion.url) as client:
        yield client


@pytest.fixture
def tell(http: httpx.Client) -> Tell:
    def post(verb: str, status: int = 200, /, **said: object) -> Any:
        answer = http.post(f"/_emulator/{verb}", json=said)
        assert answer.status_code == status, answer.text
        return answer.json()

    return post


def test_a_database_a_page_and_a_bot_are_made(tell: Tell, plain: Plain) -> None:
    database = tell("database", preset="ntask", title="Chores")
    page = tell("page", database_id=database["id"], properties=task("Wash up"))["id"]
    token = tell("bot", capabilities=["read_content"])["token"]
    assert plain("GET", f"/v1/pages/{page}", token=token).status == 200
    assert plain("PATCH", f"/v1/pages/{page}", {}, token=token).status == 403
    assert tell("database", properties={"Name": {"title": {}}})["data_source_id"]


def test_people_work(tell: Tell, notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    tell("human/edit", page_id=page, properties={"Claimed By": {"select": {"name": "HUMAN"}}})
    shown = plain("GET", f"/v1/pages/{page}").body
    assert shown["last_edited_by"]["id"] == notion.human.user.id
    tell("human/trash", page_id=page)
    assert plain("GET", f"/v1/pages/{page}").body["in_trash"] is True
    tell("human/restore", page_id=page)
    tell("human/comment", page_id=page, text="mine")
    assert len(plain("GET", f"/v1/comments?block_id={page}").body["results"]) == 1
    tell("human/unshare", id=page)
    assert plain("GET", f"/v1/pages/{page}").status == 404
    tell("human/share", id=page)
    tell("human/columns", database_id=tasks.id, properties={"Priority": {"name": "Urgency"}})
    assert "Urgency" in plain("GET", f"/v1/pages/{page}").body["properties"]


def test_time_passes(tell: Tell, plain: Plain) -> None:
    assert tell("clock", advance=90)["now"] == "2026-01-01T12:01:30+00:00"
    assert plain("GET", "/v1/users/me").headers["date"].endswith("12:01:30 GMT")


def test_faults_are_set_and_cleared(tell: Tell, notion: Emulator, plain: Plain) -> None:
    tell("faults", query_lag=3, latency_before=[0, 0.001], rates={"conflict": 0.5})
    assert (notion.faults.query_lag, notion.faults.latency_before) == (3, (0, 0.001))
    tell("faults/next", kind="unavailable", method="GET")
    assert [plain("GET", "/v1/users/me").status for _ in range(2)] == [503, 200]
    tell("faults/clear")
    assert (notion.faults.query_lag, notion.faults.rates) == (0, {})


def test_requests_are_counted_without_those_to_the_emulator_itself(
    tell: Tell, http: httpx.Client, notion: Emulator, plain: Plain
) -> None:
    plain("GET", "/v1/users/me")
    plain("GET", "/v1/pages/none")
    seen = http.get("/_emulator/requests").json()
    assert seen["count"] == 2
    assert [(one["method"], one["template"], one["status"]) for one in seen["requests"]] == [
        ("GET", "/v1/users/me", 200),
        ("GET", "/v1/pages/{page_id}", 400),
    ]
    tell("requests/clear")
    assert len(notion.requests) == 0


@pytest.mark.parametrize(
    ("verb", "said", "told"),
    [
        ("faults", {"lag": 1}, "no such knob"),
        ("faults/next", {"kind": "fire"}, "no such fault"),
        ("page", {}, "database_id"),
        ("database", {"preset": "none"}, "no such preset"),
        ("human/edit", {"page_id": "x", "properties": {}}, "not an id"),
    ],
)
def test_mistake_is_reported(tell: Tell, verb: str, said: dict[str, Any], told: str) -> None:
    assert told in tell(verb, 400, **said)["error"]


def test_unknown_verb_lists_the_known_ones(tell: Tell) -> None:
    assert "POST human/edit" in tell("dance", 404)["verbs"]


def test_unknown_address_points_to_the_control_interface(http: httpx.Client) -> None:
    answer = http.get("/")
    assert answer.status_code == 404
    assert "/v1/" in answer.json()["error"]
