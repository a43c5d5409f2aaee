"""Labels and filters on the command line, in plans, exports, files and workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli import Cli


@pytest.fixture
def labelled(cli: Cli) -> Cli:
    cli.ok("add", "Header", "--id", "header", "--label", "web", "--label", "urgent", "--label", "web")
    cli.ok("add", "Footer", "--id", "footer", "--label", "web", "-c", "bug", "--spec", "site")
    cli.ok("add", "Help", "--id", "help", "-c", "docs", "--spec", "site")
    return cli


def test_labels_are_a_sorted_set(labelled: Cli) -> None:
    assert labelled.task("header")["labels"] == ["urgent", "web"]
    assert "labels" not in labelled.task("help")
    assert "labels      urgent, web" in labelled.ok("show", "header")


def test_labels_are_replaced_and_cleared(labelled: Cli) -> None:
    labelled.ok("edit", "header", "--label", "late")
    assert labelled.task("header")["labels"] == ["late"]
    labelled.ok("edit", "header", "--clear", "labels")
    assert "labels" not in labelled.task("header")


@pytest.mark.parametrize("command", ["list", "ready"])
def test_list_is_filtered_by_label(labelled: Cli, command: str) -> None:
    assert labelled.ids(command, "--label", "web") == ["footer", "header"]
    assert labelled.ids(command, "--label", "web", "--label", "urgent") == ["header"]
    assert labelled.ids(command, "--spec", "site") == ["footer", "help"]
    assert labelled.ids(command, "-c", "bug", "--spec", "site", "--label", "web") == ["footer"]
    assert labelled.ids(command, "--label", "nobody") == []


def test_claim_is_filtered_by_label(labelled: Cli) -> None:
    assert labelled.json("claim", "-c", "docs", "--agent", "ann")["task"]["id"] == "help"
    token = labelled.json("claim", "--label", "urgent", "--agent", "ann")["token"]
    moved = labelled.json("done", "header", "--token", token, "--next", "-c", "docs", "--agent", "ann")
    assert moved["next"] is None
    told = labelled.refuses(4, "NOTHING_READY", "claim", "--label", "urgent", "--agent", "ann")
    assert "label urgent" in told.message
    refused = labelled.refuses(4, "NOT_FOR_YOU", "claim", "footer", "--label", "urgent", "--agent", "ann")
    assert "label urgent" in refused.message


@pytest.mark.parametrize("word", ["", "  ", "x" * 129, "two\nlines"])
def test_invalid_label_is_refused(labelled: Cli, word: str) -> None:
    before = labelled.snapshot()
    labelled.refuses(2, "INVALID_INPUT", "add", "New", "--label", word)
    labelled.refuses(2, "INVALID_INPUT", "edit", "header", "--label", word)
    assert labelled.snapshot() == before


def test_a_plan_states_labels(cli: Cli) -> None:
    plan = cli.file("plan.yaml", "spec: site\ntasks:\n  - {id: a, title: A, labels: [web, late, web]}\n")
    cli.ok("plan", plan)
    assert cli.task("a")["labels"] == ["late", "web"]
    cli.ok("plan", cli.file("again.yaml", "spec: site\ntasks:\n  - {id: a, title: Again}\n"))
    assert cli.task("a")["labels"] == ["late", "web"], "a key that is left out changes nothing"


def test_labels_survive_an_export(labelled: Cli, tmp_path: Path) -> None:
    exported = labelled.ok("export")
    rows = [json.loads(line) for line in exported.splitlines()]
    assert any("urgent" in json.dumps(row) for row in rows)
    other = f"sqlite:///{tmp_path}/other.db"
    labelled.ok("init", "--store", other)
    labelled.ok("import", labelled.file("tasks.jsonl", exported), "--store", other)
    assert labelled.json("show", "header", "--store", other)["labels"] == ["urgent", "web"]


def test_labels_are_in_the_front_matter_of_a_vault(cli: Cli, tmp_path: Path) -> None:
    vault = f"vault:///{tmp_path}/vault"
    cli.ok("init", "--store", vault)
    cli.ok("add", "Header", "--id", "header", "--label", "web", "--label", "urgent", "--store", vault)
    (page,) = (tmp_path / "vault").rglob("header.md")
    text = page.read_text()
    assert "labels:" in text
    page.write_text(text.replace("urgent", "late"))
    assert cli.ids("list", "--label", "late", "--store", vault) == ["header"]


def test_worker_claims_only_its_labels(labelled: Cli) -> None:
    labelled.ok("work", "--label", "web", "--until-empty", "--agent", "ann", "--", "true")
    assert labelled.ids("list", "--status", "done") == ["footer", "header"]
    assert labelled.status_of("help") == "ready"
