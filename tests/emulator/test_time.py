"""Time: floored to the minute, sent in every answer, moved by the test; and lagging reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.asking import names, task

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain
    from support.clock import Clock


def rename(plain: Plain, page: str, name: str) -> Any:
    return plain("PATCH", f"/v1/pages/{page}", {"properties": {"Task name": {"title": [{"text": {"content": name}}]}}})


def seen(plain: Plain, tasks: Database, **body: object) -> list[str]:
    return names(plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", body).body)


def name_of(plain: Plain, page: str) -> str:
    return names({"results": [plain("GET", f"/v1/pages/{page}").body]})[0]


def test_pages_data_sources_and_comments_omit_seconds(
    notion: Emulator, plain: Plain, tasks: Database, clock: Clock
) -> None:
    clock.advance(seconds=59)
    page = notion.page(tasks.id, task("Wash up"))
    clock.advance(minutes=2)
    rename(plain, page, "Wash down")
    shown = plain("GET", f"/v1/pages/{page}").body
    assert shown["created_time"] == "2026-01-01T12:00:00.000Z"
    assert shown["last_edited_time"] == "2026-01-01T12:02:00.000Z"
    comment = plain("POST", "/v1/comments", {"parent": {"page_id": page}, "rich_text": [{"text": {"content": "x"}}]})
    assert comment.body["created_time"] == "2026-01-01T12:02:00.000Z"
    plain("PATCH", f"/v1/data_sources/{tasks.data_source_id}", {"properties": {"More": {"number": {}}}})
    source = plain("GET", f"/v1/data_sources/{tasks.data_source_id}").body
    assert source["last_edited_time"] == "2026-01-01T12:02:00.000Z"


def test_the_date_header_is_the_emulators_clock(notion: Emulator, plain: Plain, clock: Clock) -> None:
    clock.advance(seconds=7)
    assert plain("GET", "/v1/users/me").headers["date"] == "Thu, 01 Jan 2026 12:00:07 GMT"
    notion.advance(3600)
    assert plain("GET", "/v1/nowhere").headers["date"] == "Thu, 01 Jan 2026 13:00:07 GMT"


def test_query_sees_writes_after_the_lag(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    page = notion.page(tasks.id, task("before"))
    clock.advance(minutes=5)
    notion.faults.query_lag = 120
    rename(plain, page, "after")
    notion.page(tasks.id, task("new"))
    assert seen(plain, tasks) == ["before"]
    assert name_of(plain, page) == "after", "a page by its id is as it is"
    clock.advance(seconds=119)
    assert seen(plain, tasks) == ["before"]
    clock.advance(seconds=1)
    assert sorted(seen(plain, tasks)) == ["after", "new"]


def test_lagging_query_filters_by_visible_values(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    clock.advance(minutes=5)
    notion.faults.query_lag = 60
    plain("PATCH", f"/v1/pages/{page}", {"properties": {"Status": {"select": {"name": "DONE"}}}})
    ready = {"property": "Status", "select": {"equals": "READY"}}
    assert seen(plain, tasks, filter=ready) == ["Wash up"]
    notion.human.trash(page)
    assert seen(plain, tasks, filter=ready) == ["Wash up"], "the trash lags too"
    clock.advance(seconds=60)
    assert seen(plain, tasks, filter=ready) == []


def test_a_rollup_in_a_lagging_query_lags(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    parent = notion.page(tasks.id, task("parent"))
    child = notion.page(tasks.id, task("child") | {"Parent-task": {"relation": [{"id": parent}]}})
    clock.advance(minutes=5)
    notion.faults.query_lag = 60
    plain("PATCH", f"/v1/pages/{child}", {"properties": {"Status": {"select": {"name": "DONE"}}}})
    waiting = {"property": "Dependencies", "rollup": {"number": {"greater_than": 0}}}
    assert seen(plain, tasks, filter=waiting) == ["parent"]
    assert plain("GET", f"/v1/pages/{parent}").body["properties"]["Dependencies"]["rollup"]["number"] == 0


def test_search_lags_as_queries_do(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    notion.faults.query_lag = 60
    notion.page(tasks.id, task("Wash up"))
    assert plain("POST", "/v1/search", {"query": "wash"}).body["results"] == []
    clock.advance(seconds=60)
    assert len(plain("POST", "/v1/search", {"query": "wash"}).body["results"]) == 1


def test_a_read_can_be_made_stale(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    page = notion.page(tasks.id, task("before"))
    clock.advance(seconds=10)
    notion.faults.stale_reads = 2
    answer = rename(plain, page, "after").body
    assert names({"results": [answer]}) == ["after"], "a write is answered with what it made"
    assert name_of(plain, page) == "before"
    clock.advance(seconds=1.9)
    assert name_of(plain, page) == "before"
    clock.advance(seconds=0.1)
    assert name_of(plain, page) == "after"


def test_a_new_page_is_read_even_if_reads_are_stale(notion: Emulator, plain: Plain, tasks: Database) -> None:
    notion.faults.stale_reads = 5
    assert name_of(plain, notion.page(tasks.id, task("new"))) == "new"


def test_a_pages_past_does_not_grow_for_ever(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    page = notion.page(tasks.id, task("first"))
    for number in range(100):
        clock.advance(minutes=1)
        rename(plain, page, str(number))
    assert len(notion._workspace.pages[page].revisions) < 35
    notion.faults.stale_reads = 600
    assert name_of(plain, page) == "89"


def test_emulator_without_a_clock_uses_the_hosts() -> None:
    from datetime import UTC, datetime

    from dibs.lab.emulator import Emulator

    with Emulator() as notion:
        before = datetime.now(UTC)  # noqa: TID251  (that is the question)
        assert before <= notion.clock() <= datetime.now(UTC)  # noqa: TID251
