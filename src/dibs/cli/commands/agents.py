"""agent, dispatch, scores: enrolled agents, their assigned tasks and their results."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk, warn
from dibs.console.arguments import moment_or_span, positive
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit, json_document, printable, table
from dibs.core.errors import Held, InvalidInput, Unsupported
from dibs.core.fleet import TASK_LIMIT, Profile
from dibs.core.policy import CanceledBlocker
from dibs.core.scores import scores
from dibs.core.task import LEAD
from dibs.core.times import in_words
from dibs.core.wire import member_json, scores_json
from dibs.desk import mint_id
from dibs.fleet.attempt import history
from dibs.fleet.dispatch import MOST, RETRIES, Dispatcher, Lead, Rules, Watch
from dibs.fleet.routing import ROUTING, Roster, Unserved

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.fleet import Member
    from dibs.core.scores import Scores
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.dispatch import DispatchRound

_PRESETS = ("kurultai",)


def _add_options(parser: Parser) -> None:
    parser.add_argument(
        "agents", metavar="NAME", nargs="*", help="the agent's name; give several to enrol several alike"
    )
    parser.add_argument(
        "--role", metavar="ROLE", help="the agent's role, such as writer; dispatch sends tasks to roles"
    )
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="a capability that the agent has (repeatable)"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=positive,
        default=TASK_LIMIT,
        help="the most tasks it may have at a time (default: 2)",
    )
    parser.add_argument("--preset", choices=_PRESETS, help="enrol a whole fleet: kurultai's six agents")


def add(args: argparse.Namespace) -> int:
    profiles = _profiles(args)
    with open_desk(args) as desk:
        members = Roster(desk).add(profiles)
        now = desk.now()
    return emit(args, lambda: [member_json(one, now) for one in members], lambda: [_added(one) for one in members])


def _profiles(args: argparse.Namespace) -> list[Profile]:
    if args.preset is not None:
        from dibs.protocols.kurultai.policy import FLEET

        if args.agents or args.role is not None or args.can:
            raise InvalidInput("--preset names the agents and their roles; it can be combined only with --limit.")
        return [Profile(one.id, one.id, (), args.limit) for one in FLEET]
    if not args.agents:
        raise InvalidInput("No agent is named. Give a NAME, or --preset kurultai.")
    if args.role is None:
        raise InvalidInput("The role is missing. Give --role, such as writer; tasks are routed to roles.")
    return [Profile(name, args.role, tuple(args.can), args.limit) for name in args.agents]


def _added(member: Member) -> str:
    can = f", can {', '.join(member.can)}" if member.can else ""
    return f"{member.agent}: {member.role}{can}, {member.limit} at a time"


def list_members(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        members = Roster(desk).members()
        now = desk.now()
    return emit(args, lambda: [member_json(one, now) for one in members], lambda: _agent_table(members, now))


def _agent_table(members: list[Member], now: datetime) -> Iterable[str]:
    if not members:
        return ["no agent is enrolled; 'dibs agent add NAME --role ROLE' enrols one"]
    rows = [
        [one.agent, one.role, f"{one.held} of {one.limit}", str(one.waiting), _presence(one, now), " ".join(one.can)]
        for one in members
    ]
    return table(["NAME", "ROLE", "HOLDS", "WAITING", "SEEN", "CAN"], rows)


def _presence(member: Member, now: datetime) -> str:
    if member.held:
        return "at work"
    since = f"{in_words(now - member.seen_at)} ago"
    return since if member.present(now) else f"away, {since}"


def _show_options(parser: Parser) -> None:
    parser.add_argument("agent_name", metavar="NAME", help="the agent's name")


def show(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        roster = Roster(desk)
        member, tasks, now = roster.get(args.agent_name), roster.holds(args.agent_name), desk.now()
    data = member_json(member, now) | {"tasks": [{"scope": task.scope, "id": task.id} for task in tasks]}
    return emit(args, lambda: data, lambda: _described(member, tasks, now))


def _described(member: Member, tasks: list[Task], now: datetime) -> Iterable[str]:
    yield _added(member)
    yield f"  {_presence(member, now)}; holds {member.held}, {member.waiting} waiting for it"
    for task in tasks:
        yield f"  {'works on' if task.held(now) else 'has'} {task.scope}/{task.id}  {task.title}"


def remove(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        member, back = Roster(desk).remove(args.agent_name)
        now = desk.now()
    lines = [f"{member.agent} is no longer enrolled"]
    lines += [f"  holds {member.held} until they are finished or their leases expire"] if member.held else []
    lines += [f"  returned to the queue: {', '.join(back)}"] if back else []
    return emit(args, lambda: member_json(member, now) | {"taken_back": back}, lambda: lines)


_FAILED = {
    "escalate": CanceledBlocker.ESCALATES,
    "resolve": CanceledBlocker.RESOLVES,
    "cascade": CanceledBlocker.CASCADES,
}
_SHOWN = 10  # of waiting tasks


def _dispatch_options(parser: Parser) -> None:
    how_long = parser.add_mutually_exclusive_group()
    how_long.add_argument("--once", action="store_true", help="run one round and print a summary (the default)")
    how_long.add_argument(
        "--watch", action="store_true", help="run rounds until stopped; other dispatchers wait in reserve"
    )
    how_long.add_argument("--until-done", action="store_true", help="run rounds until no task is left to work on")
    parser.add_argument(
        "--any-scope", action="store_true", help="include the tasks of all scopes (default: only --scope)"
    )
    parser.add_argument(
        "--route",
        metavar="TYPE=ROLE",
        action="append",
        default=[],
        help="send this kind of deliverable to this role (repeatable)",
    )
    parser.add_argument(
        "--most", metavar="N", type=positive, default=MOST, help="the most tasks to assign in one round (default: 50)"
    )
    parser.add_argument(
        "--retries",
        metavar="N",
        type=positive,
        default=RETRIES,
        help="the retry limit of tasks that set none (default: 3)",
    )
    parser.add_argument(
        "--on-failure",
        choices=_FAILED,
        default="escalate",
        help="the rule for tasks that wait for a failed one (default: escalate)",
    )
    add_agent(parser)


def dispatch(args: argparse.Namespace) -> int:
    with Stop() if args.watch or args.until_done else nullcontext() as stop, open_desk(args) as desk:
        rules = _rules(args, desk)
        dispatcher = Dispatcher(desk, rules)
        lead = Lead(desk, f"{LEAD}{rules.scope or '*'}", f"{desk.by.agent}-{mint_id()}")
        if stop is not None:
            return _watched(args, desk, dispatcher, lead, stop)
        if not args.any_scope:
            Unserved(desk, warn).look()
        return _once(args, dispatcher, lead)


def _rules(args: argparse.Namespace, desk: Desk) -> Rules:
    routes = dict(ROUTING)
    for said in args.route:
        kind, equals, role = said.partition("=")
        if not (kind.strip() and equals and role.strip()):
            raise InvalidInput(f"'{said[:40]}' is not a route; write TYPE=ROLE, such as code=developer.")
        routes[kind.strip()] = role.strip()
    return Rules(None if args.any_scope else desk.scope, routes, args.retries, _FAILED[args.on_failure], args.most)


def _once(args: argparse.Namespace, dispatcher: Dispatcher, lead: Lead) -> int:
    if not lead.have():
        raise Held("Another dispatcher is running. With --watch, this one waits in reserve.")
    try:
        done = dispatcher.round()
    finally:
        lead.give_up()
    return emit(args, lambda: round_json(done), lambda: _round_lines(done))


def _watched(args: argparse.Namespace, desk: Desk, dispatcher: Dispatcher, lead: Lead, stop: Stop) -> int:
    watch = Watch(desk, dispatcher, lead, lambda done: _show_round(args, done), warn)
    total = watch.run(stop.wait, until_done=args.until_done)
    if not (args.json and args.watch):
        emit(args, lambda: round_json(total), lambda: [_summary(total)])
    return stop.status


def _show_round(args: argparse.Namespace, done: DispatchRound) -> None:
    """Print a line per event, or with --json a document per round."""
    if not args.json:
        for line in _happened(done):
            print(line, flush=True)
    elif args.watch:
        print(json_document(round_json(done)), flush=True)


def _round_lines(done: DispatchRound) -> Iterable[str]:
    yield from _happened(done)
    for one in done.queued[:_SHOWN]:
        yield printable(f"{one.task.id} waits for a {one.role}")
    yield _summary(done)


def _happened(done: DispatchRound) -> Iterable[str]:
    yield from (f"{task} is taken back" for task in done.taken_back)
    yield from (f"{task} is escalated: a prerequisite failed" for task in done.escalated)
    yield from (f"{task} is canceled" for task in done.canceled)
    yield from (f"{given.task} → {given.agent}" for given in done.given)
    yield from (printable(f"{trouble.task.id}: {trouble.error}") for trouble in done.troubles)


def _summary(done: DispatchRound) -> str:
    waiting = f", {len(done.queued)} waiting" if done.queued else ""
    soon = f" (the next one for about {in_words(done.expected)})" if done.expected is not None else ""
    return f"assigned: {len(done.given)}, errors: {len(done.troubles)}{waiting}{soon}"


def round_json(done: DispatchRound) -> dict[str, Json]:
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


def _scores_options(parser: Parser) -> None:
    parser.add_argument(
        "--since",
        metavar="WHEN",
        type=moment_or_span,
        help="count from this time on: 2026-01-31, or 7d for the last seven days",
    )
    parser.add_argument("--any-scope", action="store_true", help="include all scopes (default: only --scope)")


def show_scores(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        if not desk.capabilities.history:
            raise Unsupported("This store records no events, so it cannot count scores.")
        since = desk.now() - args.since if isinstance(args.since, timedelta) else args.since
        found = scores(history(desk, anywhere=args.any_scope), since)
    return emit(args, lambda: scores_json(found), lambda: _score_lines(found))


def _score_lines(found: Scores) -> Iterable[str]:
    if not found.tallies:
        return ["No agent has finished, failed or lost a task yet."]
    rows = [
        (
            one.agent,
            str(one.finished),
            str(one.failed),
            str(one.lost),
            "" if one.duration is None else in_words(one.duration),
            f"{one.points:g}",
        )
        for one in found.tallies
    ]
    since = "" if found.since is None else f"since {found.since:%Y-%m-%d %H:%M:%S} UTC"
    return [since, *table(("AGENT", "FINISHED", "FAILED", "LOST", "MEDIAN", "POINTS"), rows)]


COMMANDS = {
    "add": Command(_add_options, add),
    "list": Command(lambda _parser: None, list_members),
    "show": Command(_show_options, show),
    "remove": Command(_show_options, remove),
    "dispatch": Command(_dispatch_options, dispatch),
    "scores": Command(_scores_options, show_scores),
}
