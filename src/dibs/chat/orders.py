"""What each command would change, given the tasks it is about. Pure: nothing is done here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple

from dibs.chat.replies import Reply
from dibs.chat.steering.changes import Change, edited, linked, moved, unlinked
from dibs.chat.steering.commands import Name
from dibs.core.graph import Graph, path_between
from dibs.core.lifecycle import Verb
from dibs.core.task import Link, LinkKind, Status, Task

FIRST, LAST = 1.0, 0.1  # kurultai's weights: higher comes first
_RECENT = 20  # tasks that 'these' can stand for


class Asked(NamedTuple):
    graph: Graph
    targets: tuple[Task, ...]
    everything: bool
    now: datetime


class Order(NamedTuple):
    """`text` says what was done; or, without changes, why there are none."""

    changes: tuple[Change, ...]
    text: str
    understood: bool = True


def first(asked: Asked) -> Order:
    """Only one task is first. What it waits for has to be done even sooner, so it goes along."""
    (task,) = asked.targets
    made = edited(task, priority=-FIRST, override=True)
    for other in asked.graph.tasks:
        if other.override and other.id != task.id:
            made += edited(other, override=False)
    needed = _needed(asked.graph, task)
    for other in needed:
        if other.priority > -FIRST:
            made += edited(other, priority=-FIRST)
    along = f" It waits for {_names(needed)}, which goes before it." if needed else ""
    return Order(tuple(made), f"'{task.title}' is first now.{along}" if made else f"'{task.title}' is first already.")


def last(asked: Asked) -> Order:
    (task,) = asked.targets
    made = edited(task, priority=-LAST, override=False)
    return Order(tuple(made), f"'{task.title}' can wait." if made else f"'{task.title}' waits already.")


def before(asked: Asked) -> Order:
    earlier, later = asked.targets
    return _one_after(asked, later, earlier)


def after(asked: Asked) -> Order:
    later, earlier = asked.targets
    return _one_after(asked, later, earlier)


def _one_after(asked: Asked, later: Task, earlier: Task) -> Order:
    if later.id == earlier.id:
        return Order((), f"Both are '{later.title}': a task cannot wait for itself.", understood=False)
    between = [link for link in asked.graph.links if {link.task, link.on} == {later.id, earlier.id}]
    if any((link.task, link.kind) == (later.id, LinkKind.BLOCKS) for link in between):
        return Order((), f"'{later.title}' waits for '{earlier.title}' already.")
    given_up = [link for link in between if link.kind is not LinkKind.BLOCKS or link.detected_by != "explicit"]
    rest = asked.graph._replace(links=tuple(link for link in asked.graph.links if link not in given_up))
    way = path_between(rest.prerequisites(), earlier.id, later.id)
    if way is not None:
        said = circular([*way, earlier.id], {task.id: task for task in asked.graph.tasks})
        return Order((), said.text, understood=False)
    both = {later.id: later, earlier.id: earlier}
    made = [unlinked(link, both) for link in given_up]
    made.append(linked(Link(later.id, earlier.id), both))
    return Order(tuple(made), f"'{later.title}' now comes after '{earlier.title}'.")


def independent(asked: Asked) -> Order:
    """Of two, or of all that were asked for last. What was thought to lie between them is taken back."""
    these = asked.targets or _recent(asked.graph.tasks)
    if len(these) < 2:  # noqa: PLR2004 - a pair
        return Order((), "There are no two open tasks that could be independent.", understood=False)
    ids = {task.id: task for task in these}
    between = [link for link in asked.graph.links if link.task in ids and link.on in ids]
    made = [unlinked(link, ids) for link in between if link.kind is not LinkKind.PARALLEL_OK]
    marked = {frozenset((link.task, link.on)) for link in between if link.kind is LinkKind.PARALLEL_OK}
    for one, other in combinations(sorted(ids), 2):
        if frozenset((one, other)) not in marked:
            made.append(linked(Link(one, other, LinkKind.PARALLEL_OK), ids))
    if not made:
        return Order((), f"{_names(these)} are independent already.")
    return Order(tuple(made), f"{_names(these)} are independent: none waits for another.")


def focus(asked: Asked) -> Order:
    """The others are paused, but for what it waits for, and what somebody is at work on."""
    (task,) = asked.targets
    needed = _needed(asked.graph, task)
    spared = {task.id, *(other.id for other in needed)}
    others = [other for other in asked.graph.tasks if other.id not in spared and _can_pause(other)]
    going_on = [other for other in others if other.held(asked.now)]
    made = [moved(other, Verb.PAUSE) for other in others if not other.held(asked.now)]
    made += [moved(other, Verb.RESUME) for other in (task, *needed) if other.status is Status.PAUSED]
    made += first(asked).changes
    said = [f"Only '{task.title}' now; {len(others) - len(going_on)} paused."]
    said += [f"It waits for {_names(needed)}, which goes on too."] if needed else []
    said += [f"{_names(going_on)}: somebody is at it, so it goes on."] if going_on else []
    return Order(tuple(made), " ".join(said) if made else f"The focus is on '{task.title}' already.")


def pause(asked: Asked) -> Order:
    """What is named is paused even if somebody is at it; everything means what nobody is at."""
    which = [task for task in asked.targets or asked.graph.tasks if _can_pause(task)]
    which = [task for task in which if asked.targets or not task.held(asked.now)]
    if not which:
        return Order((), "There is nothing to pause." if not asked.targets else f"{_names(asked.targets)}: not now.")
    return Order(tuple(moved(task, Verb.PAUSE) for task in which), f"Paused: {_names(which)}.")


def resume(asked: Asked) -> Order:
    """Without a name: everything."""
    which = [task for task in asked.targets or asked.graph.tasks if task.status is Status.PAUSED]
    if not which:
        return Order((), f"{_names(asked.targets)}: not paused." if asked.targets else "Nothing is paused.")
    return Order(tuple(moved(task, Verb.RESUME) for task in which), f"Resumed: {_names(which)}.")


def cancel(asked: Asked) -> Order:
    which = asked.targets or asked.graph.tasks
    if not which:
        return Order((), "There is nothing to cancel.")
    waiting = [task for task in asked.graph.tasks if task not in which and _waits_for(asked.graph, task, which)]
    left = f" {_names(waiting)} waited for it: say whether that is still wanted." if waiting else ""
    return Order(tuple(moved(task, Verb.CANCEL) for task in which), f"Canceled: {_names(which)}.{left}")


ORDERS: Mapping[Name, Callable[[Asked], Order]] = {
    Name.PRIORITY: first,
    Name.DEFER: last,
    Name.BEFORE: before,
    Name.AFTER: after,
    Name.INDEPENDENT: independent,
    Name.FOCUS: focus,
    Name.PAUSE: pause,
    Name.RESUME: resume,
    Name.CANCEL: cancel,
}


def circular(path: Sequence[str], tasks: Mapping[str, Task]) -> Reply:
    """A cycle in plain words."""
    titles = [f"'{tasks[each].title}'" if each in tasks else each for each in path]
    steps = " which waits for ".join([f"{titles[0]} waits for {titles[1]},", *(f"{each}," for each in titles[2:])])
    return Reply(f"That would go round in circles: {steps.rstrip(',')}. Nothing was changed.", understood=False)


def _needed(graph: Graph, task: Task) -> list[Task]:
    """What a task waits for, near and far."""
    gates: dict[str, set[str]] = {}
    for link in graph.links:
        if link.kind is LinkKind.BLOCKS:
            gates.setdefault(link.task, set()).add(link.on)
    seen: set[str] = set()
    front = [task.id]
    while front:
        fresh = gates.get(front.pop(), set()) - seen
        seen |= fresh
        front += fresh
    return [other for other in graph.tasks if other.id in seen]


def _waits_for(graph: Graph, task: Task, which: Iterable[Task]) -> bool:
    gone = {other.id for other in which}
    return any(link.task == task.id and link.on in gone and link.kind is LinkKind.BLOCKS for link in graph.links)


def _can_pause(task: Task) -> bool:
    return task.status is not Status.PAUSED


def _recent(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """What came of the latest window."""
    windows = {task.id: str(task.extra.get("window_expires_at") or "") for task in tasks}
    latest = max(windows.values(), default="")
    newest = [task for task in tasks if windows[task.id] == latest]
    return tuple(sorted(newest, key=lambda task: (task.created_at, task.id))[-_RECENT:])


def _names(tasks: Iterable[Task]) -> str:
    titles = [f"'{task.title}'" for task in tasks]
    return ", ".join(titles[:-1]) + f" and {titles[-1]}" if len(titles) > 1 else "".join(titles)
