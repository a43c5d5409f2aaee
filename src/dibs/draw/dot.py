"""A graph for Graphviz."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.draw.palette import CRITICAL, INK, LINES, LOOKS, PART_OF
from dibs.draw.picture import EdgeKind, picture
from dibs.draw.wording import in_lines, showable

if TYPE_CHECKING:
    from dibs.draw.picture import Edge, Node
    from dibs.core.graph import Graph

_LINE_CELLS = 30
_HEAD = (
    "digraph dibs {",
    '    graph [rankdir=LR, bgcolor="transparent", nodesep=0.25, ranksep=0.7]',
    f'    node [shape=box, style="rounded,filled", fontcolor="{INK}", fontname="Helvetica", fontsize=11]',
    '    edge [color="#64748b", arrowsize=0.7]',
)
_STROKES = {
    EdgeKind.BLOCKS: {"style": "solid"},
    EdgeKind.FEEDS_INTO: {"style": "dashed"},
    EdgeKind.PARALLEL_OK: {"style": "dotted", "dir": "none", "constraint": "false"},
    EdgeKind.PART_OF: {"style": "solid", "arrowhead": "odiamond", "color": PART_OF.light},
}
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': '\\"', "\\": "\\\\"})


def dot(graph: Graph) -> str:
    drawn = picture(graph)
    names = drawn.aliases()
    nodes = (f"    {names[node.task.id]} {_attributes(_node(node))}" for node in drawn.nodes)
    edges = (f"    {names[edge.first]} -> {names[edge.then]} {_attributes(_edge(edge))}" for edge in drawn.edges)
    return "\n".join([*_HEAD, *nodes, *edges, "}"])


def _node(node: Node) -> dict[str, str]:
    look = LOOKS[node.look]
    title = in_lines(node.task.title, _LINE_CELLS, 2)
    lines = [f"{showable(node.task.id)} · {look.word.lower()}", *title]
    return {
        "label": "\\n".join(_escaped(line) for line in lines),
        "tooltip": _escaped(showable(node.task.title)),
        "fillcolor": look.tint,
        "color": CRITICAL.light if node.critical else look.accent.light,
        **({"style": "rounded,filled,dashed"} if node.waits else {}),
        **({"penwidth": "2.5"} if node.critical else {}),
    }


def _edge(edge: Edge) -> dict[str, str]:
    said = f"{showable(edge.first)} {LINES[edge.kind]} {showable(edge.then)}"
    emphasis = {"color": CRITICAL.light, "penwidth": "2.5"} if edge.critical else {}
    return {**_STROKES[edge.kind], "edgetooltip": _escaped(said), **emphasis}


def _escaped(text: str) -> str:
    """For a quoted string whose reader also knows HTML's entities."""
    return text.translate(_ENTITIES)


def _attributes(values: dict[str, str]) -> str:
    return "[" + ", ".join(f'{name}="{value}"' for name, value in values.items()) + "]"
