"""say, flush, inbox and plan show from the command line."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from dibs.stores.port import Query
from dibs.stores.sqlite.store import SqliteStore
from support.cli import ESCAPE, SCRIPT
from support.openai_server import Told, endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli import Cli

ANN = "a" * 64
SECRET = "a secret of sixteen characters or more"  # noqa: S105 - not a real one
PHONE = "+1 555 010 999"


@pytest.fixture(autouse=True)
def secret(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - it clears the tester's environment
    monkeypatch.setenv("DIBS_SENDER_SECRET", SECRET)


def test_message_becomes_tasks_when_it_is_processed(cli: Cli) -> None:
    said = cli("say", "--sender", PHONE, "Research", "competitors", "--json").data
    assert said["kind"] == "message"
    assert "Got it" in said["reply"]
    assert cli.ok("flush") == "nothing to read\n"
    (read,) = cli("flush", "--sender", PHONE, "--json").data["read"]
    assert read["messages"] == [said["message"]["id"]]
    assert [task["title"] for task in read["tasks"]] == ["Research competitors"]
    assert [task["scope"] for task in read["tasks"]] == [read["sender_hash"]]


def test_command_is_reported_with_its_changes(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors")
    said = cli("say", "--sender-hash", ANN, "--json", "Priority: competitors first").data
    assert said["kind"] == "command"
    assert (said["command"]["name"], said["command"]["targets"]) == ("priority", ["competitors"])
    assert said["command"]["changes"][0]["fields"]["override"] == [False, True]
    asked = cli("say", "--sender-hash", ANN, "--json", "Cancel the xylophone").data
    assert asked["command"]["understood"] is False
    assert "No open task fits" in asked["reply"]


def test_a_preview_changes_nothing(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors")
    cli.ok("flush", "--sender-hash", ANN)
    before = cli.ok("export")
    assert "This would change" in cli.ok("say", "--sender-hash", ANN, "--preview", "Cancel competitors")
    assert "This would make:" in cli.ok("say", "--sender-hash", ANN, "--preview", "Paint the fence")
    assert cli.ok("export") == before


def test_plan_of_a_sender_and_of_a_scope_is_shown(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors, then write a strategy")
    cli.ok("flush", "--sender-hash", ANN)
    text = cli.ok("plan", "show", "--sender-hash", ANN)
    assert "Phase 2\n  2. Write a strategy [waits for Research competitors" in text
    plan = cli("plan", "show", "--sender-hash", ANN, "--json").data
    assert [len(phase) for phase in plan["phases"]] == [1, 1]
    assert plan["phases"][1][0]["waits_for"][0]["title"] == "Research competitors"
    assert (plan["critical_path"], plan["estimate"]["work_minutes"]) == (plan["order"], 60)
    assert cli.ok("plan", "show") == "There are no open tasks.\n"


def test_chat_without_a_sender_adds_tasks_to_the_project(cli: Cli) -> None:
    assert cli.ok("say", "Please paint the fence").startswith("Got it.")
    shown = cli.ok("say", "--preview", "Once the fence is painted, plant the roses")
    assert shown == (
        "This would make:\n  - Paint the fence (ops)\n  - Plant the roses (ops)\n"
        "  - 'Plant the roses' waits for 'Paint the fence'\n"
    )
    assert "Paint the fence" in cli.ok("flush")
    assert [task["title"] for task in cli("list", "--json").data] == ["Paint the fence"]
    assert "Working on 'Paint the fence'" in cli.ok("inbox")


def test_message_is_read_from_standard_input(cli: Cli) -> None:
    assert cli.ok("say", "-", stdin="fix the export\n```\nKeyError: x\n```\n").startswith("Got it.")
    cli.ok("flush")
    (task,) = cli("list", "--json").data
    assert "KeyError: x" in task["description"]


def test_inbox_without_a_sender_leaves_out_tasks_added_otherwise(cli: Cli) -> None:
    cli.ok("add", "Written by hand")
    cli.ok("say", "Please paint the fence")
    cli.ok("flush")
    assert "Written by hand" not in cli.ok("inbox")


def test_sender_and_secret_are_never_shown_or_stored(cli: Cli) -> None:
    shown = cli("say", "--sender", PHONE, "Research competitors", "--json").out
    shown += cli("flush", "--sender", PHONE, "--json").out + cli.ok("export") + cli.ok("log")
    for secret in (SECRET, PHONE, PHONE.replace(" ", "")):
        assert secret not in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("say", "--sender", PHONE, "--sender-hash", ANN, "Paint"), "give one of them"),
        (("say", "--sender-hash", PHONE, "Paint"), "64 hexadecimal digits"),
        (("say", "--sender", " ", "Paint"), "empty"),
        (("say", "--sender", PHONE, " "), "The message is empty"),
        (("say", "--sender", PHONE, "x" * 20_001), "send it in parts"),
        (("flush", "--watch", "--sender", PHONE), "--watch reads for all senders"),
    ],
)
def test_invalid_input_is_refused_with_advice(cli: Cli, words: tuple[str, ...], problem: str) -> None:
    ran = cli(*words)
    assert ran.status == 2
    assert problem in ran.err
    assert PHONE not in ran.err


@pytest.mark.parametrize("weak", ["", "short"])
def test_without_a_good_secret_no_sender_is_hashed(cli: Cli, monkeypatch: pytest.MonkeyPatch, weak: str) -> None:
    monkeypatch.setenv("DIBS_SENDER_SECRET", weak)
    ran = cli("say", "--sender", PHONE, "Paint the fence")
    assert ran.status == 7
    assert "DIBS_SENDER_SECRET" in ran.err
    assert PHONE not in ran.err


def test_an_unknown_embedder_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_EMBEDDER", "crystal-ball")
    ran = cli("say", "--sender", PHONE, "Paint the fence")
    assert (ran.status, "There is no embedder" in ran.err) == (7, True)


def test_result_is_in_the_inbox_once_and_again_with_all(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors")
    cli.ok("flush", "--sender-hash", ANN)
    assert "Working on 'Research competitors'." in cli.ok("inbox", "--sender-hash", ANN)
    assert cli.ok("inbox", "--sender-hash", ANN) == "nothing new\n"
    cli.clock.advance(minutes=1)
    claimed = cli("claim", "--scope", ANN, "--agent", "jochi", "--json").data
    task = claimed["task"]
    cli.ok("done", task["id"], "--scope", ANN, "--token", claimed["token"], "--note", "3 \x1b[2Jplayers")
    (note,) = cli("inbox", "--sender-hash", ANN, "--json").data["notes"]
    assert (note["kind"], note["mode"], note["tasks"]) == ("answer", "streaming", [task["id"]])
    assert "3 \x1b[2Jplayers" in note["text"]
    every = cli.ok("inbox", "--sender-hash", ANN, "--all")
    assert every.index("Working on") < every.index("Task complete: Research competitors")
    assert ESCAPE not in every
    assert cli("inbox", "--sender-hash", "b" * 64, "--all", "--json").data == {"notes": []}


def test_inbox_that_could_not_be_printed_stays_unread(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors")
    cli.ok("flush", "--sender-hash", ANN)
    with open("/dev/full", "w", encoding="utf-8") as full:
        words = [str(SCRIPT), "inbox", "--sender-hash", ANN, "--store", str(cli.store)]
        ran = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, b"cannot write the output" in ran.stderr) == (7, True)
    with SqliteStore(str(cli.store)) as store:
        leased = store.find(Query(f".outbox.{ANN}", (Status.ACTIVE,)))
    assert [note.category for note in leased] == ["note"]


def test_plan_is_drawn_as_mermaid(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Research competitors, then write a strategy")
    cli.ok("flush", "--sender-hash", ANN)
    drawn = cli.ok("plan", "show", "--sender-hash", ANN, "--format", "mermaid").splitlines()
    assert drawn[0] == "flowchart LR"
    assert sum("-->" in line for line in drawn) == 1
    as_json = cli.ok("plan", "show", "--sender-hash", ANN, "--format", "json")
    assert as_json == cli.ok("plan", "show", "--sender-hash", ANN, "--json")
    assert cli.ok("plan", "show", "--sender-hash", ANN, "--format", "text") == cli.ok(
        "plan", "show", "--sender-hash", ANN
    )
    told = cli.refuses(2, "INVALID_INPUT", "plan", "show", "--sender-hash", ANN, "--format", "yaml")
    assert "shown as text, json, mermaid" in told.message


def test_settings_are_shown_and_changed_globally_and_per_sender(cli: Cli) -> None:
    assert cli("config", "--json").data["config"]["chat_window"] == 45
    cli.ok("config", "chat_window", "50")
    cli.ok("config", "chat_merge", "0.85", "--sender-hash", ANN)
    own = cli("config", "--sender-hash", ANN, "--json").data["config"]
    assert (own["chat_window"], own["chat_merge"]) == (50, 0.85)
    assert cli("config", "--json").data["config"]["chat_merge"] == 0.9
    assert "chat_merge" in cli.ok("config", "chat_merge", "--reset", "--sender-hash", ANN)
    assert cli("config", "--sender-hash", ANN, "--json").data["config"]["chat_merge"] == 0.9
    assert "0 to 1" in cli.refuses(2, "INVALID_INPUT", "config", "chat_merge", "much").message
    assert "Choose from chat_merge" in cli.refuses(2, "INVALID_INPUT", "config", "chat_mood", "high").message
    assert "no value" in cli.refuses(2, "INVALID_INPUT", "config", "chat_merge", "0.8", "--reset").message


def test_absent_embedder_is_reported_and_messages_are_processed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(lambda _: Told({}, 401)) as server:
        monkeypatch.setenv("DIBS_EMBEDDER", f"openai:small@{server.url}")
        monkeypatch.setenv("DIBS_EMBEDDING_KEY", "sk-secret")
        assert "Got it" in cli.ok("say", "--sender-hash", ANN, "Research competitors")
        assert server.asked == [], "nobody waits for an embedder to be heard"
        text = cli.ok("flush", "--sender-hash", ANN)
    assert "Research competitors" in text
    assert "! The embedding endpoint cannot be used: it rejected the key; check DIBS_EMBEDDING_KEY" in text
    assert "sk-secret" not in text


def test_named_language_model_reads_the_messages(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    task = {"ref": "a", "title": "Hire a brass band", "deliverable": "ops", "messages": ["m1"]}
    content = json.dumps({"tasks": [task], "links": [], "idle": []})
    with endpoint(lambda _: Told({"choices": [{"message": {"content": content}}]})) as server:
        monkeypatch.setenv("DIBS_LLM_URL", server.url)
        monkeypatch.setenv("DIBS_LLM_MODEL", "small")
        said = cli.file("m.txt", "we need brass, a band to hire\n")
        assert cli("analyze", said, "--json").data["tasks"][0]["title"] == "Hire a brass band"
        cli.ok("say", "--sender-hash", ANN, "we need brass, a band to hire")
        assert "Hire a brass band" in cli.ok("flush", "--sender-hash", ANN)
        assert [asked.headers.get("Authorization") for asked in server.asked] == [None, None], "there is no key"
        cli.ok("say", "--sender-hash", ANN, "Paint the fence")
        server.answers = [lambda _: Told({}, 503)]
        assert "internal error (HTTP status 503). The built-in analyst was used instead." in cli.ok(
            "flush", "--sender-hash", ANN
        )
