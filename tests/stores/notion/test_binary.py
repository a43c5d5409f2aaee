"""Notion through a program: the same store, no token in dibs' own hands."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import CliMissing, LostLock, Misconfigured, NotFound, StoreUnavailable, Unsupported
from dibs.core.events import Event
from dibs.core.lifecycle import Verb
from dibs.core.task import Status

from .desk import SCOPE, add, claim, hold, move, select

if TYPE_CHECKING:
    from .desk import Place


@pytest.fixture
def program(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """Puts a program `notion` first in the PATH; its calls are noted in a file."""
    folder = place.folder / "bin"
    folder.mkdir()
    script = folder / "notion"
    here = os.path.join(os.path.dirname(__file__), "program.py")
    calls = place.folder / "calls"
    calls.touch()
    script.write_text(f'#!/bin/sh\necho "$@" >> "{calls}"\nexec "{sys.executable}" "{here}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return str(calls)


def test_where_there_is_no_program_that_is_said_with_a_code_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place.folder))
    place.make()
    with pytest.raises(CliMissing, match="no program 'notion'") as missing:
        place.join(transport="cli")
    assert missing.value.code == "CLI_MISSING"


def test_a_task_goes_its_way_through_the_program_and_no_token_is_among_its_arguments(
    place: Place, program: str
) -> None:
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


def test_what_the_program_says_of_errors_is_understood(
    place: Place, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program
    store = place.open(transport="cli")
    page = place.page("one")
    with pytest.raises(NotFound):
        store.get(SCOPE, "2f835e81-2bbb-81b6-9700-e18108a40b1f")
    place.notion.faults.next("unavailable", method="GET", times=9)
    with pytest.raises(StoreUnavailable):
        store.get(SCOPE, page)
    place.notion.faults.clear()
    monkeypatch.setenv("NOTION_TOKEN", place.notion.bot())
    with pytest.raises(Unsupported, match="Insert comments"):
        store.record(Event(place.clock(), SCOPE, page, "comment", reason="x"))
    monkeypatch.setenv("NOTION_TOKEN", "ntn_wrong")
    with pytest.raises(Misconfigured, match="not logged in"):
        store.get(SCOPE, page)


def test_a_program_that_answers_with_nonsense_is_an_error_and_no_empty_list(place: Place, program: str) -> None:
    assert program
    store = place.open(transport="cli")
    place.page("one", Status=select("READY"))
    script = place.folder / "bin" / "notion"
    for nonsense in ("echo hello", "echo 7", "echo '{}'", "exit 9", "kill -9 $$"):
        script.write_text(f"#!/bin/sh\n{nonsense}\n")
        with pytest.raises(StoreUnavailable):
            claim(store)
