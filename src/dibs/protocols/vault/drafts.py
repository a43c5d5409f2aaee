"""Drafts that cloud agents write and people decide about.

The draft of a task is beside it in Pending_Approval; each names the other. A person approves with the last line
`APPROVED` in either file or by moving the draft to Done, and rejects with `REJECTED: reason` or by moving it to
Rejected. An approved task returns to Needs_Action for an agent that may carry it out, and the draft follows it.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Status, Task
from dibs.core.times import time_from, time_text
from dibs.protocols.vault import settings
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.protocols.vault.workplace import TrackedDesk

LASTS = timedelta(hours=24)

# A decision counts only below one of these lines: quotations in a task or draft are above.
DECIDE_BELOW = "<!-- dibs: to decide, write APPROVED, or REJECTED: and why, as the last line below this one -->"
_HANDED_OVER = "**Next State**: Pending_Approval"
_LAST_LINE = re.compile(r"(?:APPROVED|REJECTED:[ \t]*(?P<reason>\S.*))\s*", re.ASCII)
_MOST = 1 << 20  # bytes at a file's end that are searched for a decision


class Decision(NamedTuple):
    """`at` is the time of the decision, by the file."""

    approved: bool
    reason: str
    at: datetime


def make(tracked: "TrackedDesk", task: Task, text: str, now: datetime) -> Task:
    """Put the draft of this attempt into Pending_Approval, in place of earlier ones."""
    draft_id = checks.derived_identifier("draft", task.id, str(task.attempt))
    body = (text.strip("\n") or task.description).replace(DECIDE_BELOW, "")
    extra = {
        settings.DRAFT_ID: draft_id,
        settings.DRAFT_TYPE: settings.draft_type(task),
        settings.DRAFT_OF: task.id,
        settings.ACTION: settings.action_of(task),
        settings.APPROVAL: settings.PENDING,
        settings.EXPIRES: time_text(now + LASTS),
    }
    for old in _drafts_of(tracked, task):
        tracked.move(old, Verb.CANCEL, reason=f"{draft_id} takes its place")
    title = f"Draft: {task.title}"[: checks.TITLE_MAX]
    description = f"{body}\n\n{DECIDE_BELOW}"
    return tracked.add(
        task.scope,
        Draft(title, draft_id, description, Status.REVIEW, priority=task.priority, origin=tracked.agent, extra=extra),
    )


def waiting(tracked: "TrackedDesk") -> list[Task]:
    """The drafts in Pending_Approval, and the tasks that have one."""
    found = tracked.desk.find(Query(statuses=(Status.REVIEW,)))
    return [task for task in found if settings.DRAFT_OF in task.extra or _named_draft(task) is not None]


def _drafts_of(tracked: "TrackedDesk", task: Task) -> list[Task]:
    key = (task.scope, task.id)
    return [one for one in waiting(tracked) if (one.scope, one.extra.get(settings.DRAFT_OF)) == key]


def draft_of(tracked: "TrackedDesk", task: Task) -> Task | None:
    """The draft that a task names, or None."""
    named = _named_draft(task)
    return None if named is None else _named(tracked, task.scope, named)


def _named(tracked: "TrackedDesk", scope: str, task_id: str) -> Task | None:
    """The task that a file names, or None. People edit these files, so the id may be any text."""
    try:
        return tracked.desk.at(scope).get(task_id)
    except (NotFound, InvalidInput):
        return None


def _named_draft(task: Task) -> str | None:
    named = task.result.get(settings.DRAFT_ID) if isinstance(task.result, dict) else None
    return named if isinstance(named, str) else None


def text_of(draft: Task) -> str:
    """A draft's current text, without the decision below it."""
    return draft.description.rpartition(DECIDE_BELOW)[0].rstrip("\n") or draft.description


def settle(tracked: "TrackedDesk", root: str, now: datetime) -> Iterator[str]:
    """Act on decisions and flag expired drafts; yield a line for each action. An invalid draft stops no other."""
    for task in waiting(tracked):
        try:
            if settings.DRAFT_OF in task.extra:
                yield from _follow(tracked, task)
            else:
                draft = draft_of(tracked, task)
                if draft is not None:
                    yield from _decide(tracked, task, draft, root, now)
        except DibsError as error:
            yield f"{name_of(task)} could not be settled: {error.message}"


def _follow(tracked: "TrackedDesk", draft: Task) -> Iterator[str]:
    """Move a draft after its task, which a person has finished. Nothing is carried out."""
    task = _named(tracked, draft.scope, str(draft.extra[settings.DRAFT_OF]))
    if task is None:
        return
    if task.status is Status.DONE:
        tracked.move(draft, Verb.APPROVE)
        yield f"{name_of(draft)} went to Done after {name_of(task)}"
    elif task.status is Status.CANCELED:
        tracked.move(draft, Verb.CANCEL, reason=f"{task.id} was rejected")
        yield f"{name_of(draft)} went to Rejected after {name_of(task)}"


def _decide(tracked: "TrackedDesk", task: Task, draft: Task, root: str, now: datetime) -> Iterator[str]:
    decision = _decision(task, draft, root)
    ends = ends_at(draft)
    if decision is not None and not decision.approved:
        tracked.move(task, Verb.CANCEL, reason=decision.reason)
        if not draft.finished:
            tracked.move(_marked(tracked, draft, settings.REJECTED), Verb.CANCEL, reason=decision.reason)
        yield f"rejected {name_of(task)}: {decision.reason}"
    elif (now if decision is None else decision.at) > ends:
        if draft.extra.get(settings.APPROVAL) != settings.EXPIRED and not draft.finished:
            _marked(tracked, draft, settings.EXPIRED)
            late = "was approved too late" if decision else "was not approved in time"
            yield f"expired: {name_of(draft)} {late} (until {time_text(ends)}); nothing is done with it"
    elif decision is not None:
        if not draft.finished:
            _marked(tracked, draft, settings.APPROVED)
        tracked.mark(task, **{settings.APPROVAL: settings.APPROVED})
        tracked.move(task, Verb.REWORK, reason=f"{draft.id} was approved")
        yield f"approved {name_of(task)}"


def _marked(tracked: "TrackedDesk", draft: Task, how: str) -> Task:
    return tracked.mark(draft, **{settings.APPROVAL: how})


def finish(tracked: "TrackedDesk", task: Task, verb: Verb, reason: str | None = None) -> None:
    """Move the draft of an approved task after the task."""
    draft = draft_of(tracked, task)
    if draft is not None and draft.status is Status.REVIEW:
        tracked.move(draft, verb, reason=reason)


def _decision(task: Task, draft: Task, root: str) -> Decision | None:
    if draft.status in {Status.DONE, Status.CANCELED} and draft.finished_at is not None:
        reason = draft.reason or f"{draft.id} was moved to Rejected"
        return Decision(draft.status is Status.DONE, reason, draft.finished_at)
    return _written(root, draft, DECIDE_BELOW) or _written(root, task, _HANDED_OVER)


def _written(root: str, task: Task, below: str) -> Decision | None:
    """The decision in a file's last line, below the line `below`."""
    try:
        fd = os.open(os.path.join(root, path_of(task)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # gone or unreadable: no decision
    with open(fd, "rb") as file:
        stat = os.fstat(fd)
        file.seek(max(0, stat.st_size - _MOST))
        text = file.read(_MOST).decode(errors="replace")
    _, found, rest = text.rpartition(below)
    lines = rest.strip().splitlines() if found else []
    said = _LAST_LINE.fullmatch(lines[-1].strip()) if lines else None
    if said is None:
        return None
    reason = said["reason"]
    at = datetime.fromtimestamp(stat.st_mtime, UTC)
    return Decision(reason is None, reason or f"rejected in {task.id}", at)


def ends_at(draft: Task) -> datetime:
    """When a draft expires."""
    said = draft.extra.get(settings.EXPIRES)
    try:
        return time_from(str(said))
    except InvalidInput:
        return draft.created_at + LASTS
