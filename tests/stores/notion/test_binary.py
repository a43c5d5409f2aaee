"""Notion through notion-cli: the same store, without a token."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import CliMissing, LostLock, Misconfigured, NotFound, StoreUnavailable, Unsupported
from dibs.core.events import Event
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.port import Query
from support.notion_clients import holds_notion_cli, notion_cli

from .desk import SCOPE, add, claim, hold, move, select

if TYPE_CHECKING:
    from .desk import Place


@pytest.fixture(params=["stand-in", "notion-cli"])
def program(request: pytest.FixtureRequest, place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """Put the program first in PATH, and log its calls to a file."""
    folder = place.folder / "bin"
    folder.mkdir()
    if request.param == "stand-in":
        script, command = folder / "notion", [sys.executable, os.path.join(os.path.dirname(__file__), "program.py")]
    else:
        script, command = folder / "ntn", [notion_cli()]
    calls = place.folder / "calls"
    calls.touch()
    script.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if not holds_notion_cli(each))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{path}")
    monkeypatch.setenv("HOME", str(place.folder))  # the real program keeps its settings there
    return str(calls)


def test_missing_program_has_its_error_code(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place.folder))
    place.make()
    with pytest.raises(CliMissing, match="no program 'notion' or 'ntn'") as missing:
        place.join(transport="cli")
    assert missing.value.code == "CLI_MISSING"


def test_task_is_processed_through_the_program_without_tokens_in_arguments(place: Place, program: str) -> None:
    store = place.open(transport="cli", window="3.9", settle="4")
    (task,) = add(store, "Sweep")
    token = hold(store, task.id, "ann")
    shown = place.shows(str(task.origin))
    assert (shown["Status"], shown["Agent"], shown["Lock Token"]) == ("IN_PROGRESS", "ann", token)
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, "another token")
    store.record(Event(store.now(), SCOPE, task.id, "comment", reason="half way"))
    assert store._db.gateway.comments(str(task.origin)) == ["half way"]
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE
    assert claim(store) == []
    with open(program, encoding="utf-8") as file:
        called = file.read()
    assert "page update" in called
    assert token not in called
    assert place.notion.token not in called


def test_errors_of_the_program_are_understood(place: Place, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert program
    store = place.open(transport="cli")
    page = place.page("one")
    with pytest.raises(NotFound):
        store.get(SCOPE, "2f835e81-2bbb-81b6-9700-e18108a40b1f")
    place.notion.faults.next("unavailable", method="GET", times=99)
    with pytest.raises(StoreUnavailable):
        store.get(SCOPE, page)
    place.notion.faults.clear()
    monkeypatch.setenv("NOTION_TOKEN", place.notion.bot())
    with pytest.raises(Unsupported, match="Insert comments"):
        store.record(Event(place.clock(), SCOPE, page, "comment", reason="x"))
    monkeypatch.setenv("NOTION_TOKEN", "ntn_wrong")
    with pytest.raises(Misconfigured, match="not logged in"):
        store.get(SCOPE, page)


def test_empty_queue_is_no_error(place: Place, program: str) -> None:
    """The real program prints null for an empty list."""
    assert program
    store = place.open(transport="cli")
    assert claim(store) == []
    assert store.find(Query(SCOPE)) == []
    page = place.page("one")
    assert store._db.gateway.comments(page) == []
    assert all(check.ok for check in store.examine())


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_base_url_means_the_same_for_both_transports(
    place: Place, program: str, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program
    place.make()
    page = place.page("one")
    monkeypatch.setenv("NOTION_API_BASE_URL", place.notion.url + ending)
    assert [place.join(transport=each).get(SCOPE, page).title for each in ("api", "cli")] == ["one", "one"]


def test_facts_cached_over_http_do_not_mislead_the_program(place: Place, program: str) -> None:
    """The HTTP transport lists pages by the id of the data source, the program by that of the database."""
    assert program
    place.make()
    add(place.join(), "Sweep")
    for transport in ("api", "cli", "api"):
        assert [task.title for task in place.join(transport=transport).find(Query(SCOPE))] == ["Sweep"]


def test_invalid_program_output_is_an_error(place: Place, program: str) -> None:
    assert program
    store = place.open(transport="cli")
    place.page("one", Status=select("READY"))
    (script,) = (place.folder / "bin").iterdir()
    for nonsense in ("echo hello", "echo 7", "echo '{}'", "exit 9", "kill -9 $$"):
        script.write_text(f"#!/bin/sh\n{nonsense}\n")
        with pytest.raises(StoreUnavailable):
            claim(store)
