"""The picture: well-formed, self-contained, complete, and nothing on top of anything else."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from core.samples import make_task, task_in
from dibs.core.graph import Graph
from dibs.core.task import Link, LinkKind, Status
from dibs.draw.layout import CARD_HEIGHT, CARD_WIDTH
from dibs.draw.picture import showable
from dibs.draw.svg import svg

from .drawings import CYCLE, NASTY, ONE_OF_EACH, chain, graphs

SVG = "{http://www.w3.org/2000/svg}"


def tree(graph: Graph) -> ET.Element:
    return ET.fromstring(svg(graph))  # noqa: S314 - written by us


def cards(root: ET.Element) -> dict[str, ET.Element]:
    return {card.attrib["data-task"]: card for card in root.iter(f"{SVG}g") if "data-task" in card.attrib}


def corner(card: ET.Element) -> tuple[float, float]:
    found = re.fullmatch(r"translate\((\S+) (\S+)\)", card.attrib["transform"])
    assert found is not None
    return float(found[1]), float(found[2])


def tooltip(element: ET.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


def lines(root: ET.Element) -> dict[str, ET.Element]:
    """Every line by what its tooltip says."""
    return {tooltip(path): path for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None}


def looks(element: ET.Element) -> set[str]:
    return set(element.attrib["class"].split())


# Well-formed and safe


@given(graph=graphs())
def test_it_is_well_formed_whatever_the_titles(graph: Graph) -> None:
    root = tree(graph)
    assert root.tag == f"{SVG}svg"
    assert sorted(cards(root)) == [task.id for task in graph.tasks]


@pytest.mark.parametrize("title", NASTY)
def test_the_tooltip_has_the_full_title(title: str) -> None:
    long = f"{title} {'and so on ' * 12}end"
    [card] = cards(tree(chain(make_task("a", title=long)))).values()
    assert tooltip(card) == f"{showable(long)}\na · ready"


def test_it_refers_to_nothing_outside_and_runs_nothing() -> None:
    drawn = svg(chain(*(make_task(str(at), title=title) for at, title in enumerate(NASTY))))
    root = ET.fromstring(drawn)  # noqa: S314 - written by us
    assert {element.tag for element in root.iter()} <= {
        f"{SVG}{name}"
        for name in "svg style defs marker path symbol circle rect text tspan g title use".split()  # noqa: SIM905
    }
    for element in root.iter():
        assert not [name for name in element.attrib if name.lower().startswith("on")]
        assert element.attrib.get("href", "#").startswith("#")
        assert element.attrib.get("{http://www.w3.org/1999/xlink}href") is None
    assert drawn.count("http") == 1
    assert "@import" not in drawn
    assert not re.findall(r"url\((?!#dibs-)", drawn)


def test_svg_references_exist() -> None:
    drawn = svg(ONE_OF_EACH)
    ids = set(re.findall(r' id="([^"]+)"', drawn))
    used = {*re.findall(r'href="#([^"]+)"', drawn), *re.findall(r"url\(#([^)]+)\)", drawn)}
    assert used
    assert used <= ids
    assert all(name.startswith("dibs-") for name in ids)


def test_its_styles_stay_within_it_and_know_the_dark() -> None:
    style = tree(ONE_OF_EACH).findtext(f"{SVG}style") or ""
    assert "@media (prefers-color-scheme:dark)" in style
    for rule in style.replace("@media (prefers-color-scheme:dark){", "").split("\n"):
        selectors, brace, _ = rule.partition("{")
        if brace:
            assert all(selector.startswith(".dibs-graph ") for selector in selectors.split(",")), rule


def test_svg_has_a_text_alternative() -> None:
    root = tree(ONE_OF_EACH)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "Task graph: 7 tasks, 4 ready, 1 waiting, 1 paused, 1 done"
    assert tree(Graph((), ())).attrib["aria-label"] == "Task graph: No tasks"


# Complete


def test_it_shows_every_link_from_the_earlier_to_the_later() -> None:
    assert sorted(lines(tree(ONE_OF_EACH))) == [
        "child is part of waiting",
        "done blocks ready",
        "ready blocks waiting",
        "ready feeds into fed",
        "ready may run beside beside",
    ]


def test_link_kinds_have_distinct_lines() -> None:
    found = lines(tree(ONE_OF_EACH))
    assert {said: (path.attrib["class"], path.attrib.get("marker-end")) for said, path in found.items()} == {
        "done blocks ready": ("line blocks", "url(#dibs-arrow)"),
        "ready blocks waiting": ("line blocks", "url(#dibs-arrow)"),
        "ready feeds into fed": ("line feeds_into critical", "url(#dibs-arrow-critical)"),
        "ready may run beside beside": ("line parallel_ok", None),
        "child is part of waiting": ("line part_of", "url(#dibs-diamond)"),
    }


def test_a_card_shows_id_status_and_title() -> None:
    task = task_in(Status.ACTIVE, title="Write the schema")._replace(id="k3")
    shown = [text.text for text in cards(tree(chain(task)))["k3"].iter(f"{SVG}text")]
    assert shown == ["Active · ada", "k3", "Write the schema"]


def test_card_counts_prerequisites_and_tooltip_names_them() -> None:
    graph = Graph((make_task("a"), make_task("b"), make_task("c", blockers=2)), (Link("c", "a"), Link("c", "b")))
    card = cards(tree(graph))["c"]
    assert "Waiting for 2" in [text.text for text in card.iter(f"{SVG}text")]
    assert tooltip(card) == "Task c\nc · ready · waits for a, b"
    assert {"waiting", "waits"} <= looks(card)


def test_the_longest_open_chain_is_emphasised_and_nothing_else() -> None:
    tasks = (make_task("old", status=Status.DONE), make_task("a"), make_task("b"), make_task("c"), make_task("side"))
    links = (Link("a", "old"), Link("b", "a"), Link("c", "b"), Link("side", "a"))
    root = tree(Graph(tasks, links))
    assert {name for name, card in cards(root).items() if "critical" in looks(card)} == set("abc")
    assert {said for said, path in lines(root).items() if "critical" in looks(path)} == {"a blocks b", "b blocks c"}


def test_tasks_on_their_own_are_no_chain() -> None:
    root = tree(Graph((make_task("a"), make_task("b")), ()))
    assert not [name for name, card in cards(root).items() if "critical" in looks(card)]


# Where things stand


@given(graph=graphs())
@settings(max_examples=60)
def test_cards_do_not_overlap_or_leave_the_picture(graph: Graph) -> None:
    root = tree(graph)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    corners = [corner(card) for card in cards(root).values()]
    for x, y in corners:
        assert 0 <= x <= width - CARD_WIDTH
        assert 0 <= y <= height - CARD_HEIGHT
    for (x, y), (other_x, other_y) in combinations(corners, 2):
        assert abs(x - other_x) >= CARD_WIDTH or abs(y - other_y) >= CARD_HEIGHT


@given(graph=graphs())
@settings(max_examples=60)
def test_time_goes_from_left_to_right(graph: Graph) -> None:
    root = tree(graph)
    at = {name: corner(card)[0] for name, card in cards(root).items()}
    on_or_behind_a_cycle = _stuck(graph)
    for task, before in graph.prerequisites().items():
        for first in before:
            if task not in on_or_behind_a_cycle:
                assert at[first] < at[task]


def _stuck(graph: Graph) -> set[str]:
    before = graph.prerequisites()
    free: set[str] = set()
    while more := {task for task, nodes in before.items() if nodes <= free} - free:
        free |= more
    return set(before) - free


@given(graph=graphs())
@settings(max_examples=60)
def test_every_line_starts_and_ends_at_its_cards(graph: Graph) -> None:
    root = tree(graph)
    at = {name: corner(card) for name, card in cards(root).items()}
    for said, path in lines(root).items():
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path.attrib["d"])]
        ends = [(numbers[0], numbers[1]), (numbers[-2], numbers[-1])]
        names = {said.split()[0], said.split()[-1]}
        assert _touching(ends[0], at) & names
        assert _touching(ends[1], at) & names
        assert _touching(ends[0], at) | _touching(ends[1], at) >= names


def _touching(point: tuple[float, float], at: dict[str, tuple[float, float]]) -> set[str]:
    x, y = point
    return {
        name
        for name, (left, top) in at.items()
        if top <= y <= top + CARD_HEIGHT and min(abs(x - left), abs(x - left - CARD_WIDTH)) < 0.01
    }


def test_a_chain_is_a_straight_line() -> None:
    root = tree(chain(*map(make_task, "abcdef")))
    assert len({corner(card)[1] for card in cards(root).values()}) == 1


def test_tasks_without_links_are_below_in_rows() -> None:
    loose = tuple(make_task(f"x{n}") for n in range(8))
    graph = chain(make_task("a"), make_task("b"))
    corners = {name: corner(card) for name, card in cards(tree(graph._replace(tasks=graph.tasks + loose))).items()}
    bottom = max(corners["a"][1], corners["b"][1]) + CARD_HEIGHT
    assert all(corners[task.id][1] > bottom for task in loose)
    assert len({corners[task.id][1] for task in loose}) == 3


def test_a_cycle_is_drawn_and_not_waited_for() -> None:
    assert len(cards(tree(CYCLE))) == 5
    assert len(lines(tree(CYCLE))) == 6


def test_a_line_that_passes_a_column_passes_beside_its_cards() -> None:
    graph = chain(*map(make_task, "abc"))
    root = tree(graph._replace(links=(*graph.links, Link("c", "a", LinkKind.FEEDS_INTO))))
    level = re.search(r"(\S+)H", lines(root)["a feeds into c"].attrib["d"])
    assert level is not None
    _, top = corner(cards(root)["b"])
    assert not top <= float(level[1]) <= top + CARD_HEIGHT
