"""agent add, list, show, remove: who belongs to the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import open_desk
from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.duration import in_words
from dibs.core.errors import InvalidInput
from dibs.core.fleet import TASK_LIMIT, Profile
from dibs.core.wire import member_json
from dibs.fleet.roster import Roster

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.fleet import Member
    from dibs.core.task import Task

_PRESETS = ("kurultai",)


def _add_options(parser: Parser) -> None:
    parser.add_argument("agents", metavar="NAME", nargs="*", help="its name; several become several of the same kind")
    parser.add_argument("--role", metavar="ROLE", help="what it is for, such as writer: tasks are routed to roles")
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability it has (repeatable)")
    parser.add_argument(
        "--limit", metavar="N", type=positive, default=TASK_LIMIT, help="tasks it may have at a time (2)"
    )
    parser.add_argument("--preset", choices=_PRESETS, help="a whole fleet instead: kurultai's six")


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
            raise InvalidInput("--preset says who they are and what they do; only --limit goes with it.")
        return [Profile(one.id, one.id, (), args.limit) for one in FLEET]
    if not args.agents:
        raise InvalidInput("Who? Give a name, or --preset kurultai.")
    if args.role is None:
        raise InvalidInput("What for? Give a --role, such as writer; tasks are routed to roles.")
    return [Profile(name, args.role, tuple(args.can), args.limit) for name in args.agents]


def _added(member: Member) -> str:
    can = f", can {', '.join(member.can)}" if member.can else ""
    return f"{member.agent}: {member.role}{can}, {member.limit} at a time"


def list_members(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        members = Roster(desk).members()
        now = desk.now()
    return emit(args, lambda: [member_json(one, now) for one in members], lambda: _table(members, now))


def _table(members: list[Member], now: datetime) -> Iterable[str]:
    from dibs.console.table import table

    if not members:
        return ["nobody belongs to the fleet; 'dibs agent add NAME --role ROLE' changes that"]
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
    parser.add_argument("agent_name", metavar="NAME", help="its name")


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
    lines = [f"{member.agent} is no member any more"]
    lines += [f"  holds {member.held} still, until finished or the lease ends"] if member.held else []
    lines += [f"  back in line: {', '.join(back)}"] if back else []
    return emit(args, lambda: member_json(member, now) | {"taken_back": back}, lambda: lines)


COMMANDS = {
    "add": Command(_add_options, add),
    "list": Command(lambda _parser: None, list_members),
    "show": Command(_show_options, show),
    "remove": Command(_show_options, remove),
}
