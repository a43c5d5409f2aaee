"""What Notion may ask of a task, as the task stands: the safe rules, one function for each field.

Work that goes on is never interrupted, what is completed never reverted, and nothing is set free before its time.
"""

from typing import NamedTuple

from dibs.core.lifecycle import Verb
from dibs.core.task import Json, Status, Task
from dibs.sync.notion.words import (
    IN_REVIEW,
    READY_NOW,
    USUAL_WEIGHT,
    WEIGHTS,
    Fleet,
    asked_status,
    stands,
    title_of,
    weight_of,
)

IN_NOTION = "set in Notion"
DELETED = "deleted_in_notion"

_TO_READY = {
    Status.BLOCKED: Verb.UNBLOCK,
    Status.ESCALATED: Verb.UNBLOCK,
    Status.PAUSED: Verb.RESUME,
    Status.BACKLOG: Verb.QUEUE,
    Status.CANCELED: Verb.REOPEN,
}
_BLOCKABLE = frozenset({Status.BACKLOG, Status.READY, Status.BLOCKED, Status.ESCALATED})
_COMPLETED = "it is completed, and what is completed is not changed from Notion"
_CANCELED = "it was cancelled; set its status to Not Started first"


class Verdict(NamedTuple):
    """What is to be done, and shown as the new value; or `skip`, why not."""

    new: Json = None
    skip: str = ""
    verb: Verb | None = None
    fields: tuple[tuple[str, Json], ...] = ()


def on_status(task: Task, word: str | None, *, aggressive: bool) -> Verdict:
    target = asked_status(word)
    if target is None:
        return Verdict(word, f"'{word[:40]}' is none of the statuses" if word else "a task has a status")
    if task.status is Status.DONE:
        return Verdict(word, _COMPLETED)
    if task.status is Status.ACTIVE:
        return Verdict(word, "it is being worked on, and work that goes on is not interrupted")
    match target:
        case Status.ACTIVE:
            return Verdict(word, "work begins when an agent takes the task, not in Notion")
        case Status.BLOCKED if task.status in _BLOCKABLE:
            return Verdict("blocked", verb=Verb.BLOCK)
        case Status.DONE | Status.CANCELED:
            return _ended(task, target, aggressive=aggressive)
        case Status.READY:
            return _set_free(task, word)
    return Verdict(word, f"it is {stands(task)}")


def _ended(task: Task, target: Status, *, aggressive: bool) -> Verdict:
    done = target is Status.DONE
    word = "completed" if done else "aborted"
    if not aggressive:
        return Verdict(word, f"only with sync_preference aggressive is a task {word} from Notion")
    if done and task.status is Status.CANCELED:
        return Verdict(word, _CANCELED)
    if done and task.blockers:
        return Verdict(word, _waits(task))
    if done:
        return Verdict(word, verb=Verb.APPROVE if task.status is Status.REVIEW else Verb.DONE)
    return Verdict(word, verb=Verb.CANCEL)


def _set_free(task: Task, word: str | None) -> Verdict:
    if word == READY_NOW and task.blockers:
        return Verdict("ready", _waits(task))
    if task.status is Status.BACKLOG and word != READY_NOW:
        return Verdict(IN_REVIEW, "it waits to be looked at; Ready takes it up")
    if task.status not in _TO_READY:
        return Verdict(word, f"it is {stands(task)}, and somebody is to decide about it")
    return Verdict("ready" if not task.blockers else "pending", verb=_TO_READY[task.status])


def _waits(task: Task) -> str:
    return f"{task.blockers} unfinished {'task comes' if task.blockers == 1 else 'tasks come'} before it"


def on_priority(task: Task, word: str | None) -> Verdict:
    """Applies whatever goes on, save for what is over. A person's override ends with it: this is a newer word."""
    weight = USUAL_WEIGHT if word is None else WEIGHTS.get(word)
    if weight is None:
        return Verdict(word, f"'{str(word)[:40]}' is none of the priorities")
    if task.finished:
        return Verdict(weight, _over(task))
    return Verdict(weight, fields=(("priority", 0.0 - weight), ("override", False)))


def on_agent(task: Task, name: str | None, fleet: Fleet) -> Verdict:
    agent = None if name is None else fleet.agent_called(name)
    if name is not None and agent is None:
        return Verdict(name, f"there is no agent '{name[:40]}'")
    if task.finished:
        return Verdict(agent, _over(task))
    if task.status is Status.ACTIVE:
        return Verdict(agent, "it is being worked on, and stays with who is at it")
    return Verdict(agent, fields=(("assigned_to", agent),))


def on_title(task: Task, name: str | None) -> Verdict:
    title = title_of(name or "")
    if not title:
        return Verdict("", "a task needs a name")
    if task.finished:
        return Verdict(title, _over(task))
    return Verdict(title, fields=(("title", title), ("description", _renamed(task, name or ""))))


def _renamed(task: Task, name: str) -> str:
    """What is said beneath the first line of a description stays."""
    if title_of(task.description) != task.title:
        return task.description
    below = task.description.strip().split("\n")[1:]
    return "\n".join([name, *below]) if below else name


def on_deletion(task: Task) -> Verdict:
    if task.status is Status.ACTIVE:
        return Verdict("deleted", "it is being worked on, and work that goes on is not interrupted")
    if task.status not in _BLOCKABLE:
        return Verdict("deleted", f"it is {stands(task)}")
    return Verdict("blocked", verb=Verb.BLOCK)


def _over(task: Task) -> str:
    return _COMPLETED if task.status is Status.DONE else _CANCELED


def old_value(task: Task, what: str) -> Json:
    """As the record shows it."""
    match what:
        case "status" | "deleted":
            return stands(task)
        case "priority":
            return weight_of(task)
        case "agent":
            return task.assigned_to
    return task.title
