"""Everybody can use it: with a screen reader, with the keyboard, in the dark, on a phone."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from board_story import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.board import Server, Visit

_AXE = str(files("axe_playwright_python") / "axe.min.js")
VIEWS = {
    "board": ("board", {}),
    "task": ("board", {"task": "count"}),
    "review": ("board", {"task": "faq"}),
    "filtered": ("board", {"text": "nothing like it"}),
    "graph": ("graph", {}),
    "list": ("graph", {"as": "list"}),
    "agents": ("agents", {}),
    "chat": ("chat", {}),
}


@pytest.fixture(scope="session")
def story(server: Server) -> str:
    with server.desk("larch") as desk:
        tell(desk)
    return "larch"


def violations(visit: Visit) -> list[str]:
    """What axe has to say, element by element."""
    page = visit.page
    if not page.evaluate("() => !!window.axe"):
        with open(_AXE, encoding="utf-8") as source:
            page.evaluate(source.read())
    found: dict[str, Any] = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{problem['id']}: {problem['help']}: {node['html'][:150]} {json.dumps(node.get('any', [{}])[:1])[:300]}"
        for problem in found["violations"]
        for node in problem["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_view(story: str, visit: Callable[..., Visit], theme: str) -> None:
    anna = visit(color_scheme=theme, reduced_motion="reduce")
    anna.scope = story
    for name, (view, where) in VIEWS.items():
        page = anna.at(view, **where)
        page.locator("main[aria-busy]").wait_for(state="detached")
        if name == "graph":
            page.locator("canvas.drawing[data-drawn]").wait_for()
        if "task" in where:
            page.locator(".history li").first.wait_for()
        assert violations(anna) == [], name
    anna.at("board")
    for key, dialog in (("n", "new task"), ("?", "keys")):
        anna.page.keyboard.press(key)
        expect(anna.page.get_by_role("dialog")).to_be_visible()
        assert violations(anna) == [], dialog
        anna.page.keyboard.press("Escape")
        expect(anna.page.locator("dialog")).to_have_count(0)


def test_axe_would_find_something(anna: Visit) -> None:
    anna.at()
    anna.page.evaluate("() => { document.querySelector('.brand').removeAttribute('aria-label') }")
    anna.page.evaluate("() => { document.querySelector('.tools button').removeAttribute('aria-label') }")
    anna.page.evaluate("() => { document.querySelector('.tools button').removeAttribute('title') }")
    assert any(problem.startswith("button-name") for problem in violations(anna))
    anna.page.reload()


def test_axe_finds_nothing_in_a_conversation(visit: Callable[..., Visit]) -> None:
    anna = visit()
    anna.context.add_init_script("localStorage.setItem('dibs.sender', '\"anna\"')")
    page = anna.at("chat")
    page.get_by_label("What is to be done?").fill("What's the plan?")
    page.get_by_role("button", name="Say", exact=True).click()
    expect(page.locator(".entry.desk, .entry.refused").first).to_be_visible()
    assert violations(anna) == []


def test_on_a_phone_nothing_is_wider_than_the_screen(story: str, visit: Callable[..., Visit]) -> None:
    phone = visit(viewport={"width": 390, "height": 844}, has_touch=True)
    phone.scope = story
    for view, where in VIEWS.values():
        page = phone.at(view, **where)
        page.locator("main[aria-busy]").wait_for(state="detached")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, view
        assert page.get_by_role("button", name="New task").is_visible()
    phone.at("board")
    ready = phone.page.locator(".column.ready").bounding_box()
    assert ready is not None
    assert 0 <= ready["x"] < 60


def test_everything_is_reached_with_the_keyboard(story: str, anna: Visit) -> None:
    anna.scope = story
    page = anna.at()
    page.locator("body").click(position={"x": 5, "y": 880})
    page.keyboard.press("j")
    expect(page.locator(".column.ready .card .title").first).to_be_focused()
    page.keyboard.press("l")
    expect(page.locator(".column.work .card .title").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".column.work .card .title").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".panel")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_have_count(0)
    expect(page.locator(".column.work .card .title").nth(1)).to_be_focused()
    for key, view in (("g", "graph"), ("a", "agents"), ("c", "chat"), ("b", "board")):
        page.keyboard.press(key)
        expect(page.locator(f"main.{view}")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next card")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("dialog")).to_have_count(0)  # while it is there, keys are for it
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("t")
    page.keyboard.press("/")
    page.keyboard.type("scan")
    page.keyboard.press("Enter")
    expect(page.locator(".card .title").first).to_be_focused()


def test_agents_are_shown_with_what_they_hold_and_may_hold(story: str, anna: Visit) -> None:
    anna.scope = story
    page = anna.at("agents")
    otto = page.locator(".agent", has_text="otto")
    expect(otto).to_contain_text("Sign-in by link, no passwords")
    expect(otto).to_contain_text("2 of 2")
    expect(otto).to_contain_text("python")
    expect(otto.locator(".lease").first).to_contain_text(":")
