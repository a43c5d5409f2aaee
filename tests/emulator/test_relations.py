"""Relations, rollups and formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import ntask_schema
from emulator.asking import fill, task

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain
    from support.clock import Clock


def related(*pages: str) -> dict[str, Any]:
    return {"relation": [{"id": page} for page in pages]}


def rolled(relation: str, looked: str, function: str) -> dict[str, str]:
    return {"relation_property_name": relation, "rollup_property_name": looked, "function": function}


def shown(plain: Plain, page: str) -> dict[str, Any]:
    properties: dict[str, Any] = plain("GET", f"/v1/pages/{page}").body["properties"]
    return {name: value[value["type"]] for name, value in properties.items()}


def change(plain: Plain, page: str, **properties: object) -> int:
    return plain("PATCH", f"/v1/pages/{page}", {"properties": properties}).status


def test_both_ends_of_a_two_way_relation_say_the_same(notion: Emulator, plain: Plain, tasks: Database) -> None:
    parent, first, second = fill(notion, tasks, 3)
    change(plain, first, **{"Parent-task": related(parent)})
    change(plain, parent, **{"Sub-tasks": related(first, second)})
    assert shown(plain, second)["Parent-task"] == [{"id": parent}]
    change(plain, parent, **{"Sub-tasks": related(second)})
    assert shown(plain, first)["Parent-task"] == []
    change(plain, second, **{"Parent-task": related()})
    assert shown(plain, parent)["Sub-tasks"] == []


def test_write_replaces_relations(notion: Emulator, plain: Plain, tasks: Database) -> None:
    parent, first, second = fill(notion, tasks, 3)
    change(plain, parent, **{"Sub-tasks": related(first)})
    change(plain, parent, **{"Sub-tasks": related(second)})
    assert shown(plain, parent)["Sub-tasks"] == [{"id": second}]


def test_the_other_end_is_not_edited_by_it(notion: Emulator, plain: Plain, tasks: Database, clock: Clock) -> None:
    parent, child = fill(notion, tasks, 2)
    clock.advance(minutes=5)
    change(plain, child, **{"Parent-task": related(parent)})
    assert plain("GET", f"/v1/pages/{parent}").body["last_edited_time"] == "2026-01-01T12:00:00.000Z"
    assert plain("GET", f"/v1/pages/{child}").body["last_edited_time"] == "2026-01-01T12:05:00.000Z"


def test_only_pages_of_the_other_table_can_be_related(notion: Emulator, plain: Plain, tasks: Database) -> None:
    (page,) = fill(notion, tasks, 1)
    stranger = notion.page(notion.database({"Name": {"title": {}}}, "Other").id, {})
    said = plain("PATCH", f"/v1/pages/{page}", {"properties": {"Sub-tasks": related(stranger)}})
    assert (said.status, said.code) == (404, "object_not_found")


def test_a_page_shows_25_related_pages_and_the_property_all(notion: Emulator, plain: Plain, tasks: Database) -> None:
    parent = notion.page(tasks.id, task("parent"))
    children = [notion.page(tasks.id, task("child") | {"Parent-task": related(parent)}) for _ in range(30)]
    page = plain("GET", f"/v1/pages/{parent}").body["properties"]
    assert page["Sub-tasks"]["has_more"] is True
    assert len(page["Sub-tasks"]["relation"]) == 25
    assert page["Dependencies"]["rollup"]["number"] == 30
    address = f"/v1/pages/{parent}/properties/{page['Sub-tasks']['id']}"
    first = plain("GET", f"{address}?page_size=20").body
    second = plain("GET", f"{address}?page_size=20&start_cursor={first['next_cursor']}").body
    found = [item["relation"]["id"] for item in (*first["results"], *second["results"])]
    assert (found, second["has_more"]) == (children, False)
    assert first["property_item"]["type"] == "relation"
    rollup = plain("GET", f"/v1/pages/{parent}/properties/{page['Dependencies']['id']}").body
    assert [item["relation"]["id"] for item in rollup["results"]] == children
    assert rollup["property_item"]["rollup"] == {"type": "number", "number": 30, "function": "checked"}


def test_dependencies_counts_unfinished_sub_tasks(notion: Emulator, plain: Plain, tasks: Database) -> None:
    parent = notion.page(tasks.id, task("parent"))
    statuses = ("READY", "IN_PROGRESS", "DONE", "CANCELED", "BLOCKED")
    children = {
        status: notion.page(tasks.id, task(status, status) | {"Parent-task": related(parent)}) for status in statuses
    }
    assert shown(plain, parent)["Dependencies"] == {"type": "number", "number": 3, "function": "checked"}
    change(plain, children["READY"], Status={"select": {"name": "DONE"}})
    assert shown(plain, parent)["Dependencies"]["number"] == 2
    notion.human.trash(children["BLOCKED"])
    assert shown(plain, parent)["Dependencies"]["number"] == 1


def test_dependencies_counts_with_a_status_too(notion: Emulator, plain: Plain) -> None:
    tasks = notion.database(ntask_schema(status="status"))
    parent = notion.page(tasks.id, {})
    child = notion.page(tasks.id, {"Status": {"status": {"name": "READY"}}, "Parent-task": related(parent)})
    assert shown(plain, parent)["Dependencies"]["number"] == 1
    change(plain, child, Status={"status": {"name": "CANCELED"}})
    assert shown(plain, parent)["Dependencies"]["number"] == 0


@pytest.mark.parametrize(
    ("function", "looked", "type_", "value"),
    [
        ("count", "Priority", "number", 3),
        ("count_all", "Priority", "number", 3),
        ("count_values", "Priority", "number", 2),
        ("unique", "Status", "number", 2),
        ("empty", "Priority", "number", 1),
        ("not_empty", "Priority", "number", 2),
        ("percent_not_empty", "Priority", "number", 2 / 3),
        ("checked", "Open", "number", 2),
        ("unchecked", "Open", "number", 1),
        ("percent_checked", "Open", "number", 2 / 3),
        ("sum", "Priority", "number", 8),
        ("average", "Priority", "number", 4),
        ("median", "Priority", "number", 4),
        ("min", "Priority", "number", 3),
        ("max", "Priority", "number", 5),
        ("range", "Priority", "number", 2),
        ("earliest_date", "DoneAt", "date", {"start": "2026-02-01", "end": None, "time_zone": None}),
        ("latest_date", "DoneAt", "date", {"start": "2026-03-01", "end": None, "time_zone": None}),
        ("count_per_group", "Status", "unsupported", {}),
    ],
)
def test_rollup_applies_its_function(
    notion: Emulator, plain: Plain, tasks: Database, function: str, looked: str, type_: str, value: object
) -> None:
    notion.human.change_columns(tasks.id, {"Sum": {"rollup": rolled("Sub-tasks", looked, function)}})
    parent = notion.page(tasks.id, task("parent"))
    for status, priority, day in (("READY", 3, "2026-02-01"), ("READY", 5, "2026-03-01"), ("DONE", None, None)):
        notion.page(
            tasks.id,
            task("child", status)
            | {
                "Parent-task": related(parent),
                "Priority": {"number": priority},
                "DoneAt": {"date": day and {"start": day}},
            },
        )
    assert shown(plain, parent)["Sum"] == {"type": type_, type_: value, "function": function}


def test_rollup_can_show_originals(notion: Emulator, plain: Plain, tasks: Database) -> None:
    notion.human.change_columns(tasks.id, {"States": {"rollup": rolled("Sub-tasks", "Status", "show_original")}})
    parent = notion.page(tasks.id, task("parent"))
    for status in ("READY", "DONE"):
        notion.page(tasks.id, task("child", status) | {"Parent-task": related(parent)})
    found = shown(plain, parent)["States"]
    assert (found["type"], found["function"]) == ("array", "show_original")
    assert [(item["type"], item["select"]["name"]) for item in found["array"]] == [
        ("select", "READY"),
        ("select", "DONE"),
    ]
    body = {"filter": {"property": "States", "rollup": {"any": {"select": {"equals": "DONE"}}}}}
    answer = plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", body).body
    assert [page["id"] for page in answer["results"]] == [parent]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"rollup": rolled("Sub-tasks", "Open", "most")}, "rollup.function should be"),
        ({"rollup": rolled("Status", "Open", "sum")}, "Could not find relation property"),
        ({"rollup": rolled("Sub-tasks", "No", "sum")}, "Could not find property to roll up"),
        ({"relation": {"single_property": {}}}, "relation.data_source_id should be defined"),
        ({"relation": {"data_source_id": "x", "single_property": {}}}, "should be a valid uuid"),
        ({"formula": {"expression": 'prop("No") == 1'}}, 'property "No" not found'),
        ({"formula": {"expression": "1 +"}}, "Type error with formula"),
        ({"colour": {}}, "Fix one:"),
        ({"title": {}}, "Only one title property is allowed."),
    ],
)
def test_invalid_column_is_refused_without_changes(plain: Plain, tasks: Database, column: object, message: str) -> None:
    address = f"/v1/data_sources/{tasks.data_source_id}"
    before = plain("GET", address).body["properties"]
    said = plain("PATCH", address, {"properties": {"Fine": {"number": {}}, "More": column}})
    assert said.status == 400
    assert message in said.message
    assert plain("GET", address).body["properties"] == before


def test_columns_are_renamed_and_dropped(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up") | {"Priority": {"number": 4}})
    notion.human.change_columns(tasks.id, {"Priority": {"name": "Urgency"}, "Artifacts": None})
    found = shown(plain, page)
    assert found["Urgency"] == 4
    assert not {"Priority", "Artifacts"} & set(found)


def test_options_keep_their_ids_when_more_are_given(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    before = shown(plain, page)["Status"]
    options = [{"name": "READY"}, {"name": "LATER"}]
    notion.human.change_columns(tasks.id, {"Status": {"select": {"options": options}}})
    assert shown(plain, page)["Status"] == before


def test_a_database_needs_a_title(plain: Plain) -> None:
    body = {
        "parent": {"type": "workspace", "workspace": True},
        "initial_data_source": {"properties": {"A": {"number": {}}}},
    }
    said = plain("POST", "/v1/databases", body)
    assert (said.status, said.message) == (400, "Title is not provided")
