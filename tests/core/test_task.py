"""The value objects: their reprs, and the changes of an edit."""

from __future__ import annotations

import pytest

from dibs.core.task import STRENGTH, UNSET, Draft, Edit, Link, LinkKind, ServiceClass, Status

from .samples import LEASE, NOW, SOON, TOKEN, make_lease, make_task, task_in


def test_a_task_and_a_lease_show_no_token() -> None:
    task = task_in(Status.ACTIVE, spent_token=TOKEN)
    assert repr(task) == "Task(desk/a active 'Task a')"
    assert "ada" in repr(task.lease)
    for shown in (repr(task), str(task), f"{task.lease}", repr([task.lease])):
        assert TOKEN not in shown


@pytest.mark.parametrize("status", Status)
def test_done_and_canceled_are_finished(status: Status) -> None:
    assert make_task(status=status).finished == (status in {Status.DONE, Status.CANCELED})


def test_a_task_is_held_while_its_lease_lives() -> None:
    task = make_task(lease=make_lease())
    assert task.held(SOON)
    assert not task.held(NOW + LEASE)
    assert not make_task().held(NOW)


def test_edit_lists_changed_fields() -> None:
    task = make_task(title="old", category="x", priority=2)
    edit = Edit(title="new", category=None, priority=2.0, steps=())
    assert edit.changed(task) == {"title": "new", "category": None}


def test_an_edit_that_names_nothing_changes_nothing() -> None:
    assert Edit().changed(task_in(Status.BLOCKED, description="text")) == {}
    assert repr(UNSET) == "UNSET"


def test_edit_fields_are_task_fields() -> None:
    assert set(Edit._fields) - {"keep", "was", "why"} <= set(make_task()._fields)


def test_a_draft_is_an_ordinary_ready_task_unless_it_says_otherwise() -> None:
    draft = Draft("t")
    assert (draft.status, draft.service_class, draft.override, draft.priority) == (
        Status.READY, ServiceClass.STANDARD, False, 2,
    )  # fmt: skip
    assert draft.max_retries is None


def test_new_task_equals_its_draft() -> None:
    task = make_task()
    assert all(getattr(task, name) == value for name, value in Draft(task.title, task.id)._asdict().items())
    assert (task.retries, task.attempt, task.blockers, task.lease) == (0, 0, 0, None)


def test_a_link_is_certain_unless_it_says_otherwise() -> None:
    assert Link("a", "b") == Link("a", "b", LinkKind.BLOCKS, 1.0, "explicit", 1.0)


def test_a_stronger_link_counts_for_more() -> None:
    assert STRENGTH[LinkKind.BLOCKS] > STRENGTH[LinkKind.FEEDS_INTO] > STRENGTH[LinkKind.PARALLEL_OK]
