"""The changes that a command makes, as data: they can be previewed, applied, stored and reverted.

The functions from `first` to `cancel` are pure: they compute a command's effect from the tasks it names.
`apply_changes` writes the changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import combinations
from typing import Any, NamedTuple

from dibs.chat.analyst.analysis import OpenTask
from dibs.chat.conversation.inbox import SenderScopes
from dibs.chat.conversation.plan import listed
from dibs.chat.steering.commands import Name
from dibs.core.errors import DibsError, RuleBroken, StoreError
from dibs.core.graph import Graph, path_between
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit, Holder, Json, Link, LinkKind, Status, Task
from dibs.core.wire import link_from_json


class Kind(StrEnum):
    EDIT = "edit"
    MOVE = "move"
    LINK = "link"
    UNLINK = "unlink"


class Change(NamedTuple):
    """One change. An edit has `fields` with old and new values, a move has a `verb`, a link change has a `link`.

    `other` is the title of the linked task. `reason` is the reason that a move replaced, for its undo.
    """

    kind: Kind
    task: str
    title: str
    fields: Mapping[str, tuple[Json, Json]] = {}
    verb: Verb | None = None
    link: Link | None = None
    other: str = ""
    reason: str | None = None


class Applied(NamedTuple):
    """The changes that were made, and those that failed, with the reasons."""

    made: tuple[Change, ...]
    failed: tuple[str, ...] = ()


_BACK = {
    Verb.PAUSE: Verb.RESUME,
    Verb.RESUME: Verb.PAUSE,
    Verb.CANCEL: Verb.REOPEN,
    Verb.REOPEN: Verb.CANCEL,
    Verb.ESCALATE: Verb.UNBLOCK,
    Verb.UNBLOCK: Verb.ESCALATE,
    Verb.QUEUE: Verb.SHELVE,
    Verb.SHELVE: Verb.QUEUE,
}


def edited(task: Task, **fields: Json) -> list[Change]:
    """An edit of the fields that differ; empty if none does."""
    differ = {name: (getattr(task, name), new) for name, new in fields.items() if getattr(task, name) != new}
    return [Change(Kind.EDIT, task.id, task.title, differ)] if differ else []


def moved(task: Task, verb: Verb) -> Change:
    return Change(Kind.MOVE, task.id, task.title, verb=verb)


def linked(link: Link, tasks: Mapping[str, Task]) -> Change:
    return Change(Kind.LINK, link.task, tasks[link.task].title, link=link, other=tasks[link.on].title)


def unlinked(link: Link, tasks: Mapping[str, Task]) -> Change:
    return linked(link, tasks)._replace(kind=Kind.UNLINK)


def reverted(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes that undo these, in reverse order."""
    return tuple(_reverted(change) for change in reversed(changes) if change.verb is not Verb.DONE)


def _reverted(change: Change) -> Change:
    match change.kind:
        case Kind.EDIT:
            return change._replace(fields={name: (new, old) for name, (old, new) in change.fields.items()})
        case Kind.LINK:
            return change._replace(kind=Kind.UNLINK)
        case Kind.UNLINK:
            return change._replace(kind=Kind.LINK)
        case Kind.MOVE:
            return change._replace(verb=_BACK[change.verb or Verb.PAUSE])


def apply_changes(scopes: SenderScopes, changes: Sequence[Change], why: str) -> Applied:
    """Make the changes one by one. Tasks that changed since the plan are skipped and reported."""
    made: list[Change] = []
    failed: list[str] = []
    for change in changes:
        try:
            made += _made(scopes, change, why)
        except RuleBroken:
            if len(changes) == 1:
                raise
            failed.append(f"'{change.title}' was not changed: the tasks would wait for each other.")
        except StoreError:
            raise
        except DibsError as error:
            failed.append(f"'{change.title}' was not changed: {error.message}")
    return Applied(tuple(made), tuple(failed))


def _made(scopes: SenderScopes, change: Change, why: str) -> list[Change]:
    """Make a change. Canceling a prerequisite also escalates its dependent tasks."""
    match change:
        case Change(kind=Kind.EDIT):
            return _edit(scopes, change, why)
        case Change(kind=Kind.LINK, link=Link() as link):
            return [change] if scopes.tasks.link([link]) else []
        case Change(kind=Kind.UNLINK, link=Link() as link):
            scopes.tasks.unlink([link])
            return [change]
        case Change(kind=Kind.MOVE, verb=Verb.DONE):
            (held,) = scopes.tasks.claim(scopes.tasks.by.agent or "chat", refs=[change.task], holder=Holder.HUMAN)
            token = held.task.lease.token if held.task.lease else None
            scopes.tasks.move(Verb.DONE, change.task, token=token, result=why)
            return [change]
        case Change(kind=Kind.MOVE, verb=Verb() as verb):
            reason = None if verb in _SILENT else change.reason or why
            before = scopes.tasks.get(change.task).reason if verb in _SILENT else None
            answer = scopes.tasks.move(verb, change.task, reason=reason, force=verb in _FORCED)
            change = change._replace(reason=before)
            drawn = ((each, Verb.ESCALATE) for each in answer.escalated)
            also = ((each, Verb.CANCEL) for each in answer.canceled)
            return [change, *(moved(scopes.tasks.get(each), what) for each, what in (*drawn, *also))]
    raise AssertionError(change)


_FORCED = frozenset({Verb.PAUSE, Verb.CANCEL})  # the sender may change a task that an agent holds
_SILENT = frozenset({Verb.RESUME, Verb.REOPEN, Verb.UNBLOCK, Verb.QUEUE})


def _edit(scopes: SenderScopes, change: Change, why: str) -> list[Change]:
    """Edit the fields that still have their expected values."""
    task = scopes.tasks.get(change.task)
    still: dict[str, Any] = {name: new for name, (old, new) in change.fields.items() if getattr(task, name) == old}
    if not still:
        return []
    scopes.tasks.edit(task.id, Edit(why=why, **still))
    return [change._replace(fields={name: change.fields[name] for name in still})]


def to_json(change: Change) -> dict[str, Json]:
    told: dict[str, Json] = {"kind": change.kind, "task": change.task, "title": change.title}
    if change.fields:
        told["fields"] = {name: list(pair) for name, pair in change.fields.items()}
    if change.verb is not None:
        told["verb"] = change.verb
    if change.reason is not None:
        told["reason"] = change.reason
    if change.link is not None:
        told["link"] = {**change.link._asdict(), "kind": str(change.link.kind)}
        told["other"] = change.other
    return told


def from_json(told: Mapping[str, Any]) -> Change:
    fields = {name: (old, new) for name, (old, new) in told.get("fields", {}).items()}
    verb = Verb(told["verb"]) if "verb" in told else None
    link = link_from_json(told["link"]) if "link" in told else None
    return Change(
        Kind(told["kind"]), told["task"], told["title"], fields, verb, link, told.get("other", ""), told.get("reason")
    )


def change_text(change: Change) -> str:
    """The change in words, for a preview."""
    match change:
        case Change(kind=Kind.EDIT, fields=fields):
            return f"'{change.title}': " + ", ".join(_field_text(name, *pair) for name, pair in fields.items())
        case Change(kind=Kind.MOVE, verb=verb):
            return f"{verb} '{change.title}'"
        case Change(link=Link(kind=LinkKind.PARALLEL_OK)):
            return f"'{change.title}' is {'' if change.kind is Kind.LINK else 'no longer '}marked as independent"
        case Change(link=Link()):
            return f"'{change.title}' {'waits' if change.kind is Kind.LINK else 'no longer waits'} for '{change.other}'"
    return change.title


def _field_text(name: str, old: Json, new: Json) -> str:
    if name == "priority" and isinstance(old, int | float) and isinstance(new, int | float):
        return f"weight {-old:g} → {-new:g}"
    if name == "override":
        return "comes first" if new else "no longer first"
    return f"{name} {old} → {new}"


class Reply(NamedTuple):
    """`understood` is false if the sender has to rephrase the command; `choices` are the tasks to choose from."""

    text: str
    changes: tuple[Change, ...] = ()
    choices: tuple[OpenTask, ...] = ()
    understood: bool = True


def which(phrase: str, fitting: Sequence[OpenTask], there: Sequence[Task]) -> Reply:
    """Ask for the task that the sender means."""
    if fitting:
        ask = f"Which one do you mean by '{phrase}'? Say its name in full, or its id:"
        return Reply(listed(ask, (_named(task) for task in fitting)), choices=tuple(fitting), understood=False)
    if not there:
        return Reply(f"No open task fits '{phrase}': there are no open tasks.", understood=False)
    ask = f"No open task fits '{phrase}'. There are:"
    return Reply(listed(ask, (f"{task.title} ({task.id})" for task in there)), understood=False)


def _named(task: OpenTask) -> str:
    return f"{task.title} ({task.id})"


FIRST, LAST = 1.0, 0.1  # kurultai's weights: higher comes first
_RECENT = 20  # most tasks that 'these' can mean


class CommandInput(NamedTuple):
    graph: Graph
    targets: tuple[Task, ...]
    everything: bool
    now: datetime
    said: str = ""


class CommandEffect(NamedTuple):
    """The changes of a command with a `text` that describes them, or explains why there are none."""

    changes: tuple[Change, ...]
    text: str
    understood: bool = True


def first(asked: CommandInput) -> CommandEffect:
    """Put one task and its prerequisites first."""
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
    return CommandEffect(
        tuple(made), f"'{task.title}' is first now.{along}" if made else f"'{task.title}' is first already."
    )


def last(asked: CommandInput) -> CommandEffect:
    (task,) = asked.targets
    made = edited(task, priority=-LAST, override=False)
    return CommandEffect(tuple(made), f"'{task.title}' can wait." if made else f"'{task.title}' waits already.")


def before(asked: CommandInput) -> CommandEffect:
    earlier, later = asked.targets
    return _one_after(asked, later, earlier)


def after(asked: CommandInput) -> CommandEffect:
    later, earlier = asked.targets
    return _one_after(asked, later, earlier)


def _one_after(asked: CommandInput, later: Task, earlier: Task) -> CommandEffect:
    if later.id == earlier.id:
        return CommandEffect((), f"Both are '{later.title}': a task cannot wait for itself.", understood=False)
    between = [link for link in asked.graph.links if {link.task, link.on} == {later.id, earlier.id}]
    if any((link.task, link.kind) == (later.id, LinkKind.BLOCKS) for link in between):
        return CommandEffect((), f"'{later.title}' waits for '{earlier.title}' already.")
    given_up = [link for link in between if link.kind is not LinkKind.BLOCKS or link.detected_by != "explicit"]
    rest = asked.graph._replace(links=tuple(link for link in asked.graph.links if link not in given_up))
    way = path_between(rest.prerequisites(), earlier.id, later.id)
    if way is not None:
        said = circular([*way, earlier.id], {task.id: task for task in asked.graph.tasks})
        return CommandEffect((), said.text, understood=False)
    both = {later.id: later, earlier.id: earlier}
    made = [unlinked(link, both) for link in given_up]
    made.append(linked(Link(later.id, earlier.id), both))
    return CommandEffect(tuple(made), f"'{later.title}' now comes after '{earlier.title}'.")


def independent(asked: CommandInput) -> CommandEffect:
    """Make two tasks, or the latest window's tasks, independent, and remove the links between them."""
    these = asked.targets or _recent(asked.graph.tasks)
    if len(these) < 2:  # noqa: PLR2004 - a pair
        return CommandEffect((), "There are no two open tasks that could be independent.", understood=False)
    ids = {task.id: task for task in these}
    between = [link for link in asked.graph.links if link.task in ids and link.on in ids]
    made = [unlinked(link, ids) for link in between if link.kind is not LinkKind.PARALLEL_OK]
    marked = {frozenset((link.task, link.on)) for link in between if link.kind is LinkKind.PARALLEL_OK}
    for one, other in combinations(sorted(ids), 2):
        if frozenset((one, other)) not in marked:
            made.append(linked(Link(one, other, LinkKind.PARALLEL_OK), ids))
    if not made:
        return CommandEffect((), f"{_names(these)} are independent already.")
    return CommandEffect(tuple(made), f"{_names(these)} are independent: none waits for another.")


def focus(asked: CommandInput) -> CommandEffect:
    """Pause all others except its prerequisites and claimed tasks."""
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
    said += [f"{_names(going_on)}: it is being worked on, so it continues."] if going_on else []
    return CommandEffect(tuple(made), " ".join(said) if made else f"The focus is on '{task.title}' already.")


def pause(asked: CommandInput) -> CommandEffect:
    """Pause the named tasks, also claimed ones; without names, all unclaimed tasks."""
    which = [task for task in asked.targets or asked.graph.tasks if _can_pause(task)]
    which = [task for task in which if asked.targets or not task.held(asked.now)]
    if not which:
        return CommandEffect(
            (), "There is nothing to pause." if not asked.targets else f"{_names(asked.targets)}: not now."
        )
    return CommandEffect(tuple(moved(task, Verb.PAUSE) for task in which), f"Paused: {_names(which)}.")


def resume(asked: CommandInput) -> CommandEffect:
    """Resume the named tasks; without names, all paused ones."""
    which = [task for task in asked.targets or asked.graph.tasks if task.status is Status.PAUSED]
    if not which:
        return CommandEffect((), f"{_names(asked.targets)}: not paused." if asked.targets else "Nothing is paused.")
    return CommandEffect(tuple(moved(task, Verb.RESUME) for task in which), f"Resumed: {_names(which)}.")


def accept(asked: CommandInput) -> CommandEffect:
    """Queue tasks from the backlog."""
    which = [task for task in asked.targets or asked.graph.tasks if task.status is Status.BACKLOG]
    if not which:
        return CommandEffect((), "No task of that name waits to be accepted.")
    return CommandEffect(tuple(moved(task, Verb.QUEUE) for task in which), f"Accepted: {_names(which)}.")


def done(asked: CommandInput) -> CommandEffect:
    """Finish a task for the sender. This cannot be undone."""
    (task,) = asked.targets
    if task.held(asked.now):
        return CommandEffect(
            (), f"An agent is at work on '{task.title}', so it was not marked as done.", understood=False
        )
    return CommandEffect((moved(task, Verb.DONE),), f"'{task.title}' is done.")


def edit(asked: CommandInput) -> CommandEffect:
    """Append the message to the task's description."""
    (task,) = asked.targets
    text = f"{task.description}\n\nChange: {asked.said}".strip()
    return CommandEffect(tuple(edited(task, description=text)), f"Noted with '{task.title}': {asked.said}")


def cancel(asked: CommandInput) -> CommandEffect:
    which = asked.targets or asked.graph.tasks
    if not which:
        return CommandEffect((), "There is nothing to cancel.")
    waiting = [task for task in asked.graph.tasks if task not in which and _waits_for(asked.graph, task, which)]
    left = f" {_names(waiting)} waited for it: say whether it is still wanted." if waiting else ""
    return CommandEffect(tuple(moved(task, Verb.CANCEL) for task in which), f"Canceled: {_names(which)}.{left}")


EFFECTS: Mapping[Name, Callable[[CommandInput], CommandEffect]] = {
    Name.PRIORITY: first,
    Name.DEFER: last,
    Name.BEFORE: before,
    Name.AFTER: after,
    Name.INDEPENDENT: independent,
    Name.FOCUS: focus,
    Name.PAUSE: pause,
    Name.RESUME: resume,
    Name.ACCEPT: accept,
    Name.CANCEL: cancel,
    Name.DONE: done,
    Name.EDIT: edit,
}


def circular(path: Sequence[str], tasks: Mapping[str, Task]) -> Reply:
    """A cycle in plain words."""
    titles = [f"'{tasks[each].title}'" if each in tasks else each for each in path]
    steps = " which waits for ".join([f"{titles[0]} waits for {titles[1]},", *(f"{each}," for each in titles[2:])])
    return Reply(f"That would make a cycle: {steps.rstrip(',')}. Nothing was changed.", understood=False)


def _needed(graph: Graph, task: Task) -> list[Task]:
    """All direct and indirect prerequisites of a task."""
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
    """The tasks of the latest window."""
    windows = {task.id: str(task.extra.get("window_expires_at") or "") for task in tasks}
    latest = max(windows.values(), default="")
    newest = [task for task in tasks if windows[task.id] == latest]
    return tuple(sorted(newest, key=lambda task: (task.created_at, task.id))[-_RECENT:])


def _names(tasks: Iterable[Task]) -> str:
    titles = [f"'{task.title}'" for task in tasks]
    return ", ".join(titles[:-1]) + f" and {titles[-1]}" if len(titles) > 1 else "".join(titles)
