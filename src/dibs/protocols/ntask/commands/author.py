"""create, update, comment: add and edit tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.console.streams import read_text
from dibs.core.errors import IllegalMove, InvalidInput
from dibs.core.lifecycle import Verb
from dibs.core.task import UNSET, Draft, Edit, ServiceClass, Status
from dibs.protocols.ntask.answers import DEFAULT_PRIORITY, NTASK, answer_task, moving, status_of, to_core
from dibs.protocols.ntask.commands.work import cancel_task
from dibs.protocols.ntask.settings import add_class, add_id, add_priority, open_desk, status_word, task_ref

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from dibs.console.arguments import Parser
    from dibs.core.task import Task
    from dibs.desk import Desk

_BIRTH = (Status.READY, Status.BACKLOG)

# The command to use for statuses that `update` may not set.
_ELSEWHERE = {
    Status.DONE: "'ntask complete' or, after a review, 'ntask approve' finishes a task",
    Status.ACTIVE: "'ntask claim' takes a task, with a lock",
    Status.REVIEW: "'ntask review' hands over a task that you hold",
    Status.PAUSED: "ntask itself does not pause tasks",
    Status.ESCALATED: "ntask itself does not escalate tasks",
}


def _create_options(parser: Parser) -> None:
    parser.add_argument("--title", metavar="TEXT", required=True, help="the task in one line")
    add_priority(parser, DEFAULT_PRIORITY)
    add_class(parser, ServiceClass.STANDARD)
    parser.add_argument("--parent", metavar="ID", type=task_ref, help="the task that this is a sub-task of")
    parser.add_argument(
        "--status", metavar="S", type=status_word, default=Status.READY, help="READY or BACKLOG (default: READY)"
    )


def create(args: argparse.Namespace) -> int:
    if args.status not in _BIRTH:
        raise InvalidInput(f"A new task starts as READY or BACKLOG, not {NTASK.say(args.status)}.")
    draft = Draft(
        args.title,
        status=args.status,
        priority=to_core(args.priority),
        service_class=args.class_of_service,
        parent=args.parent,
    )
    with open_desk() as desk:
        (task,) = desk.add([draft])
        return answer_task(desk, task)


def _update_options(parser: Parser) -> None:
    add_id(parser)
    add_priority(parser, None)
    add_class(parser, None)
    parser.add_argument(
        "--status",
        metavar="S",
        type=status_word,
        help="BACKLOG, READY, BLOCKED or CANCELED, for a task without a holder",
    )


def update(args: argparse.Namespace) -> int:
    change = Edit(
        priority=UNSET if args.priority is None else to_core(args.priority),
        service_class=UNSET if args.class_of_service is None else args.class_of_service,
    )
    edits = any(value is not UNSET for value in change)
    if not edits and args.status is None:
        raise InvalidInput("Give at least one of --priority, --class-of-service and --status.")
    if args.status in _ELSEWHERE:
        raise InvalidInput(f"An update cannot make a task {NTASK.say(args.status)}: {_ELSEWHERE[args.status]}.")
    if edits and args.status is Status.CANCELED:
        raise InvalidInput("Change the task or cancel it, but not in one command.")
    with open_desk() as desk:
        task = desk.get(args.id)
        if args.status is not None and args.status is not task.status:
            task = _placed(desk, task, args.status)  # first, because it may be refused; then nothing has changed
        return answer_task(desk, desk.edit(args.id, change) if edits else task)


def _placed(desk: Desk, task: Task, status: Status) -> Task:
    verb = _PLACING.get((task.status, status)) or _PLACING.get((None, status))
    if verb is None:
        raise IllegalMove(
            f"{task.id} is {status_of(task)}; an update cannot make it {NTASK.say(status)}. Nothing was changed."
        )
    with moving(desk, task.id, verb):
        return cancel_task(desk, task.id, None) if verb is Verb.CANCEL else desk.move(verb, task.id).task


_PLACING: Mapping[tuple[Status | None, Status], Verb] = {
    (Status.BACKLOG, Status.READY): Verb.QUEUE,
    (Status.BLOCKED, Status.READY): Verb.UNBLOCK,
    (Status.ESCALATED, Status.READY): Verb.UNBLOCK,
    (Status.REVIEW, Status.READY): Verb.REWORK,
    (Status.CANCELED, Status.READY): Verb.REOPEN,
    (Status.PAUSED, Status.READY): Verb.RESUME,
    (Status.READY, Status.BACKLOG): Verb.SHELVE,
    (None, Status.BLOCKED): Verb.BLOCK,
    (None, Status.CANCELED): Verb.CANCEL,
}


def _comment_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--text", metavar="S", required=True, help="the comment; - reads it from stdin")


def comment(args: argparse.Namespace) -> int:
    text = read_text("-") if args.text == "-" else args.text
    with open_desk() as desk:
        desk.comment(args.id, text)
        return answer_task(desk, desk.get(args.id))


COMMANDS = {
    "create": Command(_create_options, create),
    "update": Command(_update_options, update),
    "comment": Command(_comment_options, comment),
}
