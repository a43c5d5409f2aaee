"""events.md lists every verb of an event, with its fields."""

from __future__ import annotations

import ast
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from dibs.agent import undo_last_change
from dibs.core.errors import DibsError
from dibs.core.events import OTHER_VERBS, Event
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Edit, Link, LinkKind
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore
from docs.pages import ROOT
from docs.test_reference import coded, first_cells, page, rows, sections

if TYPE_CHECKING:
    from pathlib import Path

# The verbs that end an attempt, and those that make the task ready again.
HELD = (
    (Verb.RELEASE, None), (Verb.FAIL, None), (Verb.BLOCK, Verb.UNBLOCK), (Verb.REVIEW, Verb.REWORK),
    (Verb.CANCEL, Verb.REOPEN), (Verb.REVIEW, Verb.APPROVE),
)  # fmt: skip
RARE = {Verb.RENEW, Verb.EXHAUST, Verb.ESCALATE, Verb.DONE}
_TABLES = ("Verbs of the lifecycle", "Other verbs of the stores", "Verbs of chat, sync and people")


def listed(heading: str) -> set[str]:
    return first_cells(sections(page("events.md"))[heading])


def recorded_elsewhere() -> set[str]:
    """The words that modules above the stores put into the record, as `….record(WORD, …)`."""
    found: set[str] = set()
    for path in (ROOT / "src" / "dibs").rglob("*.py"):
        if "stores" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".record") and len(node.args) == 1:
                found |= _word(node.args[0], path)
    return found


def _word(said: ast.expr, path: Path) -> set[str]:
    if isinstance(said, ast.Constant):
        return {str(said.value)}
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    word = getattr(import_module(name), ast.unparse(said), None)
    return {word} if isinstance(word, str) else set()


def test_every_verb_is_listed_and_no_other_is() -> None:
    assert listed("Verbs of the lifecycle") == set(Verb)
    assert listed("Other verbs of the stores") == set(OTHER_VERBS)
    assert listed("Verbs of chat, sync and people") == recorded_elsewhere()


def test_every_field_of_an_event_is_listed() -> None:
    assert listed("Fields") == set(Event._fields)


def everything(desk: Desk) -> None:
    """Each verb at least once, some of them by a person's force."""
    desk.add([Draft(id="a", title="One"), Draft(id="b", title="Two")], [Link("b", "a", LinkKind.BLOCKS)])
    desk.unlink([Link("b", "a", LinkKind.BLOCKS)])
    desk.link([Link("b", "a", LinkKind.BLOCKS)])
    desk.edit("a", Edit(priority=1, description="More of it."))
    desk.configure({"poll_interval": 60})
    desk.comment("a", "A remark.")
    for verb in (Verb.SHELVE, Verb.QUEUE, Verb.PAUSE, Verb.RESUME):
        desk.move(verb, "a")
    for verb, after in HELD:
        desk.claim("ann", refs=["a"])
        desk.move(verb, "a", force=True, reason="so be it")
        if after:
            desk.move(after, "a")
    with pytest.raises(DibsError):
        desk.claim("bob", refs=["a"])
    desk.add([Draft(id="c", title="Three")])
    zoe = desk.at(desk.scope, by=Actor("zoe"))
    zoe.move(Verb.CLOSE, "c", force=True)
    undo_last_change(zoe, "zoe")


def test_event_details_are_documented(tmp_path: Path) -> None:
    listed_rows = [cells for name in _TABLES for cells in rows(sections(page("events.md"))[name])[1:]]
    told = {coded(cells[0])[0]: coded(cells[2]) for cells in listed_rows}
    with Desk(SqliteStore(str(tmp_path / "new.db"), create=True)) as desk:
        everything(desk)
        events = desk.events(last=1000)
    assert {event.verb for event in events} >= {*Verb, "add", "edit", "link", "unlink", "configure"} - RARE
    for event in events:
        assert event.verb == "edit" or set(event.detail) <= {*told[event.verb]}, event
