"""done, fail, block, review, cancel: the ways an attempt ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import (
    Command,
    add_agent,
    add_force,
    add_lease,
    add_task,
    add_token,
    agent_name,
    json_text,
    moment,
    open_desk,
    run_name,
    span,
    task_of,
    token_of,
)
from dibs.cli.output import emit, print_export, task_data
from dibs.core.errors import InvalidInput
from dibs.core.lifecycle import Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.cli.command import Parser
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
    with open_desk(args) as desk:
        moved = desk.move(
            Verb.DONE,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            result=_outcome(args),
            artifacts=args.artifact,
            then=_then(args, desk),
        )
        return _emit(args, moved, "done")


def _fail_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="what went wrong")
    parser.add_argument("--retry-in", metavar="SPAN", type=span, help="do not hand it out again before that")
    _going_on_options(parser)


def fail(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        later = None if args.retry_in is None else desk.store.now() + args.retry_in
        moved = desk.move(
            Verb.FAIL,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            reason=args.reason,
            not_before=later,
            then=_then(args, desk),
        )
        return _emit(args, moved, "failed")


def _block_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what stands in the way")
    parser.add_argument("--action", metavar="TEXT", help="what someone has to do about it")
    parser.add_argument("--check-at", metavar="TIME", type=moment, help="when to look again, such as 2026-01-31T12:00Z")
    _going_on_options(parser)


def block(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        moved = desk.move(
            Verb.BLOCK,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            reason=args.reason,
            unblock_action=args.action,
            next_check_at=args.check_at,
            then=_then(args, desk),
        )
        return _emit(args, moved, "blocked")


def _review_options(parser: Parser) -> None:
    _finish_options(parser)
    _add_outcome(parser)
    parser.add_argument("--reason", metavar="TEXT", help="what the reviewer should look at")
    _going_on_options(parser)


def review(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        moved = desk.move(
            Verb.REVIEW,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            reason=args.reason,
            result=_outcome(args),
            artifacts=args.artifact,
            then=_then(args, desk),
        )
        return _emit(args, moved, "up for review:")


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
    with open_desk(args) as desk:
        moved = desk.move(
            Verb.CANCEL, task_of(args), token=token_of(args, desk), force=args.force, reason=args.reason, on_cancel=rule
        )
        return _emit(args, moved, "canceled")


def _then(args: argparse.Namespace, desk: Desk) -> ClaimRequest | None:
    if args.export and (args.json or not args.next):
        raise InvalidInput("--export goes with --next and is for a shell, not with --json.")
    if not args.next:
        return None
    return desk.next_request(args.agent or agent_name(), lease=args.lease, run=run_name(args), can=args.can)


def _emit(args: argparse.Namespace, moved: Moved, word: str) -> int:
    going_on = getattr(args, "next", False)
    if getattr(args, "export", False):
        print_export(moved.next)
        return 0
    return emit(args, lambda: _data(moved, going_on=going_on), lambda: _lines(moved, word, going_on=going_on))


def _data(moved: Moved, *, going_on: bool) -> dict[str, Json]:
    from dibs.core.wire import claimed_json

    drawn: dict[str, Json] = {"readied": moved.readied, "escalated": moved.escalated, "canceled": moved.canceled}
    if going_on:
        drawn["next"] = claimed_json(moved.next[0]) if moved.next else None
    return task_data(moved.task) | drawn


def _lines(moved: Moved, word: str, *, going_on: bool) -> Iterable[str]:
    yield f"{'escalated' if moved.task.status == 'escalated' else word} {moved.task.id}"
    for what, ids in (("now ready", moved.readied), ("escalated", moved.escalated), ("canceled", moved.canceled)):
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
