"""create, update, delete, block, unblock, plan-sync and plan-status: the tasks and their order."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from dibs.console.arguments import whole
from dibs.console.commands import Command
from dibs.console.streams import read_text, watched
from dibs.core.errors import AlreadyExists, Held, IllegalMove, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.messages import command
from dibs.core.plan import skim_jsonl
from dibs.core.task import UNSET, Draft, Edit, Link, Status
from dibs.protocols.ralph.settings import (
    FAILED,
    RALPH,
    add_agent,
    add_id,
    add_json,
    open_desk,
    print_json,
    steps_from,
    warn,
)

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.plan import EntryContent, PlanChanges
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.stores.reports import Counts


def _create_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("title", metavar="TITLE", help="the title: one line")
    parser.add_argument("-p", "--priority", metavar="N", type=whole, default=2, help="0 comes first (default: 2)")
    parser.add_argument("-c", "--category", metavar="C", help="the kind of work")
    parser.add_argument("-d", "--description", metavar="TEXT", default="", help="the description")
    parser.add_argument("-s", "--steps", metavar="JSON", help="the steps, as a JSON list of texts")
    parser.add_argument("-r", "--spec", metavar="SPEC", help="the specification it belongs to")
    parser.add_argument("--ref", metavar="R", help="a reference to further text")
    parser.add_argument(
        "--deps", metavar="IDS", default="", help="the tasks that must be done first, separated by commas"
    )
    parser.add_argument("--max-retries", metavar="N", type=whole, help="the retry limit (default: none)")
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
    """Soft delete: the task stays with the status deleted, and unblocks its dependent tasks."""
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
    _warn_if_held(task, desk, "its later reports are rejected")


def _cancel_even_if_held(task: Task, desk: Desk) -> None:
    """Overrule a holder where there is one, and only there: that is on record."""
    try:
        desk.move(Verb.CANCEL, task.id, force=task.lease is not None)
    except Held:  # claimed since we looked
        desk.move(Verb.CANCEL, task.id, force=True)


def _over(task: Task) -> IllegalMove:
    return IllegalMove(f"{task.id} is {RALPH.say(task.status)} and cannot be changed. Nothing was changed.")


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
        _warn_if_held(task, desk, f"that it is blocked by {args.by} counts only at the next claim")
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
                f"{args.id} is not blocked by {args.by}; '{command('ralph', 'task', 'deps', args.id)}' shows by what."
            ) from None
    print(f"unblocked {args.id} from {args.by}")
    return 0


def _delete_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)


def _sync_options(parser: Parser) -> None:
    parser.add_argument(
        "--spec",
        metavar="REF",
        action="append",
        default=[],
        help="a spec that the plan covers, even without a task of it",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    add_agent(parser)


def plan_sync(args: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        warn("reading the plan from the terminal, one JSON object a line; Ctrl-D ends it")
    plan = skim_jsonl(read_text("-"), _whole_priority)
    plan = plan._replace(specs=plan.specs | frozenset(args.spec), revives=True)
    with open_desk(args) as desk, watched("Planning", len(plan.tasks)) as progress:
        changes = desk.apply_plan(plan, dry_run=args.dry_run, progress=progress)
    if changes.skipped_active:
        warn(f"left unchanged, because agents hold them: {', '.join(changes.skipped_active)}")
    print(_summary(changes))
    return 0


def _whole_priority(said: EntryContent) -> None:
    if said.draft.priority < 0 or said.draft.priority % 1:
        raise InvalidInput("'p' must be a whole number from 0 up; 0 comes first")


def _summary(changes: PlanChanges) -> str:
    counts = (len(changes.insert), len(changes.updated), len(changes.remove), len(changes.skipped_done))
    summary = "inserted: {}, updated: {}, deleted: {}, skipped (done): {}".format(*counts)
    active = len(changes.skipped_active)
    return f"{summary}, skipped (active): {active}" if active else summary


class Overview(NamedTuple):
    """`open` is all that is neither under way nor over; `blocked` are those among them that cannot be claimed yet."""

    open: int
    active: int
    done: int
    blocked: int
    deleted: int


def overview(counts: Counts) -> Overview:
    number = counts.by_status
    aside = sum(number[status] for status in _SET_ASIDE)
    return Overview(
        open=number[Status.READY] + aside,
        active=number[Status.ACTIVE],
        done=number[Status.DONE],
        blocked=counts.waiting + aside,
        deleted=number[Status.CANCELED],
    )


# Tasks set aside by people or other protocols: no agent can claim them before that changes.
_SET_ASIDE = (Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED)


def status_line(counted: Overview) -> str:
    return ", ".join(f"{number} {word}" for word, number in zip(counted._fields, counted, strict=True))


def stalled(counts: Counts) -> str | None:
    """Tasks are left, but no agent holds or can claim one, and time will not change that."""
    counted = overview(counts)
    if not counted.open or counted.active or counts.claimable or counts.later:
        return None
    return (
        f"Stalled: {counted.open} open, none can be claimed and none is active. "
        "'ralph task list' shows what they wait for."
    )


def _status_options(parser: Parser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if every open task is blocked and none is active"
    )
    add_json(parser)


def plan_status(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        counts = desk.counts()
    counted = overview(counts)
    if args.json:
        print_json(counted._asdict())
    else:
        print(status_line(counted))
    why = stalled(counts)
    if why:
        warn(why)
    return FAILED if why and args.check else 0


COMMANDS = {
    "create": Command(_create_options, create),
    "update": Command(_update_options, update),
    "delete": Command(_delete_options, delete),
    "block": Command(_block_options, block),
    "unblock": Command(_block_options, unblock),
    "plan-sync": Command(_sync_options, plan_sync),
    "plan-status": Command(_status_options, plan_status),
}
