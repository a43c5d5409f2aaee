"""Values: stored, read back, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import ntask_schema
from emulator.asking import task, words

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain, Said

EVERY_TYPE: dict[str, Any] = {
    "Name": {"title": {}},
    "Text": {"rich_text": {}},
    "Figure": {"number": {}},
    "Address": {"url": {}},
    "Mail": {"email": {}},
    "Phone": {"phone_number": {}},
    "Choice": {"select": {"options": [{"name": "one", "color": "red"}]}},
    "State": {"status": {}},
    "Choices": {"multi_select": {}},
    "Due": {"date": {}},
    "Who": {"people": {}},
    "Done": {"checkbox": {}},
    "Number": {"unique_id": {"prefix": "T"}},
    "Made": {"created_time": {}},
    "Edited": {"last_edited_time": {}},
    "Maker": {"created_by": {}},
    "Editor": {"last_edited_by": {}},
}

ISO = "a valid ISO 8601 date string"


@pytest.fixture
def page(notion: Emulator) -> str:
    return notion.page(notion.database(EVERY_TYPE, "All").id, {})


def change(plain: Plain, page: str, **properties: object) -> Said:
    return plain("PATCH", f"/v1/pages/{page}", {"properties": properties})


def read(plain: Plain, page: str, name: str) -> Any:
    shown = plain("GET", f"/v1/pages/{page}").body["properties"][name]
    return shown[shown["type"]]


def test_an_untouched_page_has_a_value_of_every_type(notion: Emulator, plain: Plain, page: str) -> None:
    shown = {name: read(plain, page, name) for name in EVERY_TYPE}
    ann = {"object": "user", "id": notion.human.user.id}
    assert shown.pop("State")["name"] == "Not started", "a status is never empty"
    assert shown == {
        **{name: [] for name in ("Name", "Text", "Choices", "Who")},
        **dict.fromkeys(("Figure", "Address", "Mail", "Phone", "Choice", "Due")),
        **dict.fromkeys(("Made", "Edited"), "2026-01-01T12:00:00.000Z"),
        **dict.fromkeys(("Maker", "Editor"), ann),
        "Done": False,
        "Number": {"prefix": "T", "number": 1},
    }


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("Figure", "number", 2.5),
        ("Figure", "number", 0),
        ("Address", "url", "https://example.org/a"),
        ("Mail", "email", "ann@example.org"),
        ("Phone", "phone_number", "110"),
        ("Done", "checkbox", True),
    ],
)
def test_a_plain_value_is_read_back_as_it_was_written(
    plain: Plain, page: str, name: str, kind: str, value: object
) -> None:
    assert change(plain, page, **{name: {kind: value}}).status == 200
    assert read(plain, page, name) == value
    if kind != "checkbox":
        change(plain, page, **{name: {kind: None}})
        assert read(plain, page, name) is None


def test_text_is_read_back_with_everything_around_it(plain: Plain, page: str) -> None:
    change(
        plain, page, Text={"rich_text": [*words("Hello "), {"text": {"content": "Ann", "link": {"url": "http://a"}}}]}
    )
    first, second = read(plain, page, "Text")
    assert (first["type"], first["text"], first["plain_text"], first["href"]) == (
        "text",
        {"content": "Hello ", "link": None},
        "Hello ",
        None,
    )
    assert first["annotations"]["color"] == "default"
    assert (second["href"], second["plain_text"]) == ("http://a", "Ann")


@pytest.mark.parametrize("nothing", [[], words("")])
def test_empty_list_or_string_clears_text(plain: Plain, page: str, nothing: object) -> None:
    change(plain, page, Text={"rich_text": words("Hello")})
    change(plain, page, Text={"rich_text": nothing})
    assert read(plain, page, "Text") == []


def test_a_select_takes_a_known_option_by_name_or_id(plain: Plain, page: str) -> None:
    change(plain, page, Choice={"select": {"name": "one"}})
    option = read(plain, page, "Choice")
    assert (option["name"], option["color"]) == ("one", "red")
    change(plain, page, Choice={"select": None})
    assert read(plain, page, "Choice") is None
    change(plain, page, Choice={"select": {"id": option["id"]}})
    assert read(plain, page, "Choice") == option


def test_a_select_makes_the_option_it_does_not_know(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    change(plain, page, Class={"select": {"name": "LEISURE"}})
    source = plain("GET", f"/v1/data_sources/{tasks.data_source_id}").body
    assert [one["name"] for one in source["properties"]["Class"]["select"]["options"]][-1] == "LEISURE"


def test_an_option_has_no_comma(plain: Plain, page: str) -> None:
    said = change(plain, page, Choice={"select": {"name": "a, b"}})
    assert (said.status, said.message) == (400, "Invalid select option, commas not allowed: a, b")
    said = change(plain, page, Choices={"multi_select": [{"name": "a, b"}]})
    assert said.message == "Invalid multi_select option, commas not allowed: a, b"


def test_a_multi_select_keeps_each_option_once(plain: Plain, page: str) -> None:
    change(plain, page, Choices={"multi_select": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    assert [one["name"] for one in read(plain, page, "Choices")] == ["a", "b"]


def test_a_status_takes_no_option_that_it_does_not_know(plain: Plain, page: str) -> None:
    said = change(plain, page, State={"status": {"name": "Perhaps"}})
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == 'Invalid status option. Status option "Perhaps" does not exist".'


def test_a_status_set_to_null_is_the_first_again(plain: Plain, page: str) -> None:
    change(plain, page, State={"status": {"name": "Done"}})
    change(plain, page, State={"status": None})
    assert read(plain, page, "State")["name"] == "Not started"


def test_an_ntask_database_may_have_a_status_or_a_select(notion: Emulator, plain: Plain) -> None:
    tasks = notion.database(ntask_schema(status="status", agent="select"))
    page = notion.page(tasks.id, {"Status": {"status": {"name": "READY"}}, "Agent": {"select": {"name": "ann"}}})
    assert read(plain, page, "Status")["name"] == "READY"
    assert read(plain, notion.page(tasks.id, {}), "Status")["name"] == "BACKLOG"


@pytest.mark.parametrize(
    ("written", "back"),
    [
        ("2026-02-01", "2026-02-01"),
        ("2026-02-01T10:30:45Z", "2026-02-01T10:30:00.000+00:00"),
        ("2026-02-01T10:30:59.999+01:00", "2026-02-01T10:30:00.000+01:00"),
        ("2026-02-01T10:30:45", "2026-02-01T10:30:00.000+00:00"),
    ],
)
def test_a_date_keeps_its_offset_and_loses_its_seconds(plain: Plain, page: str, written: str, back: str) -> None:
    change(plain, page, Due={"date": {"start": written}})
    assert read(plain, page, "Due") == {"start": back, "end": None, "time_zone": None}


def test_a_date_may_keep_its_seconds(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.drop_seconds = False
    change(plain, page, Due={"date": {"start": "2026-02-01T10:30:45.5Z", "end": "2026-02-02"}})
    assert read(plain, page, "Due") == {
        "start": "2026-02-01T10:30:45.500+00:00",
        "end": "2026-02-02",
        "time_zone": None,
    }


def test_a_date_in_a_time_zone_has_no_offset(plain: Plain, page: str) -> None:
    change(plain, page, Due={"date": {"start": "2026-02-01T10:30:00", "time_zone": "Europe/Paris"}})
    assert read(plain, page, "Due")["start"] == "2026-02-01T10:30:00.000"
    said = change(plain, page, Due={"date": {"start": "2026-02-01", "time_zone": "Europe/Paris"}})
    assert "If time zone is explicitly provided, start and end must contain date and time" in said.message


def test_people_are_named_by_id(notion: Emulator, plain: Plain, page: str) -> None:
    change(plain, page, Who={"people": [{"object": "user", "id": notion.human.user.id}]})
    assert read(plain, page, "Who") == [{"object": "user", "id": notion.human.user.id}]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("Due", {"date": {"start": "2022/01/02"}}, f'.date.start should be {ISO}, instead was `"2022/01/02"`'),
        (
            "Due",
            {"date": {"start": "2022-01-02", "end": "soon"}},
            f'.date.end should be {ISO}, `null`, or `undefined`, instead was `"soon"`',
        ),
        ("Figure", {"number": "7"}, '.number should be a number or `null`, instead was `"7"`'),
        ("Done", {"checkbox": 1}, ".checkbox should be a boolean, instead was `1`"),
        ("Who", {"people": [{"id": "ann"}]}, '.people[0].id should be a valid uuid, instead was `"ann"`'),
        ("Choice", {"select": {"name": ""}}, ".select.name.length should be ≥ `1`, instead was `0`"),
        ("Choice", {"select": "one"}, '.select should be an object or `null`, instead was `"one"`'),
        ("Text", {"rich_text": "hello"}, '.rich_text should be an array, instead was `"hello"`'),
        (
            "Text",
            {"rich_text": [{"text": {}}]},
            ".rich_text[0].text.content should be a string, instead was `undefined`",
        ),
        ("Text", "hello", ' should be an object, instead was `"hello"`'),
    ],
)
def test_malformed_value_is_reported_with_its_path(
    plain: Plain, page: str, name: str, value: object, told: str
) -> None:
    said = change(plain, page, **{name: value})
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == f"body failed validation: body.properties.{name}{told}."


def test_all_invalid_properties_are_reported_at_once(plain: Plain, page: str) -> None:
    said = change(plain, page, Colour={"number": 1}, Text={"select": {"name": "a"}}, Number={"number": 5})
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == (
        "Colour is not a property that exists. Text is expected to be rich_text. Number is expected to be unique_id."
    )


def test_a_computed_property_cannot_be_written(plain: Plain, page: str) -> None:
    said = change(plain, page, Number={"unique_id": {"number": 5}})
    assert said.status == 400
    assert said.message.startswith("body failed validation. Fix one:\nbody.properties.Number.title should be defined")


def test_a_write_is_all_or_nothing(plain: Plain, page: str) -> None:
    said = change(plain, page, Figure={"number": 5}, Choices={"multi_select": [{"name": "new"}]}, Nothing={"number": 1})
    assert said.status == 400
    assert read(plain, page, "Figure") is None
    source = plain("GET", f"/v1/pages/{page}").body["parent"]["data_source_id"]
    shown = plain("GET", f"/v1/data_sources/{source}").body["properties"]["Choices"]
    assert shown["multi_select"]["options"] == []


def test_a_property_is_named_by_its_id_too(plain: Plain, page: str) -> None:
    shown = plain("GET", f"/v1/pages/{page}").body["properties"]["Figure"]["id"]
    change(plain, page, **{shown: {"number": 3}})
    assert read(plain, page, "Figure") == 3


def test_only_the_properties_asked_for_are_shown(plain: Plain, page: str) -> None:
    shown = plain("GET", f"/v1/pages/{page}").body["properties"]["Figure"]["id"]
    few = plain("GET", f"/v1/pages/{page}?filter_properties=title&filter_properties={shown}").body["properties"]
    assert set(few) == {"Name", "Figure"}


def test_unknown_body_keys_are_reported(plain: Plain, page: str) -> None:
    said = plain("PATCH", f"/v1/pages/{page}", {"archived": True}, version="2026-03-11")
    assert said.message == "body failed validation: body.archived should be not present, instead was `true`."
    assert plain("PATCH", f"/v1/pages/{page}", {"archived": True}).body["in_trash"] is True


def test_a_new_page_needs_a_parent_and_properties(plain: Plain, tasks: Database) -> None:
    assert "body.parent should be defined" in plain("POST", "/v1/pages", {"properties": {}}).message
    parent = {"database_id": tasks.id}
    said = plain("POST", "/v1/pages", {"parent": parent})
    assert said.message == "body failed validation: body.properties should be defined, instead was `undefined`."
