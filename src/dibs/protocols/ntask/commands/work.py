"""Commands of an agent (next … release), and a person's decisions (unblock, approve, rework)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.console.arguments import moment, positive
from dibs.console.commands import Command
from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.protocols.ntask.answers import answer, answer_task, claiming, moving, status_of, task_json, warn, warn_of_loss
from dibs.protocols.ntask.settings import add_id, add_lease, add_lock, check_run, open_desk, status_word
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk


def overdue_among(tasks: Iterable[Task], now: datetime) -> list[Task]:
    """Return the overdue tasks, the longest overdue first."""
    found = [
        (task.next_check_at, task.id, task)
        for task in tasks
        if task.status is Status.BLOCKED and task.next_check_at is not None and task.next_check_at <= now
    ]
    return [task for *_, task in sorted(found, key=lambda one: one[:2])]


def next_task(_args: argparse.Namespace) -> int:
    with open_desk() as desk:
        for task in desk.ready(limit=1):
            return answer_task(desk, task)
        return answer({"task": None})


def get(args: argparse.Namespace) -> int:
    with open_desk() as desk:
        return answer_task(desk, desk.get(args.id))


def _list_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--status", metavar="S", type=status_word, help="only tasks with this status")
    which.add_argument("--overdue", action="store_true", help="only BLOCKED tasks whose NextCheckAt has passed")
    parser.add_argument("--limit", metavar="N", type=positive, default=50, help="largest number of tasks (default: 50)")


def list_tasks(args: argparse.Namespace) -> int:
    """List tasks; `overdue` names those whose NextCheckAt has passed."""
    wanted = (Status.BLOCKED,) if args.overdue else tuple(Status) if args.status is None else (args.status,)
    with open_desk() as desk:
        found = desk.find(Query(desk.scope, wanted, limit=None if args.overdue else args.limit))
        overdue = overdue_among(found, desk.now())
        shown = overdue[: args.limit] if args.overdue else found
        told: dict[str, Json] = {"tasks": [task_json(desk, task) for task in shown], "count": len(shown)}
        if overdue:
            told["overdue"] = [task.id for task in overdue]
        return answer(told)


def cancel_task(desk: Desk, ref: str, reason: str | None, token: str | None = None) -> Task:
    """Cancel a task; a finished one is not changed. An earlier reason is moved to a comment."""
    task = desk.get(ref)
    if task.finished:
        warn(f"{task.id} is {status_of(task)} already; nothing was changed")
        return task
    if task.reason and task.reason != reason and (token is not None or task.lease is None):
        reason = _kept(desk, task, reason)
    after = desk.move(Verb.CANCEL, ref, token=token, reason=reason).task
    warn_of_loss(after, {"reason": reason})
    return after


def _kept(desk: Desk, task: Task, reason: str | None) -> str | None:
    """Return the reason to write. In a store without comments, it also contains the earlier one."""
    before = f"Before it was canceled, {task.id} was {status_of(task)}: {task.reason}"
    try:
        desk.comment(task.id, before)
    except Unsupported as error:
        warn(f"the earlier reason is kept beside the new one: {error.message}")
        return f"{reason}\n\n{before}" if reason else before
    return reason


def _claim_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--run-id", metavar="R", required=True, help="id of this run")
    parser.add_argument("--agent-name", metavar="A", required=True, help="your name")
    add_lease(parser)


def claim(args: argparse.Namespace) -> int:
    """Claim a task. Only this answer and that of `pull` contain the lock token."""
    with (
        open_desk(agent=args.agent_name, run=args.run_id) as desk,
        claiming(desk, args.id, args.run_id, args.agent_name),
    ):
        (claimed,) = desk.claim(args.agent_name, refs=[args.id], run=args.run_id, lease=args.lease_min)
        return answer_task(desk, claimed.task, secrets=True)


def _pull_options(parser: Parser) -> None:
    parser.add_argument("--run-id", metavar="R", required=True, help="id of this run")
    parser.add_argument("--agent-name", metavar="A", required=True, help="your name")
    add_lease(parser)


def pull(args: argparse.Namespace) -> int:
    """Claim the next task in one step; null if none is free."""
    with (
        open_desk(agent=args.agent_name, run=args.run_id) as desk,
        claiming(desk, None, args.run_id, args.agent_name),
    ):
        for claimed in desk.claim(args.agent_name, run=args.run_id, lease=args.lease_min):
            return answer_task(desk, claimed.task, secrets=True)
        return answer({"task": None})


def _heartbeat_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser)
    add_lease(parser)


def heartbeat(args: argparse.Namespace) -> int:
    return _move(args, Verb.RENEW, lease=args.lease_min)


def _complete_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser)
    parser.add_argument("--artifacts", metavar="S", required=True, help="the result: links, commits, a summary")


def complete(args: argparse.Namespace) -> int:
    return _move(args, Verb.DONE, artifacts=_artifacts(args))


def _artifacts(args: argparse.Namespace) -> tuple[str, ...]:
    return (args.artifacts,) if args.artifacts else ()


def _block_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser)
    parser.add_argument("--reason", metavar="S", required=True, help="what the task waits for")
    parser.add_argument("--unblock-action", metavar="S", required=True, help="what a person has to do to unblock it")
    parser.add_argument("--next-check", metavar="ISO", type=moment, help="when to check it again")


def block(args: argparse.Namespace) -> int:
    return _move(
        args, Verb.BLOCK, reason=args.reason, unblock_action=args.unblock_action, next_check_at=args.next_check
    )


def _review_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser)
    parser.add_argument("--artifacts", metavar="S", help="what to review")


def review(args: argparse.Namespace) -> int:
    return _move(args, Verb.REVIEW, artifacts=_artifacts(args))


def _cancel_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser, optional=True)
    parser.add_argument("--reason", metavar="S", required=True, help="why")


def cancel(args: argparse.Namespace) -> int:
    if (args.run_id is None) != (args.lock_token is None):
        raise InvalidInput("--run-id and --lock-token go together: both are of one claim.")
    with open_desk(run=args.run_id) as desk, moving(desk, args.id, Verb.CANCEL):
        if args.run_id is not None:
            check_run(desk, args.id, args.run_id)
        return answer_task(desk, cancel_task(desk, args.id, args.reason, args.lock_token))


def _release_options(parser: Parser) -> None:
    add_id(parser)
    add_lock(parser)
    parser.add_argument("--reason", metavar="S", help="why, for the next holder")


def release(args: argparse.Namespace) -> int:
    return _move(args, Verb.RELEASE, reason=args.reason)


def _move(args: argparse.Namespace, verb: Verb, **brings: Any) -> int:
    with open_desk(run=args.run_id) as desk, moving(desk, args.id, verb):
        check_run(desk, args.id, args.run_id)
        task = desk.move(verb, args.id, token=args.lock_token, **brings).task
        warn_of_loss(task, brings)
        return answer_task(desk, task)


def unblock(args: argparse.Namespace) -> int:
    return _steer(args, Verb.UNBLOCK)


def approve(args: argparse.Namespace) -> int:
    return _steer(args, Verb.APPROVE)


def _rework_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--reason", metavar="S", help="what is missing")


def rework(args: argparse.Namespace) -> int:
    return _steer(args, Verb.REWORK, reason=args.reason)


def _steer(args: argparse.Namespace, verb: Verb, **brings: Any) -> int:
    with open_desk() as desk, moving(desk, args.id, verb):
        task = desk.move(verb, args.id, **brings).task
        warn_of_loss(task, brings)
        return answer_task(desk, task)


COMMANDS = {
    "next": Command(lambda _parser: None, next_task),
    "get": Command(add_id, get),
    "list": Command(_list_options, list_tasks),
    "claim": Command(_claim_options, claim),
    "pull": Command(_pull_options, pull),
    "heartbeat": Command(_heartbeat_options, heartbeat),
    "complete": Command(_complete_options, complete),
    "block": Command(_block_options, block),
    "review": Command(_review_options, review),
    "cancel": Command(_cancel_options, cancel),
    "release": Command(_release_options, release),
    "unblock": Command(add_id, unblock),
    "approve": Command(add_id, approve),
    "rework": Command(_rework_options, rework),
}
