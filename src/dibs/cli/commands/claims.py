"""claim, renew, release: take a task, keep it, give it back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

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
from dibs.console.arguments import positive, span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import InvalidInput
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.task import Claimed, Json
    from dibs.desk import Desk


def _claim_options(parser: Parser) -> None:
    parser.add_argument("tasks", metavar="ID", nargs="*", help="the tasks to claim (default: the next one)")
    add_agent(parser)
    add_lease(parser)
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="a capability that you have (repeatable)"
    )
    add_filters(parser)
    parser.add_argument("--count", metavar="N", type=positive, help="claim up to N tasks at once (default: 1)")
    parser.add_argument("--any-scope", action="store_true", help="claim from all scopes (default: only from --scope)")
    parser.add_argument("--assigned", action="store_true", help="claim only tasks that are assigned to you")
    parser.add_argument(
        "--wait",
        metavar="SPAN",
        type=span,
        help="if no task is ready, wait up to this long, such as 10m (default: do not wait)",
    )
    parser.add_argument("--human", action="store_true", help="hold the task as a person: the hold never expires")
    parser.add_argument(
        "--force", action="store_true", help="with --human: take the task over from its holder; the log records it"
    )
    parser.add_argument("--export", action="store_true", help="print shell lines that set DIBS_TASK_ID and DIBS_TOKEN")


def claim(args: argparse.Namespace) -> int:
    if args.force and not args.human:
        raise InvalidInput("Only a person may take a task over: --force goes with --human.")
    several = args.count is not None or len(args.tasks) > 1
    if args.export and (several or args.json):
        raise InvalidInput("--export is for one task and a shell: not with --count, several ids or --json.")
    if args.wait is not None and args.tasks:
        raise InvalidInput("--wait works only without task ids: a named task is claimed now or not at all.")
    with open_desk(args) as desk:
        claimed = _claimed(args, desk)
        if not claimed and args.wait is not None:
            claimed = _waited(args, desk)
        if not claimed:
            from dibs.stores.reports import nothing_ready

            raise nothing_ready(desk.counts(anywhere=args.any_scope), desk.now(), filter_of(args))
        if args.export:
            print_export(claimed)
            return 0
        return emit(args, lambda: _data(claimed, several=several), lambda: _lines(claimed))


def _claimed(args: argparse.Namespace, desk: Desk) -> list[Claimed]:
    return desk.claim(
        args.agent or agent_name(),
        refs=args.tasks,
        count=args.count or 1,
        lease=args.lease,
        run=run_name(args),
        can=args.can,
        holder=Holder.HUMAN if args.human else Holder.AGENT,
        force=args.force,
        anywhere=args.any_scope,
        assigned=args.assigned,
        only=filter_of(args),
    )


def _waited(args: argparse.Namespace, desk: Desk) -> list[Claimed]:
    """Claim again after each notification, and at intervals without one."""
    until = time.monotonic() + args.wait.total_seconds()
    while (left := until - time.monotonic()) > 0:
        desk.wait(min(left, _ASK_AGAIN))
        claimed = _claimed(args, desk)
        if claimed:
            return claimed
    return []


_ASK_AGAIN = 5.0


def _data(claimed: list[Claimed], *, several: bool) -> Json:
    from dibs.core.wire import claimed_json

    return [claimed_json(one) for one in claimed] if several else claimed_json(claimed[0])


def _lines(claimed: Iterable[Claimed]) -> Iterable[str]:
    from dibs.cli.text import claimed_lines

    for number, one in enumerate(claimed):
        if number:
            yield ""
        yield from claimed_lines(one)


def _renew_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    add_lease(parser)


def renew(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.renew(task_of(args), token_of(args, desk), lease=args.lease)
        return emit(args, lambda: task_data(task), lambda: [f"renewed {task.id} until {_until(task.lease)}"])


def _until(lease: object) -> str:
    expires_at = getattr(lease, "expires_at", None)
    return "released" if expires_at is None else expires_at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _release_options(parser: Parser) -> None:
    add_task(parser, optional=True)
    add_agent(parser)
    add_token(parser)
    add_force(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the next agent that claims it")
    parser.add_argument(
        "--for",
        dest="delay",
        metavar="SPAN",
        type=span,
        help="wait this long before it can be claimed again, such as 10m",
    )


def release(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        later = None if args.delay is None else desk.now() + args.delay
        moved = desk.move(
            Verb.RELEASE,
            task_of(args),
            token=token_of(args, desk),
            force=args.force,
            reason=args.reason,
            not_before=later,
        )
        return emit(args, lambda: task_data(moved.task), lambda: [f"released {moved.task.id}"])


COMMANDS = {
    "claim": Command(_claim_options, claim),
    "renew": Command(_renew_options, renew),
    "release": Command(_release_options, release),
}
