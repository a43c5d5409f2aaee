"""analyze from the command line, for people and programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.cli import Cli

ANN = "a" * 64


def test_analyze_prints_tasks_and_links_without_saving(cli: Cli) -> None:
    messages = "Research competitors\nBased on that, write a pricing strategy\nDo competitor research\nthanks!\n"
    data = cli("analyze", cli.file("m.txt", messages), "--json").data
    assert [(task["ref"], task["deliverable"], task["messages"]) for task in data["tasks"]] == [
        ("t1", "research", [1, 3]),
        ("t2", "strategy", [2]),
    ]
    (link,) = data["links"]
    assert (link["from"], link["to"], link["kind"], link["detected_by"]) == ("t2", "t1", "feeds_into", "explicit")
    assert (data["merges"][0]["into"], data["idle"]) == ("t1", [4])
    assert cli("list", "--json").data == []


def test_analyze_separates_commands_and_orders_their_tasks(cli: Cli) -> None:
    messages = "Paint the hall\nRepair the plaster\nDo the plaster before the hall\nUndo\n"
    data = cli("analyze", cli.file("m.txt", messages), "--json").data
    assert [(one["message"], one["name"]) for one in data["commands"]] == [(3, "before"), (4, "undo")]
    assert [(link["from"], link["to"], link["kind"]) for link in data["links"]] == [("t1", "t2", "blocks")]


def test_json_lines_call_messages_by_their_ids(cli: Cli) -> None:
    lines = "".join(json.dumps({"id": f"m{n}", "text": text}) + "\n" for n, text in enumerate(("Buy milk", "ok")))
    data = cli("analyze", cli.file("m.jsonl", lines), "--json").data
    assert (data["tasks"][0]["messages"], data["idle"]) == (["m0"], ["m1"])


def test_invalid_line_is_named(cli: Cli) -> None:
    told = cli.refuses(2, "INVALID_INPUT", "analyze", cli.file("m.jsonl", 'Buy milk\n{"text": 3}\n'))
    assert "line 2" in told.message


def test_analyze_compares_with_open_tasks_and_writes_nothing(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Book the town hall")
    cli.ok("flush", "--sender-hash", ANN)
    (there,) = cli("list", "--scope", ANN, "--json").data
    before = cli.ok("export")
    messages = cli.file("m.txt", "Once the hall is booked, print the flyers\nbook the town hall\n")
    data = cli("analyze", messages, "--sender-hash", ANN, "--json").data
    assert [(link["from"], link["to"], link["kind"]) for link in data["links"]] == [("t1", there["id"], "blocks")]
    assert [(merge["ref"], merge["into"]) for merge in data["merges"]] == [("t2", there["id"])]
    assert "waits for" in cli.ok("analyze", messages, "--sender-hash", ANN)
    assert cli.ok("export") == before
    assert cli("analyze", messages, "--sender-hash", "b" * 64, "--json").data["merges"] == [], "another's are not seen"


def test_command_orders_new_and_open_tasks(cli: Cli) -> None:
    cli.ok("say", "--sender-hash", ANN, "Book the town hall")
    cli.ok("flush", "--sender-hash", ANN)
    (there,) = cli("list", "--scope", ANN, "--json").data
    messages = cli.file("m.txt", "Print the flyers\nDo the flyers before the town hall\n")
    data = cli("analyze", messages, "--sender-hash", ANN, "--json").data
    assert [one["name"] for one in data["commands"]] == ["before"]
    assert [(link["from"], link["to"]) for link in data["links"]] == [(there["id"], "t1")]
    assert "(open already)\n    waits for t1" in cli.ok("analyze", messages, "--sender-hash", ANN)
