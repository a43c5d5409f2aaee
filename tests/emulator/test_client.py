"""The official client on every endpoint, in both API generations, with and without retries."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from notion_client import APIResponseError, Client
from notion_client.client import RetryOptions
from notion_client.errors import UnknownHTTPResponseError
from notion_client.helpers import collect_paginated_api, is_full_page

from emulator.asking import OLD, PATIENCE, fill, loopback, names, task, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.emulator import Database, Emulator


@pytest.fixture
def old_client(notion: Emulator) -> Iterator[Client]:
    made = Client(auth=notion.token, base_url=notion.url, retry=False, notion_version=OLD, log_level=logging.CRITICAL)
    yield made
    made.close()


@pytest.fixture
def patient(notion: Emulator) -> Iterator[Client]:
    retry = RetryOptions(max_retries=2, initial_retry_delay_ms=1, max_retry_delay_ms=5)
    made = Client(client=loopback(), auth=notion.token, base_url=notion.url, retry=retry, log_level=logging.CRITICAL)
    yield made
    made.close()


def test_a_database_is_made_given_more_columns_and_filled(client: Client) -> None:
    made: Any = client.databases.create(
        parent={"type": "workspace", "workspace": True},
        title=words("Chores"),
        initial_data_source={"properties": {"Task name": {"title": {}}, "Status": {"select": {}}}},
    )
    source_id = made["data_sources"][0]["id"]
    client.data_sources.update(
        source_id,
        properties={"Parts": {"relation": {"data_source_id": source_id, "dual_property": {}}}},
    )
    client.data_sources.update(
        source_id,
        properties={
            "Count": {
                "rollup": {
                    "relation_property_name": "Parts",
                    "rollup_property_name": "Task name",
                    "function": "count",
                }
            }
        },
    )
    shown: Any = client.data_sources.retrieve(source_id)
    assert shown["properties"]["Count"]["rollup"]["function"] == "count"
    assert shown["properties"]["Related to Chores (Parts)"]["type"] == "relation"
    page: Any = client.pages.create(parent={"data_source_id": source_id}, properties=task("Wash up"))
    assert page["parent"]["database_id"] == made["id"]
    assert names(client.data_sources.query(source_id)) == ["Wash up"]


def test_a_page_is_read_changed_and_put_into_the_trash(notion: Emulator, client: Client, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    read: Any = client.pages.retrieve(page)
    assert is_full_page(read)
    changed: Any = client.pages.update(page, properties={"Priority": {"number": 7}})
    assert changed["properties"]["Priority"]["number"] == 7
    assert changed["properties"]["Task name"] == read["properties"]["Task name"], "what is left out stays"
    trashed: Any = client.pages.update(page, in_trash=True)
    assert trashed["in_trash"] is True
    assert names(client.data_sources.query(tasks.data_source_id)) == []


def test_one_property_is_read_in_full(notion: Emulator, client: Client, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    shown: Any = client.pages.retrieve(page)
    for name in ("Task name", "Sub-tasks", "Dependencies", "Priority", "Status", "ID", "Open"):
        item: Any = client.pages.properties.retrieve(page, shown["properties"][name]["id"])
        many = name in {"Task name", "Sub-tasks", "Dependencies"}
        assert item["object"] == ("list" if many else "property_item")
        assert (item["property_item"] if many else item)["type"] == shown["properties"][name]["type"]


def test_comments_are_left_listed_changed_and_taken_back(notion: Emulator, client: Client, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    made: Any = client.comments.create(parent={"page_id": page}, rich_text=words("No soap left"))
    client.comments.create(discussion_id=made["discussion_id"], rich_text=words("Bought some"))
    listed: Any = client.comments.list(block_id=page)
    assert [one["rich_text"][0]["plain_text"] for one in listed["results"]] == ["No soap left", "Bought some"]
    assert {one["discussion_id"] for one in listed["results"]} == {made["discussion_id"]}
    client.request(f"comments/{made['id']}", "PATCH", body={"rich_text": words("No soap")})
    one: Any = client.comments.retrieve(made["id"])
    assert one["rich_text"][0]["plain_text"] == "No soap"
    client.request(f"comments/{made['id']}", "DELETE")
    left: Any = client.comments.list(block_id=page)
    assert len(left["results"]) == 1


def test_users_are_distinct(notion: Emulator, client: Client) -> None:
    me: Any = client.users.me()
    assert (me["object"], me["type"], me["name"]) == ("user", "bot", "dibs")
    listed: Any = client.users.list()
    assert {user["type"] for user in listed["results"]} == {"bot", "person"}
    ann: Any = client.users.retrieve(notion.human.user.id)
    assert ann["name"] == "Ann"


def test_search_finds_by_title_and_by_kind(notion: Emulator, client: Client, tasks: Database) -> None:
    notion.page(tasks.id, task("Wash the tasks"))
    found: Any = client.search(query="tasks")
    assert {one["object"] for one in found["results"]} == {"page", "data_source"}
    tables: Any = client.search(query="tasks", filter={"property": "object", "value": "data_source"})
    assert [one["id"] for one in tables["results"]] == [tasks.data_source_id]


def test_all_rows_are_collected_through_the_cursors(notion: Emulator, client: Client, tasks: Database) -> None:
    pages = fill(notion, tasks, 250)
    found = collect_paginated_api(client.data_sources.query, data_source_id=tasks.data_source_id)
    assert sorted(page["id"] for page in found) == sorted(pages)
    assert notion.requests.count("POST", "/v1/data_sources/{data_source_id}/query") == 3


def test_the_old_generation_works_to_the_end(old_client: Client) -> None:
    made: Any = old_client.request(
        "databases",
        "POST",
        body={
            "parent": {"type": "workspace", "workspace": True},
            "title": words("Chores"),
            "properties": {"Task name": {"title": {}}, "Status": {"select": {}}},
        },
    )
    old_client.request(f"databases/{made['id']}", "PATCH", body={"properties": {"Due": {"date": {}}}})
    page: Any = old_client.pages.create(parent={"database_id": made["id"]}, properties=task("Wash up"))
    old_client.pages.update(page["id"], properties={"Due": {"date": {"start": "2026-02-01"}}})
    found: Any = old_client.request(f"databases/{made['id']}/query", "POST", body={})
    assert found["results"][0]["properties"]["Due"]["date"]["start"] == "2026-02-01"
    assert found["type"] == "page_or_database"
    old_client.pages.update(page["id"], archived=True)
    assert old_client.pages.retrieve(page["id"])["archived"] is True  # type: ignore[index]  # sync here


def test_a_refusal_reaches_the_caller_with_its_code(client: Client) -> None:
    with pytest.raises(APIResponseError) as caught:
        client.pages.retrieve("0" * 32)
    assert (caught.value.status, caught.value.code) == (404, "object_not_found")


def test_a_client_that_tries_again_waits_out_a_limit(notion: Emulator, patient: Client) -> None:
    notion.faults.retry_after = 10_000
    notion.faults.next("rate_limited", times=2)
    started = time.monotonic()
    patient.users.me()
    assert time.monotonic() - started < PATIENCE, "its longest delay is 5 ms here"
    assert [one.status for one in notion.requests] == [429, 429, 200]


def test_a_client_that_tries_again_repeats_reads_but_no_writes(
    notion: Emulator, patient: Client, tasks: Database
) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    notion.faults.next("unavailable", method="GET")
    patient.pages.retrieve(page)
    assert [one.status for one in notion.requests] == [503, 200]
    notion.requests.clear()
    notion.faults.next("unavailable", method="PATCH")
    with pytest.raises(APIResponseError):
        patient.pages.update(page, properties={"Priority": {"number": 1}})
    assert [one.status for one in notion.requests] == [503]


@pytest.mark.parametrize("kind", ["overload", "bad_gateway"])
def test_the_client_does_not_know_these_codes(notion: Emulator, client: Client, kind: str) -> None:
    notion.faults.next(kind)
    with pytest.raises(UnknownHTTPResponseError):
        client.users.me()


def test_a_connection_that_drops_is_the_transports_error(notion: Emulator, client: Client) -> None:
    notion.faults.next("drop")
    with pytest.raises(httpx.RemoteProtocolError):
        client.users.me()
    assert client.users.me()
