"""The tools: a function for each, and the table that clients see."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.chat.conversation.plan import plan_of
from dibs.chat.opening import chosen_session
from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.lifecycle import Verb
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.task import TERMINAL, Draft, Link, Status
from dibs.desk import mint_id
from dibs.fleet.supervisor.protocol import clock
from dibs.serve.access import Right, check_follow_ups
from dibs.serve.desks import page_of
from dibs.serve.mcp.models import (
    MOST_ROWS,
    Add,
    Added,
    Answer,
    Arguments,
    AskReview,
    Block,
    Claim,
    Claimed,
    Comment,
    Ended,
    Find,
    Finish,
    Found,
    GiveBack,
    Overview,
    Plan,
    Planned,
    Progress,
    Renewed,
    Reopen,
    Reply,
    Say,
    Search,
    Show,
    Shown,
    TaskAnswer,
    WhatNext,
)
from dibs.serve.mcp.rendering import brief, mine, row, rows
from dibs.stores.port import Query
from dibs.stores.reports import nothing_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.plan import PlanChanges
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.serve.mcp.models import NewTask, Row
    from dibs.serve.mcp.sessions import Identity, Session
    from dibs.stores.port import Moved

# Looking: what_next, show, find

_OPEN = tuple(status for status in Status if status not in TERMINAL)


def what_next(desk: Desk, session: Session, asked: WhatNext) -> Overview:
    now = desk.now()
    ready = desk.ready(limit=asked.limit, agent=session.who.agent, can=session.who.can)
    counts = desk.counts()
    numbers = {str(status): number for status, number in counts.by_status.items() if number}
    return Overview(
        holding=rows(_held(desk, session), now),
        ready=rows(ready, now),
        counts={**numbers, "claimable": counts.claimable, "waiting": counts.waiting},
        note=None if ready else nothing_ready(counts, now).message,
    )


def _held(desk: Desk, session: Session) -> list[Task]:
    """The tasks that the session still holds, read again. The renewer reports lost ones."""
    found = [(hold.task, desk.get(hold.task.id)) for hold in session.holds]
    return [now for then, now in found if now.lease is not None and now.attempt == then.attempt]


def show(desk: Desk, _session: Session, asked: Show) -> Shown:
    task = brief(desk, desk.get(asked.task), asked.offset)
    more = f"The description goes on: show with offset={task.more_at}." if task.more_at is not None else None
    return Shown(task=task, note=more)


def find(desk: Desk, session: Session, asked: Find) -> Found:
    holder = session.who.agent if asked.mine else None
    query = Query(desk.scope, tuple(asked.status) or _OPEN, agent=holder, text=asked.text, only=asked.only)
    page = page_of(desk, query, asked.limit, asked.cursor)
    return Found(tasks=rows(page.tasks, desk.now()), next=page.next)


def search(desk: Desk, _session: Session, asked: Search) -> Found:
    hits = desk.search(asked.text, limit=asked.limit, finished=not asked.unfinished)
    now = desk.now()
    found = [row(hit.task, now) for hit in hits]
    for one, hit in zip(found, hits, strict=True):
        one.about = hit.excerpt or one.about
    return Found(tasks=found, note=None if hits else "No task has all of these words; try fewer.")


# Any task: comment, reopen


def comment(desk: Desk, _session: Session, asked: Comment) -> TaskAnswer:
    task = desk.get(asked.task)
    desk.comment(task.id, asked.text)
    return TaskAnswer(task=row(task, desk.now()))


def reopen(desk: Desk, _session: Session, asked: Reopen) -> TaskAnswer:
    return TaskAnswer(task=row(desk.move(Verb.REOPEN, asked.task, reason=asked.reason).task, desk.now()))


# Holding: claim, progress


def claim(desk: Desk, session: Session, asked: Claim) -> Claimed:
    who, asked_at = session.who, clock()
    if asked.task is not None:
        session.refuse_if_held(asked.task)
    refs = () if asked.task is None else (asked.task,)
    claimed = desk.claim(who.agent, refs=refs, lease=who.lease, run=who.run, can=who.can, only=asked.only)
    if not claimed:
        return Claimed(note=nothing_ready(desk.counts(), desk.now(), asked.only).message)
    session.take(claimed[0], asked_at)
    return Claimed(claimed=mine(desk, claimed[0], who.lease))


def progress(desk: Desk, session: Session, asked: Progress) -> Renewed:
    """Renew the lease in the store, so that the answer is certain."""
    meant, asked_at = session.meant(desk, asked.task, asked.token), clock()
    with session.checking(meant):
        task = desk.renew(meant.task, meant.token, lease=session.who.lease)
    session.adopt(meant, task, asked_at)
    if asked.note:
        desk.comment(task.id, asked.note)
    minutes = round(session.who.lease.total_seconds() / 60, 2)
    return Renewed(task=row(task, desk.now()), minutes=minutes)


# Ending an attempt: finish, block, ask_review, give_back


def finish(desk: Desk, session: Session, asked: Finish) -> Ended:
    return _end(desk, session, asked, Verb.DONE, result=asked.result, artifacts=asked.artifacts)


def block(desk: Desk, session: Session, asked: Block) -> Ended:
    why = {"reason": asked.reason, "unblock_action": asked.action, "next_check_at": asked.check_at}
    return _end(desk, session, asked, Verb.BLOCK, **why)


def ask_review(desk: Desk, session: Session, asked: AskReview) -> Ended:
    outcome = {"reason": asked.note, "result": asked.result, "artifacts": asked.artifacts}
    return _end(desk, session, asked, Verb.REVIEW, **outcome)


def give_back(desk: Desk, session: Session, asked: GiveBack) -> Ended:
    return _end(desk, session, asked, Verb.FAIL if asked.failed else Verb.RELEASE, reason=asked.reason)


def _end(
    desk: Desk, session: Session, asked: Finish | Block | AskReview | GiveBack, verb: Verb, **brings: Any
) -> Ended:
    meant, asked_at = session.meant(desk, asked.task, asked.token), clock()
    then = _then(desk, session.who) if asked.next else None
    with session.ending(meant):
        moved = desk.move(verb, meant.task, token=meant.token, then=then, **brings)
    for claimed in moved.next:
        session.take(claimed, asked_at)
    return Ended(
        task=row(moved.task, desk.now()),
        unblocked=list(moved.unblocked) or None,
        claimed=mine(desk, moved.next[0], session.who.lease) if moved.next else None,
        note=_note(desk, moved, going_on=asked.next),
    )


def _then(desk: Desk, who: Identity) -> ClaimRequest:
    return desk.next_request(who.agent, lease=who.lease, run=who.run, can=who.can)


def _note(desk: Desk, moved: Moved, *, going_on: bool) -> str | None:
    if moved.task.status is Status.ESCALATED:
        return "No retry is left: the task is escalated to a person."
    if moved.repeated:
        return "This was reported before; nothing was changed."
    return nothing_ready(desk.counts(), desk.now()).message if going_on and not moved.next else None


# Adding and planning: add, plan

_LONG_ID = 9  # characters of generated ids; long enough to be unique


def add(desk: Desk, session: Session, asked: Add) -> Added:
    """Add all or nothing. Tasks of one call may refer to each other."""
    if not asked.tasks and not asked.links:
        raise InvalidInput("There is nothing to add: give tasks, or links between tasks that exist.")
    if not asked.tasks:
        session.require(Right.PLAN)
        made = desk.link([Link(link.task, link.needs) for link in asked.links])
        return Added(tasks=[], links=len(made))
    linked = len(asked.tasks) > 1 and any(task.needs or task.needed_by for task in asked.tasks)
    names = [task.id or (mint_id(_LONG_ID) if linked else "") for task in asked.tasks]
    links = [*_links(desk, asked, names), *_between(desk, asked, names)]
    drafts = [_draft(desk, task, name, names) for task, name in zip(asked.tasks, names, strict=True)]
    if not session.may(Right.PLAN):
        check_follow_ups(drafts, links)
    return Added(tasks=rows(desk.add(drafts, links), desk.now()), links=len(links))


def _draft(desk: Desk, task: NewTask, name: str, fresh: list[str]) -> Draft:
    said: dict[str, Any] = {
        field: tuple(value) if isinstance(value, list) else value for field, value in task if field in Draft._fields
    }
    parent = None if task.parent is None else _known(desk, task.parent, fresh)
    return Draft(**{**said, "id": name, "parent": parent})


def _links(desk: Desk, asked: Add, names: list[str]) -> Iterator[Link]:
    for task, name in zip(asked.tasks, names, strict=True):
        yield from (Link(name, _known(desk, other, names)) for other in task.needs)
        yield from (Link(_known(desk, other, names), name) for other in task.needed_by)


def _between(desk: Desk, asked: Add, names: list[str]) -> Iterator[Link]:
    return (Link(_known(desk, link.task, names), _known(desk, link.needs, names)) for link in asked.links)


def _known(desk: Desk, ref: str, fresh: list[str]) -> str:
    return ref if ref in fresh else desk.resolve(ref)


def plan(desk: Desk, session: Session, asked: Plan) -> Planned:
    if asked.text is None:
        return _as_it_stands(desk, asked.page)
    session.require(Right.PLAN)
    parsed = skim_jsonl(asked.text) if _in_lines(asked.text) else parse_yaml(asked.text)
    changes = desk.apply_plan(parsed, dry_run=asked.dry_run)
    return Planned(dry_run=asked.dry_run, changed=_changed(changes))


def _in_lines(text: str) -> bool:
    """Whether each line is a task in JSON. A whole plan in JSON is also YAML."""
    try:
        first = json.loads(text.lstrip().partition("\n")[0])
    except ValueError:
        return False
    return isinstance(first, dict) and "tasks" not in first


def _changed(changes: PlanChanges) -> dict[str, list[str]]:
    """The changed tasks by kind of change; long lists are cut."""
    told: dict[str, Iterable[str]] = {
        "added": (planned.draft.id for planned in changes.insert),
        "changed": changes.updated,
        "removed": changes.remove,
        "left_done": changes.skipped_done,
        "left_active": changes.skipped_active,
        "left_canceled": changes.skipped_canceled,
    }
    return {kind: short for kind, ids in told.items() if (short := _short(list(ids)))}


def _short(ids: list[str]) -> list[str]:
    return ids if len(ids) <= MOST_ROWS else [*ids[:MOST_ROWS], f"… and {len(ids) - MOST_ROWS} more"]


def _as_it_stands(desk: Desk, page: int) -> Planned:
    """One page of the unfinished tasks by phase."""
    found = plan_of(desk.graph(finished=False))
    now, first = desk.now(), (page - 1) * MOST_ROWS
    numbered = ((number, item.task) for number, phase in enumerate(found.phases) for item in phase)
    phases: dict[int, list[Row]] = {}
    for number, task in islice(numbered, first, first + MOST_ROWS):
        phases.setdefault(number, []).append(row(task, now))
    more = page + 1 if len(found.order) > first + MOST_ROWS else None
    path = _short([task.id for task in found.path])
    return Planned(phases=list(phases.values()), critical_path=path, next_page=more)


# Chat: say


def say(desk: Desk, session: Session, asked: Say) -> Reply:
    sender = session.who.sender
    if sender is None:
        raise Misconfigured(
            "This session has no sender. A person starts it with 'dibs mcp --sender WHO' or gives it a sender's token. "
            "Until then, use add."
        )
    said = chosen_session(desk, sender).say(asked.text, preview=asked.preview)
    return Reply(kind="message" if said.command is None else "command", reply=said.reply.text)


# The table


class Tool(NamedTuple):
    """`act` takes the desk, the session and the arguments. `suffices` is another right that is enough.

    `looks`: it changes nothing. `repeats`: a second call changes nothing more. `removes`: it may remove something.
    """

    name: str
    about: str
    takes: type[Arguments]
    gives: type[Answer]
    act: Callable[..., Answer]
    right: Right
    looks: bool = False
    repeats: bool = False
    removes: bool = False
    suffices: Right | None = None


TOOLS = (
    Tool(
        "what_next",
        "List your tasks and the ready tasks in order, or the reason why none is ready. Claims nothing. Start here.",
        WhatNext,
        Overview,
        what_next,
        Right.READ,
        looks=True,
    ),
    Tool(
        "claim",
        "Claim a task: it is yours alone, and its lease is renewed while this session lives. Do the work, then call "
        "finish, block, ask_review or give_back.",
        Claim,
        Claimed,
        claim,
        Right.CLAIM,
    ),
    Tool(
        "progress",
        "Add a note to your task and check that you still hold it, for example before an irreversible step. Not needed "
        "to keep the lease.",
        Progress,
        Renewed,
        progress,
        Right.CLAIM,
    ),
    Tool(
        "finish",
        "Mark your task as done. This unblocks the tasks that need it.",
        Finish,
        Ended,
        finish,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "block",
        "Block your task until something outside changes, such as an answer or an outage. If another task must come "
        "first, add that task with needed_by and call give_back instead.",
        Block,
        Ended,
        block,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "ask_review",
        "Send your task to review: a person approves it before it counts as done. Use it instead of finish.",
        AskReview,
        Ended,
        ask_review,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "give_back",
        "Release your task unfinished: it goes back into the queue for any agent.",
        GiveBack,
        Ended,
        give_back,
        Right.CLAIM,
        repeats=True,
    ),
    Tool(
        "add",
        "Add tasks with their prerequisites, or links between tasks; all or nothing. Tasks of one call may refer to "
        "each other by id.",
        Add,
        Added,
        add,
        Right.PLAN,
        suffices=Right.CLAIM,
    ),
    Tool(
        "plan",
        "Without text: list all unfinished tasks by phase. With text: apply a plan to the tasks of its spec; finished "
        "and active tasks are not changed.",
        Plan,
        Planned,
        plan,
        Right.READ,
        repeats=True,
        removes=True,
    ),
    Tool(
        "show",
        "Show one task in full, with links and history.",
        Show,
        Shown,
        show,
        Right.READ,
        looks=True,
    ),
    Tool("find", "List tasks by status, label or holder.", Find, Found, find, Right.READ, looks=True),
    Tool(
        "search",
        "Find tasks by words in title, description and comments, best match first.",
        Search,
        Found,
        search,
        Right.READ,
        looks=True,
    ),
    Tool(
        "comment",
        "Comment on any task.",
        Comment,
        TaskAnswer,
        comment,
        Right.PLAN,
        suffices=Right.CLAIM,
    ),
    Tool(
        "reopen",
        "Make a done or canceled task ready again.",
        Reopen,
        TaskAnswer,
        reopen,
        Right.PLAN,
    ),
    Tool(
        "say",
        "Pass on a request of the person you work for, word for word: new work, or a command such as 'Do X before Y' "
        "or 'Undo'.",
        Say,
        Reply,
        say,
        Right.PLAN,
    ),
)


def by_name(name: str) -> Tool | None:
    return next((tool for tool in TOOLS if tool.name == name), None)
