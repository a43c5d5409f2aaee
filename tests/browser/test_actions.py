"""What a person can do on the board, each in a real browser against a real server."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Holder, Link, ServiceClass, Status

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.desk import Desk
    from support.board import Visit


def held(desk: Desk, task: str) -> str:
    lease = desk.claim("bob", refs=[task])[0].task.lease
    assert lease is not None
    return lease.token


def test_task_is_added_with_prerequisites(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Agree on the columns", id="columns")])
    page = anna.at()
    page.keyboard.press("n")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Title").fill("Read CSV into rows")
    dialog.get_by_label("Priority").fill("1")
    dialog.get_by_label("Category").fill("backend")
    dialog.get_by_role("combobox", name="Waits for").fill("columns")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Add it").click()
    expect(page.locator(".column.waiting .card")).to_contain_text("Read CSV into rows")
    added = next(task for task in desk.graph().tasks if task.id != "columns")
    assert (added.priority, added.category, added.blockers) == (1, "backend", 1)
    assert desk.events(ref=added.id)[0].agent == "anna"


def test_edit_dialog_changes_only_edited_fields(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Build the form", id="form", category="app", requires=("web",), description="As sketched.")])
    anna.at()
    anna.act("form", "Edit")
    anna.confirm(title="Build the upload form", category="")
    expect(anna.card("form")).to_contain_text("Build the upload form")
    task = desk.get("form")
    assert (task.title, task.category, task.requires, task.description) == (
        "Build the upload form",
        None,
        ("web",),
        "As sketched.",
    )
    assert set(desk.events(ref="form")[-1].detail) == {"title", "category"}


def test_refused_form_shows_the_error_and_can_be_corrected(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Build the form", id="form")])
    page = anna.at()
    anna.act("form", "Edit")
    anna.confirm(priority="99999999999")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("priority")
    anna.confirm(priority="3")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert desk.get("form").priority == 3


def test_dragging_a_ready_task_puts_it_before_another(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch", "cedar", "douglas")])
    page = anna.at()
    assert anna.line() == ["ash", "birch", "cedar", "douglas"]
    anna.card("douglas").drag_to(anna.card("birch"), target_position={"x": 60, "y": 4})
    expect(page.locator(".toast")).to_contain_text("Moved douglas")
    assert anna.line() == ["ash", "douglas", "birch", "cedar"]
    assert [task.id for task in desk.ready(limit=9)] == ["ash", "douglas", "birch", "cedar"]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".column.ready .card").nth(3)).to_contain_text("douglas")
    assert [task.id for task in desk.ready(limit=9)] == ["ash", "birch", "cedar", "douglas"]


def test_drag_across_classes_reports_the_new_class(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Fire", id="fire", service_class=ServiceClass.EXPEDITE), Draft("Tidy up", id="tidy")])
    page = anna.at()
    anna.card("tidy").drag_to(anna.card("fire"), target_position={"x": 60, "y": 4})
    expect(page.locator(".toast")).to_contain_text("its class is expedite now")
    assert [task.id for task in desk.ready(limit=9)] == ["tidy", "fire"]


def test_a_ready_task_is_moved_with_the_keyboard_too(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch", "cedar")])
    page = anna.at()
    page.keyboard.press("j")
    expect(anna.card("ash").locator(".title")).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")
    expect(page.locator(".toast")).to_contain_text("Moved ash")
    assert [task.id for task in desk.ready(limit=9)] == ["birch", "ash", "cedar"]


def test_person_claims_and_releases_a_task(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Call the customer", id="call")])
    page = anna.at()
    anna.act("call", "Claim it")
    expect(anna.in_column("work", "call")).to_contain_text("anna")
    lease = desk.get("call").lease
    assert lease is not None
    assert (lease.agent, lease.holder, lease.expires_at) == ("anna", Holder.HUMAN, None)
    page.locator(".panel").get_by_role("button", name="Release", exact=True).click()
    expect(anna.in_column("ready", "call")).to_be_visible()
    assert desk.get("call").status is Status.READY


def test_person_finishes_a_held_task(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Call the customer", id="call"), Draft("Write it down", id="write")], [Link("write", "call")])
    anna.at()
    anna.act("call", "Claim it")
    expect(anna.in_column("work", "call")).to_be_visible()
    anna.act("call", "Done")
    anna.confirm(note="They want blue.")
    expect(anna.in_column("finished", "call")).to_be_visible()
    expect(anna.in_column("ready", "write")).to_be_visible()
    assert desk.get("call").result == {"note": "They want blue."}


def test_takeover_asks_once(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Write the parser", id="parser")])
    held(desk, "parser")
    page = anna.at()
    anna.act("parser", "Take over")
    expect(page.get_by_role("dialog")).to_contain_text("bob is at work on it")
    anna.confirm()
    expect(anna.card("parser")).to_contain_text("anna")
    lease = desk.get("parser").lease
    assert lease is not None
    assert (lease.agent, lease.holder) == ("anna", Holder.HUMAN)


@pytest.mark.parametrize(("button", "status"), [("Approve", Status.DONE), ("Send back", Status.READY)])
def test_review_is_approved_or_sent_back(desk: Desk, anna: Visit, button: str, status: Status) -> None:
    desk.add([Draft("Write the parser", id="parser")])
    desk.move(Verb.REVIEW, "parser", token=held(desk, "parser"), reason="Is the text clear?")
    anna.at()
    expect(anna.in_column("needs", "parser")).to_contain_text("Is the text clear?")
    anna.card("parser").get_by_role("button", name=button).click()
    if status is Status.READY:
        anna.confirm(reason="Name the line.")
    expect(anna.in_column("finished" if status is Status.DONE else "ready", "parser")).to_be_visible()
    task = desk.get("parser")
    assert (task.status, task.reason) == (status, None if status is Status.DONE else "Name the line.")


def test_cancel_asks_once_and_can_be_undone(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Columns", id="columns"), Draft("Parser", id="parser")], [Link("parser", "columns")])
    page = anna.at()
    anna.act("columns", "Cancel")
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    assert desk.get("columns").status is Status.READY
    anna.act("columns", "Cancel")
    anna.confirm(reason="There is a standard.", dependents="resolve")
    expect(anna.in_column("finished", "columns")).to_be_visible()
    expect(anna.in_column("ready", "parser")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(anna.in_column("ready", "columns")).to_be_visible()
    expect(anna.in_column("waiting", "parser")).to_be_visible()


def test_pausing_and_resuming(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Manual", id="manual")])
    page = anna.at()
    anna.act("manual", "Pause")
    expect(anna.in_column("aside", "manual")).to_contain_text("Paused")
    page.locator(".panel").get_by_role("button", name="Resume", exact=True).click()
    expect(anna.in_column("ready", "manual")).to_be_visible()


def test_setting_aside_as_blocked_and_unblocking(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Prices", id="prices")])
    anna.at()
    anna.act("prices", "Block")
    anna.confirm(reason="Nobody answers the phone.")
    expect(anna.in_column("needs", "prices")).to_contain_text("Nobody answers the phone.")
    anna.card("prices").get_by_role("button", name="Unblock").click()
    expect(anna.in_column("ready", "prices")).to_be_visible()


def test_task_moves_to_backlog_and_back(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Podcast", id="podcast")])
    page = anna.at()
    anna.act("podcast", "Move to backlog")
    expect(anna.in_column("aside", "podcast")).to_be_visible()
    page.locator(".panel").get_by_role("button", name="Move to Ready", exact=True).click()
    expect(anna.in_column("ready", "podcast")).to_be_visible()


def test_putting_a_task_first(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch", priority=4)])
    page = anna.at()
    anna.act("birch", "Put first")
    expect(anna.card("birch")).to_contain_text("First")
    assert anna.line() == ["birch", "ash"]
    page.locator(".panel").get_by_role("button", name="No longer first", exact=True).click()
    expect(page.locator(".column.ready .card").first).to_contain_text("Ash")


def test_late_action_shows_the_servers_message(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Parser", id="parser")])
    page = anna.at()
    anna.open("parser")
    page.route("**/tasks?*ids=*", lambda route: route.abort())  # this page learns nothing any more
    held(desk, "parser")
    page.locator(".panel").get_by_role("button", name="Claim it").click()
    expect(page.locator(".toast.bad")).to_contain_text("held by bob")


def test_comment_appears_in_the_history(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Parser", id="parser")])
    page = anna.at()
    panel = anna.open("parser")
    panel.get_by_label("Comment").fill("Mind the quotes.")
    panel.get_by_role("button", name="Comment").click()
    expect(page.locator(".history")).to_contain_text("anna commented")
    expect(page.locator(".history")).to_contain_text("Mind the quotes.")


def test_links_are_added_and_removed_in_the_panel(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Columns", id="columns"), Draft("Parser", id="parser")])
    anna.at()
    panel = anna.open("parser")
    panel.get_by_role("combobox", name="Link with a task").fill("colu")
    anna.page.keyboard.press("Enter")
    expect(anna.in_column("waiting", "parser")).to_be_visible()
    panel.get_by_role("button", name="Remove the link with columns").click()
    expect(anna.in_column("ready", "parser")).to_be_visible()
    assert desk.links("parser") == []


def test_cycle_is_refused_with_its_path_in_words(desk: Desk, anna: Visit) -> None:
    names = ("columns", "parser", "form")
    desk.add([Draft(name.title(), id=name) for name in names], [Link("parser", "columns"), Link("form", "parser")])
    page = anna.at()
    panel = anna.open("columns")
    panel.get_by_role("combobox", name="Link with a task").fill("form")
    page.keyboard.press("Enter")
    refusal = page.locator(".toast.bad")
    for name in names:
        expect(refusal).to_contain_text(name)
    assert len(desk.links("columns", "form")) == 2


def test_task_in_review_shows_result_and_artifacts(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Parser", id="parser", description="First line\n\n- **one**\n- two", steps=("read", "write"))])
    result: dict[str, Json] = {"rows": 12, "names": ["a", "b"]}
    desk.move(
        Verb.DONE,
        "parser",
        token=held(desk, "parser"),
        result=result,
        artifacts=["src/parser.py", "https://example.org/x"],
    )
    anna.at()
    panel = anna.open("parser")
    expect(panel.locator(".outcome")).to_have_text("rows12namesab")
    for text in ("src/parser.py", "First line", "read", "bob finished it"):
        expect(panel).to_contain_text(text)
    expect(panel.locator("strong")).to_have_text("one")
    expect(panel.get_by_role("link", name="https://example.org/x")).to_have_attribute(
        "rel", "noopener noreferrer nofollow"
    )


def test_lease_counts_down_and_shows_its_end(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Long", id="long"), Draft("Short", id="short")])
    desk.claim("bob", refs=["long"], lease=timedelta(minutes=50))
    desk.claim("bob", refs=["short"], lease=timedelta(seconds=2))
    page = anna.at()
    left = anna.card("long").locator(".left")
    before = left.inner_text()
    expect(anna.card("short").locator(".lease.over")).to_have_text("lease ran out")
    expect(left).not_to_have_text(before)
    assert 0 < seconds(left.inner_text()) < seconds(before) < 55 * 60  # the page guesses the server's clock
    expect(page.locator(".summary")).to_contain_text("to pick up")


def seconds(shown: str) -> int:
    minutes, _, rest = shown.partition(":")
    return int(minutes) * 60 + int(rest)


def test_filters_and_search_are_kept_in_the_address(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Parse rows", id="parse", category="backend"), Draft("Draw rows", id="draw", category="app")])
    page = anna.at()
    page.keyboard.press("/")
    page.keyboard.type("rows")
    page.get_by_label("Category").select_option("app")
    expect(page.locator(".column.ready .card")).to_have_count(1)
    page.reload()
    expect(page.locator(".column.ready .card")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value("rows")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".column.ready .card")).to_have_count(2)


_SCROLLED_TO = """wanted => {
  const list = document.querySelector('.column.ready .cards');
  list.scrollTo(0, list.scrollHeight);
  return list.querySelector(wanted);
}"""


def test_long_queue_is_loaded_while_scrolling(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(f"Task {number}", id=f"t{number:03}") for number in range(450)])
    page = anna.at()
    ready = page.locator(".column.ready")
    expect(ready.locator(".count")).to_have_text("450")
    assert anna.line()[:3] == ["t000", "t001", "t002"]
    page.wait_for_function(_SCROLLED_TO, arg="[data-id=t449]")
    assert ready.locator(".card").count() < 40
    page.keyboard.press("j")
    expect(anna.card("t000").locator(".title")).to_be_focused()


def test_labels_are_added_shown_and_searched(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Build the form", id="form"), Draft("Write the help page", id="help", labels=("docs",))])
    page = anna.at()
    anna.act("form", "Edit")
    anna.confirm(labels="web, urgent, web")
    expect(anna.card("form").locator(".tag")).to_have_text(["urgent", "web"])
    assert desk.get("form").labels == ("urgent", "web")
    anna.card("form").locator(".tag", has_text="urgent").click()
    expect(page.locator(".card")).to_have_count(1)
    expect(anna.card("form")).to_be_visible()
