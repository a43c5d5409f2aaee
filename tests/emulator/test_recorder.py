"""The recorder redacts traffic, and the replay reports differences."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import Emulator, ntask_schema
from dibs.lab.emulator.recorder import Recorder, replay
from support.notion import select, text, title

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = ("Fire the auditor", "Budget of ACME", "Lock Token", "READY", "hush hush", "98765")


@pytest.fixture
def recorded() -> list[Any]:
    """Record a client's hour in a workspace with an existing task."""
    from notion_client import Client

    kept: list[Any] = []
    with Emulator(seed=5) as notion:
        tasks = notion.database(ntask_schema(), "Budget of ACME")
        values = {"Task name": title("Fire the auditor"), "Status": select("READY"), "Lock Token": text("hush hush")}
        old = notion.page(tasks.id, values)
        with Recorder(notion.url, kept.append) as proxy:
            client: Any = Client(auth=notion.token, base_url=proxy.url, retry=False)
            client.databases.retrieve(tasks.id)
            client.data_sources.retrieve(tasks.data_source_id)
            where = {"property": "Status", "select": {"equals": "READY"}}
            client.data_sources.query(tasks.data_source_id, filter=where)
            client.pages.update(old, properties={"Priority": {"number": 98765}})
            made = client.pages.create(parent={"data_source_id": tasks.data_source_id}, properties=values)
            client.pages.retrieve(made["id"])
            client.comments.create(parent={"page_id": made["id"]}, rich_text=text("hush hush")["rich_text"])
            with pytest.raises(Exception, match="Could not find page"):
                client.pages.retrieve("2f835e81-2bbb-81b6-9700-e18108a40b1f")
            client.close()
        kept.append((notion.token, tasks.id, old, made["id"]))
    return kept


def test_recording_holds_no_secret_and_keeps_the_structure(recorded: list[Any]) -> None:
    *exchanges, secrets = recorded
    said = json.dumps(exchanges)
    for secret in (*secrets, *SECRETS):
        assert secret not in said, secret
        assert secret.replace("-", "") not in said, secret
    assert [(one["method"], one["status"]) for one in exchanges] == [
        ("GET", 200), ("GET", 200), ("POST", 200), ("PATCH", 200), ("POST", 200), ("GET", 200), ("POST", 200),
        ("GET", 404),
    ]  # fmt: skip
    assert exchanges[2]["body"]["filter"]["select"]["equals"].startswith("text ")


def test_replay_of_equal_answers_finds_no_difference(recorded: list[Any]) -> None:
    *exchanges, _ = recorded
    assert replay(json.loads(json.dumps(exchanges))) == []


def test_replay_reports_differences(recorded: list[Any]) -> None:
    *exchanges, _ = recorded
    exchanges[5]["answer"]["is_archived_somehow"] = True
    exchanges[5]["answer"]["in_trash"] = "no"
    exchanges[6]["status"] = 403
    exchanges[7]["answer"]["code"] = "restricted_resource"
    found = {(one.exchange, one.what) for one in replay(exchanges)}
    assert {
        (6, "is_archived_somehow is missing"),
        (6, "in_trash is bool instead of str"),
        (7, "status 200 instead of 403"),
        (8, "code object_not_found instead of restricted_resource"),
    } <= found


def test_commands_record_and_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dibs.cli.main import main

    file = tmp_path / "talk.jsonl"
    words = ("notion-emulator", "record", "--file", str(file), "--for", "0.01s", "--json")
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["data"]["NOTION_API_BASE_URL"].startswith("http://127.0.0.1:")
    assert file.stat().st_mode & 0o077 == 0
    assert main(words) == 2  # a recording is never overwritten
    file.write_text(
        json.dumps(
            {"method": "GET", "path": "/v1/users/me", "query": {}, "version": "2025-09-03", "body": None, "status": 500}
            | {"answer": None}
        )
    )
    capsys.readouterr()
    assert main(("notion-emulator", "replay", "--file", str(file))) == 1
    assert "status 200 instead of 500" in capsys.readouterr().out
    assert main(("notion-emulator", "replay")) == 2
