"""Which of a sender's tasks belong together, and so are answered together. Pure.

Tasks that wait for, or get results from one another are related, and so are a task and its sub-tasks. Tasks that may be
done side by side are not, unless nobody but the analyst says so and they are very much alike.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from dibs.chat.analyst.analysis import Thresholds
from dibs.core.graph import Graph, layers
from dibs.core.task import Link, LinkKind, Status, Task


class Mode(StrEnum):
    """How a group is answered: as one, each by itself, or as one with its progress told among other results."""

    UNIFIED = "unified"
    STREAMING = "streaming"
    HYBRID = "hybrid"


class Group(NamedTuple):
    """Related tasks, in phases: each phase needs only earlier ones."""

    phases: tuple[tuple[Task, ...], ...]
    mode: Mode

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(task for phase in self.phases for task in phase)

    @property
    def finished(self) -> bool:
        return all(task.finished for task in self.tasks)


class Groups:
    """All groups of a graph that holds finished tasks as well. What was merged into another task is not a task."""

    def __init__(self, graph: Graph, alike: float = Thresholds().high) -> None:
        self._alike = alike
        self._tasks = {task.id: task for task in graph.tasks if task.merged_into is None}
        self._graph = graph._replace(tasks=tuple(self._tasks.values()))
        self._before = self._graph.prerequisites()

    @cached_property
    def all(self) -> tuple[Group, ...]:
        company = _company(self._tasks.values())
        members = sorted(self._members(), key=lambda those: min(_age(self._tasks[each]) for each in those))
        return tuple(self._group(those, company) for those in members)

    @cached_property
    def of(self) -> Mapping[str, Group]:
        return {task.id: group for group in self.all for task in group.tasks}

    def of_status(self, statuses: Container[Status]) -> list[Task]:
        return [task for task in self._tasks.values() if task.status in statuses]

    def open_graph(self, tasks: Iterable[Task]) -> Graph:
        """Some unfinished tasks, with the links between them and to what they wait for."""
        chosen = {task.id for task in tasks}
        chosen |= {on for task in chosen for on in self._before[task] if not self._done(on)}
        links = (link for link in self._graph.links if link.task in chosen and link.on in chosen)
        return Graph(tuple(self._tasks[each] for each in self._tasks if each in chosen), tuple(links))

    def waiting_for(self, task: Task) -> list[Task]:
        """The unfinished tasks that wait for this one, or get results from it."""
        return [self._tasks[each] for each, those in self._before.items() if task.id in those and not self._done(each)]

    def _done(self, task: str) -> bool:
        return self._tasks[task].finished

    def _group(self, those: Sequence[str], company: Mapping[datetime, int]) -> Group:
        chosen = set(those)
        phases = tuple(
            tuple(sorted((self._tasks[each] for each in layer), key=_age))
            for layer in layers({each: self._before[each] & chosen for each in those})
        )
        return Group(phases, self._mode(chosen, company))

    def _mode(self, those: set[str], company: Mapping[datetime, int]) -> Mode:
        """Mixed are those groups that were asked for in one breath with something else."""
        if len(those) == 1:
            return Mode.STREAMING
        own = _company(self._tasks[each] for each in those)
        return Mode.HYBRID if any(company[when] > number for when, number in own.items()) else Mode.UNIFIED

    def _members(self) -> Iterable[list[str]]:
        beside = self._beside()
        seen: set[str] = set()
        for start in self._tasks:
            if start in seen:
                continue
            seen.add(start)
            found = [start]
            for each in found:
                fresh = beside[each] - seen
                seen |= fresh
                found += sorted(fresh)
            yield found

    def _beside(self) -> dict[str, set[str]]:
        beside: dict[str, set[str]] = {task: set() for task in self._tasks}
        pairs = [(task, on) for task, those in self._before.items() for on in those]
        pairs += [(link.task, link.on) for link in self._graph.links if self._much_alike(link)]
        for one, other in pairs:
            if one in beside and other in beside:
                beside[one].add(other)
                beside[other].add(one)
        return beside

    def _much_alike(self, link: Link) -> bool:
        return link.kind is LinkKind.PARALLEL_OK and link.detected_by == "semantic" and link.weight > self._alike


def _company(tasks: Iterable[Task]) -> dict[datetime, int]:
    """How many tasks were taken in together."""
    found: dict[datetime, int] = {}
    for task in tasks:
        found[task.created_at] = found.get(task.created_at, 0) + 1
    return found


def _age(task: Task) -> tuple[datetime, str]:
    return task.created_at, task.id
