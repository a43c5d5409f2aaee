"""Blocks and icons: what is in the trash, or is no emoji, is refused; and filters of every type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from emulator.asking import words
from emulator.test_values import EVERY_TYPE

if TYPE_CHECKING:
    from dibs.lab.emulator import Emulator
    from emulator.asking import Plain

PARAGRAPH: Any = {"paragraph": {"rich_text": words("hello")}}


@pytest.fixture
def page(notion: Emulator) -> str:
    return notion.page(notion.database({"Name": {"title": {}}}, "All").id, {})


def test_block_in_the_trash_takes_no_changes(plain: Plain, page: str) -> None:
    (made,) = plain("PATCH", f"/v1/blocks/{page}/children", {"children": [PARAGRAPH]}).body["results"]
    block = f"/v1/blocks/{made['id']}"
    assert plain("DELETE", block).body["in_trash"] is True
    for path, body in ((f"{block}/children", {"children": [PARAGRAPH]}), (block, PARAGRAPH)):
        said = plain("PATCH", path, body)
        assert (said.status, said.code) == (400, "validation_error")
        assert "unarchive" in said.message
    assert plain("PATCH", block, {**PARAGRAPH, "in_trash": False}).body["in_trash"] is False
    assert plain("PATCH", f"{block}/children", {"children": [PARAGRAPH]}).status == 200


def test_page_in_the_trash_takes_no_blocks(plain: Plain, page: str) -> None:
    plain("PATCH", f"/v1/pages/{page}", {"in_trash": True})
    assert plain("PATCH", f"/v1/blocks/{page}/children", {"children": [PARAGRAPH]}).code == "validation_error"


@pytest.mark.parametrize("emoji", ["abc", "", 5, None])
def test_icon_without_an_emoji_is_refused(plain: Plain, page: str, emoji: object) -> None:
    said = plain("PATCH", f"/v1/pages/{page}", {"icon": {"type": "emoji", "emoji": emoji}})
    assert (said.status, said.code) == (400, "validation_error")


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_filter_of_every_type_is_answered(notion: Emulator, plain: Plain, name: str) -> None:
    source = notion.database(EVERY_TYPE, "All")
    notion.page(source.id, {})
    (kind,) = EVERY_TYPE[name]
    for condition in ({"is_empty": True}, {"is_not_empty": True}, {"contains": "x"}, {"equals": "x"}, {}, "x", None):
        body = {"filter": {"property": name, kind: condition}}
        said = plain("POST", f"/v1/data_sources/{source.data_source_id}/query", body)
        assert said.status == 200 or said.code in {"validation_error", "not_emulated"}, condition


def test_files_are_filtered_by_presence(notion: Emulator, plain: Plain) -> None:
    source = notion.database({"Name": {"title": {}}, "Files": {"files": {}}}, "Files")
    empty = notion.page(source.id, {})
    file = {"name": "a.png", "external": {"url": "https://example.org/a.png"}}
    full = notion.page(source.id, {"Files": {"files": [file]}})
    for condition, found in (("is_empty", empty), ("is_not_empty", full)):
        body = {"filter": {"property": "Files", "files": {condition: True}}}
        said = plain("POST", f"/v1/data_sources/{source.data_source_id}/query", body)
        assert [one["id"] for one in said.body["results"]] == [found]
