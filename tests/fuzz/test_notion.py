"""Answers and webhooks of Notion, and configurations of a database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.stores.notion.connection import target_of
from dibs.stores.notion.layout import Layout, examine_properties, layout_named, problems, renamed
from dibs.stores.notion.pages import order_of, read
from dibs.sync.notion.schedule import offered_token, page_in, signature
from fuzz.outside import JSON, answered, bounded, disturbed, survived, texts


def _text(said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": {"content": said}, "plain_text": said}]


PAGE: dict[str, Any] = {
    "object": "page",
    "id": "1" * 32,
    "created_time": "2026-01-01T00:00:00.000Z",
    "last_edited_time": "2026-01-01T00:01:00.000Z",
    "in_trash": False,
    "parent": {"type": "data_source_id", "data_source_id": "2" * 32},
    "properties": {
        "Name": {"id": "title", "type": "title", "title": _text("Sweep")},
        "Task": {"id": "title", "type": "title", "title": _text("Sweep")},
        "ID": {"type": "unique_id", "unique_id": {"prefix": "TASK", "number": 7}},
        "Status": {"type": "select", "select": {"name": "IN_PROGRESS"}},
        "Priority": {"type": "number", "number": 3},
        "Class of Service": {"type": "select", "select": {"name": "EXPEDITE"}},
        "Claimed By": {"type": "select", "select": {"name": "AGENT"}},
        "Agent": {"type": "rich_text", "rich_text": _text("ann")},
        "Agent Run": {"type": "rich_text", "rich_text": _text("run-1")},
        "Lock Token": {"type": "rich_text", "rich_text": _text("abc")},
        "Lock Expires": {"type": "date", "date": {"start": "2026-01-01T00:20:00.000+01:00", "end": None}},
        "Parent Task": {"type": "relation", "relation": [{"id": "3" * 32}], "has_more": False},
        "Dependencies": {"type": "rollup", "rollup": {"type": "number", "number": 0, "function": "count"}},
        "Acceptance Criteria": {"type": "rich_text", "rich_text": _text("clean")},
    },
}
LAYOUTS = [layout_named(name) for name in ("ntask", "mesh", "dibs")]


def test_the_sample_is_a_page_that_can_be_read() -> None:
    assert read(LAYOUTS[0], "default", PAGE).task.title == "Sweep"


@bounded
@given(disturbed(PAGE) | JSON)
@pytest.mark.parametrize("layout", LAYOUTS, ids=["ntask", "mesh", "dibs"])
def test_an_answer_is_read_or_refused(layout: Layout, page: Any) -> None:
    reading = answered(lambda said: read(layout, "default", said), page if isinstance(page, dict) else {"id": page})
    if reading is not None:
        order_of(reading)


@bounded
@given(disturbed({name: {"type": said["type"]} for name, said in PAGE["properties"].items()}))
def test_the_properties_of_a_database_are_examined_whatever_they_are(properties: Any) -> None:
    if isinstance(properties, dict):
        answered(lambda said: [(problems(one, said), examine_properties(one, said)) for one in LAYOUTS], properties)


@bounded
@given(disturbed({"properties": {"status": "State"}, "words": {"ready": "Todo"}}) | JSON)
def test_a_renaming_is_taken_or_refused(said: Any) -> None:
    answered(lambda given: renamed(LAYOUTS[0], given), said if isinstance(said, dict) else {"properties": said})


HOOKS = texts(json.dumps({"entity": {"type": "page", "id": "1" * 32}}), json.dumps({"verification_token": "x"}))


@bounded
@given(
    HOOKS.map(lambda said: said.encode(errors="surrogatepass")) | st.binary(max_size=60),
    st.text(max_size=80) | st.none(),
)
def test_a_webhook_is_believed_only_if_it_is_signed(body: bytes, signed: str | None) -> None:
    with pytest.raises(PermissionError):
        page_in(body, signed, "secret")
    answered(lambda said: page_in(said, signature(said, "secret"), "secret"), body)
    answered(offered_token, body)


@bounded
@given(texts("1" * 32 + "?layout=ntask&window=4&settle=5", "1" * 32, "?arbiter=sqlite:///a.db&limiter=x"))
def test_the_address_of_a_database_is_read_or_refused(url: str) -> None:
    answered(target_of, url)


def test_a_page_that_is_made_to_cost_much_is_read_cheaply() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"type": "rollup", "rollup": {"type": "array", "array": [deep]}}
    wide = {
        **PAGE["properties"],
        "Dependencies": deep,
        "Lock Token": {"type": "rich_text", "rich_text": _text("x") * 50_000},
    }
    survived(lambda said: read(LAYOUTS[0], "default", said), {**PAGE, "properties": wide})
