"""A graph for Mermaid, which Markdown pages on GitHub, GitLab and elsewhere draw in place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.draw.palette import CRITICAL, INK, LOOKS, PART_OF
from dibs.draw.picture import EdgeKind, picture
from dibs.draw.wording import shortened, showable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.draw.picture import Edge, Node, Picture
    from dibs.core.graph import Graph

_TITLE_CELLS = 60
_ARROWS = {
    EdgeKind.BLOCKS: "-->",
    EdgeKind.FEEDS_INTO: "-.->",
    EdgeKind.PARALLEL_OK: "-.-",
    EdgeKind.PART_OF: "--o",
}
_STROKES = {
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
    title = _escaped(shortened(node.task.title, _TITLE_CELLS))
    return f"<b>{title}</b><br/>{node.look} · {_escaped(showable(node.task.id))}"


def _escaped(text: str) -> str:
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
    for kind, style in _STROKES.items():
        yield from _link_style(style, (at for at, edge in enumerate(edges) if edge.kind is kind))
    yield from _link_style(_EMPHASIS, (at for at, edge in enumerate(edges) if edge.critical))


def _link_style(style: str, members: Iterable[int]) -> Iterator[str]:
    listed = ",".join(map(str, members))
    if listed:
        yield f"linkStyle {listed} {style}"
