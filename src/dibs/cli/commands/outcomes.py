"""done, fail, block, review, cancel, close: the ways an attempt or a task ends; reopen: the way back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dibs.cli.command import (
    add_agent,
    add_filters,
    add_force,
    add_lease,
    add_task,
    add_token,
    filter_of,
    open_desk,
    print_export,
    run_name,
    task_data,
    task_of,
    token_of,
)
from dibs.console.arguments import MOMENT_HINT, json_text, moment_or_span, span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput
from dibs.core.lifecycle import Verb
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.stores.port import Moved


def _finish_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    add_force(parser)


def _going_on_options(parser: Parser) -> None:
    parser.add_argument("--next", action="store_true", help="claim the next task in the same transaction")
    parser.add_argument(
        "--export", action="store_true", help="with --next: print shell lines that set DIBS_TASK_ID and DIBS_TOKEN"
    )
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="with --next: a capability that you have (repeatable)"
    )
    add_filters(parser, when="with --next: ")
    add_lease(parser)


def _add_outcome(parser: Parser) -> None:
    parser.add_argument("--result", metavar="JSON", help="the result as JSON; dependent tasks get it as input")
    parser.add_argument("--note", metavar="TEXT", help="the result as plain text")
    parser.add_argument(
        "--artifact",
        metavar="REF",
        action="append",
        default=[],
        help="a file or link that belongs to the result (repeatable)",
    )


def _outcome(args: argparse.Namespace) -> Json:
    if args.result is not None:
        return json_text("result", args.result)  # type: ignore[return-value]  # what JSON gives is Json
    note: str | None = args.note
    return note


def _done_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--human", action="store_true", help="finish a task that no agent holds, as a person")
    _add_outcome(parser)
    _going_on_options(parser)


def done(args: argparse.Namespace) -> int:
    verb = Verb.CLOSE if args.human else Verb.DONE
    return _finish(args, verb, "done", result=_outcome(args), artifacts=args.artifact)


def _close_options(parser: Parser) -> None:
    _finish_options(parser)
    _add_outcome(parser)


def close(args: argparse.Namespace) -> int:
    return _finish(args, Verb.CLOSE, "closed", result=_outcome(args), artifacts=args.artifact)


def _reopen_options(parser: Parser) -> None:
    add_task(parser)
    add_agent(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the log")


def reopen(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.move(Verb.REOPEN, args.task, reason=args.reason).task
        return emit(args, lambda: task_data(task), lambda: [f"reopened {task.id}: {_standing(task, desk)}"])


def _standing(task: Task, desk: Desk) -> str:
    from dibs.core.task import status_word

    return status_word(task, desk.now())


def _fail_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the cause of the failure")
    parser.add_argument(
        "--retry-in", metavar="SPAN", type=span, help="wait this long before it can be claimed again, such as 10m"
    )
    _going_on_options(parser)


def fail(args: argparse.Namespace) -> int:
    return _finish(args, Verb.FAIL, "failed", delay=args.retry_in, reason=args.reason)


def _block_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what blocks the task")
    parser.add_argument("--action", metavar="TEXT", help="what a person has to do to unblock it")
    parser.add_argument(
        "--check-at", metavar="TIME", type=moment_or_span, help=f"when to look at it again: {MOMENT_HINT}"
    )
    _going_on_options(parser)


def block(args: argparse.Namespace) -> int:
    why = {"reason": args.reason, "unblock_action": args.action, "next_check_at": args.check_at}
    return _finish(args, Verb.BLOCK, "blocked", **why)


def _review_options(parser: Parser) -> None:
    _finish_options(parser)
    _add_outcome(parser)
    parser.add_argument("--reason", metavar="TEXT", help="what the reviewer should check")
    _going_on_options(parser)


def review(args: argparse.Namespace) -> int:
    outcome = {"result": _outcome(args), "artifacts": args.artifact}
    return _finish(args, Verb.REVIEW, "up for review:", reason=args.reason, **outcome)


def _cancel_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the log")
    parser.add_argument(
        "--dependents",
        choices=("resolve", "escalate", "cascade"),
        help="for dependent tasks: resolve lets them run, escalate asks a person (default), cascade cancels",
    )


def cancel(args: argparse.Namespace) -> int:
    from dibs.core.policy import CanceledBlocker

    rule = None if args.dependents is None else CanceledBlocker(f"{args.dependents}s")
    return _finish(args, Verb.CANCEL, "canceled", reason=args.reason, on_cancel=rule)


def _finish(args: argparse.Namespace, verb: Verb, word: str, *, delay: timedelta | None = None, **brings: Any) -> int:
    """End an attempt with its results, and claim the next task if asked to."""
    with open_desk(args) as desk:
        if isinstance(after := brings.get("next_check_at"), timedelta):
            brings["next_check_at"] = desk.now() + after
        moved = desk.move(
            verb,
            task_of(args),
            token=_proof(args, desk, verb),
            force=args.force,
            not_before=None if delay is None else desk.now() + delay,
            then=_then(args, desk),
            **brings,
        )
        return _emit(args, moved, word)


def _proof(args: argparse.Namespace, desk: Desk, verb: Verb) -> str | None:
    """A person closes a task without a proof; DIBS_TOKEN is a holder's."""
    return args.token or None if verb is Verb.CLOSE else token_of(args, desk)


def _then(args: argparse.Namespace, desk: Desk) -> ClaimRequest | None:
    going_on, exporting = getattr(args, "next", False), getattr(args, "export", False)
    if exporting and (args.json or not going_on):
        raise InvalidInput("--export goes with --next and is for a shell, not with --json.")
    if not going_on:
        return None
    agent, only = args.agent or agent_name(), filter_of(args)
    return desk.next_request(agent, lease=args.lease, run=run_name(args), can=args.can, only=only)


def _emit(args: argparse.Namespace, moved: Moved, word: str) -> int:
    going_on = getattr(args, "next", False)
    if getattr(args, "export", False):
        print_export(moved.next)
        return 0
    return emit(args, lambda: _data(moved, going_on=going_on), lambda: _lines(moved, word, going_on=going_on))


def _data(moved: Moved, *, going_on: bool) -> dict[str, Json]:
    from dibs.core.wire import claimed_json

    drawn: dict[str, Json] = {"unblocked": moved.unblocked, "escalated": moved.escalated, "canceled": moved.canceled}
    if going_on:
        drawn["next"] = claimed_json(moved.next[0]) if moved.next else None
    return task_data(moved.task) | drawn


def _lines(moved: Moved, word: str, *, going_on: bool) -> Iterable[str]:
    yield f"{'escalated' if moved.task.status == 'escalated' else word} {moved.task.id}"
    for what, ids in (("unblocked", moved.unblocked), ("escalated", moved.escalated), ("canceled", moved.canceled)):
        if ids:
            yield f"  {what}: {', '.join(ids)}"
    if moved.next:
        from dibs.cli.text import claimed_lines

        yield ""
        yield from claimed_lines(moved.next[0])
    elif going_on:
        yield "nothing more to claim now"


COMMANDS = {
    "done": Command(_done_options, done),
    "close": Command(_close_options, close),
    "reopen": Command(_reopen_options, reopen),
    "fail": Command(_fail_options, fail),
    "block": Command(_block_options, block),
    "review": Command(_review_options, review),
    "cancel": Command(_cancel_options, cancel),
}
