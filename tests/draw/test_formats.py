"""What all drawings have in common, and the three that are plain text."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.samples import make_task
from dibs.core.graph import Graph
from dibs.core.task import Link, LinkKind, ServiceClass, Status
from dibs.draw.formats import dot, mermaid, text
from dibs.draw.svg import svg

from .drawings import CYCLE, NASTY, ONE_OF_EACH, chain, graphs

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = (mermaid, dot, svg, text)
EVERY_FORMAT = pytest.mark.parametrize("draw", FORMATS)


# All of them


@EVERY_FORMAT
@given(graph=graphs(), seed=st.integers())
@settings(max_examples=40)
def test_the_order_in_which_a_graph_was_read_makes_no_difference(
    draw: Callable[[Graph], str], graph: Graph, seed: int
) -> None:
    shuffler = random.Random(seed)
    tasks, links = list(graph.tasks), list(graph.links)
    shuffler.shuffle(tasks)
    shuffler.shuffle(links)
    assert draw(Graph(tuple(tasks), tuple(links))) == draw(graph)


@EVERY_FORMAT
@pytest.mark.parametrize("title", NASTY)
def test_no_title_gets_out_of_its_label(draw: Callable[[Graph], str], title: str) -> None:
    drawn = draw(chain(make_task("a", title=title), make_task("b", title=title)))
    calm = draw(chain(make_task("a", title="calm"), make_task("b", title="calm")))
    assert draw is text or "<script" not in drawn
    assert "\u202e" not in drawn
    assert _skeleton(drawn) == _skeleton(calm)


def _skeleton(drawn: str) -> list[str]:
    """The first word of every line: a label that got out would begin another."""
    return [line.strip().partition("[")[0].partition(" ")[0] for line in drawn.split("\n")]


@EVERY_FORMAT
@pytest.mark.parametrize("graph", [Graph((), ()), CYCLE, chain(make_task("a"))], ids=["empty", "cycle", "one"])
def test_every_graph_can_be_drawn(draw: Callable[[Graph], str], graph: Graph) -> None:
    drawn = draw(graph)
    assert drawn
    assert not drawn.endswith("\n")
    assert all(task.title in drawn for task in graph.tasks)


@EVERY_FORMAT
def test_a_waiting_task_looks_different_from_a_ready_one(draw: Callable[[Graph], str]) -> None:
    ready, waiting = make_task("a"), make_task("a", blockers=1)
    assert draw(chain(ready)) != draw(chain(waiting))


@EVERY_FORMAT
def test_every_status_looks_different(draw: Callable[[Graph], str]) -> None:
    assert len({draw(chain(make_task("a", status=status))) for status in Status}) == len(Status)


@EVERY_FORMAT
def test_every_kind_of_link_looks_different(draw: Callable[[Graph], str]) -> None:
    tasks = (make_task("a", status=Status.DONE), make_task("b", status=Status.DONE))
    by_link = {draw(Graph(tasks, (Link("b", "a", kind),))) for kind in LinkKind}
    as_parent = draw(Graph((tasks[0]._replace(parent="b"), tasks[1]), ()))
    assert len({*by_link, as_parent, draw(Graph(tasks, ()))}) == 5


def large(tasks: int, links: int) -> Graph:
    dice = random.Random(7)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < links:
        one, other = sorted(dice.sample(range(tasks), 2))
        pairs.add((other, one))
    kinds = list(LinkKind)
    return Graph(
        tuple(make_task(f"t{n}", title=f"Task {n} with a title of the usual length") for n in range(tasks)),
        tuple(Link(f"t{task}", f"t{on}", dice.choice(kinds)) for task, on in sorted(pairs)),
    )


@EVERY_FORMAT
def test_drawing_time_grows_with_the_graph(draw: Callable[[Graph], str]) -> None:
    """By no more than three times as much as the graph, however slow other processes make this one."""

    def spent(tasks: int) -> float:
        graph = large(tasks, 3 * tasks)
        started = time.process_time()
        draw(graph)
        return time.process_time() - started

    small = min(spent(500) for _ in range(3))
    assert spent(2_000) < max(12 * small, 2)


# Mermaid

NODE = re.compile(r'    (n\d+)\["<b>([^"<>]*)</b><br/>(\w+) · ([^"<>]*)"\]')
EDGE = re.compile(r"    (n\d+) (-->|-\.->|-\.-|--o) (n\d+)")
STYLE = re.compile(r"    (classDef \w+ [\w:#,. -]+|class n\d+(,n\d+)* \w+|linkStyle \d+(,\d+)* [\w:#,. -]+)")


def unescaped(label: str) -> str:
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label).replace("\N{WORD JOINER}", "")


@given(graph=graphs())
def test_mermaid_has_only_nodes_edges_and_styles(graph: Graph) -> None:
    first, *lines = mermaid(graph).split("\n")
    assert first == "flowchart LR"
    for line in lines:
        assert NODE.fullmatch(line) or EDGE.fullmatch(line) or STYLE.fullmatch(line), line


def test_mermaid_shows_every_task_and_every_link() -> None:
    lines = mermaid(ONE_OF_EACH).split("\n")
    nodes = {found[1]: (found[4], found[3]) for found in map(NODE.fullmatch, lines) if found}
    edges = {(nodes[e[1]][0], e[2], nodes[e[3]][0]) for e in map(EDGE.fullmatch, lines) if e}
    assert set(nodes.values()) == {
        ("done", "done"), ("ready", "ready"), ("waiting", "waiting"), ("fed", "ready"), ("beside", "ready"),
        ("child", "ready"), ("loose", "paused"),
    }  # fmt: skip
    assert edges == {
        ("done", "-->", "ready"),
        ("ready", "-->", "waiting"),
        ("ready", "-.->", "fed"),
        ("ready", "-.-", "beside"),
        ("child", "--o", "waiting"),
    }


@pytest.mark.parametrize("title", [title for title in NASTY if not re.search("[\u202e\ufffe]", title)])
def test_mermaid_shows_titles(title: str) -> None:
    node = NODE.search(mermaid(chain(make_task("a", title=title))))
    assert node is not None
    assert unescaped(node[2]) == title


def test_mermaid_emphasises_the_longest_open_chain() -> None:
    graph = chain(make_task("a", status=Status.DONE), make_task("b"), make_task("c", blockers=1))
    lines = mermaid(graph).split("\n")
    assert "    class n2,n3 critical" in lines
    assert any(re.match(r"    linkStyle 1 stroke:#\w+,stroke-width:3px", line) for line in lines)


# Graphviz


def test_dot_shows_every_task_and_every_link() -> None:
    drawn = dot(ONE_OF_EACH)
    names = dict(re.findall(r'^    (n\d+) \[label="(\w+) · ', drawn, re.MULTILINE))
    edges = re.findall(r"^    (n\d+) -> (n\d+) \[(.*)\]$", drawn, re.MULTILINE)
    assert set(names.values()) == {task.id for task in ONE_OF_EACH.tasks}
    looks = {(names[first], names[then]): attributes for first, then, attributes in edges}
    assert 'style="solid"' in looks["done", "ready"]
    assert 'style="dashed"' in looks["ready", "fed"]
    assert 'style="dotted", dir="none"' in looks["ready", "beside"]
    assert 'arrowhead="odiamond"' in looks["child", "waiting"]
    assert len(edges) == 5


def test_dot_marks_waiting_tasks_and_the_longest_chain() -> None:
    lines = dot(chain(make_task("a"), make_task("b", blockers=1))).split("\n")
    [ready] = [line for line in lines if 'label="a ' in line]
    [waiting] = [line for line in lines if 'label="b ' in line]
    assert "dashed" in waiting
    assert "dashed" not in ready
    assert all('penwidth="2.5"' in line for line in (ready, waiting))


@pytest.mark.skipif(shutil.which("dot") is None, reason="There is no Graphviz here. Install it.")
def test_graphviz_reads_it_and_shows_the_titles() -> None:
    tasks = [make_task(f"t{at}", title=title) for at, title in enumerate(NASTY)]
    drawn = dot(chain(*tasks))
    ran = subprocess.run(["dot", "-Tplain"], input=drawn, capture_output=True, text=True, check=True, timeout=600)
    assert not ran.stderr
    assert len(re.findall(r"^node ", ran.stdout, re.MULTILINE)) == len(tasks)
    assert len(re.findall(r"^edge ", ran.stdout, re.MULTILINE)) == len(tasks) - 1
    for shown in ('say \\"hi\\"', "a; b --> c", "[x] {y} (z) |p|", "שלום עולם", "</svg>&amp;&lt;", "\\\\N \\\\G \\\\n"):
        assert shown in ran.stdout


# The terminal


def test_text_is_a_list_of_phases() -> None:
    assert text(ONE_OF_EACH).split("\n") == [
        "Phase 1",
        "  ○ beside   Task beside  ∥ beside ready",
        "  ○ child    Task child  ↳ part of waiting",
        "  ✓ done     Task done",
        "  ‖ loose    Task loose",
        "",
        "Phase 2",
        "★ ○ ready    Task ready",
        "",
        "Phase 3",
        "★ ○ fed      Task fed  ⇠ fed by ready",
        "  ◌ waiting  Task waiting  ← waits for ready",
        "",
        "○ ready  ◌ waiting  ‖ paused  ✓ done  ★ longest open chain",
    ]


def test_text_of_no_tasks_says_so() -> None:
    assert text(Graph((), ())) == "No tasks."


def test_text_keeps_the_order_of_work_within_a_phase() -> None:
    tasks = (
        make_task("a", priority=3),
        make_task("b", service_class=ServiceClass.EXPEDITE),
        make_task("c", priority=1),
    )
    assert re.findall(r"Task (\w)", text(Graph(tasks, ()))) == ["b", "c", "a"]


def test_text_names_only_unfinished_prerequisites() -> None:
    tasks = (make_task("a", status=Status.DONE), make_task("c"), make_task("b"), make_task("x", blockers=2))
    drawn = text(Graph(tasks, tuple(Link("x", on) for on in "abc")))
    assert "x  Task x  ← waits for b, c\n" in drawn


def test_text_does_not_hide_a_wait_for_someone_outside() -> None:
    assert "← waits for 2 not shown here" in text(Graph((make_task("a", blockers=2),), ()))


def test_text_sets_a_cycle_apart() -> None:
    before, _, after = text(CYCLE).partition("Never (a cycle)")
    assert "Task free" in before
    assert all(f"Task {name}" in after for name in ("a", "b", "behind", "self"))


@given(graph=graphs())
def test_text_has_one_line_per_task(graph: Graph) -> None:
    lines = text(graph).split("\n")
    listed = [line[4] for line in lines if re.match("[ ★] [●○◌■!◎‖·✓✗] ", line)]
    assert sorted(listed) == [task.id for task in graph.tasks]
