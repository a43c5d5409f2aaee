"""Comments on pages, in discussions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.bodies import rich_text
from dibs.lab.emulator.errors import fix_one, not_found, should, should_line
from dibs.lab.emulator.ids import whole_id
from dibs.lab.emulator.paging import Found
from dibs.lab.emulator.rendering import listing
from dibs.lab.emulator.values import text_items

if TYPE_CHECKING:
    from dibs.lab.emulator.calls import Call
    from dibs.lab.emulator.model import Comment, Page


def create(call: Call) -> dict[str, Any]:
    if "rich_text" not in call.body:
        raise should("body.rich_text", "defined", ...)
    rich_text("body.rich_text", call.body["rich_text"])
    discussion = call.body.get("discussion_id")
    page = _discussed(call, discussion) if discussion else _parent(call)
    made = call.workspace.add_comment(page, call.bot, text_items(call.body["rich_text"]), whole_id(discussion))
    return call.shapes().comment(made)


def _parent(call: Call) -> Page:
    parent = call.body.get("parent", ...)
    keys = [key for key in ("page_id", "block_id") if isinstance(parent, dict) and key in parent]
    if not isinstance(parent, dict) or not keys:
        raise fix_one([should_line(f"body.{one}", "defined") for one in ("parent", "discussion_id")])
    page_id = whole_id(parent[keys[0]])
    if page_id is None:
        raise should(f"body.parent.{keys[0]}", "a valid uuid", parent[keys[0]])
    return call.workspace.page(page_id, call.bot)


def _discussed(call: Call, discussion: Any) -> Page:
    wanted = whole_id(discussion)
    found = next((one for one in call.workspace.comments.values() if one.discussion_id == wanted), None)
    if found is None:
        raise not_found("discussion", str(discussion), call.bot)
    return call.workspace.page(found.page_id, call.bot)


def listed(call: Call) -> dict[str, Any]:
    asked = call.query.get("block_id", [])
    if not asked:
        raise should("query.block_id", "defined", ...)
    page_id = whole_id(asked[0])
    if page_id is None:
        raise should("query.block_id", "a valid uuid", asked[0])
    page = call.workspace.page(page_id, call.bot)
    found = [one for one in call.workspace.comments.values() if one.page_id == page.id]
    place = f"{page.id}/comments"
    piece = call.paged(place, lambda: Found(place, found), "query")
    return listing("comment", [call.shapes().comment(one) for one in piece.items], piece.next_cursor)


def retrieve(call: Call) -> dict[str, Any]:
    return call.shapes().comment(_comment(call))


def update(call: Call) -> dict[str, Any]:
    comment = _comment(call)
    rich_text("body.rich_text", call.body.get("rich_text", ...))
    changed = comment._replace(rich_text=text_items(call.body["rich_text"]), edited_at=call.workspace.clock())
    call.workspace.comments[comment.id] = changed
    return call.shapes().comment(changed)


def delete(call: Call) -> dict[str, Any]:
    comment = _comment(call)
    del call.workspace.comments[comment.id]
    return call.shapes().comment(comment)


def _comment(call: Call) -> Comment:
    comment_id = call.id("comment_id")
    found = call.workspace.comments.get(comment_id)
    if found is None or not call.workspace.sees_page(call.bot, call.workspace.pages[found.page_id]):
        raise not_found("comment", comment_id, call.bot)
    return found
