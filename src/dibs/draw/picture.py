"""What every drawing shows, whatever its format: who stands where, what leads to what, and what matters most."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.graph import critical_path, layers
from dibs.core.task import LinkKind, Status, order_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
        """The status; but what looks ready and is not claimable yet looks different."""
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
    """What decides when everything is done. A chain of one decides nothing."""
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
