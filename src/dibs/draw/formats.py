"""A graph as text: for Graphviz, for Mermaid, which Markdown pages draw in place, and for the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.draw.picture import (
    CRITICAL,
    INK,
    LINES,
    LOOKS,
    PART_OF,
    EdgeKind,
    cells,
    in_lines,
    isolated,
    picture,
    shortened,
    showable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.core.graph import Graph
    from dibs.draw.picture import Edge, Node, Picture


_LABEL_CELLS = 30
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
    title = in_lines(node.task.title, _LABEL_CELLS, 2)
    lines = [f"{showable(node.task.id)} · {look.word.lower()}", *title]
    return {
        "label": "\\n".join(_dot_escaped(line) for line in lines),
        "tooltip": _dot_escaped(showable(node.task.title)),
        "fillcolor": look.tint,
        "color": CRITICAL.light if node.critical else look.accent.light,
        **({"style": "rounded,filled,dashed"} if node.waits else {}),
        **({"penwidth": "2.5"} if node.critical else {}),
    }


def _edge(edge: Edge) -> dict[str, str]:
    said = f"{showable(edge.first)} {LINES[edge.kind]} {showable(edge.then)}"
    emphasis = {"color": CRITICAL.light, "penwidth": "2.5"} if edge.critical else {}
    return {**_STROKES[edge.kind], "edgetooltip": _dot_escaped(said), **emphasis}


def _dot_escaped(text: str) -> str:
    """For a quoted string whose reader also knows HTML's entities."""
    return text.translate(_ENTITIES)


def _attributes(values: dict[str, str]) -> str:
    return "[" + ", ".join(f'{name}="{value}"' for name, value in values.items()) + "]"


_TITLE_CELLS = 60
_ARROWS = {
    EdgeKind.BLOCKS: "-->",
    EdgeKind.FEEDS_INTO: "-.->",
    EdgeKind.PARALLEL_OK: "-.-",
    EdgeKind.PART_OF: "--o",
}
_LINK_STROKES = {
    EdgeKind.FEEDS_INTO: "stroke-dasharray:7 4",
    EdgeKind.PARALLEL_OK: "stroke-dasharray:1 4",
    EdgeKind.PART_OF: f"stroke:{PART_OF.light}",
}
_EMPHASIS = f"stroke:{CRITICAL.light},stroke-width:3px"

# A quoted label has no escape but the entity, and Mermaid reads Markdown and directives even there.
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,/()+\x80-\U0010ffff-]")
# Formulas, icons and its own mark for an entity it recognises later still: only breaking them up helps.
_SPELLS = re.compile(r"(?<=\$)(?=\$)|(?<=ﬂ)(?=°)|(?<=¶)(?=ß)|(?<=fa)(?=[a-z]?:)")


def mermaid(graph: Graph) -> str:
    drawn = picture(graph)
    names = drawn.aliases()
    nodes = (f'{names[node.task.id]}["{_label(node)}"]' for node in drawn.nodes)
    edges = (f"{names[edge.first]} {_ARROWS[edge.kind]} {names[edge.then]}" for edge in drawn.edges)
    lines = [*nodes, *edges, *_classes(drawn, names), *_link_styles(drawn.edges)]
    return "\n".join(["flowchart LR", *(f"    {line}" for line in lines)])


def _label(node: Node) -> str:
    """No line starts with a word of the user's: `1.` would begin a list."""
    title = _mermaid_escaped(shortened(node.task.title, _TITLE_CELLS))
    return f"<b>{title}</b><br/>{node.look} · {_mermaid_escaped(showable(node.task.id))}"


def _mermaid_escaped(text: str) -> str:
    broken = _SPELLS.sub("\N{WORD JOINER}", text)
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", broken)


def _classes(drawn: Picture, names: dict[str, str]) -> Iterator[str]:
    for look in LOOKS.values():
        style = f"fill:{look.tint},stroke:{look.accent.light},color:{INK}"
        yield from _class(f"is_{look.name}", style, (names[n.task.id] for n in drawn.nodes if n.look == look.name))
    yield from _class("waits", "stroke-dasharray:5 4", (names[n.task.id] for n in drawn.nodes if n.waits))
    yield from _class("critical", _EMPHASIS, (names[n.task.id] for n in drawn.nodes if n.critical))


def _class(name: str, style: str, members: Iterable[str]) -> Iterator[str]:
    listed = ",".join(members)
    if listed:
        yield f"classDef {name} {style}"
        yield f"class {listed} {name}"


def _link_styles(edges: tuple[Edge, ...]) -> Iterator[str]:
    for kind, style in _LINK_STROKES.items():
        yield from _link_style(style, (at for at, edge in enumerate(edges) if edge.kind is kind))
    yield from _link_style(_EMPHASIS, (at for at, edge in enumerate(edges) if edge.critical))


def _link_style(style: str, members: Iterable[int]) -> Iterator[str]:
    listed = ",".join(map(str, members))
    if listed:
        yield f"linkStyle {listed} {style}"


_ROW_CELLS = 60
_CRITICAL = "★"


def text(graph: Graph) -> str:
    drawn = picture(graph)
    if not drawn.nodes:
        return "No tasks."
    notes = _notes(drawn.edges)
    width = max(_width(node.task.id) for node in drawn.nodes)
    lines: list[str] = []
    for number, phase in enumerate(drawn.phases, start=1):
        lines += [f"Phase {number}", *_lines(phase, width, notes), ""]
    if drawn.stuck:
        lines += ["Never (a cycle)", *_lines(drawn.stuck, width, notes), ""]
    return "\n".join([*lines, _legend(drawn)])


def _lines(phase: Sequence[Node], width: int, notes: Mapping[str, list[str]]) -> Iterator[str]:
    for node in phase:
        star = _CRITICAL if node.critical else " "
        name = showable(node.task.id) + " " * (width - _width(node.task.id))
        title = isolated(shortened(node.task.title, _ROW_CELLS))
        said = "  ".join([title, *_waiting(node), *notes.get(node.task.id, ())])
        yield f"{star} {LOOKS[node.look].mark} {name}  {said}"


def _waiting(node: Node) -> list[str]:
    if node.waits_for:
        return [f"← waits for {', '.join(map(showable, node.waits_for))}"]
    return [f"← waits for {node.task.blockers} not shown here"] if node.waits else []


def _notes(edges: Sequence[Edge]) -> dict[str, list[str]]:
    """Links that do not gate the task, shown next to it."""
    told: dict[str, list[str]] = {}
    for edge in edges:
        if edge.kind is EdgeKind.FEEDS_INTO:
            told.setdefault(edge.then, []).append(f"⇠ fed by {showable(edge.first)}")
        if edge.kind is EdgeKind.PART_OF:
            told.setdefault(edge.first, []).append(f"↳ part of {showable(edge.then)}")
        if edge.kind is EdgeKind.PARALLEL_OK:
            told.setdefault(edge.then, []).append(f"∥ beside {showable(edge.first)}")
    return told


def _legend(drawn: Picture) -> str:
    seen = {node.look for node in drawn.nodes}
    said = [f"{look.mark} {look.name}" for look in LOOKS.values() if look.name in seen]
    if any(node.critical for node in drawn.nodes):
        said.append(f"{_CRITICAL} longest open chain")
    return "  ".join(said)


def _width(name: str) -> int:
    return int(sum(map(cells, showable(name))))
