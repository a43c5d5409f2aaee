"""Saying what is to be done, seeing what would come of it, taking it back, and hearing what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from dibs.core.lifecycle import Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.board import Visit


def test_conversation_from_first_message_to_result(visit: Callable[..., Visit]) -> None:
    anna = visit()
    page = anna.at("chat")
    page.get_by_label("Your name").fill("anna")
    page.get_by_role("button", name="Begin").click()

    def speak(words: str, button: str = "Say") -> None:
        page.get_by_label("Your message").fill(words)
        page.get_by_role("button", name=button, exact=True).click()

    speak("Research competitors, and write a strategy based on the research")
    expect(page.locator(".entry.desk").last).to_contain_text("Got it")
    page.get_by_role("button", name="Read now").click()
    expect(page.locator(".plan")).to_contain_text("Research competitors")
    speak("Do the strategy before the research", "Preview")
    expect(page.locator(".entry.preview")).to_be_visible()
    speak("Priority: strategy first")
    expect(page.locator(".entry.desk").last).to_contain_text("first")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".entry.desk").last).to_contain_text("Undone")

    page.get_by_role("button", name="Open on the board").click()
    expect(page.locator(".card", has_text="Research competitors")).to_be_visible()
    scope = page.locator(".page").get_attribute("data-scope") or ""
    with anna.server.desk(scope) as desk:
        for _ in range(2):
            claimed = desk.claim("bob")[0].task
            desk.move(
                Verb.DONE,
                claimed.id,
                token=claimed.lease.token if claimed.lease else None,
                result={"note": "All is well."},
            )
    page.keyboard.press("c")
    expect(page.locator(".messages")).to_contain_text("All is well.")
    page.reload()
    expect(page.locator(".messages")).to_contain_text("Research competitors, and write a strategy")
