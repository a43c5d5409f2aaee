"""work: run a command on each task, again and again."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from shutil import which
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_filters, filter_of, open_desk, run_name, store_url, warn
from dibs.console.arguments import positive, span
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import json_document, printable
from dibs.core import checks
from dibs.core.errors import InvalidInput, LostLock, NothingReady
from dibs.core.policy import NATIVE
from dibs.core.task import Status
from dibs.core.times import in_words
from dibs.core.wire import task_json
from dibs.desk import mint_id
from dibs.fleet.workers import ENDS, Worker, WorkerEventKind, WorkerOptions
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.fleet.workers import WorkerEvent

_GRACE = timedelta(seconds=5)
_MOST_SLOTS = 64


def _options(parser: Parser) -> None:
    parser.add_argument("command", metavar="CMD", nargs="*", help="after --: what does the work, once for each task")
    add_agent(parser)
    parser.add_argument("--slots", metavar="N", type=positive, default=1, help="work on up to N tasks at once (1)")
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability you have (repeatable)")
    add_filters(parser)
    parser.add_argument("--any-scope", action="store_true", help="from whatever scope comes first")
    parser.add_argument("--assigned", action="store_true", help="nothing but what is assigned to you")
    parser.add_argument("--once", action="store_true", help="one task for each slot, then leave")
    parser.add_argument("--until-empty", action="store_true", help="leave when there is nothing to claim any more")
    parser.add_argument("--lease", metavar="SPAN", type=span, help="of each claim; renewed while CMD runs (20m)")
    parser.add_argument("--time-limit", metavar="SPAN", type=span, help="a CMD that takes longer has failed")
    parser.add_argument(
        "--grace", metavar="SPAN", type=span, default=_GRACE, help="what a CMD has to end when it must (5s)"
    )
    parser.add_argument(
        "--retry-in", metavar="SPAN", type=span, help="the first pause after a failure; it doubles (10s)"
    )


def work(args: argparse.Namespace) -> int:
    """The first signal lets running commands finish; the second ends them and releases their tasks."""
    with Stop() as stop:
        options = _worker_options(args)
        worker = Worker(lambda: open_desk(args), options, lambda told: _tell(args, options, told))
        stop.calls(worker.leave, worker.stop)
        worker.run()
    ended = ", ".join(f"{worker.counts[what]} {what}" for what in ENDS if worker.counts[what])
    _say(args, f"{options.agent} leaves: {ended or 'nothing was done'}")
    if args.once and not ended and not stop.requested:
        raise NothingReady("Nothing can be claimed now. Without --once, the worker waits for something.")
    if stop.status:
        return stop.status
    return LostLock.exit_status if args.once and worker.counts[WorkerEventKind.LOST] else 0


def _worker_options(args: argparse.Namespace) -> WorkerOptions:
    if not args.command:
        raise InvalidInput("What is to be done with a task? Give a command after --; it gets the task on stdin.")
    if which(args.command[0]) is None:
        raise InvalidInput(f"There is no command '{args.command[0][:60]}' that can be run.")
    if args.slots > _MOST_SLOTS:
        raise InvalidInput(f"A worker has up to {_MOST_SLOTS} slots; start another one for more.")
    if args.time_limit is not None and not args.time_limit:
        raise InvalidInput("A time limit of nothing leaves no time for anything; leave it out to have none.")
    agent = checks.name_of("agent", args.agent or agent_name())
    args.run = run_name(args) or f"work-{mint_id()}"
    url = args.store = store_url(args)
    options = WorkerOptions(
        agent,
        args.run,
        tuple(args.command),
        {"DIBS_STORE": url, "DIBS_AGENT": agent, "DIBS_RUN": args.run},
        args.slots,
        checks.names("capability", args.can),
        args.any_scope,
        args.assigned,
        args.once,
        args.until_empty,
        NATIVE.lease if args.lease is None else checks.lease(args.lease),
        args.time_limit,
        args.grace,
        only=checks.only(filter_of(args)),
    )
    return options if args.retry_in is None else options._replace(retry_in=args.retry_in)


# What is told, on stdout as it happens; trouble on stderr. That nobody listens any more is no reason to stop.


def _say(args: argparse.Namespace, line: str) -> None:
    if not args.json:
        with suppress(OSError):
            print(printable(line), flush=True)


def _tell(args: argparse.Namespace, options: WorkerOptions, told: WorkerEvent) -> None:
    """For people how each task begins and ends, for programs one document for each that has ended."""
    if told.what in {WorkerEventKind.TROUBLE, WorkerEventKind.LEAVING}:
        with suppress(OSError):
            warn(_line(told, options))
    elif not args.json:
        _say(args, _line(told, options))
    elif told.what in ENDS:
        with suppress(OSError):
            print(json_document(_data(told)), flush=True)


def _data(told: WorkerEvent) -> dict[str, Json]:
    assert told.task is not None
    data: dict[str, Json] = {"what": told.what.value, "task": task_json(told.task)}
    if told.why is not None:
        data["why"] = told.why
    if told.seconds is not None:
        data["seconds"] = round(told.seconds, 3)
    return data


def _line(told: WorkerEvent, options: WorkerOptions) -> str:
    task = told.task
    if told.what is WorkerEventKind.AT_WORK:
        return f"{options.agent} is at work{'' if options.slots == 1 else f' in {options.slots} slots'}"
    if task is None:
        return f"{told.what}: {told.why}"
    name = f"{told.what} {task.scope}/{task.id}" if options.anywhere else f"{told.what} {task.id}"
    if told.what is WorkerEventKind.TOOK:
        return f"{name} (attempt {task.attempt}): {task.title}"
    after = "" if told.seconds is None else f" after {in_words(timedelta(seconds=told.seconds))}"
    gone = ", and escalated" if told.what is WorkerEventKind.FAILED and task.status is Status.ESCALATED else ""
    return f"{name}{after}{gone}: {told.why}" if told.why else f"{name}{after}"


COMMANDS = {"work": Command(_options, work)}
