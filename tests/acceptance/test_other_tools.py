"""`dibs import --from` and `dibs export --to` from the command line."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.cli import Cli

SAMPLES = Path(__file__).parents[1] / "exchange" / "samples"
FILES = {
    "beads": "beads.jsonl", "github": "gh.json", "task-master": "task-master.json", "backlog-md": "backlog",
    "markdown": "todo.md", "csv": "sheet.csv", "linear-csv": "linear.csv",
}  # fmt: skip


@pytest.mark.parametrize("tool", FILES)
def test_import_from_each_tool_runs_once_and_leaves_a_sound_store(cli: Cli, tool: str) -> None:
    name = str(SAMPLES / FILES[tool])
    wanted = cli("import", "--from", tool, "--dry-run", name, "--json").data
    assert cli("list", "--all", "--json").data == []
    first = cli("import", "--from", tool, name, "--json").data
    assert first | {"dry_run": True} == wanted
    assert first["tasks"] == len(first["added"]) == len(cli("list", "--all", "--json").data) > 2
    before = cli.snapshot()
    again = cli("import", "--from", tool, name, "--json").data
    assert (again["tasks"], again["already_here"]) == (0, first["added"])
    assert cli.snapshot() == before
    cli.ok("doctor", "--deep")


def test_imported_tasks_can_be_claimed(cli: Cli) -> None:
    cli.ok("import", "--from", "beads", str(SAMPLES / "beads.jsonl"))
    assert cli("claim", "--json").data["task"]["id"] == "bd-e"


def test_report_lists_everything_not_carried_over(cli: Cli) -> None:
    said = cli.ok("import", "--from", "beads", str(SAMPLES / "beads.jsonl"))
    assert "imported 5 tasks, 3 links, 1 comment from beads" in said
    assert "  bd-x (line 5): it was in progress" in said
    assert "  bd-e.2 (line 4): it depends on bd-gone, which is neither in the file nor here" in said


def test_invalid_line_imports_nothing(cli: Cli) -> None:
    text = (SAMPLES / "beads.jsonl").read_text(encoding="utf-8") + '{"id": "bd-z"}\n'
    before = cli.snapshot()
    ran = cli("import", "--from", "beads", "-", stdin=text)
    assert (ran.status, ran.err) == (2, "dibs: line 7: a task needs a title.\n")
    assert cli.snapshot() == before


def test_project_folder_is_accepted_for_tools_that_have_one(cli: Cli) -> None:
    home = cli.folder / "old" / ".taskmaster" / "tasks"
    home.mkdir(parents=True)
    shutil.copy(SAMPLES / "task-master.json", home / "tasks.json")
    assert cli("import", "--from", "task-master", "old", "--json").data["tasks"] == 4


def test_symbolic_link_out_of_the_folder_is_not_followed(cli: Cli) -> None:
    shutil.copytree(SAMPLES / "backlog", cli.folder / "backlog")
    (cli.folder / "secret.md").write_text("---\nid: task-9\ntitle: secret\n---\n", encoding="utf-8")
    (cli.folder / "backlog" / "tasks" / "task-9.md").symlink_to(cli.folder / "secret.md")
    assert cli("import", "--from", "backlog-md", "backlog", "--json").data["tasks"] == 5


@pytest.mark.parametrize("words", [("--dry-run",), ("--map", "QA=review"), ("--assignees",)])
def test_options_of_a_foreign_import_need_from(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli("import", str(SAMPLES / "beads.jsonl"), *words)
    assert ran.status == 2
    assert "--from" in ran.err


@pytest.mark.parametrize("pair", ["QA", "QA=active", "=review", "QA=later"])
def test_invalid_mapping_is_refused(cli: Cli, pair: str) -> None:
    ran = cli("import", "--from", "csv", "--map", pair, str(SAMPLES / "sheet.csv"))
    assert ran.status == 2
    assert "WORD=STATUS" in ran.err


def test_vault_refuses_an_import(cli: Cli) -> None:
    cli.ok("init", "--store", "vault:///notes")
    ran = cli("import", "--from", "csv", str(SAMPLES / "sheet.csv"), "--store", "vault:///notes")
    assert ran.status == 7
    assert "importing needs transactions" in ran.err


@pytest.fixture
def full(cli: Cli) -> Cli:
    cli.add("whole", "-d", "All of it", "-p", "1")
    cli.add("part", "--parent", "whole", "--label", "web", "--extra", '{"a": 1}')
    cli.add("after", "--blocked-by", "part", "-c", "docs")
    cli.ok("comment", "part", "looks fine", "--agent", "ann")
    cli.ok("done", "part", "--token", cli.claim("part", "--agent", "bob"))
    return cli


@pytest.mark.parametrize("tool", ["markdown", "csv", "github"])
def test_export_for_a_tool_can_be_imported_elsewhere(full: Cli, tool: str) -> None:
    full.ok("export", "--to", tool, "out")
    full.ok("init", "--store", "fresh.db")
    assert full("import", "--from", tool, "out", "--store", "fresh.db", "--json").data["tasks"] == 3
    found = {task["id"]: task for task in full("list", "--all", "--store", "fresh.db", "--json").data}
    assert (found["part"]["status"], found["part"]["labels"], found["part"]["parent"]) == ("done", ["web"], "whole")
    assert (found["whole"]["priority"], found["after"]["category"]) == (1, "docs")
    full.ok("doctor", "--deep", "--store", "fresh.db")


def test_omitted_data_is_reported(full: Cli) -> None:
    ran = full("export", "--to", "csv")
    assert ran.err == (
        "dibs: csv has no place for 1 comment and the extra fields of 1 task; "
        "'dibs export' without --to keeps everything\n"
    )
    assert [row["id"] for row in csv.DictReader(ran.out.splitlines())] == ["whole", "after", "part"]


def test_export_for_github_has_the_format_of_gh(full: Cli) -> None:
    found = {issue["title"]: issue for issue in json.loads(full.ok("export", "--to", "github"))}
    whole, part, after = (found[name] for name in ("whole", "part", "after"))
    assert (part["state"], part["stateReason"], part["labels"]) == ("CLOSED", "COMPLETED", [{"name": "web"}])
    assert f"Depends on #{part['number']}" in after["body"]
    assert whole["body"].startswith("All of it\n")
    assert part["comments"][0]["author"] == {"login": "ann"}


def test_export_as_mermaid_is_the_graph(full: Cli) -> None:
    assert full.ok("export", "--to", "mermaid") == full.ok("graph", "--format", "mermaid")


def test_export_for_other_tools_refuses_secrets(full: Cli) -> None:
    assert full("export", "--to", "csv", "--secrets").status == 2
