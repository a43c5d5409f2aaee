"""done, fail, block, review, cancel: the ways an attempt ends."""

from __future__ import annotations

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
from dibs.console.arguments import json_text, moment, span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput
from dibs.core.lifecycle import Verb
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import timedelta

    from dibs.console.arguments import Parser
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.stores.port import Moved


def _finish_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    add_force(parser)


def _going_on_options(parser: Parser) -> None:
    parser.add_argument("--next", action="store_true", help="claim the next task in the same step")
    parser.add_argument("--export", action="store_true", help="with --next: print shell lines that set DIBS_TASK_ID …")
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="with --next: a capability you have")
    add_filters(parser, when="with --next: ")
    add_lease(parser)


def _add_outcome(parser: Parser) -> None:
    parser.add_argument("--result", metavar="JSON", help="what came out of it, for the tasks that waited")
    parser.add_argument("--note", metavar="TEXT", help="the same as plain text")
    parser.add_argument("--artifact", metavar="REF", action="append", default=[], help="a file or link (repeatable)")


def _outcome(args: argparse.Namespace) -> Json:
    if args.result is not None:
        return json_text("result", args.result)  # type: ignore[return-value]  # what JSON gives is Json
    note: str | None = args.note
    return note


def _done_options(parser: Parser) -> None:
    _finish_options(parser)
    _add_outcome(parser)
    _going_on_options(parser)


def done(args: argparse.Namespace) -> int:
    return _finish(args, Verb.DONE, "done", result=_outcome(args), artifacts=args.artifact)


def _fail_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="what went wrong")
    parser.add_argument("--retry-in", metavar="SPAN", type=span, help="do not hand it out again before that")
    _going_on_options(parser)


def fail(args: argparse.Namespace) -> int:
    return _finish(args, Verb.FAIL, "failed", delay=args.retry_in, reason=args.reason)


def _block_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what stands in the way")
    parser.add_argument("--action", metavar="TEXT", help="what someone has to do about it")
    parser.add_argument("--check-at", metavar="TIME", type=moment, help="when to look again, such as 2026-01-31T12:00Z")
    _going_on_options(parser)


def block(args: argparse.Namespace) -> int:
    why = {"reason": args.reason, "unblock_action": args.action, "next_check_at": args.check_at}
    return _finish(args, Verb.BLOCK, "blocked", **why)


def _review_options(parser: Parser) -> None:
    _finish_options(parser)
    _add_outcome(parser)
    parser.add_argument("--reason", metavar="TEXT", help="what the reviewer should look at")
    _going_on_options(parser)


def review(args: argparse.Namespace) -> int:
    outcome = {"result": _outcome(args), "artifacts": args.artifact}
    return _finish(args, Verb.REVIEW, "up for review:", reason=args.reason, **outcome)


def _cancel_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why")
    parser.add_argument(
        "--dependents",
        choices=("resolve", "escalate", "cascade"),
        help="what becomes of the tasks that wait for it: go ahead, ask a person (the default), or be canceled too",
    )


def cancel(args: argparse.Namespace) -> int:
    from dibs.core.policy import CanceledBlocker

    rule = None if args.dependents is None else CanceledBlocker(f"{args.dependents}s")
    return _finish(args, Verb.CANCEL, "canceled", reason=args.reason, on_cancel=rule)


def _finish(args: argparse.Namespace, verb: Verb, word: str, *, delay: timedelta | None = None, **brings: Any) -> int:
    """End an attempt with what it brings along, and go on to the next task if asked to."""
    with open_desk(args) as desk:
        moved = desk.move(
            verb,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            not_before=None if delay is None else desk.now() + delay,
            then=_then(args, desk),
            **brings,
        )
        return _emit(args, moved, word)


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
    "fail": Command(_fail_options, fail),
    "block": Command(_block_options, block),
    "review": Command(_review_options, review),
    "cancel": Command(_cancel_options, cancel),
}
