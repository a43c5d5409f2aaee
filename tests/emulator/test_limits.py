"""Limits: of text, of lists, of bodies, of rows in a query, of requests in a minute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emulator.asking import fill, task, words

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain, Said
    from support.clock import Clock


def artifacts(plain: Plain, page: str, value: object) -> Said:
    return plain("PATCH", f"/v1/pages/{page}", {"properties": {"Artifacts": {"rich_text": value}}})


@pytest.fixture
def page(notion: Emulator, tasks: Database) -> str:
    return notion.page(tasks.id, task("Wash up"))


def test_a_piece_of_text_has_up_to_2000_characters(plain: Plain, page: str) -> None:
    assert artifacts(plain, page, words("x" * 2000)).status == 200
    said = artifacts(plain, page, words("x" * 2001))
    assert said.message == (
        "body failed validation: body.properties.Artifacts.rich_text[0].text.content.length "
        "should be ≤ `2000`, instead was `2001`."
    )


def test_characters_are_counted_as_javascript_counts_them(plain: Plain, page: str) -> None:
    assert artifacts(plain, page, words("😀" * 1000)).status == 200
    assert artifacts(plain, page, words("😀" * 1001)).status == 400


def test_a_list_has_up_to_100_members(plain: Plain, page: str) -> None:
    assert artifacts(plain, page, words("x") * 100).status == 200
    said = artifacts(plain, page, words("x") * 101)
    assert said.message == (
        "body failed validation: body.properties.Artifacts.rich_text.length should be ≤ `100`, instead was `101`."
    )


def test_a_body_has_up_to_500_kilobytes(plain: Plain, page: str) -> None:
    big = {"properties": {f"Property {number}": {"rich_text": words("x" * 2000)} for number in range(260)}}
    said = plain("PATCH", f"/v1/pages/{page}", big)
    assert (said.status, said.code) == (400, "validation_error")
    assert "512000" in said.message


@pytest.mark.parametrize(
    ("size", "told"), [(0, "≥ `1`, instead was `0`"), (101, "≤ `100`, instead was `101`"), ("x", "a number")]
)
def test_a_page_of_results_has_1_to_100_rows(plain: Plain, tasks: Database, size: object, told: str) -> None:
    said = plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", {"page_size": size})
    assert said.status == 400
    assert f"body.page_size should be {told}" in said.message


@pytest.mark.parametrize(
    ("cap", "told"),
    [(19, [10, "9 cut"]), (20, [10, "10 cut"]), (24, [10, 10, "4 cut"]), (25, [10, 10, 5]), (5, ["5 cut"])],
)
def test_query_returns_up_to_10000_rows_with_a_notice(
    notion: Emulator, plain: Plain, tasks: Database, cap: int, told: list[object]
) -> None:
    assert notion.faults.result_cap == 10_000
    notion.faults.result_cap = cap
    fill(notion, tasks, 25)
    incomplete = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
    seen: list[object] = []
    body: dict[str, object] = {"page_size": 10}
    while True:
        answer = plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", body).body
        rows = len(answer["results"])
        seen.append(f"{rows} cut" if answer.get("request_status") == incomplete else rows)
        if not answer["has_more"]:
            break
        body["start_cursor"] = answer["next_cursor"]
    assert seen == told


def test_rate_limit_is_180_requests_a_minute(notion: Emulator, plain: Plain, clock: Clock) -> None:
    notion.faults.requests_per_minute = 180
    for _ in range(180):
        assert plain("GET", "/v1/users/me").status == 200
    clock.advance(seconds=10.5)
    said = plain("GET", "/v1/users/me")
    assert (said.status, said.code) == (429, "rate_limited")
    assert said.headers["retry-after"] == "50", "a whole number, rounded up"
    assert said.body["additional_data"] == {
        "rate_limit_reason": "public_api_request_rate_limit",
        "retry_after": "50",
    }
    clock.advance(seconds=49)
    assert plain("GET", "/v1/users/me").status == 429
    clock.advance(seconds=0.5)
    assert plain("GET", "/v1/users/me").status == 200, "sixty seconds after the first"


def test_rate_windows_are_per_token(notion: Emulator, plain: Plain) -> None:
    notion.faults.requests_per_minute = 1
    other = notion.bot()
    assert [plain("GET", "/v1/users/me", token=token).status for token in (None, None, other)] == [200, 429, 200]


def test_request_over_the_limit_is_not_executed(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.requests_per_minute = 1
    plain("GET", f"/v1/pages/{page}")
    assert artifacts(plain, page, words("late")).status == 429
    notion.faults.requests_per_minute = None
    assert plain("GET", f"/v1/pages/{page}").body["properties"]["Artifacts"]["rich_text"] == []
