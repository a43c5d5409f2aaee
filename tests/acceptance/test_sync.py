"""sync: a sender's tasks and a Notion database, from the command line and from the chat."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.task import Status
from dibs.stores.port import Query
from dibs.stores.sqlite.store import SqliteStore
from support.cli import PATIENCE, SCRIPT
from support.notion import select, text, title

from .scenes import SCENES, notion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cli import Cli

ANN = "a" * 64


MADE: list[str] = []


@pytest.fixture
def who(cli: Cli) -> Iterator[tuple[str, ...]]:
    """Ann, whose rows are deleted after the test."""
    yield SCENES["sync"](cli)[2:]
    while MADE:
        notion()[0].human.trash(MADE.pop())


def _row(name: str, **more: Any) -> str:
    emulator, database = notion()
    MADE.append(emulator.page(database, {"Name": title(name), "SenderHash": text(ANN), **more}))
    return MADE[-1]


def _tasks(cli: Cli) -> dict[str, Any]:
    with SqliteStore(str(cli.store)) as store:
        return {task.title: task for task in store.find(Query(ANN))}


def test_new_row_becomes_an_assigned_task_with_its_order(cli: Cli, who: tuple[str, ...]) -> None:
    _row("Fix the bug in the parser", Priority=select("High"))
    told = cli.ok("sync", "notion", *who)
    assert told.startswith("✅ **Sync from Notion complete**\n\n✅ **")
    assert "  • Fix the bug in the parser\n" in told
    assert "📊 **Estimated completion:** 30 minutes\n\nNew execution order:\n" in told
    assert "Fix the bug in the parser (High) → Temüjin" in told
    assert _tasks(cli)["Fix the bug in the parser"].assigned_to == "developer"


def test_dry_run_lists_the_changes_and_writes_nothing(cli: Cli, who: tuple[str, ...]) -> None:
    _row("Only looked at")
    before = cli.snapshot()
    told = cli.json("sync", "notion", *who, "--dry-run")
    assert "Only looked at" in [each["title"] for each in told["applied"]]
    assert told["dry_run"] is True
    assert "1 new task to create" in cli.ok("sync", "notion", *who, "--dry-run")
    assert cli.snapshot() == before


def test_chat_syncs_on_request_and_explains_a_missing_setup(cli: Cli, who: tuple[str, ...]) -> None:
    page = _row("Competitor research", Priority=select("Medium"), Status=select("Not Started"))
    assert "1 new task created" in cli.ok("say", *who, "Sync from Notion")
    notion()[0].human.edit(page, {"Priority": select("Critical")})
    told = cli.ok("say", *who, "Notion sync")
    assert "  • Priority: 0.5 → 1.0 (Competitor research)\n" in told
    assert "Notion is not set up for you" in cli.ok("say", "--sender-hash", "b" * 64, "Sync from Notion")
    assert "would sync" in cli.ok("say", *who, "--preview", "Sync from Notion")
    cli.set("NOTION_API_BASE_URL", "http://127.0.0.1:9")
    assert "Sync from Notion failed" in cli.ok("say", *who, "Sync from Notion")


def test_invalid_sync_is_refused_with_advice(cli: Cli, who: tuple[str, ...]) -> None:
    refused = [
        (("sync", "notion"), "--sender"),
        (("sync", "notion", *who, "--watch", "--once"), "--once"),
        (("sync", "notion", *who, "--webhook", "80"), "--watch"),
        (("sync", "notion", *who, "--database", "x"), "init"),
        (("sync", "notion", "init", "--parent", "x"), "32"),
        (("sync", "notion", "init", "--watch"), "--watch"),
        (("sync", "notion", "--watch", "--webhook", "99999"), "65535"),
    ]
    for words, hint in refused:
        assert hint in cli.refuses(2, "INVALID_INPUT", *words).message
    cli.set("NOTION_POLL_INTERVAL", "often")
    assert "whole number of seconds" in cli.refuses(2, "INVALID_INPUT", "sync", "notion", *who, "--watch").message
    cli.set("NOTION_POLL_INTERVAL", "")
    told = cli.refuses(7, "MISCONFIGURED", "sync", "notion", "--sender-hash", "c" * 64)
    assert "notion_integration_enabled" in told.message
    cli.set("NOTION_SYNC_ENABLED", "false")
    assert "NOTION_SYNC_ENABLED" in cli.refuses(7, "MISCONFIGURED", "sync", "notion", *who).message
    cli.set("NOTION_SYNC_ENABLED", "true")
    cli.set("NOTION_TOKEN", "")
    assert "NOTION_TOKEN" in cli.refuses(7, "MISCONFIGURED", "sync", "notion", *who).message


def test_init_creates_a_database_ready_to_sync(cli: Cli, who: tuple[str, ...]) -> None:
    emulator, _ = notion()
    home = emulator.page(emulator.database({"Name": {"title": {}}}).id, {})
    made = cli.json("sync", "notion", "init", "--parent", home)
    assert made["made"] is True
    assert "export NOTION_DATABASE_ID=" in cli.ok("sync", "notion", "init", "--database", made["database"])
    cli.set("NOTION_DATABASE_ID", made["database"])
    emulator.page(made["database"], {"Name": title("First"), "SenderHash": text(ANN)})
    assert [each["title"] for each in cli.json("sync", "notion", *who)["applied"]] == ["First"]
    assert _tasks(cli)["First"].status is Status.READY


def test_init_adds_missing_properties_and_keeps_the_users(cli: Cli, who: tuple[str, ...]) -> None:
    emulator, _ = notion()
    some = emulator.database({"Task": {"title": {}}, "Status": {"select": {}}, "Notes": {"rich_text": {}}})
    assert who
    added = cli.json("sync", "notion", "init", "--database", some.id)["added"]
    assert added == ["Priority", "Agent", "ID", "Last Synced", "SenderHash", "Result", "Depends on"]
    assert cli.json("sync", "notion", "init", "--database", some.id)["added"] == []
    other = emulator.database({"Task": {"title": {}}, "Priority": {"number": {}}})
    told = cli.refuses(7, "MISCONFIGURED", "sync", "notion", "init", "--database", other.id)
    assert "'Priority' is a number, not a select" in told.message


def test_watch_syncs_all_enabled_senders_until_ctrl_c(cli: Cli, who: tuple[str, ...]) -> None:
    for setting in ("notion_poll_enabled", "notion_notify_on_change"):
        cli.ok("kurultai", "config", setting, "true", *who)
    cli.ok("sync", "notion", *who)
    _row("Found by looking", Status=select("Ready"))
    words = [str(SCRIPT), "sync", "notion", "--watch", "--webhook", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        watchdog = threading.Timer(PATIENCE, program.kill)
        watchdog.start()
        report = json.loads(program.stdout.readline())
        watchdog.cancel()
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=PATIENCE)
    assert [each["title"] for each in report["applied"]] == ["Found by looking"]
    assert (program.returncode, said.startswith("dibs: listening for webhooks at http://127.0.0.1:")) == (0, True)
    assert _tasks(cli)["Found by looking"].status is Status.BACKLOG
    assert "1 new task created" in cli.ok("inbox", *who)
