"""search, status, open, assign, close, reopen and undo from the command line."""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.undo import _BACK, _FINAL

if TYPE_CHECKING:
    from support.cli import Cli


def test_search_ranks_titles_before_notes_and_finds_beginnings(cli: Cli) -> None:
    cli.ok("add", "Write the parser", "--id", "a")
    cli.ok("add", "Write the manual", "--id", "b", "-d", "Explain what the parser accepts")
    cli.ok("add", "Ship it", "--id", "c")
    cli.ok("comment", "c", "only after the parsers are done")
    cli.ok("add", "Something else", "--id", "d")
    assert cli.ids("search", "parser") == ["a", "b", "c"]
    assert cli.ids("search", "pars", "wri") == ["a", "b"]
    hits = cli.json("search", "PARSER")
    assert [hit["where"] for hit in hits] == [["title"], ["description"], ["notes"]]
    assert hits[1]["excerpt"] == "Explain what the parser accepts"
    assert "no task has 'nothing'" in cli.ok("search", "nothing")
    cli.refuses(2, "INVALID_INPUT", "search", "?!")


def test_search_follows_every_change_of_text(cli: Cli) -> None:
    cli.ok("add", "Old words", "--id", "a")
    cli.ok("edit", "a", "--title", "New words", "-d", "with a body")
    assert cli.ids("search", "old") == []
    assert cli.ids("search", "new", "body") == ["a"]
    cli.ok("close", "a")
    assert cli.ids("search", "new") == ["a"]
    assert cli.ids("search", "new", "--open") == []


def test_status_is_one_screen_for_the_caller(cli: Cli) -> None:
    for task in ("mine", "free", "stuck", "asked"):
        cli.add(task)
    cli.ok("claim", "mine")
    cli.ok("block", "stuck", "--reason", "no key")
    cli.ok("review", "asked", "--token", cli.claim("asked"))
    told = cli.json("status")
    assert {part: [task["id"] for task in told[part]] for part in ("held", "ready", "blocked", "people")} == {
        "held": ["mine"], "ready": ["free"], "blocked": ["stuck"], "people": ["asked"],
    }  # fmt: skip
    assert told["agent"] == "ann"
    screen = cli.ok("status")
    assert screen.startswith("ann: ")
    assert max(map(len, screen.splitlines())) < 80
    assert "nothing" in cli.ok("status", "--agent", "bob")


def test_open_shows_the_board_at_a_task(cli: Cli) -> None:
    cli.add("job")
    with closing(socket.create_server(("127.0.0.1", 0))) as board:
        port = str(board.getsockname()[1])
        url = f"http://127.0.0.1:{port}/#/board?task=job"
        assert cli.json("open", "jo", "--port", port, "--no-browser") == {"url": url, "task": "job"}
        assert cli.ok("open", "--port", port, "--no-browser") == f"http://127.0.0.1:{port}/\n"
    told = cli.refuses(7, "SERVICE_UNAVAILABLE", "open", "job", "--port", port, "--no-browser")
    assert f"dibs serve --open --port {port}" in told.message


def test_assign_reserves_a_task_and_dash_frees_it(cli: Cli) -> None:
    cli.add("job")
    assert cli.ok("assign", "job", "bob") == "assigned job to bob\n"
    cli.refuses(4, "NOT_FOR_YOU", "claim", "job", "--agent", "cleo")
    assert cli.ok("assign", "job", "@me") == "assigned job to ann\n"
    cli.ok("assign", "job", "-")
    assert "assigned_to" not in cli.task("job")


def test_person_closes_an_idle_task_in_one_step(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    cli.refuses(4, "WAITING", "close", "second")
    assert cli.json("done", "first", "--human", "--note", "by hand")["unblocked"] == ["second"]
    assert (cli.task("first")["result"], cli.task("first")["finished_by"]) == ("by hand", "ann")
    token = cli.claim("second")
    cli.refuses(4, "HELD", "close", "second")
    assert cli.ok("close", "second", "--token", token) == "closed second\n"


@pytest.mark.parametrize("end", ["close", "cancel"])
def test_finished_task_is_reopened_with_a_hint(end: str, cli: Cli) -> None:
    cli.add("job")
    cli.ok(end, "job")
    assert "dibs reopen job" in cli.refuses(4, "ILLEGAL_MOVE", "unblock", "job").message
    assert cli.ok("reopen", "job", "--reason", "not yet") == "reopened job: ready\n"
    assert cli.claim("job")


UNDONE = {
    "add": (("add", "New", "--id", "new"), "new", "canceled"),
    "edit": (("edit", "job", "--title", "Other", "-p", "1", "--label", "x"), "job", "ready"),
    "close": (("close", "job"), "job", "ready"),
    "cancel": (("cancel", "job"), "job", "ready"),
    "block": (("block", "job", "--reason", "x"), "job", "ready"),
    "pause": (("pause", "job"), "job", "ready"),
    "shelve": (("edit", "job", "--status", "backlog"), "job", "ready"),
    "link": (("link", "job", "--blocked-by", "other"), "job", "ready"),
}


@pytest.mark.parametrize("change", UNDONE)
def test_undo_reverts_my_last_change(change: str, cli: Cli) -> None:
    cli.add("job")
    cli.add("other")
    before = cli.task("job")
    words, task, status = UNDONE[change]
    cli.ok(*words)
    cli.ok("comment", "other", "a remark is no change", "--agent", "bob")
    told = cli.json("undo")
    assert (told["undone"]["verb"], told["undone"]["task"], told["task"]["status"]) == (change, task, status)
    after = cli.task("job")
    same = {"title", "priority", "labels", "status", "links"}
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
    assert cli.json("undo")["undone"]["verb"] == "add", "the next undo goes further back"


WHY = ("status", "reason", "unblock_action", "next_check_at")


def test_block_survives_pause_resume_and_their_undo(cli: Cli) -> None:
    def why() -> dict[str, object]:
        return {name: cli.task("job").get(name) for name in WHY}

    cli.add("job")
    cli.ok("block", "job", "--reason", "no key", "--action", "ask Zoe", "--check-at", "2030-01-31")
    blocked = why()
    assert cli("claim", "job", "--agent", "bob").status == 4  # recorded, with an error code as its reason
    cli.ok("pause", "job", "--reason", "a holiday")
    paused = why()
    assert paused == {**blocked, "status": "paused", "reason": "a holiday"}
    cli.ok("resume", "job")
    assert why() == blocked
    cli.ok("unblock", "job")
    assert why() == {**dict.fromkeys(WHY), "status": "ready"}
    for before in (blocked, paused, blocked):
        cli.ok("undo")
        assert why() == before


def test_undo_refuses_changes_that_others_built_on(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    cli.ok("close", "first")
    cli.ok("claim", "second", "--agent", "bob")
    told = cli.refuses(4, "CHANGED", "undo")
    assert "bob has made a later change that depends on it" in told.message
    assert "'claim' of second" in told.message


def test_undo_never_overwrites_a_later_change(cli: Cli) -> None:
    cli.add("job")
    cli.ok("edit", "job", "--title", "Mine")
    cli.ok("edit", "job", "--title", "Theirs", "--agent", "bob")
    cli.refuses(4, "CHANGED", "undo")
    assert cli.task("job")["title"] == "Theirs"


def test_undo_of_a_long_text_is_refused(cli: Cli) -> None:
    cli.add("job", "-d", "old")
    cli.ok("edit", "job", "-d", "new")
    assert "old description" in cli.refuses(4, "CHANGED", "undo").message


def test_undo_of_a_claim_releases_it_with_the_token(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    cli.refuses(4, "HELD", "undo")
    assert cli.json("undo", "--token", token)["task"]["status"] == "ready"


def test_undo_without_changes_is_reported(cli: Cli) -> None:
    assert "dibs log" in cli.refuses(3, "NOT_FOUND", "undo").message


def test_undo_of_a_release_names_the_next_command(cli: Cli) -> None:
    cli.add("job")
    cli.ok("release", "job", "--token", cli.claim("job"))
    assert "dibs claim job" in cli.refuses(4, "CHANGED", "undo").message


def test_every_verb_can_be_undone_or_explains_why_not() -> None:
    told = {*_BACK, *_FINAL, Verb.RENEW, Verb.ESCALATE}
    assert not _BACK.keys() & _FINAL.keys()
    assert set(Verb) - told == set()


@pytest.mark.parametrize(
    ("said", "kept"), [("high", 1), ("urgent", 0), ("P1", 1), ("p3", 3), ("low", 3), ("H", 1), ("1.5", 1.5)]
)
def test_priorities_are_numbers_or_words(said: str, kept: float, cli: Cli) -> None:
    cli.add("job", "-p", said)
    assert cli.task("job")["priority"] == kept
    assert "no priority" in cli.refuses(2, "INVALID_INPUT", "add", "x", "-p", "soonish").message


def test_id_may_have_a_leading_hash(cli: Cli) -> None:
    cli.add("job")
    assert cli.json("show", "#job")["id"] == "job"
