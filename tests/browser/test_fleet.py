"""Running a fleet from the board: drops, many tasks at once, the palette, the inbox, lists, views and trends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from support.board import Visit


def claimed(desk: Desk, task: str, agent: str = "bob") -> str:
    lease = desk.claim(agent, refs=[task])[0].task.lease
    assert lease is not None
    return lease.token


def dragged(anna: Visit, task: str, column: str) -> None:
    anna.card(task).drag_to(anna.page.locator(f".column.{column} header h2"))


def undone(anna: Visit) -> None:
    anna.page.get_by_role("button", name="Undo").last.click()


# Drops


def test_drop_applies_the_columns_action_with_undo(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")])
    anna.at()
    dragged(anna, "ash", "work")
    expect(anna.in_column("work", "ash")).to_contain_text("anna")
    undone(anna)
    expect(anna.in_column("ready", "ash")).to_be_visible()
    dragged(anna, "ash", "needs")
    anna.confirm(reason="No answer.")
    expect(anna.in_column("needs", "ash")).to_contain_text("No answer.")
    undone(anna)
    expect(anna.in_column("ready", "ash")).to_be_visible()
    assert desk.get("ash").status is Status.READY


def test_drop_with_two_meanings_asks_which(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash")])
    page = anna.at()
    dragged(anna, "ash", "finished")
    answers = page.get_by_role("dialog").get_by_role("button")
    expect(answers).to_have_text(["Finish it myself", "Cancel the task", "Cancel"])
    answers.first.click()
    anna.confirm(note="By hand.")
    expect(anna.in_column("finished", "ash")).to_be_visible()
    task = desk.get("ash")
    assert (task.status, task.result, task.finished_by) == (Status.DONE, {"note": "By hand."}, "anna")
    undone(anna)
    expect(anna.in_column("ready", "ash")).to_be_visible()


def test_impossible_drop_says_why(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")], [Link("birch", "ash")])
    page = anna.at()
    dragged(anna, "birch", "ready")
    toast = page.locator(".toast.bad")
    expect(toast).to_contain_text("birch waits for 1 unfinished task. It becomes ready when that is finished")
    assert len(desk.events(ref="birch")) <= 2
    anna.card("ash").click(modifiers=["Control"])
    covered = "([bar, toast]) => bar.getBoundingClientRect().top < toast.getBoundingClientRect().bottom"
    bar = page.get_by_role("toolbar", name="Selected tasks").element_handle()
    assert not page.evaluate(covered, [bar, toast.element_handle()])
    page.keyboard.press("Escape")


def test_claim_of_a_waiting_task_asks_first(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")], [Link("birch", "ash")])
    page = anna.at()
    dragged(anna, "birch", "work")
    expect(page.get_by_role("dialog")).to_contain_text("Birch · It still waits for 1 unfinished task.")
    anna.confirm()
    expect(anna.in_column("work", "birch")).to_be_visible()


def test_every_drop_is_there_for_the_keyboard(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash")])
    page = anna.at()
    page.keyboard.press("j")
    page.keyboard.press("m")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Set aside: Move to backlog")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.keyboard.press("m")
    dialog.get_by_role("button", name="At work: Claim it").press("Enter")
    expect(anna.in_column("work", "ash")).to_contain_text("anna")


def test_tables_of_drops_and_actions_agree_with_the_lifecycle(anna: Visit) -> None:
    """Every action that a column offers is one that the server accepts from there."""
    page = anna.at()
    offered = page.evaluate(
        """async () => {
          const { actionsFor } = await import('./actions.js');
          const { dropOf } = await import('./drops.js');
          const { COLUMNS } = await import('./words.js');
          const statuses = 'backlog ready active blocked paused review escalated done canceled'.split(' ');
          return statuses.flatMap(status => COLUMNS.map(column => {
            const lease = status === 'active' ? { lease: { agent: 'bob', holder: 'agent' } } : {};
            const task = { id: 't', status, priority: 2, ...lease };
            const can = actionsFor(task, Date.now()).map(action => action.key);
            return [status, column.key, dropOf(task, column.key, Date.now()), can];
          }));
        }"""
    )
    for status, column, drop, can in offered:
        assert drop["keys"] or drop["why"] or status, (status, column)
        for key in drop["keys"]:
            assert key in can or key in {"finish", "waits", "block", "review", "release"}, (status, column, key)


# Many at once


def test_selected_tasks_are_changed_together_and_undone(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch", "cedar", "douglas")])
    page = anna.at()
    anna.card("ash").click(modifiers=["Control"])
    anna.card("cedar").click(modifiers=["Shift"])
    bar = page.get_by_role("toolbar", name="Selected tasks")
    expect(bar).to_contain_text("3 tasks selected")
    bar.get_by_role("button", name="Move to backlog").click()
    expect(page.locator(".column.aside .card")).to_have_count(3)
    expect(page.locator(".toast").last).to_contain_text("3 tasks")
    undone(anna)
    expect(page.locator(".column.ready .card")).to_have_count(4)
    page.keyboard.press("Escape")
    expect(bar).to_have_count(0)


def test_keyboard_adds_labels_and_reports_refused_tasks(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch")])
    page = anna.at()
    page.keyboard.press("j")
    page.keyboard.press("Control+a")
    expect(page.locator(".bulk")).to_contain_text("2 tasks selected")
    page.route(
        "**/tasks/birch?*", lambda route: route.abort() if route.request.method == "PATCH" else route.continue_()
    )
    page.keyboard.press("Control+k")
    page.keyboard.type("add labels")
    page.keyboard.press("Enter")
    anna.confirm(labels="web, urgent")
    expect(page.locator(".toast.bad")).to_contain_text("1 task was not changed")
    expect(anna.card("ash").locator(".tag")).to_have_text(["urgent", "web"])
    assert [desk.get(task).labels for task in ("ash", "birch")] == [("urgent", "web"), ()]


def test_palette_finds_actions_views_and_tasks(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Write <b>the</b> report", id="report")])
    page = anna.at()
    anna.card("ash").locator(".title").focus()
    page.keyboard.press("Control+k")
    page.keyboard.type("pause")
    page.keyboard.press("Enter")
    expect(anna.in_column("aside", "ash")).to_contain_text("Paused")
    page.keyboard.press("Meta+k")
    page.keyboard.type("timel")
    page.keyboard.press("Enter")
    expect(page.locator("main.timeline")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("report")
    page.get_by_role("option", name="Write <b>the</b> report").click()
    expect(page.locator(".panel h2")).to_have_text("Write <b>the</b> report")


def test_palette_takes_a_verb_and_a_task(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Write the report", id="report"), Draft("Read the report", id="reading")])
    page = anna.at()
    page.keyboard.press("Control+k")
    page.keyboard.type("pause read")
    expect(page.locator(".palette li")).to_have_text(["TaskPause: Read the reportreading"])
    page.keyboard.press("Enter")
    expect(anna.in_column("aside", "reading")).to_contain_text("Paused")
    assert desk.get("report").status is Status.READY


# The inbox


def test_inbox_is_answered_with_one_key_each(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash"), Draft("Birch", id="birch")])
    desk.move(Verb.REVIEW, "ash", token=claimed(desk, "ash"), reason="Is it *clear*?")
    desk.move(
        Verb.BLOCK, "birch", token=claimed(desk, "birch"), reason="No key", unblock_action="Put it into the vault"
    )
    page = anna.at("needs")
    expect(page).to_have_title("(2) dibs · Needs you")
    expect(page.locator('.item[data-id="birch"]')).to_contain_text("Put it into the vault")
    page.keyboard.press("j")
    page.keyboard.press("1")
    expect(page.locator(".item")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("1")
    expect(page.get_by_role("heading", name="All clear")).to_be_visible()
    assert [desk.get(task).status for task in ("ash", "birch")] == [Status.DONE, Status.READY]


_NOTES = """
window.notes = [];
window.Notification = class { constructor(title, options) { window.notes.push([title, options.body]) }
  static requestPermission() { return Promise.resolve('granted') } };
Object.defineProperty(document, 'hidden', { get: () => window.away === true });
"""


def test_notifications_come_only_when_asked_for_and_away(desk: Desk, visit: Callable[..., Visit]) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("ash", "birch", "cedar")])
    anna = visit()
    anna.context.add_init_script(_NOTES)
    page = anna.at("needs")
    page.evaluate("window.away = true")
    desk.move(Verb.REVIEW, "ash", token=claimed(desk, "ash"))
    expect(page.locator(".item")).to_have_count(1)
    page.get_by_label("Notify me in this browser").check()
    desk.move(Verb.BLOCK, "birch", token=claimed(desk, "birch"), reason="No key")
    expect(page.locator(".item")).to_have_count(2)
    page.evaluate("window.away = false")
    desk.move(Verb.BLOCK, "cedar", token=claimed(desk, "cedar"), reason="No key")
    expect(page.locator(".item")).to_have_count(3)
    assert page.evaluate("window.notes") == [["Birch", "Blocked: No key"]]


# Lists, filters and named views


def test_list_is_sorted_grouped_and_edited_in_place(desk: Desk, anna: Visit) -> None:
    desk.add(
        [
            Draft("Ash", id="ash", priority=3, category="wood", labels=("a",)),
            Draft("Birch", id="birch", priority=1, labels=("a", "b")),
            Draft("Cedar", id="cedar", parent="ash"),
        ]
    )
    page = anna.at("list")
    titles = page.locator(".row .title")
    page.get_by_role("button", name="Sort by priority").click()
    expect(titles).to_have_text(["Birch", "Cedar", "Ash"])
    page.get_by_role("button", name="Sort by priority, ascending").click()
    expect(titles).to_have_text(["Ash", "Cedar", "Birch"])
    page.get_by_label("Group by").select_option("label")
    expect(page.locator(".heading h2")).to_have_text(["a", "b", "No label"])
    expect(titles).to_have_count(4)
    page.reload()
    expect(page.locator(".heading h2")).to_have_text(["a", "b", "No label"])
    page.get_by_label("Group by").select_option("")
    page.get_by_role("button", name="Priority of Ash: P3. Edit").click()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    expect(titles).to_have_text(["Cedar", "Birch", "Ash"])
    page.locator('.row[data-id="ash"] .title').press("F2")
    page.keyboard.type("Ash tree")
    page.keyboard.press("Enter")
    expect(titles).to_have_text(["Cedar", "Birch", "Ash tree"])
    task = desk.get("ash")
    assert (task.title, task.priority) == ("Ash tree", 0)
    page.get_by_role("button", name="Category of Birch: none. Edit").click()
    page.keyboard.type("wood")
    page.keyboard.press("Escape")
    assert desk.get("birch").category is None


def test_named_view_is_stored_for_all_users(desk: Desk, anna: Visit, visit: Callable[..., Visit]) -> None:
    desk.add([Draft("Ash", id="ash", labels=("web",)), Draft("Birch", id="birch")])
    page = anna.at("list", label="web", sort="-priority")
    page.get_by_role("button", name="Save view").click()
    anna.confirm(name="Web <i>first</i>")
    expect(page.get_by_label("Named view")).to_have_value("Web <i>first</i>")
    otto = visit(name="otto").at()
    otto.get_by_label("Named view").select_option("Web <i>first</i>")
    expect(otto.locator("main.list .row")).to_have_count(1)
    otto.get_by_role("button", name="Delete view").click()
    expect(otto.get_by_label("Named view")).to_have_count(0)
    assert not any(name.startswith("board.view.") for name in desk.settings())


@pytest.mark.parametrize(("where", "shown"), [({"label": "web"}, 1), ({"age": "1h"}, 2), ({"age": "-1d"}, 0)])
def test_filters_of_the_address_hold_on_board_and_list(
    desk: Desk, anna: Visit, where: dict[str, str], shown: int
) -> None:
    desk.add([Draft("Ash", id="ash", labels=("web",)), Draft("Birch", id="birch")])
    page = anna.at("board", **where)
    expect(page.locator(".card")).to_have_count(shown)
    anna.at("list", **where)
    expect(page.locator(".row")).to_have_count(shown)


# Attempts and trends


def test_timeline_and_trends_show_attempts_retries_and_why_tasks_are_stuck(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Ash", id="ash", labels=("web",)), Draft("Birch", id="birch")])
    desk.move(Verb.FAIL, "ash", token=claimed(desk, "ash"), reason="Tests fail")
    desk.move(Verb.DONE, "ash", token=claimed(desk, "ash", "ann"))
    desk.move(Verb.BLOCK, "birch", token=claimed(desk, "birch"), reason="No key")
    page = anna.at("timeline")
    expect(page.locator(".lane .name")).to_have_text(["ann", "bob"])
    expect(page.get_by_role("link", name="Ash: failed")).to_be_visible()
    expect(page.get_by_role("link", name="Ash, attempt 2: done")).to_be_visible()
    anna.at("trends", since="1h")
    expect(page.locator(".figures")).to_contain_text("Finished1")
    expect(page.locator(".trends tbody tr", has_text="ann")).to_contain_text("ann100")
    expect(page.locator(".trends tbody tr", has_text="web")).to_contain_text("web110")
    expect(page.locator(".stuck")).to_contain_text("Blocked: No key")
    page.get_by_role("link", name="web").click()
    expect(page.locator(".row")).to_have_count(1)


def test_hostile_names_of_views_are_only_text(desk: Desk, anna: Visit) -> None:
    attack = "<img src=x onerror=alert(1)>"
    desk.add([Draft("Ash", id="ash")])
    desk.configure({f"board.view.{attack}": "#/list?sort=title", "board.view.x": "javascript:alert(2)"})
    page = anna.at("list")
    page.get_by_label("Named view").select_option(attack)
    assert json.loads(page.evaluate("JSON.stringify([...document.querySelectorAll('main img')].length)")) == 0
    page.get_by_label("Named view").select_option("x")
    expect(page.locator("main.board")).to_be_visible()
