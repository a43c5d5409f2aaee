"""create, update, delete, block, unblock: what there is to do, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.console.commands import Command
from dibs.core.errors import AlreadyExists, Held, IllegalMove, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import UNSET, Draft, Edit, Link, Status
from dibs.protocols.ralph.command import add_agent, add_id, steps_from, warn
from dibs.protocols.ralph.policy import RALPH
from dibs.protocols.ralph.settings import open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Task
    from dibs.desk import Desk


def _create_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("title", metavar="TITLE", help="what is to be done, on one line")
    parser.add_argument("-p", "--priority", metavar="N", type=whole, default=2, help="0 comes first; 2 unless said")
    parser.add_argument("-c", "--category", metavar="C", help="the kind of work")
    parser.add_argument("-d", "--description", metavar="TEXT", default="", help="all there is to say about it")
    parser.add_argument("-s", "--steps", metavar="JSON", help="a list of texts")
    parser.add_argument("-r", "--spec", metavar="SPEC", help="the specification it belongs to")
    parser.add_argument("--ref", metavar="R", help="where to read more")
    parser.add_argument("--deps", metavar="IDS", default="", help="what must be done first, separated by commas")
    parser.add_argument("--max-retries", metavar="N", type=whole, help="give up after so many; else never")
    add_agent(parser)


def create(args: argparse.Namespace) -> int:
    draft = Draft(
        title=args.title,
        id=args.id,
        description=args.description,
        priority=args.priority,
        category=args.category or None,
        steps=() if args.steps is None else steps_from(args.steps),
        spec_ref=args.spec or None,
        ref=args.ref or None,
        max_retries=args.max_retries,
    )
    if not args.id:
        raise InvalidInput("A task needs an id.")
    before = dict.fromkeys(on.strip() for on in args.deps.split(",") if on.strip())
    with open_desk(args) as desk:
        try:
            desk.add([draft], [Link(args.id, on) for on in before])
        except AlreadyExists:
            raise AlreadyExists(f"There is a task '{args.id}' already; 'ralph task update' changes it.") from None
    print(args.id)
    return 0


def _update_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--title", metavar="TEXT", help="a new title")
    parser.add_argument("--priority", metavar="N", type=whole, help="0 comes first")
    parser.add_argument("--description", metavar="TEXT", help="a new description; an empty one clears it")
    parser.add_argument("--steps", metavar="JSON", help="a new list of texts; [] clears it")
    add_agent(parser)


def update(args: argparse.Namespace) -> int:
    given = {name: getattr(args, name) for name in ("title", "priority", "description")}
    edit = Edit(**{name: UNSET if value is None else value for name, value in given.items()})
    if args.steps is not None:
        edit = edit._replace(steps=steps_from(args.steps))
    if all(value is UNSET for value in edit):
        raise InvalidInput("Say what to change: --title, --priority, --description or --steps.")
    with open_desk(args) as desk:
        try:
            task = desk.edit(args.id, edit)
        except IllegalMove:
            raise _over(desk.get(args.id)) from None
        _warn_if_held(task, desk, "read it again with 'ralph task show'")
    print(f"updated {args.id}")
    return 0


def delete(args: argparse.Namespace) -> int:
    """Soft: the task stays, as deleted, and what it blocked goes ahead."""
    with open_desk(args) as desk:
        task = desk.get(args.id)
        if task.status is not Status.CANCELED:
            _cancel(task, desk)
    print(f"deleted {args.id}")
    return 0


def _cancel(task: Task, desk: Desk) -> None:
    try:
        _cancel_even_if_held(task, desk)
    except IllegalMove:
        now = desk.get(task.id)
        if now.status is not Status.CANCELED:  # else someone was faster, with the same end
            raise _over(now) from None
    _warn_if_held(task, desk, "what it reports from now on is refused")


def _cancel_even_if_held(task: Task, desk: Desk) -> None:
    """Overrule a holder where there is one, and only there: that is on record."""
    try:
        desk.move(Verb.CANCEL, task.id, force=task.lease is not None)
    except Held:  # claimed since we looked
        desk.move(Verb.CANCEL, task.id, force=True)


def _over(task: Task) -> IllegalMove:
    return IllegalMove(f"{task.id} is {RALPH.say(task.status)} and stays as it is. Nothing was changed.")


def _warn_if_held(task: Task, desk: Desk, what: str) -> None:
    if task.lease is not None and task.held(desk.now()):
        warn(f"{task.lease.agent} is working on {task.id}: {what}")


def _block_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--by", metavar="ID", required=True, help="the task that must be done first")
    add_agent(parser)


def block(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.get(args.id)
        if task.finished:  # should it end between this look and the link, the link will gate nothing
            raise _over(task)
        desk.link([Link(args.id, args.by)])
        _warn_if_held(task, desk, f"that it is blocked by {args.by} counts only when it is claimed anew")
    print(f"blocked {args.id} by {args.by}")
    return 0


def unblock(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        for task in (args.id, args.by):
            desk.get(task)
        try:
            desk.unlink([Link(args.id, args.by)])
        except NotFound:
            raise NotFound(
                f"{args.id} is not blocked by {args.by}; 'ralph task deps {args.id}' shows by what."
            ) from None
    print(f"unblocked {args.id} from {args.by}")
    return 0


def _delete_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)


COMMANDS = {
    "create": Command(_create_options, create),
    "update": Command(_update_options, update),
    "delete": Command(_delete_options, delete),
    "block": Command(_block_options, block),
    "unblock": Command(_block_options, unblock),
}
