"""Random requests get a valid answer or one of the API's errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.lab.emulator import Emulator, ntask_schema
from dibs.lab.emulator.api import ROUTES
from dibs.lab.emulator.server import Request
from emulator.asking import task, words
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = (
    *("filter", "sorts", "page_size", "start_cursor", "properties", "parent", "rich_text", "in_trash", "archived"),
    *("property", "timestamp", "created_time", "direction", "ascending", "and", "or", "equals", "contains", "before"),
    *(
        "is_empty",
        "past_week",
        "any",
        "number",
        "select",
        "status",
        "multi_select",
        "date",
        "start",
        "end",
        "time_zone",
    ),
    *("title", "text", "content", "relation", "rollup", "formula", "checkbox", "people", "unique_id", "id", "name"),
    *("Task name", "Status", "Priority", "Lock Expires", "Sub-tasks", "Dependencies", "Open", "ID", "READY", "query"),
    *("database_id", "data_source_id", "page_id", "initial_data_source", "discussion_id", "options", "function", "sum"),
    *("expression", 'prop("Status")', "2026-01-01", "dual_property", "value", "object", "sort", "title", "itself"),
)
scalars = st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
)
CONDITIONS = {
    "Task name": "title",
    "Status": "select",
    "Priority": "number",
    "Lock Expires": "date",
    "Sub-tasks": "relation",
    "Dependencies": "rollup",
    "Open": "formula",
    "ID": "unique_id",
    "Agent Run": "rich_text",
}


COLUMNS = ("title", "number", "select", "status", "multi_select", "unique_id", "relation", "formula", "rollup", "name")
OF_COLUMNS = (
    *("format", "options", "prefix", "database_id", "data_source_id", "dual_property", "single_property", "expression"),
    *("function", "relation_property_name", "relation_property_id", "rollup_property_name", "rollup_property_id"),
)


class Workplace:
    """A small database, and addresses for every route in it."""

    def __init__(self) -> None:
        self.notion = Emulator(Clock(), seed=1)
        self.database = self.notion.database(ntask_schema())
        child = self.notion.page(self.database.id, task("child"))
        more = {"Sub-tasks": {"relation": [{"id": child}]}, "Lock Expires": {"date": {"start": "2026-01-01"}}}
        self.page = self.notion.page(self.database.id, task("parent") | more)
        self.ids = {
            "{page_id}": self.page,
            "{property_id}": "title",
            "{data_source_id}": self.database.data_source_id,
            "{database_id}": self.database.id,
            "{comment_id}": self.notion.human.comment(self.page, "hello"),
            "{user_id}": self.notion.human.user.id,
        }

    def ask(self, method: str, template: str, body: object, version: str = "2025-09-03") -> tuple[int, Any]:
        path = template
        for name, value in self.ids.items():
            path = path.replace(name, value)
        headers = {"authorization": f"Bearer {self.notion.token}", "notion-version": version}
        answer = self.notion.answer(
            Request(method, path, {"block_id": [self.page]}, headers, json.dumps(body).encode())
        )
        assert answer is not None
        return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def workplace() -> Iterator[Workplace]:
    made = Workplace()
    yield made
    made.notion.close()


@given(route=st.sampled_from(ROUTES), version=st.sampled_from(["2022-06-28", "2025-09-03"]), body=anything)
@settings(max_examples=400)
def test_every_address_answers_any_body(route: Any, version: str, body: object) -> None:
    place = Workplace()
    status, said = place.ask(route.method, route.template, body, version)
    place.notion.close()
    assert status in {200, 400, 404}
    refusals = {"validation_error", "invalid_request_url", "object_not_found", "not_emulated"}
    assert said["object"] != "error" or said["code"] in refusals


@given(name=st.sampled_from(sorted(CONDITIONS)), word=st.sampled_from(WORDS), value=anything)
@settings(max_examples=400)
def test_every_condition_answers_any_value(workplace: Workplace, name: str, word: str, value: object) -> None:
    body = {"filter": {"property": name, CONDITIONS[name]: {word: value}}}
    status, _ = workplace.ask("POST", "/v1/data_sources/{data_source_id}/query", body)
    assert status in {200, 400}


@given(name=st.sampled_from(sorted(CONDITIONS)), kind=st.sampled_from(WORDS), value=anything)
@settings(max_examples=300)
def test_every_property_takes_or_refuses_any_value(workplace: Workplace, name: str, kind: str, value: object) -> None:
    status, _ = workplace.ask("PATCH", "/v1/pages/{page_id}", {"properties": {name: {kind: value}}})
    assert status in {200, 400, 404}
    assert workplace.ask("GET", "/v1/pages/{page_id}", {})[0] == 200


@given(
    kind=st.sampled_from(COLUMNS), value=st.dictionaries(st.sampled_from(OF_COLUMNS), anything, max_size=4) | anything
)
@settings(max_examples=300)
def test_every_column_is_made_or_refused(kind: str, value: object) -> None:
    place = Workplace()
    status, _ = place.ask("PATCH", "/v1/data_sources/{data_source_id}", {"properties": {"More": {kind: value}}})
    assert status in {200, 400, 404}
    for method, template in (("GET", "/v1/pages/{page_id}"), ("POST", "/v1/data_sources/{data_source_id}/query")):
        assert place.ask(method, template, {})[0] == 200
    place.notion.close()


def test_a_body_nested_too_deep_is_no_json(workplace: Workplace) -> None:
    headers = {"authorization": f"Bearer {workplace.notion.token}", "notion-version": "2025-09-03"}
    deep = b"[" * 100_000 + b"]" * 100_000
    answer = workplace.notion.answer(Request("POST", "/v1/search", {}, headers, deep))
    assert answer is not None
    assert json.loads(answer.body)["code"] == "invalid_json"


def test_invalid_unicode_text_is_rejected(workplace: Workplace) -> None:
    status, _ = workplace.ask("PATCH", "/v1/pages/{page_id}", {"properties": {"Agent": {"rich_text": words("\ud800")}}})
    assert status == 400
