"""The table of fields against the types in `task.py`, and filters against tasks."""

from __future__ import annotations

import types
from datetime import UTC, datetime
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from dibs.core.fields import BY_NAME, DRAFTED, EDITED, FIELDS, LISTS, Filter, Kind
from dibs.core.task import Draft, Edit, Lease, ServiceClass, Status, Task, Unset

TYPES: dict[str, Any] = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME, Kind.ID), str),
    **dict.fromkeys(LISTS, tuple),
    Kind.NUMBER: float,
    Kind.COUNT: int,
    Kind.FLAG: bool,
    Kind.TIME: datetime,
    Kind.STATUS: Status,
    Kind.CLASS: ServiceClass,
    Kind.LEASE: Lease,
}
BESIDE = {"keep", "was", "why"}  # parts of an edit that are not fields of a task


def parts(hint: Any) -> set[Any]:
    """The members of a union, each without its parameters."""
    union = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return {get_origin(each) or each for each in union}


def test_every_field_is_declared_once() -> None:
    assert len({field.name for field in FIELDS}) == len(FIELDS)
    assert {field.name for field in FIELDS} == set(Task._fields)


def test_drafts_and_edits_match_the_field_table() -> None:
    assert {field.name for field in DRAFTED} == set(Draft._fields)
    assert {field.name for field in EDITED} == set(Edit._fields) - BESIDE


@pytest.mark.parametrize("made", [Task, Draft, Edit])
def test_kinds_agree_with_types(made: Any) -> None:
    for name, hint in get_type_hints(made).items():
        if name in BESIDE or BY_NAME[name].kind not in TYPES:
            continue
        field, found = BY_NAME[name], parts(hint) - {Unset}
        assert found - {type(None)} == {TYPES[field.kind]}, name
        assert (type(None) in found) == field.optional, name


def test_no_two_fields_share_a_plan_key_or_an_option() -> None:
    keys = [key for field in FIELDS for key in field.plan]
    options = [option for field in FIELDS for option in field.options]
    assert len(set(keys)) == len(keys)
    assert len(set(options)) == len(options)


def test_filter_matches_only_named_fields() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    task = Task("s", "a", "A", moment, moment, moment, category="docs", spec_ref="one")
    assert Filter().matches(task)
    assert Filter(category="docs", spec_ref="one").matches(task)
    assert not Filter(category="docs", spec_ref="two").matches(task)
    assert not Filter(category="code").matches(task)
    labelled = task._replace(labels=("urgent", "web"))
    assert Filter(labels=("web",)).matches(labelled)
    assert not Filter(labels=("late", "web")).matches(labelled)
    assert str(Filter(category="docs", labels=("a", "b"))) == "category docs, label a, label b"
