"""Validation: accepted values with their stored form, and refused ones."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.lifecycle import Move, Verb
from dibs.core.task import UNSET, Draft, Edit, Link, LinkKind, Status

from .samples import NOW

FOREIGN = ("שלום עולם", "مرحبا", "📚 books 👩‍👩‍👧", "日本語", "e\u0301", "a\u200fb", "\u202eevil")
CONTROLS = ("\x00", "\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\u2028", "\u2029")
SURROGATES = ("\ud800", "\udfff", "a\udc80b")


def refused(check: Any, *given_values: Any) -> str:
    with pytest.raises(InvalidInput) as error:
        check(*given_values)
    return error.value.message


# Titles


def test_a_title_is_trimmed() -> None:
    assert checks.title("  Write it \n") == "Write it"


@pytest.mark.parametrize("title", FOREIGN)
def test_a_title_may_be_in_any_script(title: str) -> None:
    assert checks.title(title) == title


@pytest.mark.parametrize("title", ["", "   ", "\n"])
def test_a_task_needs_a_title(title: str) -> None:
    assert "needs a title" in refused(checks.title, title)


@pytest.mark.parametrize("bad", CONTROLS)
def test_a_title_is_one_line(bad: str) -> None:
    assert "one line" in refused(checks.title, f"a{bad}b")


def test_a_title_has_room_for_500_characters() -> None:
    assert checks.title(" " + "x" * 500 + " ") == "x" * 500
    assert "501" in refused(checks.title, "x" * 501)


@pytest.mark.parametrize("bad", SURROGATES)
def test_a_title_can_be_written_down(bad: str) -> None:
    refused(checks.title, bad)


# Ids


@pytest.mark.parametrize("good", ["a", "a-b", "7", "x" * 128, "äöü", "任务", "a/b", "🦊", "a.b_c:d", "a--"])
def test_id_has_only_printable_characters(good: str) -> None:
    assert checks.identifier(good) == good


@pytest.mark.parametrize(
    "bad", ["", " ", "a b", " a", "a\u00a0b", "a\u3000b", "-a", "-", "x" * 129, *CONTROLS, *SURROGATES, "a\n"]
)
def test_anything_else_is_no_id(bad: str) -> None:
    assert "cannot be an id" in refused(checks.identifier, bad)


def test_a_long_refused_id_is_not_repeated_in_full() -> None:
    assert len(refused(checks.identifier, "x" * 10_000)) < 200


# Texts, names and lists


def test_a_text_may_have_lines_and_any_script() -> None:
    text = "\n".join(FOREIGN) + "\t\r\n"
    assert checks.text("description", text) == text


@pytest.mark.parametrize("bad", ["\x00", *SURROGATES])
def test_a_text_that_no_store_can_keep_is_refused(bad: str) -> None:
    assert "The note holds a NUL byte or is not valid UTF-8" in refused(checks.text, "note", f"a{bad}")


def test_a_text_has_room_for_a_million_characters() -> None:
    assert len(checks.text("note", "x" * checks.TEXT_MAX)) == 1_000_000
    assert "The note has 1000001 characters" in refused(checks.text, "note", "x" * (checks.TEXT_MAX + 1))


def test_a_name_is_trimmed_and_one_line_of_128() -> None:
    assert checks.name_of("agent", f" {'x' * 128} ") == "x" * 128
    for bad in ("", "  ", "x" * 129, *(f"a{control}b" for control in CONTROLS), *SURROGATES):
        assert "cannot be an agent" in refused(checks.name_of, "agent", bad)


def test_names_are_a_set_in_one_order() -> None:
    assert checks.names("requires", ["sql", " gpu", "sql "]) == ("gpu", "sql")
    refused(checks.names, "requires", ["ok", ""])


def test_list_keeps_order_and_is_limited() -> None:
    assert checks.texts("steps", ["b", "a", "b"]) == ("b", "a", "b")
    assert len(checks.texts("steps", ["x"] * 1000)) == 1000
    assert "1001 steps" in refused(checks.texts, "steps", ["x"] * 1001)
    refused(checks.texts, "steps", ["ok", "\x00"])


# Numbers and spans


@pytest.mark.parametrize("value", [0, -3, 2, 1.5, 10**9, -(10**9)])
def test_a_priority_is_any_number_within_reason(value: float) -> None:
    assert checks.priority(value) == value


def test_a_whole_priority_is_kept_as_a_whole_number() -> None:
    assert isinstance(checks.priority(2.0), int)
    assert isinstance(checks.priority(2.5), float)


@pytest.mark.parametrize("value", [True, False, math.nan, math.inf, -math.inf, 10**9 + 1, -1e10])
def test_other_priorities_are_refused(value: float) -> None:
    assert "A priority must be a number" in refused(checks.priority, value)


@pytest.mark.parametrize("digits", [400, 5_000])
def test_a_priority_of_hundreds_of_digits_is_refused_like_any_other(digits: int) -> None:
    refused(checks.priority, 10**digits)


@pytest.mark.parametrize("value", [None, 0, 3, 10**9])
def test_a_count_starts_at_zero(value: int | None) -> None:
    assert checks.count("max retries", value) == value


@pytest.mark.parametrize("value", [-1, 10**9 + 1, pytest.param(10**5_000, id="huge")])
def test_a_count_ends_somewhere(value: int) -> None:
    assert "The max retries" in refused(checks.count, "max retries", value)


@pytest.mark.parametrize("span", [timedelta(seconds=1), timedelta(minutes=20), timedelta(days=30)])
def test_a_lease_lasts_from_a_second_to_a_month(span: timedelta) -> None:
    assert checks.lease(span) == span


@pytest.mark.parametrize(
    "span", [timedelta(0), timedelta(seconds=-1), timedelta(milliseconds=999), timedelta(days=30, microseconds=1)]
)
def test_other_leases_are_refused(span: timedelta) -> None:
    assert "A lease must last" in refused(checks.lease, span)


# JSON


def nested(depth: int, *, in_objects: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"k": value} if in_objects else [value]
    return value


@pytest.mark.parametrize(
    "value", [None, True, 0, -1.5, "", "a\nb", [], {}, [1, [2, (3,)]], {"a": {"b": [None]}}, 10**400]
)
def test_json_values_are_accepted(value: Any) -> None:
    checks.json_value("result", value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "\x00", "\ud800"])
def test_unstorable_values_are_refused_at_any_depth(bad: Any) -> None:
    for value in (bad, [bad], {"a": bad}, {"a": [{"b": (bad,)}]}):
        assert "result" in refused(checks.json_value, "result", value)


def test_a_key_is_a_text_too() -> None:
    refused(checks.json_value, "result", {"a\x00": 1})
    refused(checks.json_value, "result", {"a": {"\ud800": 1}})


def test_json_ends_at_a_depth_of_50() -> None:
    for in_objects in (False, True):
        checks.json_value("result", nested(50, in_objects=in_objects))
        assert "nested more than 50 deep" in refused(checks.json_value, "result", nested(51, in_objects=in_objects))
    refused(checks.json_value, "result", nested(100_000))


@pytest.mark.parametrize("bad", [date(2026, 1, 1), b"bytes", {1}, object()], ids=["date", "bytes", "set", "object"])
def test_non_json_values_are_refused(bad: Any) -> None:
    refused(checks.json_value, "result", {"a": [bad]})


@pytest.mark.parametrize("key", [1, None, True, ("a",)])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    refused(checks.json_value, "result", {key: 1})


@pytest.mark.parametrize("bad", [None, [], "text", 3])
def test_extra_fields_must_be_an_object(bad: Any) -> None:
    assert "JSON object" in refused(checks.extra, bad)


# Links


def test_a_link_is_taken_with_its_kind() -> None:
    link = Link("a", "b", LinkKind.FEEDS_INTO, 0.5, "analyst", 0.25)
    assert checks.link(link) == link
    assert checks.link(link._replace(kind=cast("LinkKind", "blocks"))).kind is LinkKind.BLOCKS


def test_a_link_of_an_unknown_kind_is_refused() -> None:
    refused(checks.link, Link("a", "b", cast("LinkKind", "resembles")))


def test_a_task_cannot_depend_on_itself() -> None:
    assert "a cannot depend on itself" in refused(checks.link, Link("a", "a"))


@pytest.mark.parametrize("value", [0, 0.5, 1])
def test_a_link_may_weigh_anything_in_between(value: float) -> None:
    link = Link("a", "b", weight=value, confidence=1 - value)
    assert checks.link(link) == link


@pytest.mark.parametrize("field", ["weight", "confidence"])
@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_link_is_weighed_from_zero_to_one(field: str, value: float) -> None:
    changed: dict[str, Any] = {field: value}
    assert f"A link's {field} must be between 0 and 1" in refused(checks.link, Link("a", "b")._replace(**changed))


def test_link_names_its_detector() -> None:
    refused(checks.link, Link("a", "b", detected_by=" "))


# Drafts, edits, moves


@pytest.mark.parametrize("status", [Status.READY, Status.BACKLOG, Status.REVIEW])
def test_a_task_may_start_here(status: Status) -> None:
    assert checks.draft(Draft("t", status=status)).status is status


@pytest.mark.parametrize("status", [s for s in Status if s not in {Status.READY, Status.BACKLOG, Status.REVIEW}])
def test_a_task_cannot_start_there(status: Status) -> None:
    assert f"not {status}" in refused(checks.draft, Draft("t", status=status))


def test_a_draft_is_brought_into_its_stored_form() -> None:
    draft = Draft(" t ", requires=("b", "a", "b"), priority=3.0, category=" x ", steps=("one",))
    assert checks.draft(draft) == Draft("t", requires=("a", "b"), priority=3, category="x", steps=("one",))


BAD: dict[str, Any] = {
    "title": "",
    "description": "\x00",
    "priority": math.nan,
    "category": "a\nb",
    "deliverable": "",
    "steps": ("\x00",),
    "spec_ref": "x" * 129,
    "ref": "\ud800",
    "requires": ("",),
    "assigned_to": "\x00",
    "max_retries": -1,
    "extra": {"a": math.inf},
}
ONLY_IN_DRAFTS: dict[str, Any] = {"id": "a b", "reason": "\x00", "origin": ""}


@pytest.mark.parametrize(("field", "value"), [*BAD.items(), *ONLY_IN_DRAFTS.items()])
def test_every_field_of_a_draft_is_checked(field: str, value: Any) -> None:
    changed: dict[str, Any] = {field: value}
    refused(checks.draft, Draft("t")._replace(**changed))


@pytest.mark.parametrize(("field", "value"), BAD.items())
def test_every_field_of_an_edit_is_checked(field: str, value: Any) -> None:
    refused(checks.edit, Edit(**{field: value}))


@pytest.mark.parametrize("parent", ["\ud800", "a\x00", "a b"])
def test_a_parent_that_can_be_no_id_is_refused(parent: str) -> None:
    refused(checks.draft, Draft("t", parent=parent))
    refused(checks.edit, Edit(parent=parent))


def test_a_time_without_a_zone_is_refused() -> None:
    naive = datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    refused(checks.draft, Draft("t", not_before=naive))
    refused(checks.edit, Edit(not_before=naive))
    refused(checks.edit, Edit(queued_at=naive))
    refused(checks.move, Move(Verb.FAIL, "a", "desk", not_before=naive))
    refused(checks.move, Move(Verb.BLOCK, "a", "desk", next_check_at=naive))


def test_a_time_with_a_zone_is_taken() -> None:
    draft, edit = Draft("t", not_before=NOW, parent="p"), Edit(not_before=NOW, queued_at=NOW, parent="p")
    move = Move(Verb.BLOCK, "a", "desk", not_before=NOW, next_check_at=NOW)
    assert (checks.draft(draft), checks.edit(edit), checks.move(move)) == (draft, edit, move)


def test_edit_keeps_unnamed_fields() -> None:
    assert checks.edit(Edit()) == Edit()
    assert all(value is UNSET for value in checks.edit(Edit()))
    assert checks.edit(Edit(title=" t ")) == Edit(title="t")


@pytest.mark.parametrize(
    "field", ["category", "deliverable", "spec_ref", "ref", "assigned_to", "max_retries", "parent", "not_before"]
)
def test_an_edit_clears_with_none(field: str) -> None:
    cleared: dict[str, Any] = {field: None}
    assert checks.edit(Edit(**cleared)) == Edit(**cleared)


@pytest.mark.parametrize(
    "field",
    [
        {"lease": timedelta(0)},
        {"result": math.nan},
        {"reason": "\x00"},
        {"artifacts": ("\x00",)},
        {"artifacts": ("x",) * 1001},
        {"unblock_action": "\ud800"},
    ],
    ids=lambda field: next(iter(field)),
)
def test_every_field_of_a_move_is_checked(field: dict[str, Any]) -> None:
    refused(checks.move, Move(Verb.DONE, "a", "desk")._replace(**field))


def test_valid_move_is_returned_unchanged() -> None:
    move = Move(Verb.DONE, "a", "desk", lease=timedelta(minutes=1), result={"a": [1]}, artifacts=("f",), reason="ok")
    assert checks.move(move) == move


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


@given(title=ANY_TEXT, description=ANY_TEXT, category=ANY_TEXT, task_id=ANY_TEXT, step=ANY_TEXT)
def test_accepted_setting_survives_a_round_trip(
    title: str, description: str, category: str, task_id: str, step: str
) -> None:
    draft = Draft(title, task_id, description, category=category, steps=(step,))
    with suppress(InvalidInput):
        kept = checks.draft(draft)
        for text in (kept.title, kept.id, kept.description, kept.category or "", *kept.steps):
            assert "\x00" not in text
            text.encode()
        assert checks.draft(kept) == kept


@given(st.one_of(st.integers(), st.floats()))
def test_a_priority_is_taken_or_refused_and_nothing_else(value: float) -> None:
    with suppress(InvalidInput):
        assert checks.priority(value) == value
        assert abs(value) <= checks.PRIORITY_MAX


@pytest.mark.parametrize("secret", [b"hush", {"deep": [b"hush"]}, "hush\0", {"hush": object()}, ["hush", math.nan]])
def test_invalid_setting_is_refused_without_its_value(secret: Any) -> None:
    told = refused(checks.settings, {"fine": 1, "api_key": secret})
    assert "'api_key'" in told
    assert "hush" not in told
