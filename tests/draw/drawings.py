"""Graphs worth drawing."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from core.samples import make_task, task_in
from dibs.core.graph import Graph
from dibs.core.task import Link, LinkKind, Status

if TYPE_CHECKING:
    from dibs.core.task import Task

NASTY = (
    '<script>alert("1")</script>', "</svg>&amp;&lt;", 'say "hi"', "'single'", "back\\slash\\", '\\"', "[x] {y} (z) |p|",
    "a; b --> c", "%%{init: {}}%%", "1. not a list", "`code` *bold* _it_", "#35; #quot;", "fa:fa-car", "$$x^2$$",
    "👩\u200d👩\u200d👧 👍🏽 📚", "שלום עולם", "مرحبا\u202e evil", "日本語のドキュメント", "end", "\\N \\G \\n",
    "e\u0301 \ufffe \uffff",
)  # fmt: skip


def chain(*tasks: Task) -> Graph:
    return Graph(tasks, tuple(Link(then.id, first.id) for first, then in pairwise(tasks)))


ONE_OF_EACH = Graph(
    (
        make_task("done", status=Status.DONE),
        make_task("ready"),
        make_task("waiting", blockers=1),
        make_task("fed"),
        make_task("beside"),
        make_task("child", parent="waiting"),
        make_task("loose", status=Status.PAUSED),
    ),
    (
        Link("ready", "done"),
        Link("waiting", "ready"),
        Link("fed", "ready", LinkKind.FEEDS_INTO),
        Link("beside", "ready", LinkKind.PARALLEL_OK),
        Link("waiting", "elsewhere"),
        Link("elsewhere", "ready"),
    ),
)
CYCLE = Graph(
    (make_task("a"), make_task("b"), make_task("behind"), make_task("self", parent="self"), make_task("free")),
    (Link("a", "b"), Link("b", "a"), Link("behind", "a"), Link("behind", "free"), Link("self", "self")),
)

TITLES = st.text(st.characters(exclude_categories=()), min_size=1, max_size=90)
GRAPH_IDS = st.sampled_from("abcdefgh")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    ids = sorted(draw(st.sets(GRAPH_IDS)))
    tasks = [
        task_in(draw(st.sampled_from(Status)))._replace(
            id=task_id,
            title=draw(TITLES),
            blockers=draw(st.integers(0, 2)),
            parent=draw(st.one_of(st.none(), GRAPH_IDS)),
            priority=draw(st.integers(1, 2)),
        )
        for task_id in ids
    ]
    ends = draw(st.lists(st.tuples(GRAPH_IDS, GRAPH_IDS), unique=True, max_size=12))
    return Graph(tuple(tasks), tuple(Link(task, on, draw(st.sampled_from(LinkKind))) for task, on in ends))
