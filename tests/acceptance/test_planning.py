"""plan: a file with the tasks that should exist."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.cli import Cli

_YAML = """\
spec: checkout
tasks:
  - id: schema
    title: Tables for orders
    p: 0
  - id: api
    title: Payment API
    description: |
      With idempotency keys.
    deps: [schema]
    steps: [draft, build]
    requires: [docker]
  - {id: 42, title: "Runbook 📕", feeds_from: [api], cat: docs, class: intangible}
"""
_JSONL = """\
{"id": "schema", "t": "Tables for orders", "p": 0, "spec": "checkout"}

{"id": "api", "t": "Payment API", "d": "With idempotency keys.\\n", "deps": ["schema"], "steps": ["draft", "build"], \
"requires": ["docker"], "spec": "checkout"}
{"id": "42", "t": "Runbook 📕", "feeds_from": ["api"], "cat": "docs", "class": "intangible", "spec": "checkout"}
"""
_ZEROS = {
    "inserted": [],
    "updated": [],
    "removed": [],
    "skipped_done": [],
    "skipped_active": [],
    "skipped_canceled": [],
    "linked": 0,
    "unlinked": 0,
}


def _plan(cli: Cli, text: str, *options: str) -> dict[str, Any]:
    changes: dict[str, Any] = cli.json("plan", cli.file("plan.yaml", text), *options)
    return changes


def test_plan_adds_its_tasks_and_reports_them(cli: Cli) -> None:
    said = cli.ok("plan", cli.file("plan.yaml", _YAML)).splitlines()
    assert said[:3] == ["+ schema  Tables for orders", "+ api  Payment API", "+ 42  Runbook 📕"]
    assert said[3] == "inserted: 3, updated: 0, removed: 0, skipped (done): 0"
    assert cli.ids("ready") == ["schema", "42"]
    task = cli.task("api")
    assert task["description"] == "With idempotency keys.\n"
    assert (task["spec_ref"], task["steps"], task["requires"]) == ("checkout", ["draft", "build"], ["docker"])
    assert task["links"][1] | {"detected_by": ""} == {
        "task": "api",
        "on": "schema",
        "kind": "blocks",
        "detected_by": "",
    }


def test_yaml_and_json_lines_give_the_same_plan(cli: Cli) -> None:
    cli.ok("plan", cli.file("plan.yaml", _YAML))
    assert cli.json("plan", cli.file("plan.jsonl", _JSONL)) == _ZEROS | {"dry_run": False}


def test_a_second_run_does_nothing(cli: Cli) -> None:
    assert _plan(cli, _YAML)["inserted"] == ["schema", "api", "42"]
    before = cli.snapshot()
    assert _plan(cli, _YAML) == _ZEROS | {"dry_run": False}
    assert cli.snapshot() == before
    assert cli.ok("plan", "plan.yaml") == "inserted: 0, updated: 0, removed: 0, skipped (done): 0\n"


@pytest.mark.parametrize("text", [_YAML, _JSONL], ids=["yaml", "jsonl"])
def test_a_plan_can_come_from_stdin(text: str, cli: Cli) -> None:
    assert cli.json("plan", "-", stdin=text)["inserted"] == ["schema", "api", "42"]


def test_format_can_be_given(cli: Cli) -> None:
    cli.file("plan.txt", _JSONL)
    assert cli.json("plan", "plan.txt", "--format", "jsonl")["inserted"] == ["schema", "api", "42"]
    cli.refuses(2, "PLAN_INVALID", "plan", cli.file("p.yaml", _YAML), "--format", "jsonl")


def test_json_with_all_tasks_in_one_list_is_yaml_too(cli: Cli) -> None:
    text = json.dumps([{"id": "a", "title": "A"}, {"id": "b", "title": "B", "deps": ["a"]}])
    assert cli.json("plan", cli.file("plan.json", text))["inserted"] == ["a", "b"]


def test_windows_files_are_read_as_well(cli: Cli) -> None:
    raw = b"\xef\xbb\xbf" + _JSONL.replace("\n", "\r\n").encode()
    assert cli.json("plan", cli.file("plan.jsonl", raw))["inserted"] == ["schema", "api", "42"]


def test_dry_run_reports_the_same_and_writes_nothing(cli: Cli) -> None:
    _plan(cli, _YAML)
    changed = _YAML.replace("Payment API", "Payments").replace("deps: [schema]", "deps: []").replace("id: 42", "id: 43")
    before = cli.snapshot()
    would = _plan(cli, changed, "--dry-run")
    assert cli.snapshot() == before
    said = cli.ok("plan", "plan.yaml", "--dry-run").splitlines()
    assert said[0] == "+ 43  Runbook 📕"
    assert said[1].startswith("~ api")
    assert "title" in said[1]
    assert "links" in said[1]
    assert said[2] == "- 42"
    assert said[3].startswith("would have inserted: 1, updated: 1, removed: 1")
    assert cli.snapshot() == before
    assert _plan(cli, changed) == would | {"dry_run": False}
    assert (would["inserted"], would["updated"], would["removed"]) == (["43"], ["api"], ["42"])
    assert (would["linked"], would["unlinked"]) == (1, 1)


def test_unplanned_task_is_canceled(cli: Cli) -> None:
    _plan(cli, _YAML)
    _plan(cli, "spec: checkout\ntasks:\n  - {id: schema, title: Tables for orders, p: 0}\n")
    assert {task["id"]: task["status"] for task in cli.json("list", "--all")} == {
        "schema": "ready",
        "api": "canceled",
        "42": "canceled",
    }


def test_replanned_task_is_reopened(cli: Cli) -> None:
    _plan(cli, _YAML)
    _plan(cli, "spec: checkout\ntasks:\n  - {id: schema, title: Tables for orders, p: 0}\n")
    assert set(_plan(cli, _YAML)["updated"]) == {"api", "42"}
    assert cli.status_of("api") == "ready"


def test_empty_plan_removes_only_its_spec(cli: Cli) -> None:
    _plan(cli, _YAML)
    cli.add("mine")
    assert _plan(cli, "[]") == _ZEROS | {"dry_run": False}
    assert set(_plan(cli, "[]", "--spec", "checkout")["removed"]) == {"schema", "api", "42"}
    assert cli.ids("list") == ["mine"]


def test_plan_leaves_held_tasks_unchanged(cli: Cli) -> None:
    _plan(cli, _YAML)
    token = cli.claim("schema", "--agent", "bob")
    changed = cli.file("new.yaml", _YAML.replace("Tables for orders", "No tables"))
    ran = cli("plan", changed)
    assert ran.status == 0
    assert "schema" in ran.err
    assert "updated: 0" in ran.out
    assert cli.json("plan", changed)["skipped_active"] == ["schema"]
    gone = cli("plan", cli.file("gone.yaml", "[]"), "--spec", "checkout", "--json")
    assert gone.data["skipped_active"] == ["schema"]
    assert cli.task("schema")["title"] == "Tables for orders"
    cli.ok("done", "schema", "--token", token)


def test_plan_leaves_finished_tasks_unchanged(cli: Cli) -> None:
    _plan(cli, _YAML)
    cli.ok("done", "schema", "--token", cli.claim("schema"), "--note", "done well")
    before = cli.task("schema")
    assert _plan(cli, _YAML.replace("Tables for orders", "No tables"))["skipped_done"] == ["schema"]
    assert cli.task("schema") == before


def test_plan_keeps_tasks_canceled_by_a_person(cli: Cli) -> None:
    _plan(cli, _YAML)
    cli.ok("cancel", "42", "--reason", "not needed")
    ran = cli("plan", "plan.yaml")
    assert ran.status == 0
    assert "42" in ran.err
    assert cli.status_of("42") == "canceled"


def test_long_plan_is_summarized(cli: Cli) -> None:
    text = "".join(json.dumps({"id": f"t{number}", "t": f"Task {number}"}) + "\n" for number in range(50))
    said = cli.ok("plan", cli.file("plan.jsonl", text)).splitlines()
    assert len(said) < 30
    assert "… and 30 more" in said[-2]


def test_a_cycle_in_a_plan_changes_nothing(cli: Cli) -> None:
    text = "- {id: a, title: A, deps: [b]}\n- {id: b, title: B, deps: [a]}\n"
    told = cli.refuses(6, "CYCLE", "plan", cli.file("plan.yaml", text))
    assert "→" in told.message


def test_date_in_yaml_is_read_as_text(cli: Cli) -> None:
    _plan(cli, "- {id: a, title: A, extra: {day: 2026-01-31}}\n")
    assert cli.task("a")["extra"] == {"day": "2026-01-31"}


_WRONG = {
    "an unknown key": ("- {id: a, title: A}\n- {id: b, title: B, prio: 1}\n", "line 2", "prio"),
    "no id": ("- {title: A}\n", "line 1", "id"),
    "no title": ("- {id: a}\n", "line 1", "title"),
    "an id twice": ("- {id: a, title: A}\n- {id: a, title: B}\n", "line 2", "line 1"),
    "an unknown dependency": ("- {id: a, title: A, deps: [ghost]}\n", "line 1", "ghost"),
    "a dependency on itself": ("- {id: a, title: A, deps: [a]}\n", "line 1", "itself"),
    "a string for a list": ("- {id: a, title: A, deps: b}\n", "line 1", "list"),
    "a word for a number": ("- {id: a, title: A, p: high}\n", "line 1", "number"),
    "not a number": ("- {id: a, title: A, p: .nan}\n", "line 1", "priority"),
    "a number for a title": ("- {id: a, title: 5}\n", "line 1", "text"),
    "a list for a title": ("- {id: a, title: [x]}\n", "line 1", "text"),
    "an unknown class": ("- {id: a, title: A, class: urgent}\n", "line 1", "expedite"),
    "a spaced id": ("- {id: a b, title: A}\n", "line 1", "id"),
    "a scalar": ("just text\n", "", "list of tasks"),
    "an unknown heading": ("task:\n  - {id: a, title: A}\n", "", "task"),
    "tasks that are no list": ("tasks: {a: b}\n", "", "list of tasks"),
    "broken yaml": ("- {id: a, title: A\n", "line", "YAML"),
    "two documents": ("- {id: a, title: A}\n---\n- {id: b, title: B}\n", "", "document"),
    "a tab": ("- id: a\n\ttitle: A\n", "line 2", "YAML"),
    "an alias": ("- &x {id: a, title: A}\n- *x\n", "", "alias"),
    "a python object": ("- {id: a, title: !!python/object:os.system x}\n", "", "YAML"),
    "a number as a key in extra": ("- {id: a, title: A, extra: {1: x}}\n", "line 1", "1"),
    "bytes inside extra": ("- {id: a, title: A, extra: {b: !!binary aGk=}}\n", "line 1", ""),
    "a set inside extra": ("- {id: a, title: A, extra: {b: !!set {x}}}\n", "line 1", ""),
    "endless nesting": ("- {id: a, title: A, extra: " + "{a: " * 200 + "}" * 200 + "}\n", "line 1", "deep"),
    "an enormous priority": ("- {id: a, title: A, p: 1" + "0" * 400 + "}\n", "line 1", "priority"),
    "only opening brackets": ("[" * 50_000, "", ""),
    "an escape in a title": ('- {id: a, title: "\\e[31mred"}\n', "line 1", "title"),
    "a NUL in a title": ('- {id: a, title: "a\\0b"}\n', "line 1", "title"),
    "half a character": ('- {id: a, title: "\\ud800"}\n', "line 1", ""),
}


@pytest.mark.parametrize(("text", "where", "what"), _WRONG.values(), ids=_WRONG)
def test_invalid_plan_is_refused_with_its_position(text: str, where: str, what: str, cli: Cli) -> None:
    cli.add("there")
    told = cli.refuses(2, "PLAN_INVALID", "plan", cli.file("plan.yaml", text))
    assert where in told.message
    assert what in told.message


_WRONG_LINES = {
    "broken json": ('{"id": "a", "t": "A"}\n{"id": "b",\n', "line 2"),
    "not an object": ('["a", "A"]\n', "line 1"),
    "a number that JSON has not": ('{"id": "a", "t": "A", "p": NaN}\n', "line 1"),
    "endless nesting": ('{"id": "a", "t": "A", "extra": ' + "[" * 100_000 + "\n", "line 1"),
    "half a character": ('{"id": "a", "t": "\\ud800"}\n', "line 1"),
    "an enormous number": ('{"id": "a", "t": "A", "p": 1' + "0" * 400 + "}\n", "line 1"),
    "yaml": ("- {id: a, title: A}\n", "line 1"),
}


@pytest.mark.parametrize(("text", "where"), _WRONG_LINES.values(), ids=_WRONG_LINES)
def test_invalid_lines_are_refused_with_their_number(text: str, where: str, cli: Cli) -> None:
    assert where in cli.refuses(2, "PLAN_INVALID", "plan", cli.file("plan.jsonl", text)).message


@pytest.mark.parametrize("raw", [bytes(range(256)), b"\xff\xfe\x00a", b"- {id: a, title: \xe9}\n"])
def test_binary_file_is_refused(raw: bytes, cli: Cli) -> None:
    assert "UTF-8" in cli.refuses(2, "INVALID_INPUT", "plan", cli.file("plan.yaml", raw)).message


def test_empty_file_is_an_empty_plan(cli: Cli) -> None:
    cli.add("there")
    for name in ("empty.yaml", "empty.jsonl"):
        assert cli.json("plan", cli.file(name, "")) == _ZEROS | {"dry_run": False}
    assert cli.ids("list") == ["there"]


def test_huge_plan_is_applied_at_once(cli: Cli) -> None:
    lines = [
        json.dumps({"id": f"t{n}", "t": f"Task {n}", "d": "x" * 500, "deps": [f"t{n - 1}"] if n else []})
        for n in range(3000)
    ]
    assert len(cli.json("plan", cli.file("plan.jsonl", "\n".join(lines)))["inserted"]) == 3000
    assert cli.ids("ready") == ["t0"]


@pytest.mark.parametrize("name", ["nowhere.yaml", "."])
def test_unreadable_file_is_named(name: str, cli: Cli) -> None:
    assert name in cli.refuses(2, "INVALID_INPUT", "plan", name).message
