"""The output, exit statuses and errors of the commands."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.protocols.kurultai.main import COMMANDS
from support.kurultai import ANN, BOB, Kurultai

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "the fleet's own secret"  # noqa: S105 - of the tests
PHONE = "+1 555 010 0999"


@pytest.fixture
def empty(folder: Path, capsys: pytest.CaptureFixture[str]) -> Kurultai:
    """No variables and no store."""
    assert folder.is_dir()
    return Kurultai(capsys)


@pytest.fixture
def kurultai(empty: Kurultai, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Kurultai:
    monkeypatch.setenv("KURULTAI_STORE", f"sqlite:///{folder / 'k.db'}")
    monkeypatch.setenv("KURULTAI_SENDER_HASH", ANN)
    monkeypatch.setenv("USER", "hannah")
    assert empty.run("init").status == 0
    return empty


def created(kurultai: Kurultai, name: str, *more: str) -> str:
    ran = kurultai.run("create", f"Do {name}", "--id", name, "--assign", "any", *more)
    assert (ran.status, ran.err) == (0, "")
    return ran.out.strip()


def held(kurultai: Kurultai, name: str, agent: str = "ops") -> str:
    return str(kurultai.data("claim", name, "--agent", agent)["task"]["claim_attempt_id"])


# Where, and whose


def test_missing_store_error_names_the_variables(empty: Kurultai) -> None:
    ran = empty.run("list", "--sender-hash", ANN)
    assert ran.status == 7
    for word in ("NEO4J_URI", "KURULTAI_STORE", "dibs kurultai init"):
        assert word in ran.err


def test_only_init_creates_a_store(empty: Kurultai, folder: Path) -> None:
    url = f"sqlite:///{folder / 'new.db'}"
    ran = empty.run("list", "--store", url, "--sender-hash", ANN)
    assert (ran.status, "'dibs kurultai init'" in ran.err) == (7, True)
    assert not (folder / "new.db").exists()
    assert empty.run("init", "--store", url).status == 0
    assert empty.run("init", "--store", url).status == 0
    assert empty.run("list", "--store", url, "--sender-hash", ANN).status == 0


def test_store_is_chosen_in_documented_order(empty: Kurultai, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def place() -> str:
        return str(empty.data("init")["store"]).rpartition("/")[2]

    monkeypatch.setenv("DIBS_STORE", f"sqlite:///{folder / 'second.db'}")
    assert place() == "second.db"
    monkeypatch.setenv("KURULTAI_STORE", f"sqlite:///{folder / 'first.db'}")
    assert place() == "first.db"
    monkeypatch.delenv("KURULTAI_STORE")
    monkeypatch.delenv("DIBS_STORE")
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:1")
    assert empty.code("init") == "STORE_UNAVAILABLE"


@pytest.mark.parametrize("url", ["vault:///notes"])
def test_unsuitable_store_is_refused(empty: Kurultai, url: str) -> None:
    ran = empty.run("init", "--store", url, "--json")
    assert (ran.status, ran.error["code"]) == (7, "UNSUPPORTED")
    assert "neo4j" in ran.error["message"]


def test_missing_sender_is_refused(kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KURULTAI_SENDER_HASH")
    for words in (("list",), ("ready",), ("create", "x"), ("show", "a"), ("config",)):
        ran = kurultai.run(*words)
        assert (ran.status, "KURULTAI_SENDER_HASH" in ran.err) == (2, True)
    ran = kurultai.run("claim", "--agent", "ops")
    assert (ran.status, "--any-sender" in ran.err) == (2, True)


def test_sender_hash_shows_neither_sender_nor_secret(kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KURULTAI_SENDER_HASH")
    ran = kurultai.run("list", "--sender", PHONE)
    assert (ran.status, "DIBS_SENDER_SECRET" in ran.err, "0999" in ran.err) == (7, True, False)
    monkeypatch.setenv("DIBS_SENDER_SECRET", SECRET)
    hashed = kurultai.run("sender", PHONE).out.strip()
    monkeypatch.setattr(sys, "stdin", io.StringIO("+15550100999\n"))
    assert kurultai.data("sender") == {"sender_hash": hashed}
    task = kurultai.data("create", "Earn", "--sender", PHONE)["task"]
    assert task["sender_hash"] == hashed
    monkeypatch.setenv("KURULTAI_SENDER", "+1 (555) 010-0999")
    assert [each["id"] for each in kurultai.data("list")["tasks"]] == [task["id"]]
    shown = kurultai.run("show", task["id"]).out + kurultai.run("show", "none").err
    assert "0999" not in shown
    assert SECRET not in shown


def test_invalid_hash_is_not_repeated(kurultai: Kurultai) -> None:
    ran = kurultai.run("list", "--sender-hash", PHONE)
    assert (ran.status, "0999" in ran.err + ran.out) == (2, False)


def test_senders_do_not_see_each_other(kurultai: Kurultai) -> None:
    created(kurultai, "a")
    assert kurultai.data("list", "--sender-hash", BOB)["tasks"] == []
    assert kurultai.code("show", "a", "--sender-hash", BOB) == "NOT_FOUND"
    assert kurultai.code("abort", "a", "--force", "--sender-hash", BOB) == "NOT_FOUND"


# A task's life


def test_task_is_created_claimed_and_completed(kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    created(kurultai, "a")
    created(kurultai, "b", "--after", "a")
    assert [task["id"] for task in kurultai.data("ready")["tasks"]] == ["a"]
    ran = kurultai.run("claim", "--agent", "Temüjin")
    assert "CLAIMED  a  Do a" in ran.out
    assert kurultai.data("agents")["agents"][3]["load"] == 1
    proof = ran.out.partition("KURULTAI_CLAIM_ATTEMPT_ID=")[2].split()[0]
    assert proof not in kurultai.run("show", "a").out + kurultai.run("list", "--json").out
    monkeypatch.setenv("KURULTAI_CLAIM_ATTEMPT_ID", proof)
    assert "a is yours until" in kurultai.run("renew", "a", "--lease", "5m").out
    done = kurultai.data("complete", "a", "--result", "three players", "--quality", "0.9")
    assert (done["task"]["status"], done["task"]["quality_score"], done["unblocked"]) == ("completed", 0.9, ["b"])
    claimed = kurultai.data("claim", "--agent", "ops")
    assert [one["result_summary"] for one in claimed["prerequisites"]] == ["three players"]


def test_any_sender_claims_from_every_sender(kurultai: Kurultai) -> None:
    created(kurultai, "a")
    claimed = kurultai.data("claim", "--agent", "ops", "--any-sender")
    assert claimed["task"]["sender_hash"] == ANN
    assert kurultai.code("claim", "--agent", "ops", "--any-sender") == "NOTHING_READY"
    assert kurultai.code("claim", "--agent", "ops", "--any-sender", "--sender-hash", ANN) == "INVALID_INPUT"
    assert kurultai.code("claim", "a", "--agent", "ops", "--any-sender") == "INVALID_INPUT"


def test_exit_statuses_are_those_of_dibs(kurultai: Kurultai) -> None:
    created(kurultai, "a")
    created(kurultai, "b", "--after", "a")
    proof = held(kurultai, "a")
    for status, words in (
        (2, ("create", "x", "--deliverable", "poem")),
        (3, ("show", "none")),
        (4, ("claim", "--agent", "ops")),
        (4, ("claim", "a", "--agent", "ops")),
        (4, ("claim", "b", "--agent", "ops")),
        (4, ("abort", "a")),
        (4, ("resume", "a")),
        (5, ("complete", "a", "--claim-attempt-id", "wrong")),
        (6, ("depend", "a", "b")),
        (6, ("depend", "a", "a")),
        (6, ("create", "again", "--id", "a")),
        (0, ("complete", "a", "--claim-attempt-id", proof)),
    ):
        assert kurultai.run(*words).status == status, words


def test_users_command_is_recorded_under_their_name(kurultai: Kurultai) -> None:
    created(kurultai, "a")
    held(kurultai, "a")
    assert kurultai.run("abort", "a", "--force", "--reason", "changed my mind").status == 0
    import os

    from dibs.stores.opening import open_store
    from dibs.stores.port import EventQuery

    with open_store(os.environ["KURULTAI_STORE"]) as store:
        told = store.events(EventQuery(ANN, "a"))[-1]
    assert (told.verb, told.agent, told.reason, told.detail) == (
        "cancel",
        "hannah",
        "changed my mind",
        {"forced": True},
    )


def test_override_is_set_and_removed(kurultai: Kurultai) -> None:
    created(kurultai, "a")

    def weighed(*words: str) -> tuple[float, bool]:
        task = kurultai.data("priority", "a", *words)["task"]
        return task["priority_weight"], task["user_priority_override"]

    assert weighed("0.3") == (0.3, False)
    assert weighed("--first") == (1.0, True)
    assert weighed("0.2") == (0.2, True)
    assert weighed("--not-first") == (0.2, False)
    assert weighed("0.6", "--first") == (0.6, True)


def test_on_abort_setting_decides_about_dependents(kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    for rule, word in (("escalate", "escalated"), ("resolve", "unblocked"), ("cascade", "aborted")):
        monkeypatch.setenv("KURULTAI_ON_ABORT", rule)
        created(kurultai, f"a-{rule}")
        created(kurultai, f"b-{rule}", "--after", f"a-{rule}")
        assert kurultai.data("abort", f"a-{rule}")[word] == [f"b-{rule}"]
    monkeypatch.setenv("KURULTAI_ON_ABORT", "explode")
    assert kurultai.code("list") == "MISCONFIGURED"


def test_init_sets_the_limit_and_refuses_invalid_ones(kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {agent["limit"] for agent in kurultai.data("agents")["agents"]} == {2}
    monkeypatch.setenv("KURULTAI_TASK_LIMIT", "5")
    kurultai.run("init")
    monkeypatch.delenv("KURULTAI_TASK_LIMIT")
    kurultai.run("init")
    assert {agent["limit"] for agent in kurultai.data("agents")["agents"]} == {5}
    for wrong in ("0", "-1", "two", "1.5", "99999999999"):
        monkeypatch.setenv("KURULTAI_TASK_LIMIT", wrong)
        assert kurultai.code("agents") == "MISCONFIGURED"


def test_errors_use_kurultais_words(kurultai: Kurultai) -> None:
    for name in ("a", "b", "c", "busy"):
        created(kurultai, name)
    kurultai.run("depend", "b", "a")
    kurultai.run("pause", "c")
    proof = held(kurultai, "busy")
    for words, told in (
        (("claim", "b", "--agent", "ops"), "'Do b' (b) waits for 1 unfinished task(s)"),
        (("claim", "c", "--agent", "ops"), "'Do c' (c) is blocked (paused)"),
        (("reassign", "c"), "'Do c' (c) is blocked (paused)"),
        (("claim", "busy", "--agent", "ops"), "busy is held by ops for another"),
        (("pause", "busy"), "'Do busy' (busy) is in progress: ops holds it, and only its claim_attempt_id proves"),
        (("complete", "a", "--claim-attempt-id", proof), "'Do a' (a) is pending, and your claim has ended"),
        (("depend", "a", "ghost"), "This sender lacks 'a' or 'ghost'"),
        (("show", "ghost"), "This sender has no task 'ghost'"),
    ):
        assert told in kurultai.run(*words).err


# Wrong input


@pytest.mark.parametrize(
    "words",
    [
        ("create",),
        ("create", ""),
        ("create", " \n "),
        ("create", "x" * 1_000_001),
        ("create", "bad\x00byte"),
        ("create", "x", "--weight", "heavy"),
        ("create", "x", "--weight", "nan"),
        ("create", "x", "--assign", "Genghis"),
        ("create", "x", "--delegated-by", "nobody"),
        ("create", "x", "--retries", "-1"),
        ("create", "x", "--window-expires-at", "soon"),
        ("create", "x", "--id", "two words"),
        ("depend", "a"),
        ("depend", "a", "b", "--type", "hinders"),
        ("depend", "a", "b", "--weight", "2"),
        ("depend", "a", "b", "--confidence", "-1"),
        ("depend", "a", "b", "--detected-by", ""),
        ("priority", "a"),
        ("priority", "a", "most"),
        ("priority", "a", "--first", "--not-first"),
        ("claim", "--agent", "Genghis"),
        ("claim",),
        ("claim", "--agent", "ops", "--lease", "0s"),
        ("complete", "a"),
        ("complete", "a", "--claim-attempt-id", "x", "--quality", "1.1"),
        ("fail", "a", "--claim-attempt-id", "x"),
        ("fail", "a", "--claim-attempt-id", "x", "--reason", " "),
        ("block", "a"),
        ("block", "a", "--reason", ""),
        ("reassign", "a", "--to", "Genghis"),
        ("list", "--status", "doing"),
        ("list", "-n", "0"),
        ("ready", "-n", "many"),
        ("config", "window", "45"),
        ("config", "notion_poll_interval", "often"),
        ("config", "notion_poll_enabled", "maybe"),
        ("config", "--reset"),
        ("config", "sync_preference", "safe", "--reset"),
        ("sender", " "),
        ("summon",),
    ],
    ids=lambda words: " ".join(words)[:50],
)
def test_invalid_input_gets_one_line_and_changes_nothing(
    kurultai: Kurultai, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DIBS_SENDER_SECRET", SECRET)
    for name in ("a", "b"):
        created(kurultai, name)
    kurultai.run("block", "a", "--reason", "stuck")
    before = kurultai.data("list")
    ran = kurultai.run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("dibs: ")
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 400
    assert kurultai.data("list") == before


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(empty: Kurultai, name: str) -> None:
    ran = empty.run(name, "--help")
    assert (ran.status, ran.err) == (0, "")
    assert f"usage: dibs kurultai {name}" in ran.out


def test_foreign_text_cannot_move_the_cursor(kurultai: Kurultai) -> None:
    created(kurultai, "a")
    kurultai.run("create", "evil\x1b[2Jtask", "--id", "evil")
    kurultai.run("block", "evil", "--reason", "bell\x07 and \x1b[31mred")
    for words in (("list",), ("show", "evil"), ("ready",)):
        assert "\x1b" not in kurultai.run(*words).out
        assert "\x07" not in kurultai.run(*words).out


def test_setting_is_shown_changed_and_reset(kurultai: Kurultai) -> None:
    assert "notion_poll_interval        60 " in kurultai.run("config").out
    assert kurultai.data("config", "notion_poll_enabled", "Yes")["config"]["notion_poll_enabled"] is True
    assert kurultai.data("config", "notion_poll_interval", "120")["config"]["notion_poll_interval"] == 120
    assert kurultai.data("config", "notion_poll_interval", "--reset")["config"]["notion_poll_interval"] == 60
    assert kurultai.run("config", "sync_preference").out.count("\n") == 2


@pytest.fixture
def server() -> str:
    """Before the folder changes, because the server's files are in the tester's cache."""
    from support.neo4j import shared_url

    return shared_url()


def test_neo4j_variables_name_the_store(server: str, empty: Kurultai, monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.stores.neo4j.database import target_of
    from support.neo4j import fresh_desk

    target = target_of(server)
    monkeypatch.setenv("NEO4J_URI", f"{target.uri}?desk={fresh_desk()}")
    monkeypatch.setenv("NEO4J_USER", target.user)
    monkeypatch.setenv("NEO4J_PASSWORD", target.password)
    monkeypatch.setenv("KURULTAI_SENDER_HASH", ANN)
    assert empty.data("init")["store"].startswith("neo4j, ")
    task = empty.data("create", "Research", "--deliverable", "research", "--weight", "0.8")["task"]
    claimed = empty.data("claim", "--agent", "researcher")["task"]
    assert (claimed["id"], claimed["priority_weight"]) == (task["id"], 0.8)
    monkeypatch.setenv("NEO4J_PASSWORD", "not-this-one")
    ran = empty.run("list")
    assert (ran.status, "not-this-one" in ran.err) == (7, False)
