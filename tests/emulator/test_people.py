"""People in the app, and the capabilities of integrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.lab.emulator.model import ALL_CAPABILITIES, INSERT, READ, READ_COMMENTS, UPDATE
from emulator.asking import names, task, words

if TYPE_CHECKING:
    from dibs.lab.emulator import Database, Emulator
    from emulator.asking import Plain, Said
    from support.clock import Clock


@pytest.fixture
def page(notion: Emulator, tasks: Database) -> str:
    return notion.page(tasks.id, task("Wash up"))


def comment(plain: Plain, page: str, token: str | None = None) -> Said:
    return plain("POST", "/v1/comments", {"parent": {"page_id": page}, "rich_text": words("hi")}, token=token)


def test_persons_edit_is_attributed_to_that_person(notion: Emulator, plain: Plain, page: str, clock: Clock) -> None:
    me = plain("GET", "/v1/users/me").body["id"]
    plain("PATCH", f"/v1/pages/{page}", {"properties": {"Priority": {"number": 1}}})
    assert plain("GET", f"/v1/pages/{page}").body["last_edited_by"]["id"] == me
    clock.advance(minutes=3)
    notion.human.edit(page.replace("-", ""), {"Claimed By": {"select": {"name": "HUMAN"}}})
    shown = plain("GET", f"/v1/pages/{page}").body
    assert shown["last_edited_by"]["id"] == shown["created_by"]["id"] == notion.human.user.id
    assert shown["last_edited_time"] == "2026-01-01T12:03:00.000Z"
    assert shown["properties"]["Claimed By"]["select"]["name"] == "HUMAN"
    assert shown["properties"]["Priority"]["number"] == 1


def test_person_is_limited_by_column_types(notion: Emulator, page: str) -> None:
    with pytest.raises(Exception, match="Colour is not a property that exists"):
        notion.human.edit(page, {"Colour": {"number": 1}})


def test_trashed_page_is_readable_but_not_found_or_changed(
    notion: Emulator, plain: Plain, tasks: Database, page: str
) -> None:
    notion.human.trash(page)
    assert plain("GET", f"/v1/pages/{page}").body["in_trash"] is True
    address = f"/v1/data_sources/{tasks.data_source_id}/query"
    assert plain("POST", address, {}).body["results"] == []
    assert names(plain("POST", address, {"in_trash": True}).body) == ["Wash up"]
    said = plain("PATCH", f"/v1/pages/{page}", {"properties": {"Priority": {"number": 1}}})
    assert (said.status, said.code) == (400, "validation_error")
    assert said.message == "Can't edit block that is archived. You must unarchive the block before editing."
    notion.human.restore(page)
    assert plain("GET", f"/v1/pages/{page}").body["in_trash"] is False
    assert names(plain("POST", address, {}).body) == ["Wash up"]


def test_an_integration_takes_a_page_out_of_the_trash(notion: Emulator, plain: Plain, page: str) -> None:
    notion.human.trash(page)
    changed = plain("PATCH", f"/v1/pages/{page}", {"in_trash": False, "properties": {"Priority": {"number": 1}}})
    assert (changed.body["in_trash"], changed.body["properties"]["Priority"]["number"]) == (False, 1)


def test_a_page_that_is_not_shared_is_not_there(notion: Emulator, plain: Plain, tasks: Database, page: str) -> None:
    notion.human.unshare(page)
    assert plain("GET", f"/v1/pages/{page}").code == "object_not_found"
    assert plain("PATCH", f"/v1/pages/{page}", {"properties": {}}).code == "object_not_found"
    assert comment(plain, page).code == "object_not_found"
    assert plain("POST", f"/v1/data_sources/{tasks.data_source_id}/query", {}).body["results"] == []
    notion.human.share(page)
    assert plain("GET", f"/v1/pages/{page}").status == 200


def test_a_database_that_is_not_shared_hides_its_pages(
    notion: Emulator, plain: Plain, tasks: Database, page: str
) -> None:
    notion.human.unshare(tasks.id)
    addresses = (f"databases/{tasks.id}", f"data_sources/{tasks.data_source_id}", f"pages/{page}")
    assert {plain("GET", f"/v1/{address}").status for address in addresses} == {404}
    assert plain("POST", "/v1/search", {}).body["results"] == []


def test_one_integration_can_be_left_out(notion: Emulator, plain: Plain, page: str) -> None:
    other = notion.bot()
    notion.human.unshare(page, other)
    assert plain("GET", f"/v1/pages/{page}", token=other).status == 404
    assert plain("GET", f"/v1/pages/{page}").status == 200


def test_a_fresh_integration_may_not_comment(notion: Emulator, plain: Plain, page: str) -> None:
    fresh = notion.bot()
    for said in (comment(plain, page, fresh), plain("GET", f"/v1/comments?block_id={page}", token=fresh)):
        assert (said.status, said.code) == (403, "restricted_resource")
        assert said.message == "Insufficient permissions for this endpoint."
    assert plain("GET", f"/v1/pages/{page}", token=fresh).status == 200
    assert comment(plain, page).status == 200, "the demonstration's own token may"


@pytest.mark.parametrize(
    ("lacking", "method", "path"),
    [
        (READ, "GET", "/v1/pages/{page}"),
        (READ, "POST", "/v1/search"),
        (UPDATE, "PATCH", "/v1/pages/{page}"),
        (INSERT, "POST", "/v1/pages"),
        (READ_COMMENTS, "GET", "/v1/comments?block_id={page}"),
    ],
)
def test_integration_without_a_capability_is_refused(
    notion: Emulator, plain: Plain, page: str, lacking: str, method: str, path: str
) -> None:
    limited = notion.bot(ALL_CAPABILITIES - {lacking})
    body: object = None if method == "GET" else {}
    assert plain(method, path.format(page=page), body, token=limited).code == "restricted_resource"
    assert plain(method, path.format(page=page), body).status != 403


def test_a_persons_comment_is_by_that_person(notion: Emulator, plain: Plain, page: str) -> None:
    notion.human.comment(page, "I take this one")
    (said,) = plain("GET", f"/v1/comments?block_id={page}").body["results"]
    assert said["created_by"]["id"] == notion.human.user.id
    assert said["display_name"] == {"type": "user", "resolved_name": "Ann"}


def test_a_comment_needs_a_place_and_words(plain: Plain, page: str) -> None:
    assert "body.rich_text should be defined" in plain("POST", "/v1/comments", {"parent": {"page_id": page}}).message
    assert "body.parent should be defined" in plain("POST", "/v1/comments", {"rich_text": words("x")}).message
    assert "query.block_id should be defined" in plain("GET", "/v1/comments").message


def test_unknown_capability_is_refused(notion: Emulator) -> None:
    with pytest.raises(ValueError, match="no such capability: fly"):
        notion.bot(frozenset({"fly"}))
