"""A sender's plan: tasks that can start now, later ones, their agents, dependencies and expected time.

Pure: the input is a graph. Without finished tasks to estimate from, each task counts for half an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.graph import Graph, critical_path, layers, reversed_edges
from dibs.core.task import Link, LinkKind, Status, Task, order_key

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Task


UNKNOWN = timedelta(minutes=30)


class Wait(NamedTuple):
    """A prerequisite of a task, or with `feeds_into` only a source of its inputs, and the reason."""

    on: Task
    kind: LinkKind
    because: str


class Item(NamedTuple):
    task: Task
    waits: tuple[Wait, ...]

    @property
    def gated(self) -> bool:
        return any(wait.kind is LinkKind.BLOCKS for wait in self.waits)


class Plan(NamedTuple):
    """`order` is the expected order of claims, `path` the chain that takes longest."""

    phases: tuple[tuple[Item, ...], ...]
    order: tuple[Item, ...]
    path: tuple[Task, ...]
    each: timedelta

    @property
    def work(self) -> timedelta:
        return len(self.order) * self.each

    @property
    def soonest(self) -> timedelta:
        """The time with any number of agents."""
        return len(self.path) * self.each


HISTORY = 200  # finished tasks in an estimate


def plan_of(graph: Graph, finished: Iterable[Task] = ()) -> Plan:
    """`graph` holds the unfinished tasks."""
    tasks = {task.id: task for task in graph.tasks}
    waits = _waits(graph.links, tasks)
    items = {task.id: Item(task, tuple(waits.get(task.id, ()))) for task in graph.tasks}
    before = graph.prerequisites()
    order = [items[each] for each in picked_up(before, tasks)]
    place = {item.task.id: number for number, item in enumerate(order)}
    phases = (tuple(items[each] for each in sorted(layer, key=place.__getitem__)) for layer in layers(before))
    path = tuple(tasks[each] for each in critical_path(before))
    return Plan(tuple(phases), tuple(order), path, usual_time(finished))


def picked_up(before: Mapping[str, Iterable[str]], tasks: Mapping[str, Task]) -> list[str]:
    """The expected order of claims: ready tasks in the desk's order, then the tasks that they unblock."""
    missing = {task: {each for each in those if each in tasks} for task, those in before.items()}
    after = reversed_edges(missing)
    queue = [(order_key(tasks[task]), task) for task, those in missing.items() if not those]
    heapify(queue)
    found = []
    while queue:
        _, task = heappop(queue)
        found.append(task)
        for freed in after.get(task, ()):
            missing[freed].discard(task)
            if not missing[freed]:
                heappush(queue, (order_key(tasks[freed]), freed))
    return found


def usual_time(finished: Iterable[Task]) -> timedelta:
    spans = [
        (task.finished_at - task.started_at).total_seconds()
        for task in finished
        if task.finished_at and task.started_at
    ]
    return timedelta(seconds=median(spans)) if spans else UNKNOWN


def _waits(links: Sequence[Link], tasks: Mapping[str, Task]) -> dict[str, list[Wait]]:
    found: dict[str, list[Wait]] = {}
    for link in links:
        if link.kind is not LinkKind.PARALLEL_OK:
            found.setdefault(link.task, []).append(Wait(tasks[link.on], link.kind, because(link, tasks)))
    return found


def because(link: Link, tasks: Mapping[str, Task]) -> str:
    """The sender's words for the link, stored with one of its tasks; "" if a person created it."""
    for one, other in ((link.task, link.on), (link.on, link.task)):
        reasons = tasks[one].extra.get("because")
        if isinstance(reasons, Mapping) and other in reasons:
            return str(reasons[other])
    return ""


def about(span: timedelta) -> str:
    """`~1h 30m`, to the minute."""
    minutes = max(1, round(span.total_seconds() / 60))
    return f"~{minutes // 60}h {minutes % 60}m" if minutes >= 60 else f"~{minutes}m"  # noqa: PLR2004 - an hour


def plan_text(plan: Plan, now: datetime) -> str:
    if not plan.order:
        return "There are no open tasks."
    number = {item.task.id: place for place, item in enumerate(plan.order, 1)}
    lines = [f"{_tasks(len(plan.order))}, {about(plan.work)} of work; {about(plan.soonest)} if all run in parallel."]
    for place, phase in enumerate(plan.phases, 1):
        lines += ["", f"Phase {place}"]
        lines += [f"  {number[item.task.id]}. {item.task.title} [{state(item, now)}]" for item in phase]
    if len(plan.path) > 1:
        chain = " → ".join(task.title for task in plan.path)
        lines += ["", f"Critical path: {chain} ({about(plan.soonest)})"]
    return "\n".join(lines)


def order_text(plan: Plan, now: datetime) -> str:
    lines = [f"{place}. {item.task.title} [{state(item, now)}]" for place, item in enumerate(plan.order, 1)]
    return "\n".join([*lines, f"Estimate: {about(plan.work)} of work"]) if lines else "Nothing is left to do."


def state(item: Item, now: datetime) -> str:
    task = item.task
    match task.status:
        case Status.ACTIVE if task.lease is not None and task.held(now):
            return f"in progress: {task.lease.agent}"
        case Status.BLOCKED | Status.PAUSED | Status.ESCALATED | Status.REVIEW:
            word = {Status.ESCALATED: "needs you", Status.REVIEW: "to be reviewed"}.get(task.status, str(task.status))
            return f"{word}: {task.reason}" if task.reason else word
        case Status.BACKLOG:
            return "not begun"
    if item.gated:
        return f"waits for {waits_text(wait for wait in item.waits if wait.kind is LinkKind.BLOCKS)}"
    if task.not_before is not None and task.not_before > now:
        return f"not before {task.not_before:%H:%M}"
    fed = [wait for wait in item.waits if wait.kind is LinkKind.FEEDS_INTO]
    return f"ready; better after {waits_text(fed)}" if fed else "ready"


def waits_text(waits: Iterable[Wait]) -> str:
    return ", ".join(f"{wait.on.title} ({wait.because})" if wait.because else wait.on.title for wait in waits)


_SHOWN = 8  # most lines of a list


def listed(head: str, lines: Iterable[str]) -> str:
    every = list(lines)
    more = [f"  … and {len(every) - _SHOWN} more"] if len(every) > _SHOWN else []
    return "\n".join([head, *(f"  - {line}" for line in every[:_SHOWN]), *more])


def _tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number} tasks"


_AHEAD = 5


def why_text(task: Task, plan: Plan, now: datetime) -> str:
    item = next(item for item in plan.order if item.task.id == task.id)
    if task.held(now):
        return f"'{task.title}' is not waiting: {state(item, now)}."
    if task.status in {Status.PAUSED, Status.BLOCKED, Status.ESCALATED, Status.REVIEW}:
        return f"'{task.title}' is {state(item, now)}." + (_also(item) if item.gated else "")
    if item.gated:
        return _gated(item, plan, now)
    ahead = [other.task.title for other in plan.order if _goes_before(other, item, plan)]
    if not ahead:
        return f"'{task.title}' is {state(item, now)}, and next in line."
    shown = ", ".join(ahead[:_AHEAD]) + (f" and {len(ahead) - _AHEAD} more" if len(ahead) > _AHEAD else "")
    return f"'{task.title}' is {state(item, now)}. Ahead of it in line: {shown}."


def _gated(item: Item, plan: Plan, now: datetime) -> str:
    lines = [f"'{item.task.title}' waits for:"]
    items = {one.task.id: one for one in plan.order}
    for wait in item.waits:
        if wait.kind is LinkKind.BLOCKS:
            why = f", {wait.because}" if wait.because else ""
            lines.append(f"  - {wait.on.title} [{state(items[wait.on.id], now)}]{why}")
    return "\n".join(lines)


def _also(item: Item) -> str:
    return f" It also waits for {waits_text(wait for wait in item.waits if wait.kind is LinkKind.BLOCKS)}."


def _goes_before(other: Item, item: Item, plan: Plan) -> bool:
    """Whether `other` is claimable and precedes the item in the order."""
    ready = other.task.status in {Status.READY, Status.ACTIVE} and not other.gated
    return ready and plan.order.index(other) < plan.order.index(item)
