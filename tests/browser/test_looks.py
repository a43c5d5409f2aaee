"""Accessibility: screen reader, keyboard, dark theme, phone."""

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
    "needs": ("needs", {}),
    "rows": ("list", {"group": "status"}),
    "timeline": ("timeline", {}),
    "trends": ("trends", {"since": "1h"}),
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
    for key, dialog in (("n", "new task"), ("?", "keys"), ("Control+k", "palette")):
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
    page.get_by_label("Your message").fill("What's the plan?")
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
    keys = {
        "g": "graph",
        "a": "agents",
        "i": "needs",
        "o": "list",
        "y": "timeline",
        "r": "trends",
        "c": "chat",
        "b": "board",
    }
    for key, view in keys.items():
        page.keyboard.press(key)
        expect(page.locator(f"main.{view}")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next task")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("dialog")).to_have_count(0)  # while it is there, keys are for it
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.keyboard.press("t")
    page.keyboard.press("/")
    page.keyboard.type("scan")
    page.keyboard.press("Enter")
    expect(page.locator(".card .title").first).to_be_focused()


def test_agents_page_shows_held_tasks_and_limits(story: str, anna: Visit) -> None:
    anna.scope = story
    page = anna.at("agents")
    otto = page.locator(".agent", has_text="otto")
    expect(otto).to_contain_text("Sign-in by link, no passwords")
    expect(otto).to_contain_text("2 of 2")
    expect(otto).to_contain_text("python")
    expect(otto.locator(".lease").first).to_contain_text(":")


def test_guided_tour_leads_through_the_views_and_is_dismissed_for_good(story: str, visit: Callable[..., Visit]) -> None:
    anna = visit()
    anna.scope = story
    page = anna.at("board", tour="1")
    tour = page.get_by_role("complementary", name="Guided tour")
    for view in ("board", "board", "board", "needs", "list", "graph", "timeline", "board"):
        expect(page.locator(f"main.{view}")).to_be_visible()
        button = tour.get_by_role("button", name="Next").or_(tour.get_by_role("button", name="Done"))
        button.press("Enter")
    expect(tour).to_have_count(0)
    anna.at("board", tour="1")
    page.reload()
    expect(page.locator(".card").first).to_be_visible()
    expect(tour).to_have_count(0)
    page.keyboard.press("w")
    expect(tour).to_contain_text("1 of 8")
    assert violations(anna) == []
    tour.get_by_role("button", name="Dismiss").click()
    expect(tour).to_have_count(0)
