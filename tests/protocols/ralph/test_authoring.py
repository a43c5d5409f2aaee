"""create, update, delete: what a task says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status

if TYPE_CHECKING:
    from support.ralph import Ralph


def test_create_prints_the_id_and_stores_all_options(ralph: Ralph) -> None:
    ralph.create("x", "y")
    options = ("-p", "0", "-c", "feat", "-d", "Say it.", "-s", '["one"]', "-r", "spec", "--ref", "R", "--deps", "x,y")
    assert ralph.ok("create", "a", "A title", *options, "--max-retries", "3") == "a\n"
    task = ralph.task("a")
    assert (task.title, task.priority, task.category, task.description) == ("A title", 0, "feat", "Say it.")
    assert (task.steps, task.spec_ref, task.ref, task.blockers, task.max_retries) == (("one",), "spec", "R", 2, 3)


def test_create_needs_no_more_than_an_id_and_a_title(ralph: Ralph) -> None:
    ralph.ok("create", "a", "A")
    task = ralph.task("a")
    assert (task.priority, task.category, task.description, task.steps) == (2, None, "", ())
    assert (task.spec_ref, task.ref, task.max_retries, task.status) == (None, None, None, Status.READY)


def test_empty_options_are_as_good_as_none(ralph: Ralph) -> None:
    ralph.ok("create", "a", "A", "-c", "", "-r", "", "--ref", "", "--deps", " , ,", "-d", "")
    task = ralph.task("a")
    assert (task.category, task.spec_ref, task.ref, task.blockers) == (None, None, None, 0)


def test_create_refuses_an_id_that_is_taken(ralph: Ralph) -> None:
    ralph.create("a")
    ran = ralph("create", "a", "Other")
    assert (ran.status, ran.out) == (1, "")
    assert "update" in ran.err
    assert ralph.task("a").title == "Task a"


def test_create_with_an_unknown_dependency_creates_nothing(ralph: Ralph) -> None:
    ralph.create("x")
    ran = ralph("create", "a", "A", "--deps", "x,nowhere")
    assert (ran.status, ran.out) == (2, "")
    assert "nowhere" in ran.err
    assert ralph.tasks() == {"x": "open"}


def test_update_changes_only_the_given_fields(ralph: Ralph) -> None:
    ralph.create("a", d="Old.", s='["old"]', c="feat")
    assert ralph.ok("update", "a", "--title", "New", "--priority", "0") == "updated a\n"
    task = ralph.task("a")
    assert (task.title, task.priority, task.description, task.steps) == ("New", 0, "Old.", ("old",))
    ralph.ok("update", "a", "--description", "", "--steps", "[]")
    task = ralph.task("a")
    assert (task.title, task.description, task.steps, task.category) == ("New", "", (), "feat")


def test_update_of_an_active_task_warns(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("a")
    ran = ralph("update", "a", "--title", "New")
    assert (ran.status, ran.out) == (0, "updated a\n")
    assert "ann is working on a" in ran.err


@pytest.mark.parametrize("state", ["done", "deleted"])
def test_update_and_block_refuse_what_is_over(ralph: Ralph, state: str) -> None:
    ralph.create("a", "b")
    if state == "done":
        ralph.finish("a")
    else:
        ralph.ok("delete", "a")
    for words in (("update", "a", "--title", "New"), ("block", "a", "--by", "b")):
        ran = ralph(*words)
        assert (ran.status, ran.out) == (1, "")
        assert f"a is {state}" in ran.err
    assert ralph.task("a").title == "Task a"


@pytest.mark.parametrize("words", [("update", "nowhere", "--title", "x"), ("delete", "nowhere")])
def test_changing_an_unknown_task_exits_with_2(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph(*words)
    assert (ran.status, ran.out) == (2, "")


def test_what_a_deleted_task_blocked_goes_ahead(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.create("b", deps="a")
    ralph.ok("delete", "a")
    assert ralph.claim().id == "b"


def test_a_long_plan_is_taken_in_one_go(ralph: Ralph) -> None:
    plan = [{"id": f"t{number}", "t": "T", "deps": [f"t{number - 1}"] if number else []} for number in range(1500)]
    assert ralph.sync(*plan).out.startswith("inserted: 1500,")
    assert ralph("peek").ids == ["t0"]
    assert ralph.sync(*plan).out.startswith("inserted: 0, updated: 0,")
