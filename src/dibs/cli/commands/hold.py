"""claim, renew, release: having a task and giving it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import (
    Command,
    add_agent,
    add_lease,
    add_task,
    add_token,
    agent_name,
    open_desk,
    positive,
    run_name,
    span,
    task_of,
    token_of,
)
from dibs.cli.output import emit, task_data
from dibs.core.errors import InvalidInput, NothingReady
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.cli.command import Parser
    from dibs.core.task import Claimed, Json
    from dibs.desk import Desk


def _claim_options(parser: Parser) -> None:
    parser.add_argument("tasks", metavar="ID", nargs="*", help="these tasks and no others; without: the next one")
    add_agent(parser)
    add_lease(parser)
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability you have (repeatable)")
    parser.add_argument("--count", metavar="N", type=positive, help="take up to N tasks at once")
    parser.add_argument("--any-scope", action="store_true", help="from whatever scope comes first")
    parser.add_argument("--human", action="store_true", help="hold as a person: no time limit, never handed on")
    parser.add_argument("--force", action="store_true", help="with --human: take over whoever holds it; on record")
    parser.add_argument("--export", action="store_true", help="print shell lines that set DIBS_TASK_ID and DIBS_TOKEN")


def claim(args: argparse.Namespace) -> int:
    if args.force and not args.human:
        raise InvalidInput("Only a person may take a task over: --force goes with --human.")
    with open_desk(args) as desk:
        claimed = desk.claim(
            args.agent or agent_name(),
            refs=args.tasks,
            count=args.count or 1,
            lease=args.lease,
            run=run_name(args),
            can=args.can,
            holder=Holder.HUMAN if args.human else Holder.AGENT,
            force=args.force,
            anywhere=args.any_scope,
        )
        if not claimed:
            raise _nothing_ready(desk)
        if args.export:
            return emit_export(claimed)
        several = args.count is not None or len(args.tasks) > 1
        return emit(args, lambda: _data(claimed, several=several), lambda: _lines(claimed))


def _data(claimed: list[Claimed], *, several: bool) -> Json:
    from dibs.core.wire import claimed_json

    return [claimed_json(one) for one in claimed] if several else claimed_json(claimed[0])


def _lines(claimed: Iterable[Claimed]) -> Iterable[str]:
    from dibs.cli.text import claimed_lines

    for number, one in enumerate(claimed):
        if number:
            yield ""
        yield from claimed_lines(one)


def emit_export(claimed: Iterable[Claimed]) -> int:
    """For `eval "$(dibs claim --export)"`."""
    import shlex

    for one in claimed:
        if one.task.lease is not None:
            print(f"export DIBS_TASK_ID={shlex.quote(one.task.id)} DIBS_TOKEN={shlex.quote(one.task.lease.token)}")
    return 0


def _nothing_ready(desk: Desk) -> NothingReady:
    """Say why there is nothing, and when to ask again."""
    counts = desk.counts()
    active = counts.by_status.get("active", 0) - counts.expired  # type: ignore[call-overload]  # a Status is its word
    if counts.claimable:
        return NothingReady("What is ready asks for capabilities you did not name (--can) or is assigned to others.")
    if not counts.waiting and not active:
        return NothingReady("There is nothing to do; 'dibs list' shows what there is.")
    return NothingReady(
        f"Nothing can be claimed now: {counts.waiting} waiting for others, {active} being worked on. Ask again later.",
        retry_after_ms=5000,
    )


def _renew_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    add_lease(parser)


def renew(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.renew(task_of(args), token_of(args), lease=args.lease)
        return emit(args, lambda: task_data(task), lambda: [f"renewed {task.id} until {_until(task.lease)}"])


def _until(lease: object) -> str:
    expires_at = getattr(lease, "expires_at", None)
    return "released" if expires_at is None else expires_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _release_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, for whoever takes it next")
    parser.add_argument("--for", dest="delay", metavar="SPAN", type=span, help="do not hand it out again before that")


def release(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        later = desk.store.now() + args.delay if args.delay else None
        moved = desk.move(
            Verb.RELEASE, task_of(args), token=token_of(args), force=args.force, reason=args.reason, not_before=later
        )
        return emit(args, lambda: task_data(moved.task), lambda: [f"released {moved.task.id}"])


COMMANDS = {
    "claim": Command(_claim_options, claim),
    "renew": Command(_renew_options, renew),
    "release": Command(_release_options, release),
}
