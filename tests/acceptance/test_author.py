"""add, edit, comment: the fields of a task and its comments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.cli import Cli

_EVERYTHING = (
    ("--description", "What is to be done.\nIn two lines."),
    ("--priority", "0.5"),
    ("--class", "expedite"),
    ("--category", "backend"),
    ("--deliverable", "code"),
    ("--step", "draft"),
    ("--step", "build"),
    ("--spec", "checkout"),
    ("--ref", "https://example.org/1"),
    ("--parent", "whole"),
    ("--requires", "gpu"),
    ("--requires", "docker"),
    ("--assign", "bob"),
    ("--not-before", "2027-01-31T12:00:00+02:00"),
    ("--max-retries", "3"),
    ("--extra", '{"points": 5}'),
)
_FIELDS = {
    "description": "What is to be done.\nIn two lines.",
    "priority": 0.5,
    "service_class": "expedite",
    "category": "backend",
    "deliverable": "code",
    "steps": ["draft", "build"],
    "spec_ref": "checkout",
    "ref": "https://example.org/1",
    "parent": "whole",
    "requires": ["docker", "gpu"],
    "assigned_to": "bob",
    "not_before": "2027-01-31T10:00:00Z",
    "max_retries": 3,
    "extra": {"points": 5},
}


def _options() -> list[str]:
    return [word for pair in _EVERYTHING for word in pair]


def _said(task: dict[str, Any]) -> dict[str, Any]:
    return {name: task.get(name) for name in _FIELDS}


def test_add_prints_the_new_id_and_nothing_else(cli: Cli) -> None:
    said = cli.ok("add", "Write the parser")
    new = said.strip()
    assert said == f"{new}\n"
    assert len(new) == 6
    assert new.isalnum()
    assert cli.task(new)["title"] == "Write the parser"


def test_add_in_json_gives_the_whole_task(cli: Cli) -> None:
    task = cli.json("add", "Write the parser")
    assert task["title"] == "Write the parser"
    assert task["status"] == "ready"
    assert task["priority"] == 2
    assert task["service_class"] == "standard"
    assert task["scope"] == "default"
    assert cli.json("list") == [task]


def test_add_accepts_every_field_of_a_task(cli: Cli) -> None:
    cli.add("whole")
    new = cli.json("add", "A part", *_options())
    assert _said(new) == _FIELDS
    assert _said(cli.task(new["id"])) == _FIELDS


def test_show_prints_the_whole_task(cli: Cli) -> None:
    cli.add("whole")
    cli.ok("add", "A part", "--id", "part", *_options())
    said = cli.ok("show", "part")
    for word in ("A part", "In two lines.", "!!0.5", "backend", "code", "1. draft", "2. build", "checkout"):
        assert word in said
    for word in ("https://example.org/1", "whole", "docker, gpu", "bob", "2027-01-31 10:00:00", '{"points": 5}'):
        assert word in said


def test_the_short_options_do_the_same(cli: Cli) -> None:
    short = cli.json("add", "A", "-d", "text", "-p", "1", "-c", "backend", "-s", "one")
    assert (short["description"], short["priority"], short["category"], short["steps"]) == (
        "text",
        1,
        "backend",
        ["one"],
    )


def test_a_description_can_come_from_stdin(cli: Cli) -> None:
    task = cli.json("add", "A", "-d", "-", stdin="Ünïcödé\nand more\n")
    assert task["description"].rstrip("\n") == "Ünïcödé\nand more"


@pytest.mark.parametrize("word", ["fixed_date", "fixed-date", "FIXED_DATE"])
def test_a_class_of_service_is_read_as_people_write_it(word: str, cli: Cli) -> None:
    assert cli.json("add", "A", "--class", word)["service_class"] == "fixed_date"


def test_unknown_class_of_service_names_the_known_ones(cli: Cli) -> None:
    assert "expedite" in cli.refuses(2, "INVALID_INPUT", "add", "A", "--class", "urgent").message


def test_a_negative_priority_comes_before_zero(cli: Cli) -> None:
    cli.add("zero", "-p", "0")
    cli.add("minus", "-p", "-1")
    assert cli.ids("ready") == ["minus", "zero"]


def test_given_id_is_used(cli: Cli) -> None:
    assert cli.ok("add", "Parser", "--id", "PARSER-1") == "PARSER-1\n"


def test_existing_id_is_refused(cli: Cli) -> None:
    cli.add("job")
    told = cli.refuses(6, "ALREADY_EXISTS", "add", "Another", "--id", "job")
    assert "dibs edit" in told.message


def test_the_same_id_may_be_used_in_another_scope(cli: Cli) -> None:
    cli.add("job")
    cli.add("job", "--scope", "other")
    assert cli.ids("list", "--scope", "other") == ["job"]


def test_blocked_by_makes_the_new_task_wait(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    assert cli.ids("ready") == ["first"]
    assert cli.task("second")["links"] == [
        {"task": "second", "on": "first", "kind": "blocks", "detected_by": "explicit"}
    ]


def test_blocks_makes_the_other_task_wait(cli: Cli) -> None:
    cli.add("second")
    cli.add("first", "--blocks", "second")
    assert cli.ids("ready") == ["first"]
    assert "waiting" in cli.ok("list")


def test_feeds_from_orders_nothing_but_passes_the_result_on(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--feeds-from", "first")
    assert cli.ids("ready") == ["first", "second"]
    cli.ok("done", "first", "--token", cli.claim("first"), "--note", "a result")
    assert cli.json("claim", "second")["inputs"][0]["result"] == "a result"


def test_links_of_a_new_id_refer_to_it(cli: Cli) -> None:
    cli.add("before")
    cli.add("after")
    new = cli.ok("add", "Between", "--blocked-by", "before", "--blocks", "after").strip()
    assert cli.ids("ready") == ["before"]
    assert {(link["task"], link["on"]) for link in cli.task(new)["links"]} == {(new, "before"), ("after", new)}


def test_backlog_task_is_not_claimable(cli: Cli) -> None:
    cli.add("job", "--backlog")
    assert cli.status_of("job") == "backlog"
    assert cli.ids("ready") == []


@pytest.mark.parametrize("option", ["--blocked-by", "--blocks", "--feeds-from", "--parent"])
def test_unknown_task_in_a_link_adds_nothing(option: str, cli: Cli) -> None:
    assert "ghost" in cli.refuses(3, "NOT_FOUND", "add", "A", option, "ghost").message


def test_links_that_close_a_cycle_add_nothing(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    told = cli.refuses(6, "CYCLE", "add", "A", "--blocked-by", "second", "--blocks", "first")
    assert "first" in told.message


def test_edit_changes_only_given_fields(cli: Cli) -> None:
    cli.add("whole")
    cli.add("job", "-d", "old", "-c", "old")
    assert cli.ok("edit", "job", "--title", "New", *_options()) == "changed job\n"
    task = cli.task("job")
    assert task["title"] == "New"
    assert _said(task) == _FIELDS
    assert _said(cli.json("edit", "job", "--title", "Newer")) == _FIELDS


def test_edit_clears_named_fields(cli: Cli) -> None:
    cli.add("whole")
    cli.ok("add", "A", "--id", "job", *_options())
    fields = [name for name in _FIELDS if name not in {"priority", "service_class"}]
    task = cli.json("edit", "job", *[word for name in fields for word in ("--clear", name)])
    assert not set(fields) & set(task)


def test_edit_moves_a_task_first_and_back(cli: Cli) -> None:
    cli.add("early", "-p", "0")
    cli.add("late", "-p", "4")
    cli.ok("edit", "late", "--first")
    assert cli.ids("ready") == ["late", "early"]
    cli.ok("edit", "late", "--not-first")
    assert cli.ids("ready") == ["early", "late"]


def test_edit_moves_a_task_between_backlog_and_queue(cli: Cli) -> None:
    cli.add("job")
    assert cli.json("edit", "job", "--status", "backlog")["status"] == "backlog"
    assert cli.json("edit", "job", "--status", "ready")["status"] == "ready"


def test_edit_reopens_a_canceled_task(cli: Cli) -> None:
    cli.add("job")
    cli.ok("cancel", "job")
    assert cli.json("edit", "job", "--status", "ready")["status"] == "ready"


def test_edit_changes_all_or_nothing(cli: Cli) -> None:
    """A refused edit does not change the status either."""
    cli.add("job", "--backlog")
    cli.refuses(2, "INVALID_INPUT", "edit", "job", "--status", "ready", "--title", "")
    cli.refuses(2, "INVALID_INPUT", "edit", "job", "--status", "ready", "--priority", "nan")


def test_edit_without_changes_is_reported(cli: Cli) -> None:
    cli.add("job")
    assert "dibs edit --help" in cli.refuses(2, "INVALID_INPUT", "edit", "job").message


def test_edit_refuses_a_done_task(cli: Cli) -> None:
    cli.add("job")
    cli.ok("done", "job", "--token", cli.claim("job"))
    cli.refuses(4, "ILLEGAL_MOVE", "edit", "job", "--title", "New")


def test_edit_cannot_make_a_task_its_own_ancestor(cli: Cli) -> None:
    cli.add("whole")
    cli.add("part", "--parent", "whole")
    cli.refuses(6, "CYCLE", "edit", "whole", "--parent", "part")
    cli.refuses(6, "CYCLE", "edit", "whole", "--parent", "whole")


def test_edit_of_a_held_task_keeps_its_lease(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    cli.ok("edit", "job", "--title", "Clearer")
    assert cli.ok("done", "job", "--token", token) == "done job\n"


def test_invalid_clear_lists_the_fields_that_can_be_cleared(cli: Cli) -> None:
    cli.add("job")
    assert "description" in cli.refuses(2, "INVALID_INPUT", "edit", "job", "--clear", "title").message


def test_a_comment_is_in_the_tasks_history(cli: Cli) -> None:
    cli.add("job")
    assert cli("comment", "job", "the customer called\nagain", "--agent", "zoe").out == "commented on job\n"
    told = cli.json("log", "job")[-1]
    assert (told["verb"], told["agent"], told["reason"]) == ("comment", "zoe", "the customer called\nagain")
    assert "the customer called" in cli("log", "job").out


def test_a_comment_can_come_from_stdin(cli: Cli) -> None:
    cli.add("job")
    assert cli("comment", "job", "-", stdin="  a long story\n").status == 0
    assert cli.json("log", "job")[-1]["reason"] == "a long story"


def test_comment_needs_text_and_an_existing_task(cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "comment", "job", " ")
    cli.refuses(3, "NOT_FOUND", "comment", "nosuch", "hello")
    assert [event["verb"] for event in cli.json("log")] == ["add"]
