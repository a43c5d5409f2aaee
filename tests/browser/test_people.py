"""What every person at the board relies on: their name beside what they do, their project, readable text, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.task import Json
    from dibs.desk import Desk
    from support.board import Visit


def give_name(anna: Visit, name: str = "anna") -> None:
    dialog = anna.page.get_by_role("dialog")
    expect(dialog).to_contain_text("What is your name?")
    dialog.get_by_label("Name").fill(name)
    dialog.locator("button[type=submit]").click()


def test_every_kind_of_change_asks_for_a_name_once(desk: Desk, visit: Callable[..., Visit]) -> None:
    """Each in a fresh window without a name: the change waits for the name, and is recorded under it."""
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch", "cedar")])
    token = desk.claim("bob", refs=["cedar"])[0].task.lease
    desk.move(Verb.REVIEW, "cedar", token=token.token if token else None)
    anna = visit(name="")

    def forgets() -> None:
        anna.page.evaluate("localStorage.setItem('dibs.name', '\"\"')")
        anna.at()
        anna.page.reload()
        anna.page.locator(".connection.live").wait_for()

    anna.at()
    anna.act("ash", "Block")
    give_name(anna, "anna 1")
    anna.confirm(reason="No answer.")
    expect(anna.in_column("needs", "ash")).to_be_visible()
    forgets()
    anna.card("cedar").get_by_role("button", name="Approve").click()
    give_name(anna, "anna 2")
    expect(anna.in_column("finished", "cedar")).to_be_visible()
    forgets()
    anna.page.keyboard.press("n")
    give_name(anna, "anna 3")
    anna.confirm(title="Douglas")
    expect(anna.page.locator(".column.ready .card")).to_have_count(2)
    forgets()
    panel = anna.open("birch")
    panel.get_by_role("combobox", name="Link with a task").fill("douglas")
    anna.page.keyboard.press("Enter")
    give_name(anna, "anna 4")
    expect(anna.in_column("waiting", "birch")).to_be_visible()
    douglas = desk.links("birch")[0].on
    assert len(douglas) == 6
    assert desk.events(ref="ash")[-1].agent == "anna 1"
    assert desk.events(ref="cedar")[-1].agent == "anna 2"
    assert desk.events(ref=douglas)[0].agent == "anna 3"
    assert [event.agent for event in desk.events(ref="birch") if event.verb == "link"] == ["anna 4"]


def test_change_without_a_name_is_not_made(desk: Desk, visit: Callable[..., Visit]) -> None:
    desk.add([Draft("Ash", id="ash")])
    anna = visit(name="")
    page = anna.at()
    anna.act("ash", "Pause")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("dialog")).to_have_count(0)
    assert len(desk.events(ref="ash")) == 1


def test_escape_in_the_search_clears_box_and_filter(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")])
    page = anna.at()
    page.keyboard.press("/")
    page.keyboard.type("birch")
    expect(page.locator(".card")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".card")).to_have_count(2)
    expect(page.locator("#search")).to_have_value("")
    assert "text=" not in page.url


def test_control_enter_submits_forms_from_a_text_area(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash")])
    page = anna.at()
    anna.act("ash", "Edit")
    page.get_by_role("dialog").get_by_label("Description").fill("Two lines\nof text.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert desk.get("ash").description == "Two lines\nof text."
    page.get_by_label("Comment", exact=True).fill("Mind the gap.")
    page.keyboard.press("Meta+Enter")
    expect(page.locator(".history")).to_contain_text("Mind the gap.")


def test_agents_have_colours_of_their_own(desk: Desk, anna: Visit) -> None:
    names = ["ada", "noor", "bo", "kim", "ivy", "lev", "theo", "uma"]
    desk.add([Draft(name.title(), id=name) for name in names])
    for name in names:
        desk.claim(name, refs=[name])
    page = anna.at()
    faces = page.locator(".column.work .face")
    expect(faces).to_have_count(len(names))
    colours = faces.evaluate_all("all => all.map(face => getComputedStyle(face).backgroundColor)")
    assert len(set(colours)) == len(names)
    page.reload()
    expect(faces).to_have_count(len(names))
    assert faces.evaluate_all("all => all.map(face => getComputedStyle(face).backgroundColor)") == colours


def test_project_is_named_in_bar_and_tab(anna: Visit) -> None:
    page = anna.at()
    expect(page.locator(".brand")).to_have_text("dibs")  # the tests' store is dibs.db in no project's folder
    page.route("**/scopes*", lambda route: route.fulfill(json={"scopes": ["default"], "project": "larch <b>"}))
    page.reload()
    expect(page.locator(".brand")).to_have_text("larch <b>")
    expect(page).to_have_title("larch <b> · Board")


def test_markdown_and_results_are_shown_as_text_lists_and_tables(desk: Desk, anna: Visit) -> None:
    text = "# Plan\n\n- [ ] open <b>box</b>\n- [x] ticked\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n~~old~~ [web](https://a.example)"
    desk.add([Draft("Ash", id="ash", description=text)])
    lease = desk.claim("bob", refs=["ash"])[0].task.lease
    result: Json = {
        "tests": {"passed": 12, "failed": 0},
        "files": [{"path": "a.py", "lines": 3}, {"path": "b.py", "lines": 4}],
    }
    desk.move(Verb.DONE, "ash", token=lease.token if lease else None, result=result)
    anna.at()
    panel = anna.open("ash")
    expect(panel.locator("li.todo")).to_have_count(2)
    heading = panel.locator(".prose .heading").evaluate(
        "p => [getComputedStyle(p).paddingLeft, getComputedStyle(p).display]"
    )
    assert heading == ["0px", "block"]
    expect(panel.get_by_role("img", name="to do:")).to_have_count(1)
    expect(panel.locator("li.todo").first).to_contain_text("open <b>box</b>")
    expect(panel.locator(".prose del")).to_have_text("old")
    expect(panel.locator("table")).to_have_count(2)
    expect(panel.locator(".outcome table")).to_have_text("pathlinesa.py3b.py4")
    assert "{" not in panel.inner_text()
    assert "[ ]" not in panel.inner_text()


def test_links_and_moves_of_one_window_keep_one_name(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")], [Link("birch", "ash")])
    anna.at()
    anna.open("birch").get_by_role("button", name="Remove the link with ash").click()
    expect(anna.in_column("ready", "birch")).to_be_visible()
    assert desk.events(ref="birch")[-1].agent == "anna"
