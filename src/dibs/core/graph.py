"""The dependency graph: layers, cycles, the longest chain, and which tasks a finish unblocks.

An edge leads from a task to a prerequisite. Blocks and feeds_into links are edges, and so is the link from a parent to
each of its children. All functions take mappings of `id → prerequisites`, in time linear in their size.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from dibs.core.task import Link, LinkKind, Task

_ORDERING = frozenset({LinkKind.BLOCKS, LinkKind.FEEDS_INTO})


class Graph(NamedTuple):
    """The tasks of one scope and the links between them, as one consistent reading."""

    tasks: tuple[Task, ...]
    links: tuple[Link, ...]

    def prerequisites(self) -> dict[str, set[str]]:
        """Every task with what must come before it."""
        before: dict[str, set[str]] = {task.id: set() for task in self.tasks}
        for link in self.links:
            if link.kind in _ORDERING and link.task in before and link.on in before:
                before[link.task].add(link.on)
        for task in self.tasks:
            if task.parent is not None and task.parent in before:
                before[task.parent].add(task.id)
        return before


def reversed_edges(before: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """The same edges reversed: each task with its dependent tasks."""
    after: dict[str, set[str]] = {node: set() for node in before}
    for node, nodes in before.items():
        for prerequisite in nodes:
            after.setdefault(prerequisite, set()).add(node)
    return after


def layers(before: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Tasks grouped so that each layer needs only earlier ones; members of a cycle appear in none."""
    missing = {node: len({p for p in nodes if p in before}) for node, nodes in before.items()}
    after = reversed_edges(before)
    layer = sorted(node for node, count in missing.items() if count == 0)
    found: list[list[str]] = []
    while layer:
        found.append(layer)
        freed = []
        for node in layer:
            for dependent in after.get(node, ()):
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    freed.append(dependent)
        layer = sorted(freed)
    return found


Node = TypeVar("Node", bound="str | int")


def find_cycle(before: Mapping[Node, Iterable[Node]]) -> list[Node] | None:
    """One cycle as `[a, b, …, a]`, each waiting for the next, or None. Iterative: chains may be long."""
    stuck = _stuck(before)
    if not stuck:
        return None
    # Every stuck task waits for another stuck one, so following prerequisites repeats a task in the end.
    walk: list[Node] = []
    seen: dict[Node, int] = {}
    node = min(stuck, key=str)
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = min((p for p in before[node] if p in stuck), key=str)
    return [*walk[seen[node] :], node]


def _stuck(before: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """The tasks that remain after repeatedly removing those without prerequisites: cycles and their dependents."""
    missing = dict.fromkeys(before, 0)
    after: dict[Node, list[Node]] = {}
    for node, nodes in before.items():
        for prerequisite in set(nodes):
            if prerequisite in missing:
                missing[node] += 1
                after.setdefault(prerequisite, []).append(node)
    free = [node for node, count in missing.items() if count == 0]
    while free:
        for node in after.get(free.pop(), ()):
            missing[node] -= 1
            if missing[node] == 0:
                free.append(node)
    return {node for node, count in missing.items() if count}


def cycle_among(edges: Iterable[tuple[Node, Node]]) -> list[Node] | None:
    """A cycle among pairs of a task and its prerequisite, or None."""
    before: dict[Node, list[Node]] = {}
    for task, on in edges:
        before.setdefault(task, []).append(on)
        before.setdefault(on, [])
    return find_cycle(before)


def path_between(before: Mapping[str, Iterable[str]], start: str, goal: str) -> list[str] | None:
    """A shortest way from `start` to `goal` along prerequisites, or None."""
    came_from: dict[str, str | None] = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            return _trail(came_from, node)
        for prerequisite in sorted(before.get(node, ())):
            if prerequisite not in came_from:
                came_from[prerequisite] = node
                queue.append(prerequisite)
    return None


def _trail(came_from: Mapping[str, str | None], last: str) -> list[str]:
    trail: list[str] = []
    step: str | None = last
    while step is not None:
        trail.append(step)
        step = came_from[step]
    return trail[::-1]


def critical_path(before: Mapping[str, Iterable[str]], cost: Mapping[str, float] | None = None) -> list[str]:
    """The longest chain, first task first. Ties go to the smaller id, and a task without a given cost costs 1."""
    total: dict[str, float] = {}
    via: dict[str, str | None] = {}
    for layer in layers(before):
        for node in layer:
            slowest = max((p for p in before[node] if p in total), key=lambda p: (total[p], _smaller(p)), default=None)
            own = 1.0 if cost is None else cost.get(node, 1.0)
            total[node] = own + (total[slowest] if slowest is not None else 0.0)
            via[node] = slowest
    if not total:
        return []
    return _trail(via, max(total, key=lambda n: (total[n], _smaller(n))))


def _smaller(node: str) -> tuple[int, ...]:
    """A key under which `max` prefers the smaller id."""
    return (*(-ord(char) for char in node), 1)
