"""dispatch: give free tasks to the members of the fleet that they are for."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk
from dibs.cli.output import warn
from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit, json_document, printable
from dibs.core.duration import in_words
from dibs.core.errors import Held, InvalidInput
from dibs.core.policy import CanceledBlocker
from dibs.core.scopes import LEAD
from dibs.desk import mint_id
from dibs.fleet.dispatch import MOST, RETRIES, Dispatcher, Lead, Rules, Watch
from dibs.fleet.routing import ROUTING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.fleet.dispatch import Round

_FAILED = {
    "escalate": CanceledBlocker.ESCALATES,
    "resolve": CanceledBlocker.RESOLVES,
    "cascade": CanceledBlocker.CASCADES,
}
_SHOWN = 10  # of what waits


def _options(parser: Parser) -> None:
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--once", action="store_true", help="one round, and a summary (the default)")
    how_long.add_argument("--watch", action="store_true", help="round after round, until stopped; others may stand by")
    how_long.add_argument("--until-done", action="store_true", help="the same, until nothing is left to be worked on")
    parser.add_argument("--any-scope", action="store_true", help="the tasks of all scopes, as for many senders")
    parser.add_argument(
        "--route", metavar="TYPE=ROLE", action="append", default=[], help="send this kind of deliverable to that role"
    )
    parser.add_argument("--most", metavar="N", type=positive, default=MOST, help="tasks given out in one round (50)")
    parser.add_argument(
        "--retries", metavar="N", type=positive, default=RETRIES, help="of a task that says nothing about it (3)"
    )
    parser.add_argument(
        "--on-failure", choices=_FAILED, default="escalate", help="what becomes of those that wait for what failed"
    )
    add_agent(parser)


def dispatch(args: argparse.Namespace) -> int:
    with Stop() if args.watch or args.until_done else nullcontext() as stop, open_desk(args) as desk:
        rules = _rules(args, desk)
        dispatcher = Dispatcher(desk, rules)
        lead = Lead(desk, f"{LEAD}{rules.scope or '*'}", f"{desk.by.agent}-{mint_id()}")
        if stop is not None:
            return _watched(args, desk, dispatcher, lead, stop)
        return _once(args, dispatcher, lead)


def _rules(args: argparse.Namespace, desk: Desk) -> Rules:
    routes = dict(ROUTING)
    for said in args.route:
        kind, equals, role = said.partition("=")
        if not (kind.strip() and equals and role.strip()):
            raise InvalidInput(f"'{said[:40]}' is no route; write TYPE=ROLE, such as code=developer.")
        routes[kind.strip()] = role.strip()
    return Rules(None if args.any_scope else desk.scope, routes, args.retries, _FAILED[args.on_failure], args.most)


def _once(args: argparse.Namespace, dispatcher: Dispatcher, lead: Lead) -> int:
    if not lead.have():
        raise Held("Another dispatcher is at it; with --watch this one would stand by.")
    try:
        done = dispatcher.round()
    finally:
        lead.give_up()
    return emit(args, lambda: round_json(done), lambda: _lines(done))


def _watched(args: argparse.Namespace, desk: Desk, dispatcher: Dispatcher, lead: Lead, stop: Stop) -> int:
    watch = Watch(desk, dispatcher, lead, lambda done: _show(args, done), warn)
    total = watch.run(stop.wait, until_done=args.until_done)
    if not (args.json and args.watch):
        emit(args, lambda: round_json(total), lambda: [_summary(total)])
    return stop.status


def _show(args: argparse.Namespace, done: Round) -> None:
    """As it happens: for people a line for each thing, for programs a document for each round of a watch."""
    if not args.json:
        for line in _happened(done):
            print(line, flush=True)
    elif args.watch:
        print(json_document(round_json(done)), flush=True)


def _lines(done: Round) -> Iterable[str]:
    yield from _happened(done)
    for one in done.queued[:_SHOWN]:
        yield printable(f"{one.task.id} waits for a {one.role}")
    yield _summary(done)


def _happened(done: Round) -> Iterable[str]:
    yield from (f"{task} is taken back" for task in done.taken_back)
    yield from (f"{task} is escalated: what it waits for failed" for task in done.escalated)
    yield from (f"{task} is called off" for task in done.canceled)
    yield from (f"{given.task} → {given.agent}" for given in done.given)
    yield from (printable(f"{trouble.task.id}: {trouble.error}") for trouble in done.troubles)


def _summary(done: Round) -> str:
    waiting = f", {len(done.queued)} waiting" if done.queued else ""
    soon = f" (the next one for about {in_words(done.expected)})" if done.expected is not None else ""
    return f"given out: {len(done.given)}, errors: {len(done.troubles)}{waiting}{soon}"


def round_json(done: Round) -> dict[str, Json]:
    """The first four in the names that the document gave them."""
    return {
        "executed_count": len(done.given),
        "error_count": len(done.troubles),
        "executed": [given.task for given in done.given],
        "errors": [{"task_id": one.task.id, "scope": one.task.scope, "error": one.error} for one in done.troubles],
        "given": [given._asdict() for given in done.given],
        "queued": [{"task_id": one.task.id, "scope": one.task.scope, "role": one.role} for one in done.queued],
        "expected_seconds": None if done.expected is None else round(done.expected.total_seconds()),
        "taken_back": list(done.taken_back),
        "escalated": list(done.escalated),
        "canceled": list(done.canceled),
    }


COMMANDS = {"dispatch": Command(_options, dispatch)}
