"""plan-sync, plan-status: what the planner wants, and how far it has come."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from dibs.console.commands import Command
from dibs.console.streams import read_text, watched
from dibs.core.errors import InvalidInput
from dibs.core.plan import skim_jsonl
from dibs.core.task import Status
from dibs.protocols.ralph.command import add_agent, add_json, print_json, warn
from dibs.protocols.ralph.policy import FAILED
from dibs.protocols.ralph.settings import open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.plan import PlanChanges, Said
    from dibs.stores.reports import Counts


def _sync_options(parser: Parser) -> None:
    parser.add_argument(
        "--spec",
        metavar="REF",
        action="append",
        default=[],
        help="the plan covers this spec, even without a task of it",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    add_agent(parser)


def plan_sync(args: argparse.Namespace) -> int:
    if sys.stdin.isatty():
        warn("reading the plan from the terminal, one JSON object a line; Ctrl-D ends it")
    plan = skim_jsonl(read_text("-"), _whole_priority)
    plan = plan._replace(specs=plan.specs | frozenset(args.spec), revives=True)
    with open_desk(args) as desk, watched("Planning", len(plan.tasks)) as progress:
        changes = desk.apply_plan(plan, dry_run=args.dry_run, progress=progress)
    if changes.skipped_active:
        warn(f"left as they are, because someone is working on them: {', '.join(changes.skipped_active)}")
    print(_summary(changes))
    return 0


def _whole_priority(said: Said) -> None:
    if said.draft.priority < 0 or said.draft.priority % 1:
        raise InvalidInput("'p' is a whole number from 0 up; 0 comes first")


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


# What people or other protocols have set aside: nobody can claim it before someone else acts.
_SET_ASIDE = (Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED)


def status_line(counted: Overview) -> str:
    return ", ".join(f"{number} {word}" for word, number in zip(counted._fields, counted, strict=True))


def stalled(counts: Counts) -> str | None:
    """Something is left to do, but nobody does it, nobody can, and time alone will not change that."""
    counted = overview(counts)
    if not counted.open or counted.active or counts.claimable or counts.later:
        return None
    return (
        f"Stalled: {counted.open} open, none can be claimed and none is active. "
        "'ralph task list' shows what they wait for."
    )


def _status_options(parser: Parser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if all that is open is blocked and nothing is active"
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
    "plan-sync": Command(_sync_options, plan_sync),
    "plan-status": Command(_status_options, plan_status),
}
