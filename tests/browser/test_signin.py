"""A server that asks for tokens: the page asks the person for one, and shows nothing before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from dibs.core.task import Draft, Holder
from dibs.serve.access import Caller, Right, make_token
from support.board import Server, Visit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_SECRET = b"only-the-tests-of-the-board-know-this-secret"


def token(agent: str = "anna", *rights: Right, scopes: frozenset[str] | None = None) -> str:
    now = datetime.now(UTC)  # noqa: TID251 - the server goes by the clock of this machine
    return make_token(
        Caller(agent, None, frozenset(rights or (Right.ADMIN,)), scopes), _SECRET, now, timedelta(hours=1)
    )


@pytest.fixture
def guarded(browser: Browser, folder: str) -> Iterator[Visit]:
    server = Server(folder, DIBS_SERVE_SECRET=_SECRET.decode())
    visit = Visit(browser, server, name="")
    with server.desk() as desk:
        desk.add([Draft("A secret plan", id="plan")])
        desk.at("other").add([Draft("Another plan", id="another")])
    yield visit
    visit.context.close()
    server.close()
    visit.check()


def sign_in(page: Page, text: str) -> None:
    page.get_by_label("Token").fill(text)
    page.get_by_role("button", name="Open the board").click()


def test_the_board_opens_with_a_token_and_acts_in_its_name(guarded: Visit) -> None:
    page = guarded.page
    page.goto(guarded.server.url)
    expect(page.get_by_role("heading", name="This server needs a token")).to_be_visible()
    assert "secret plan" not in page.content()
    sign_in(page, "no.token.atall")
    expect(page.get_by_role("alert")).to_contain_text("was not accepted")
    sign_in(page, token())
    expect(guarded.card("plan")).to_be_visible()
    guarded.act("plan", "Claim it")
    expect(guarded.in_column("work", "plan")).to_contain_text("anna")
    with guarded.server.desk() as desk:
        lease = desk.get("plan").lease
        assert lease is not None
        assert (lease.agent, lease.holder) == ("anna", Holder.HUMAN)
    page.reload()
    expect(guarded.card("plan")).to_be_visible()


def test_action_without_the_right_is_refused_with_a_message(guarded: Visit) -> None:
    page = guarded.page
    page.goto(guarded.server.url)
    sign_in(page, token("anna", Right.READ, scopes=frozenset({"other"})))
    expect(guarded.card("another")).to_be_visible()
    guarded.act("another", "Claim it")
    expect(page.locator(".toast.bad")).to_be_visible()
    page.goto(f"{guarded.server.url}#/board?scope=default")
    expect(page.locator(".banner")).to_contain_text("not valid for that scope")
    expect(page.locator(".card")).to_have_count(0)
