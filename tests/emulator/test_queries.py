"""Queries: filters of every type, groups of them, sorts, and pages of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import Emulator, ntask_schema
from emulator.asking import Plain, fill, names, task, words

if TYPE_CHECKING:
    from dibs.lab.emulator import Database
    from emulator.asking import Said
    from support.clock import Clock

Ask = Any

READY = {"property": "Status", "select": {"equals": "READY"}}
FIVE = {"property": "Priority", "number": {"equals": 5}}
NINE = {"property": "Priority", "number": {"equals": 9}}


@pytest.fixture
def ask(plain: Plain, tasks: Database) -> Ask:
    def query(**body: object) -> Said:
        return plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", body)

    return query


@pytest.fixture
def rows(notion: Emulator, tasks: Database, clock: Clock) -> dict[str, str]:
    """a: READY 5, due 10:00 on the 1st · b: READY 9, by an agent, due on the 2nd · c: DONE, nothing else."""
    made = {
        "alpha": task("alpha")
        | {"Priority": {"number": 5}, "Lock Expires": {"date": {"start": "2026-02-01T10:00:00Z"}}},
        "beta": task("beta")
        | {
            "Priority": {"number": 9},
            "Lock Expires": {"date": {"start": "2026-02-02"}},
            "Claimed By": {"select": {"name": "AGENT"}},
            "Agent Run": {"rich_text": words("Run 7")},
        },
        "gamma": task("gamma", "DONE"),
    }
    found = {}
    for name, properties in made.items():
        found[name] = notion.page(tasks.id, properties)
        clock.advance(minutes=10)
    return found


def test_without_a_filter_all_rows_are_found(ask: Ask, rows: dict[str, str]) -> None:
    assert sorted(names(ask().body)) == sorted(rows)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"property": "Status", "select": {"equals": "READY"}}, "alpha beta"),
        ({"property": "Status", "select": {"equals": ["READY", "DONE"]}}, "alpha beta gamma"),
        ({"property": "Status", "select": {"does_not_equal": "READY"}}, "gamma"),
        ({"property": "Claimed By", "select": {"does_not_equal": "HUMAN"}}, "alpha beta gamma"),
        ({"property": "Claimed By", "select": {"is_empty": True}}, "alpha gamma"),
        ({"property": "Claimed By", "select": {"is_not_empty": True}}, "beta"),
        ({"property": "Priority", "number": {"equals": 5}}, "alpha"),
        ({"property": "Priority", "number": {"does_not_equal": 5}}, "beta gamma"),
        ({"property": "Priority", "number": {"greater_than": 5}}, "beta"),
        ({"property": "Priority", "number": {"greater_than_or_equal_to": 5}}, "alpha beta"),
        ({"property": "Priority", "number": {"less_than": 9}}, "alpha"),
        ({"property": "Priority", "number": {"less_than_or_equal_to": 9}}, "alpha beta"),
        ({"property": "Priority", "number": {"is_empty": True}}, "gamma"),
        ({"property": "Task name", "title": {"contains": "ALPH"}}, "alpha"),
        ({"property": "Task name", "rich_text": {"equals": "alpha"}}, "alpha"),
        ({"property": "Task name", "title": {"starts_with": "ga"}}, "gamma"),
        ({"property": "Task name", "title": {"ends_with": "ta"}}, "beta"),
        ({"property": "Task name", "title": {"does_not_contain": "e"}}, "alpha gamma"),
        ({"property": "Agent Run", "rich_text": {"is_empty": True}}, "alpha gamma"),
        ({"property": "Agent Run", "rich_text": {"does_not_equal": "Run 7"}}, "alpha gamma"),
        ({"property": "Lock Expires", "date": {"before": "2026-02-01T10:00:01Z"}}, "alpha"),
        ({"property": "Lock Expires", "date": {"on_or_after": "2026-02-01T10:00:00+00:00"}}, "alpha beta"),
        ({"property": "Lock Expires", "date": {"after": "2026-02-01"}}, "beta"),
        ({"property": "Lock Expires", "date": {"equals": "2026-02-01"}}, "alpha"),
        ({"property": "Lock Expires", "date": {"on_or_before": "2026-02-01"}}, "alpha"),
        ({"property": "Lock Expires", "date": {"is_empty": True}}, "gamma"),
        ({"property": "Lock Expires", "date": {"next_month": {}}}, ""),
        ({"property": "Lock Expires", "date": {"next_year": {}}}, "alpha beta"),
        ({"property": "ID", "unique_id": {"equals": 2}}, "beta"),
        ({"property": "Open", "formula": {"checkbox": {"equals": True}}}, "alpha beta"),
        ({"property": "Dependencies", "rollup": {"number": {"equals": 0}}}, "alpha beta gamma"),
        ({"property": "Sub-tasks", "relation": {"is_empty": True}}, "alpha beta gamma"),
        ({"timestamp": "created_time", "created_time": {"on_or_after": "2026-01-01T12:10:00Z"}}, "beta gamma"),
        ({"timestamp": "last_edited_time", "last_edited_time": {"before": "2026-01-01T12:10:00Z"}}, "alpha"),
        ({"timestamp": "created_time", "created_time": {"past_week": {}}}, "alpha beta gamma"),
        ({"and": [READY, NINE]}, "beta"),
        ({"or": [NINE, {"property": "Status", "select": {"equals": "DONE"}}]}, "beta gamma"),
        ({"and": [{"or": [FIVE, NINE]}, {"property": "Claimed By", "select": {"is_empty": True}}]}, "alpha"),
        ({"and": []}, "alpha beta gamma"),
    ],
)
def test_filter_matches_its_condition(ask: Ask, rows: dict[str, str], said: object, found: str) -> None:
    answer = ask(filter=said)
    assert answer.status == 200, answer.body
    assert sorted(names(answer.body)) == found.split()
    assert rows


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"property": "Colour", "select": {"equals": "x"}}, "Could not find property with name or id: Colour"),
        (
            {"property": "Status", "status": {"equals": "READY"}},
            (
                "The property type in the database does not match the property type of the filter provided: "
                "database property select does not match filter status"
            ),
        ),
        (
            {"property": "Claimed By", "select": {"equals": "ROBOT"}},
            'select option "ROBOT" not found for property "Claimed By". Available options: "AGENT", "HUMAN".',
        ),
        ({"property": "Priority", "number": {"equals": "5"}}, "body.filter.number.equals should be a number"),
        ({"property": "Priority", "number": {"like": 5}}, "body.filter.number.like should be not present"),
        ({"property": "Lock Expires", "date": {"after": "soon"}}, "should be a valid ISO 8601 date string"),
        ({"timestamp": "now", "now": {}}, "body.filter.timestamp should be"),
        ({"and": [{"or": [{"and": []}]}]}, "body.filter.and[0].or[0].and should be not present"),
        ({"property": "Status"}, "should be defined"),
        ([], "body.filter should be an object"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(ask: Ask, rows: dict[str, str], said: object, message: str) -> None:
    answer = ask(filter=said)
    assert (answer.status, answer.code) == (400, "validation_error")
    assert message in answer.message
    assert rows


def test_a_body_with_more_in_it_is_refused(ask: Ask) -> None:
    assert "body.limit should be not present" in ask(limit=5).message


def test_the_first_sort_counts_most(ask: Ask, notion: Emulator, tasks: Database) -> None:
    for number in range(12):
        properties = task(f"{number:02}", "DONE" if number % 2 else "READY")
        notion.page(tasks.id, properties | {"Priority": {"number": number // 3}})
    sorts = [
        {"property": "Priority", "direction": "descending"},
        {"property": "Status", "direction": "ascending"},
        {"property": "Task name", "direction": "ascending"},
    ]
    expected = sorted(range(12), key=lambda number: (-(number // 3), number % 2, number))
    assert [int(name) for name in names(ask(sorts=sorts).body)] == expected


@pytest.mark.parametrize("by", [{"timestamp": "created_time"}, {"property": "ID"}, {"property": "Lock Expires"}])
def test_rows_are_sorted_by_times_ids_and_dates(ask: Ask, rows: dict[str, str], by: dict[str, str]) -> None:
    found = names(ask(sorts=[{**by, "direction": "ascending"}]).body)
    assert [name for name in found if name != "gamma"] == ["alpha", "beta"]
    assert len(rows) == len(found)


@pytest.mark.parametrize(
    ("sorts", "message"),
    [
        ([{"property": "Colour", "direction": "ascending"}], "Could not find sort property with name or id: Colour"),
        ([{"property": "Status", "direction": "up"}], "body.sorts[0].direction should be"),
        ({"property": "Status"}, "body.sorts should be an array"),
    ],
)
def test_a_sort_that_cannot_be_is_refused(ask: Ask, sorts: object, message: str) -> None:
    answer = ask(sorts=sorts)
    assert answer.status == 400
    assert message in answer.message


def test_order_without_sorts_is_shuffled(ask: Ask, notion: Emulator, tasks: Database) -> None:
    for number in range(8):
        notion.page(tasks.id, task(f"{number}") | {"Priority": {"number": 1 if number < 4 else None}})
    unsorted = {tuple(names(ask().body)) for _ in range(20)}
    assert len(unsorted) > 5
    tied = [names(ask(sorts=[{"property": "Priority", "direction": "ascending"}]).body) for _ in range(20)]
    assert len(set(map(tuple, tied))) > 5
    assert {set(map(int, found[:4])) == {0, 1, 2, 3} for found in tied} == {True, False}, "empty first, and last"


def test_the_same_seed_has_the_same_luck(clock: Clock) -> None:
    def shuffled() -> list[str]:
        with Emulator(clock, seed=3) as one, Plain(one.url, one.token) as plain:
            tasks = one.database(ntask_schema())
            fill(one, tasks, 20)
            return names(plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", {}).body)

    assert shuffled() == shuffled()


def test_pages_of_results_cover_all_rows_once(ask: Ask, notion: Emulator, tasks: Database) -> None:
    made = fill(notion, tasks, 23)
    found, cursor = [], None
    while True:
        answer = ask(page_size=10, **({"start_cursor": cursor} if cursor else {})).body
        found += [page["id"] for page in answer["results"]]
        cursor = answer["next_cursor"]
        assert answer["has_more"] is (cursor is not None)
        if cursor is None:
            break
    assert sorted(found) == sorted(made)


def test_a_cursor_may_be_used_again(ask: Ask, notion: Emulator, tasks: Database) -> None:
    fill(notion, tasks, 15)
    cursor = ask(page_size=10).body["next_cursor"]
    again = [names(ask(page_size=10, start_cursor=cursor).body) for _ in range(2)]
    assert again[0] == again[1]
    assert len(again[0]) == 5


@pytest.mark.parametrize("cursor", ["nonsense", "b3Ro.ZXI", "é", "YWJj"])
def test_a_cursor_from_elsewhere_is_refused(ask: Ask, cursor: str) -> None:
    answer = ask(start_cursor=cursor)
    assert (answer.status, answer.message) == (400, f"The start_cursor provided is invalid: {cursor}")


def test_a_cursor_of_another_table_is_refused(ask: Ask, notion: Emulator, plain: Plain, tasks: Database) -> None:
    fill(notion, tasks, 3)
    cursor = ask(page_size=1).body["next_cursor"]
    other = notion.database({"Name": {"title": {}}}, "Other")
    said = plain("POST", f"/v1/data_sources/{other.data_source_id}/query", {"start_cursor": cursor})
    assert said.message.startswith("The start_cursor provided is invalid")


def test_list_names_its_type(ask: Ask, notion: Emulator, tasks: Database) -> None:
    fill(notion, tasks, 1)
    answer = ask().body
    assert {key: answer[key] for key in ("object", "type", "page_or_data_source", "has_more", "next_cursor")} == {
        "object": "list",
        "type": "page_or_data_source",
        "page_or_data_source": {},
        "has_more": False,
        "next_cursor": None,
    }
