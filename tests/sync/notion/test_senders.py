"""Senders are separate: rows, names and keys never mix."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Misconfigured
from dibs.core.wire import event_json
from dibs.stores.port import EventQuery
from dibs.sync.notion.report import as_json, text_of
from sync.notion.scene import ANN, BOB

if TYPE_CHECKING:
    from sync.notion.scene import Scene


def test_rows_of_other_senders_are_ignored(everywhere: Scene) -> None:
    scene = everywhere
    scene.row("Mine", status="Ready")
    theirs = scene.row("A secret of Bob's", sender=BOB, status="Ready", id="mine")
    nobodys = scene.row("Nobody's", sender="")
    before = scene.shown(theirs), scene.shown(nobodys)
    reports = [scene.sync(), scene.sync(polled=True)]
    told = json.dumps([as_json(each) for each in reports]) + "".join(map(text_of, reports))
    events = json.dumps([event_json(event) for event in scene.store.events(EventQuery())])
    for secret in ("secret of Bob", "Nobody's", BOB, scene.notion.token):
        assert secret not in told
        assert secret not in events
    assert (scene.shown(theirs), scene.shown(nobodys)) == before
    assert [task.title for task in scene.desk.graph().tasks] == ["Mine"]


def test_a_list_that_shows_rows_of_others_is_not_believed(scene: Scene) -> None:
    """Rows of others are dropped even if the filter fails."""
    scene.row("A secret of Bob's", sender=BOB)
    real = scene.gateway.query
    scene.gateway.query = lambda source, body: real(source, _open(body))  # type: ignore[method-assign]
    assert scene.sync().rows == 0


def _open(body: object) -> dict[str, object]:
    assert isinstance(body, dict)
    return {name: value for name, value in body.items() if name != "filter"}


def test_row_given_to_another_sender_is_gone(scene: Scene) -> None:
    page = scene.row("Shared", status="Ready")
    scene.sync()
    scene.edit(page, sender=BOB)
    assert [each.kind for each in scene.sync().applied] == ["deleted"]
    assert [each.kind for each in scene.sync(BOB).applied] == ["new_task"]
    assert scene.task("Shared", BOB).scope == BOB
    assert scene.task("Shared", ANN).reason == "deleted_in_notion"


def test_errors_do_not_repeat_the_key(scene: Scene) -> None:
    key = "ntn_a_key_that_nobody_must_see"
    scene.gateway = scene.connect(key)
    with pytest.raises(Misconfigured) as caught:
        scene.sync()
    assert key not in repr(caught.value) + caught.value.message + repr(scene.gateway)
