"""claim, renew, done, fail, agent: an agent and its task."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import json_text, positive, whole
from dibs.console.commands import Command
from dibs.core.errors import AlreadyExists, InvalidInput, LostLock, NotFound, Refused, StoreError
from dibs.core.fleet import AgentStatus
from dibs.core.lifecycle import Verb
from dibs.core.messages import command
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.protocols.ralph.markdown import deps_among, section_of
from dibs.protocols.ralph.settings import (
    NOT_FOUND,
    RALPH,
    add_agent,
    add_id,
    add_json,
    add_token,
    agent_name,
    needed_agent,
    open_desk,
    print_json,
    print_lines,
    print_sections,
    token_of,
    warn,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.fleet import Agent
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk


def _claim_options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="the task to claim (default: the next one)")
    _add_lease(parser)
    add_agent(parser)
    add_json(parser)


def _add_lease(parser: Parser) -> None:
    parser.add_argument(
        "--lease", metavar="S", type=positive, default=600, help="how long the lease lasts, in seconds (default: 600)"
    )


def claim(args: argparse.Namespace) -> int:
    agent = needed_agent(args)
    named = [] if args.id is None else [args.id]
    with open_desk(args) as desk:
        try:
            claimed = desk.claim(agent, refs=named, lease=timedelta(seconds=args.lease))
        except Refused:
            return _not_eligible("Task not eligible", _why_not(desk.get(args.id), desk.now()))
        if not claimed:
            return _not_eligible("No eligible tasks", _what_else(desk))
        return _print_claimed(claimed[0], desk, as_json=args.json)


def _print_claimed(claimed: Claimed, desk: Desk, *, as_json: bool) -> int:
    task, inputs = claimed
    section = section_of(task, _deps(claimed, desk), inputs)
    section = section._replace(created_at=time_text(task.created_at), updated_at=time_text(task.updated_at))
    if not as_json or task.lease is None:
        return print_sections([section])
    return print_json(section.as_json() | {"attempt": task.lease.attempt, "token": task.lease.token})


def _deps(claimed: Claimed, desk: Desk) -> Iterable[str]:
    """Print the claim, which is committed, even if the store fails right now."""
    task, inputs = claimed
    try:
        return deps_among(desk.links(task.id)).get(task.id, ())
    except StoreError as error:
        warn(f"the list of deps may lack some: {error.message}")
        return [given.id for given in inputs]


def _not_eligible(what: str, why: str) -> int:
    """ralph's own line comes alone; the reason follows on the next."""
    sys.stdout.flush()
    print(what, file=sys.stderr)
    warn(why)
    return NOT_FOUND


def _why_not(task: Task, now: datetime) -> str:
    """Read after the refusal: by then it may be another's, or even free."""
    if task.held(now):
        return _holder(task)
    if task.status not in {Status.READY, Status.ACTIVE}:
        return f"{task.id} is {RALPH.say(task.status)}{f' ({task.reason})' if task.reason else ''}."
    if task.blockers:
        deps = command("ralph", "task", "deps", task.id)
        return f"{task.id} is blocked by {task.blockers} unfinished task(s); '{deps}' shows them."
    if task.not_before is not None and now < task.not_before:
        return f"{task.id} is not due before {task.not_before:%Y-%m-%d %H:%M:%S} UTC."
    if task.assigned_to or task.requires:
        return f"{task.id} is meant for {task.assigned_to or 'agents that can ' + ', '.join(task.requires)}."
    return f"{task.id} has changed just now; try again."


def _holder(task: Task) -> str:
    lease = task.lease
    if lease is None or lease.expires_at is None:
        return f"{task.id} is held by {lease.agent if lease else 'someone'}, with no time limit."
    return f"{task.id} is held by {lease.agent} until {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC."


def _what_else(desk: Desk) -> str:
    from dibs.protocols.ralph.commands.author import overview, stalled, status_line

    counts = desk.counts()
    return stalled(counts) or f"{status_line(overview(counts))}."


def _renew_options(parser: Parser) -> None:
    add_id(parser)
    _add_lease(parser)
    add_agent(parser)
    add_token(parser)


def renew(args: argparse.Namespace) -> int:
    needed_agent(args)
    return _move(Verb.RENEW, "renewed", args, lease=timedelta(seconds=args.lease))


def _finish_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)
    add_token(parser)
    parser.add_argument(
        "--force", action="store_true", help="act without the token, for hooks and people; the log records it"
    )


def _done_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--result", metavar="JSON", help="the result as JSON; dependent tasks get it as input")


def done(args: argparse.Namespace) -> int:
    result: Json = None if args.result is None else json_text("result", args.result)  # type: ignore[assignment]  # what JSON gives is Json
    return _move(Verb.DONE, "done", args, force=_overrules(args), result=result)


def _fail_options(parser: Parser) -> None:
    _finish_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the cause of the failure")


def fail(args: argparse.Namespace) -> int:
    return _move(Verb.FAIL, "failed", args, force=_overrules(args), reason=args.reason)


def _overrules(args: argparse.Namespace) -> bool:
    """Without an agent and a token, the caller is trusted, as in ralph."""
    return args.force or (agent_name(args) is None and token_of(args) is None)


def _move(verb: Verb, word: str, args: argparse.Namespace, *, force: bool = False, **brings: object) -> int:
    token = None if force and args.token is None else token_of(args)
    if force and token:
        raise InvalidInput("Either show a token or use --force; not both.")
    with open_desk(args) as desk:
        try:
            desk.move(verb, args.id, token=token, force=force, **brings)  # type: ignore[arg-type]  # by name, as the verbs above give them
        except NotFound:
            raise
        except (Refused, LostLock) as error:
            raise type(error)(_not_yours(desk.get(args.id), desk, with_token=token is not None)) from None
    print(f"{word} {args.id}")
    return 0


def _not_yours(task: Task, desk: Desk, *, with_token: bool) -> str:
    """Read after the refusal, and reported in ralph's words."""
    if task.status is not Status.ACTIVE:
        return f"{task.id} is {RALPH.say(task.status)}, not active. Nothing was changed."
    if with_token:
        return f"That token does not, or no longer, hold {task.id}. Nothing was changed; stop working on it."
    if not task.held(desk.now()):
        return f"The lease on {task.id} has expired, and it was not yours. Claim it first. Nothing was changed."
    return f"{_holder(task)} You are {desk.by.agent}. Nothing was changed."


_IDS = 1 << 16  # all numbers of four hexadecimal digits
_TRIES = 1000
_WORDS = {AgentStatus.ACTIVE: "active", AgentStatus.GONE: "stopped"}


def _agent_options(parser: Parser) -> None:
    parser.add_argument(
        "what", metavar="WHAT", choices=("register", "list", "deregister"), help="register, list or deregister"
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="with deregister: the agent (default: RALPH_AGENT_ID)")
    parser.add_argument("--pid", metavar="N", type=whole, help="with register: its process id (default: the caller's)")
    parser.add_argument("--host", metavar="NAME", help="with register: its host (default: this one)")
    parser.add_argument("--all", action="store_true", help="with list: include agents that have stopped")
    add_json(parser)


def agent(args: argparse.Namespace) -> int:
    if args.id is not None and args.what != "deregister":
        raise InvalidInput(f"'agent {args.what}' takes no id.")
    with open_desk(args) as desk:
        return {"register": _register, "list": _list, "deregister": _deregister}[args.what](args, desk)


def _register(args: argparse.Namespace, desk: Desk) -> int:
    """A name for one agent, made up here; the process is the caller's, for ours is about to end."""
    host = os.uname().nodename if args.host is None else args.host
    made = _registered(desk, host, os.getppid() if args.pid is None else args.pid)
    if args.json:
        return print_json(_data(made))
    print(made.id)
    return 0


def _registered(desk: Desk, host: str, pid: int) -> Agent:
    """Choose an unused name, or if none is left, the name of a stopped agent."""
    known = desk.agents()
    taken = {one.id for one in known if one.status is AgentStatus.ACTIVE or len(known) < _IDS // 2}
    for _ in range(_TRIES):
        name = _drawn()
        if name not in taken:
            try:
                return desk.register(name, host=host, pid=pid)
            except AlreadyExists:
                continue  # someone else has drawn the same at this moment
    raise InvalidInput("Nearly all names are taken; deregister agents that have stopped.")


def _drawn() -> str:
    return os.urandom(2).hex()


def _list(args: argparse.Namespace, desk: Desk) -> int:
    from dibs.console.streams import table

    found = [one for one in desk.agents() if args.all or one.status is AgentStatus.ACTIVE]
    if args.json:
        return print_json([_data(one) for one in found])
    rows = [
        (one.id, _WORDS[one.status], "" if one.pid is None else str(one.pid), one.host or "", time_text(one.started_at))
        for one in found
    ]
    return print_lines(table(("ID", "STATUS", "PID", "HOST", "STARTED"), rows) if rows else [])


def _deregister(args: argparse.Namespace, desk: Desk) -> int:
    name = args.id if args.id is not None else agent_name(args)
    if name is None:
        raise InvalidInput("Which agent? Give its id, or set RALPH_AGENT_ID.")
    gone = desk.deregister(name)
    if args.json:
        return print_json(_data(gone))
    print(f"deregistered {gone.id}")
    return 0


def _data(one: Agent) -> dict[str, Json]:
    return {
        "id": one.id,
        "pid": one.pid,
        "hostname": one.host,
        "started_at": time_text(one.started_at),
        "status": _WORDS[one.status],
    }


COMMANDS = {
    "claim": Command(_claim_options, claim),
    "renew": Command(_renew_options, renew),
    "done": Command(_done_options, done),
    "fail": Command(_fail_options, fail),
    "agent": Command(_agent_options, agent),
}
