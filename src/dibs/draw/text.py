"""A graph for the terminal: phase by phase, a line per task, in the order of work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.draw.palette import LOOKS
from dibs.draw.picture import EdgeKind, picture
from dibs.draw.wording import cells, isolated, shortened, showable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dibs.draw.picture import Edge, Node, Picture
    from dibs.core.graph import Graph

_TITLE_CELLS = 60
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
        title = isolated(shortened(node.task.title, _TITLE_CELLS))
        said = "  ".join([title, *_waiting(node), *notes.get(node.task.id, ())])
        yield f"{star} {LOOKS[node.look].mark} {name}  {said}"


def _waiting(node: Node) -> list[str]:
    if node.waits_for:
        return [f"← waits for {', '.join(map(showable, node.waits_for))}"]
    return [f"← waits for {node.task.blockers} not shown here"] if node.waits else []


def _notes(edges: Sequence[Edge]) -> dict[str, list[str]]:
    """What does not gate a task but is good to know, at the task it concerns."""
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
