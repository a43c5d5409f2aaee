"""Wrong input: exit status 3, one JSON object, nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.protocols.ntask.main import COMMANDS, main

if TYPE_CHECKING:
    from support.ntask import Ntask

LOCK = ("--run-id", "r", "--lock-token", "3f2504e0-4f89-41d3-9a0c-0305e82c3301")
USAGE = [
    (),
    ("",),
    ("clam",),
    ("--wat",),
    ("next", "extra"),
    ("get",),
    ("get", ""),
    ("get", "two words"),
    ("get", "x" * 129),
    ("list", "--limit", "0"),
    ("list", "--limit", "-1"),
    ("list", "--limit", "many"),
    ("list", "--status", "OPEN"),
    ("list", "--status", ""),
    ("list", "--status", "READY", "--overdue"),
    ("claim", "ID"),
    ("claim", "ID", "--run-id", "r"),
    ("claim", "ID", "--agent-name", "a"),
    ("claim", "ID", "--run-id", "", "--agent-name", "a"),
    ("claim", "ID", "--run-id", "r", "--agent-name", "  "),
    ("claim", "ID", "--run-id", "r", "--agent-name", "two\nlines"),
    ("claim", "ID", "--run-id", "r" * 129, "--agent-name", "a"),
    ("claim", "ID", "--run-id", "r", "--agent-name", "a", "--lease-min", "0"),
    ("claim", "ID", "--run-id", "r", "--agent-name", "a", "--lease-min", "1.5"),
    ("claim", "ID", "--run-id", "r", "--agent-name", "a", "--lease-min", "999999"),
    ("claim", "ID", "--run-id", "r", "--agent-name", "a", "--lease", "5"),
    ("heartbeat", "ID"),
    ("heartbeat", "ID", "--run-id", "r"),
    ("heartbeat", "ID", "--run-id", "r", "--lock-token", ""),
    ("heartbeat", "ID", "--run-id", "", "--lock-token", "t"),
    ("heartbeat", "ID", *LOCK, "--lease-min", "-5"),
    ("complete", "ID", *LOCK),
    ("complete", "ID", *LOCK, "--artifacts", "x" * 1_000_001),
    ("block", "ID", *LOCK, "--reason", "r"),
    ("block", "ID", *LOCK, "--unblock-action", "u"),
    ("block", "ID", *LOCK, "--reason", "r", "--unblock-action", "u", "--next-check", "tomorrow"),
    ("cancel", "ID"),
    ("cancel", "ID", "--run-id", "r", "--reason", "x"),
    ("cancel", "ID", "--lock-token", "t", "--reason", "x"),
    ("create",),
    ("create", "--title", ""),
    ("create", "--title", "two\nlines"),
    ("create", "--title", "T", "--priority", "high"),
    ("create", "--title", "T", "--priority", "nan"),
    ("create", "--title", "T", "--priority", "1e300"),
    ("create", "--title", "T", "--class-of-service", "URGENT"),
    ("create", "--title", "T", "--status", "DONE"),
    ("create", "--title", "T", "--status", "NEW"),
    ("create", "--title", "T", "--parent", "two words"),
    ("update", "ID"),
    ("update", "ID", "--status", "DONE"),
    ("update", "ID", "--status", "CANCELED", "--priority", "1"),
    ("update", "ID", "--title", "new"),
    ("comment", "ID"),
    ("comment", "ID", "--text", ""),
    ("comment", "ID", "--text", "   "),
    ("unblock",),
    ("approve", "ID", "extra"),
]


@pytest.mark.parametrize("words", USAGE, ids=lambda words: " ".join(words)[:60] or "nothing")
def test_wrong_usage_is_misconfigured_and_changes_nothing(local: Ntask, words: tuple[str, ...]) -> None:
    task = local.create()
    before = local("list").data
    ran = local(*(task if word == "ID" else word for word in words))
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
    assert LOCK[-1] not in ran.out + ran.err
    assert local("list").data == before


@pytest.mark.parametrize("words", [("--lock-tokn", "SECRET"), ("--lock-tokn=SECRET",), ("SECRET",), ("--x", "SECRET")])
def test_a_token_behind_a_misspelt_option_is_not_repeated(local: Ntask, words: tuple[str, ...]) -> None:
    secret = LOCK[-1]
    lock = ("--run-id", "r", "--lock-token", "t" * 36)
    for name in ("heartbeat", "release"):
        for given in (lock, lock[:2]):
            ran = local(name, "x", *given, *(word.replace("SECRET", secret) for word in words))
            assert ran.code == "MISCONFIGURED"
            assert secret not in ran.out + ran.err


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"NTASK_STORE": ""}, "NOTION_TASKS_DB_ID"),
        ({"NTASK_STORE": "mysql://x"}, "mysql"),
        ({"NTASK_STORE": "sqlite:///"}, "sqlite"),
        ({"NTASK_TRANSPORT": "pigeon"}, "NTASK_TRANSPORT"),
        ({"DIBS_SCOPE": "two\nlines"}, "scope"),
    ],
)
def test_wrong_settings_are_misconfigured_with_advice(local: Ntask, env: dict[str, str], said: str) -> None:
    for words in (("next",), ("doctor",)):
        ran = local(*words, **env)
        assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
        assert said in ran.message


def test_a_file_that_is_no_store_is_misconfigured(local: Ntask) -> None:
    with open("not-a-store", "w", encoding="utf-8") as file:
        file.write("hello, " * 1000)
    ran = local("next", NTASK_STORE="sqlite:///not-a-store")
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([name, "--help"], ["help", name]):
        assert main(words) == 0
        out, err = capsys.readouterr()
        assert out.startswith(f"usage: ntask {name}")
        assert err == ""


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["-h"], ["help"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert all(f"  {name} " in out for name in COMMANDS)


def test_mistyped_command_gets_a_suggestion(local: Ntask) -> None:
    assert "'claim'" in local("clam").message
