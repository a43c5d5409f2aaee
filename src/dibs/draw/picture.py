"""The parts of every drawing: phases, edges, the longest open chain, the looks of tasks and lines, and labels."""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.graph import critical_path, layers
from dibs.core.task import LinkKind, Status, order_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dibs.core.graph import Graph
    from dibs.core.task import Task


WAITING = "waiting"


class EdgeKind(StrEnum):
    """The kinds of links, and the tie between a task and the parent it is part of."""

    BLOCKS = LinkKind.BLOCKS.value
    FEEDS_INTO = LinkKind.FEEDS_INTO.value
    PARALLEL_OK = LinkKind.PARALLEL_OK.value
    PART_OF = "part_of"


class Edge(NamedTuple):
    """`first` comes before `then`; with `parallel_ok` neither does. `critical` edges make up the longest open chain."""

    first: str
    then: str
    kind: EdgeKind
    critical: bool = False


class Node(NamedTuple):
    """`waits_for` names the unfinished prerequisites that gate the task."""

    task: Task
    waits_for: tuple[str, ...] = ()
    critical: bool = False

    @property
    def waits(self) -> bool:
        return self.task.blockers > 0 and not self.task.finished

    @property
    def look(self) -> str:
        """The status; a ready task that is not claimable yet looks different."""
        return WAITING if self.waits and self.task.status is Status.READY else self.task.status.value


class Picture(NamedTuple):
    """Phases of tasks, each in the order of work; `stuck` are those on or behind a cycle, should there ever be one."""

    phases: tuple[tuple[Node, ...], ...]
    stuck: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*(node for phase in self.phases for node in phase), *self.stuck)

    def aliases(self) -> dict[str, str]:
        """Names that are safe in any format: n1, n2 and so on."""
        return {node.task.id: f"n{number}" for number, node in enumerate(self.nodes, start=1)}


def picture(graph: Graph) -> Picture:
    before = graph.prerequisites()
    chain = _longest_open_chain(graph, before)
    nodes = _nodes(graph, frozenset(chain))
    phases = [_in_order(nodes[task] for task in layer) for layer in layers(before)]
    placed = {node.task.id for phase in phases for node in phase}
    stuck = _in_order(node for task, node in nodes.items() if task not in placed)
    return Picture(tuple(phases), stuck, _edges(graph, frozenset(pairwise(chain))))


def _longest_open_chain(graph: Graph, before: Mapping[str, set[str]]) -> list[str]:
    """The longest chain, which sets the finish. A chain of one task sets nothing."""
    still_open = {task.id for task in graph.tasks if not task.finished}
    chain = critical_path({task: before[task] & still_open for task in still_open})
    return chain if len(chain) > 1 else []


def _nodes(graph: Graph, chain: frozenset[str]) -> dict[str, Node]:
    tasks = {task.id: task for task in graph.tasks}
    gates: dict[str, list[str]] = {}
    for link in graph.links:
        if link.kind is LinkKind.BLOCKS and link.on in tasks and not tasks[link.on].finished:
            gates.setdefault(link.task, []).append(link.on)
    return {
        task.id: Node(task, () if task.finished else tuple(sorted(gates.get(task.id, ()))), task.id in chain)
        for task in graph.tasks
    }


def _in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: order_key(node.task)))


def _edges(graph: Graph, chain: frozenset[tuple[str, str]]) -> tuple[Edge, ...]:
    """Every link and parent between tasks of the graph; who is outside of it is not drawn."""
    known = {task.id for task in graph.tasks}
    found = {(link.on, link.task, EdgeKind(link.kind.value)) for link in graph.links}
    found |= {(task.id, task.parent, EdgeKind.PART_OF) for task in graph.tasks if task.parent is not None}
    return tuple(
        Edge(first, then, kind, kind is not EdgeKind.PARALLEL_OK and (first, then) in chain)
        for first, then, kind in sorted(found)
        if first in known and then in known
    )


class Colour(NamedTuple):
    """For light and for dark surroundings."""

    light: str
    dark: str


class StatusStyle(NamedTuple):
    """`mark` is its sign in a terminal, `accent` outlines it, `tint` fills it behind dark text."""

    name: str
    mark: str
    accent: Colour
    tint: str

    @property
    def word(self) -> str:
        return self.name.capitalize()


LOOKS: dict[str, StatusStyle] = {
    look.name: look
    for look in (
        StatusStyle(Status.ACTIVE.value, "●", Colour("#7c3aed", "#a78bfa"), "#ede9fe"),
        StatusStyle(Status.READY.value, "○", Colour("#2563eb", "#60a5fa"), "#dbeafe"),
        StatusStyle(WAITING, "◌", Colour("#64748b", "#94a3b8"), "#f1f5f9"),
        StatusStyle(Status.BLOCKED.value, "■", Colour("#dc2626", "#f87171"), "#fee2e2"),
        StatusStyle(Status.ESCALATED.value, "!", Colour("#be185d", "#f472b6"), "#fce7f3"),
        StatusStyle(Status.REVIEW.value, "◎", Colour("#0e7490", "#22d3ee"), "#cffafe"),
        StatusStyle(Status.PAUSED.value, "‖", Colour("#a16207", "#facc15"), "#fef9c3"),
        StatusStyle(Status.BACKLOG.value, "·", Colour("#78716c", "#a8a29e"), "#f5f5f4"),
        StatusStyle(Status.DONE.value, "✓", Colour("#15803d", "#4ade80"), "#dcfce7"),
        StatusStyle(Status.CANCELED.value, "✗", Colour("#6b7280", "#9ca3af"), "#e5e7eb"),
    )
}

CRITICAL = Colour("#ea580c", "#fb923c")
PART_OF = Colour("#0d9488", "#2dd4bf")
INK = "#0f172a"

# How a line is called, seen from the task it starts at.
LINES: dict[EdgeKind, str] = {
    EdgeKind.BLOCKS: "blocks",
    EdgeKind.FEEDS_INTO: "feeds into",
    EdgeKind.PARALLEL_OK: "may run beside",
    EdgeKind.PART_OF: "is part of",
}


# Controls and non-characters no format can hold, and the overrides with which a title could turn its neighbours around.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ELLIPSIS = "…"
_INVISIBLE = frozenset({"Mn", "Me", "Cf"})
_FROM_THE_RIGHT = frozenset({"R", "AL"})


def showable(text: str) -> str:
    return _UNSHOWABLE.sub("", text)


def cells(char: str) -> float:
    """How many columns of a terminal a character takes."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in _INVISIBLE:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, room: float, measure: Callable[[str], float] = cells) -> str:
    """The text if it fits, else as much of it as does, and an ellipsis."""
    text = showable(text)
    if sum(map(measure, text)) <= room:
        return text
    return _head(text, room - measure(_ELLIPSIS), measure).rstrip() + _ELLIPSIS


def in_lines(text: str, room: float, count: int, measure: Callable[[str], float] = cells) -> list[str]:
    """Wrap between words if possible; an ellipsis ends text that is too long."""
    lines: list[str] = []
    rest = showable(text).strip()
    while rest and len(lines) < count - 1 and sum(map(measure, rest)) > room:
        line = _head(rest, room, measure)
        if not rest[len(line)].isspace() and " " in line:
            line = line[: line.rindex(" ")]
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return [*lines, shortened(rest, room, measure)] if rest else lines


def isolated(text: str) -> str:
    """Right-to-left text, isolated so that the rest of the line keeps its order."""
    if any(unicodedata.bidirectional(char) in _FROM_THE_RIGHT for char in text):
        return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"
    return text


def _head(text: str, room: float, measure: Callable[[str], float]) -> str:
    """As much as fits; at least one character, and no emoji or accent torn apart."""
    end = 0
    while end < len(text) and (end == 0 or measure(text[end]) <= room):
        room -= measure(text[end])
        end += 1
    while 1 < end < len(text) and (text[end - 1] == "\u200d" or unicodedata.category(text[end]) in _INVISIBLE):
        end -= 1
    return text[:end]
