"""All commands but `run`: set up, create, steer, work and list."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

from dibs.console.arguments import add_setting, moment, positive, setting_lines, span, wanted_change, whole
from dibs.console.commands import Command
from dibs.console.streams import clean, clean_lines, complain, emit, table
from dibs.core.errors import InvalidInput
from dibs.core.messages import command, quoted
from dibs.core.sender import hash_sender
from dibs.core.task import LinkKind, Status
from dibs.core.times import in_words, time_text
from dibs.protocols.kurultai.main import add_agent, add_force, add_id, add_proof, add_reason, number
from dibs.protocols.kurultai.policy import ANYONE, BLOCKED, FLEET, IN_PROGRESS, PENDING, READY_LIMIT, statuses_called
from dibs.protocols.kurultai.records import Change, as_json
from dibs.protocols.kurultai.settings import (
    OPTIONS,
    agent_of,
    open_memory,
    proof_of,
    proof_or_none,
    sender_hash,
    sender_hash_or_none,
    sender_secret,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.protocols.kurultai.records import AgentRecord, ClaimRecord, Dependency, Prerequisite, TaskRecord


def _no_options(_parser: Parser) -> None:
    pass


def init(args: argparse.Namespace) -> int:
    """Create what is missing."""
    with open_memory(args, create=True) as memory:
        fleet = memory.register_fleet()
        facts = memory.describe()
    where = f"{facts['kind']}, {facts['place']}"
    data: dict[str, Json] = {"store": where, "agents": [as_json(one) for one in fleet]}
    return emit(args, lambda: data, lambda: [where, *agent_table(fleet)])


def _sender_options(parser: Parser) -> None:
    parser.add_argument("who", metavar="WHO", nargs="?", help="such as a phone number; by default a line of stdin")


def sender(args: argparse.Namespace) -> int:
    """On stdin, it stays out of the shell's history and the list of processes."""
    hashed = hash_sender(_sender_from_stdin() if args.who is None else args.who, sender_secret())
    return emit(args, lambda: {"sender_hash": hashed}, lambda: [hashed])


def _sender_from_stdin() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        complain("dibs", "the sender, such as a phone number:")
    return sys.stdin.readline() if sys.stdin is not None else ""


def config(args: argparse.Namespace) -> int:
    changes = wanted_change(args, OPTIONS)
    with open_memory(args) as memory:
        sender = sender_hash(args)
        found = memory.configure(sender, changes) if changes else memory.get_config(sender)
    return emit(args, lambda: {"config": as_json(found)}, lambda: setting_lines(found, OPTIONS, args.name))


_MANY = 100


def _ready_options(parser: Parser) -> None:
    parser.add_argument(
        "-n", metavar="N", type=positive, default=READY_LIMIT, help=f"at most N; {READY_LIMIT} by default"
    )


def ready(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        tasks = memory.get_ready_tasks(sender_hash(args), args.n)
    lines = task_table(tasks) or ["No task is ready."]
    return emit(args, lambda: {"tasks": [as_json(task) for task in tasks]}, lambda: lines)


def _list_options(parser: Parser) -> None:
    parser.add_argument(
        "--status", metavar="S", action="append", default=[],
        help="pending, in_progress, completed, blocked, escalated; paused and aborted are parts of blocked; repeatable",
    )  # fmt: skip
    parser.add_argument("-n", metavar="N", type=positive, default=_MANY, help=f"at most N; {_MANY} by default")


def list_tasks(args: argparse.Namespace) -> int:
    wanted = {status for word in args.status for status in statuses_called(word)} or set(Status)
    with open_memory(args) as memory:
        tasks = memory.get_tasks(sender_hash(args), [status for status in Status if status in wanted], args.n)
    lines = [*task_table(tasks), count_line(tasks)] if tasks else ["No such tasks."]
    return emit(args, lambda: {"tasks": [as_json(task) for task in tasks]}, lambda: lines)


def show(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        sender = sender_hash(args)
        task = memory.get_task(args.id, sender_hash=sender)
        found = memory.get_dependencies(task["id"], sender_hash=sender)
    told: dict[str, Json] = {"task": as_json(task), "dependencies": [as_json(one) for one in found]}
    return emit(args, lambda: told, lambda: task_lines(task, found))


def agents(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        fleet = memory.get_agents()
    return emit(args, lambda: {"agents": [as_json(one) for one in fleet]}, lambda: agent_table(fleet))


def _create_options(parser: Parser) -> None:
    parser.add_argument("description", metavar="DESCRIPTION", help="the work; its first line is the title")
    parser.add_argument(
        "--deliverable", metavar="TYPE", help="research, code, analysis, content, strategy, ops, testing"
    )
    parser.add_argument("--type", metavar="WORD", help="your own word for the kind of task; by default the deliverable")
    parser.add_argument("--assign", metavar="AGENT", help="an agent, or 'any'; by default by the deliverable")
    parser.add_argument("--delegated-by", metavar="AGENT", help="the delegating agent")
    parser.add_argument("--weight", metavar="W", type=number, help="its priority, 0 to 1; 0.5 by default")
    parser.add_argument("--first", action="store_true", help="before all others, as the user's override")
    parser.add_argument("--after", metavar="ID", action="append", default=[], help="a prerequisite; repeatable")
    parser.add_argument("--retries", metavar="N", type=whole, help="retries before it is escalated")
    parser.add_argument("--window-expires-at", metavar="TIME", type=moment, help="end of its intent window")
    parser.add_argument("--id", metavar="ID", dest="task_id", help="your own id; by default a uuid")


def create(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.create_task(
            args.description,
            sender_hash=sender_hash(args),
            type=args.type,
            deliverable_type=args.deliverable,
            assigned_to=args.assign,
            delegated_by=args.delegated_by,
            priority_weight=args.weight,
            user_priority_override=args.first,
            depends_on=args.after,
            window_expires_at=args.window_expires_at,
            max_retries=args.retries,
            task_id=args.task_id,
        )
        return emit(args, lambda: {"task": as_json(task)}, lambda: [task["id"]])


def _depend_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("on", metavar="ON", help="the prerequisite")
    parser.add_argument("--type", metavar="TYPE", default="blocks", help=f"{', '.join(LinkKind)}; blocks by default")
    parser.add_argument("--weight", metavar="W", type=number, default=0.5, help="its strength, 0 to 1; 0.5 by default")
    parser.add_argument(
        "--detected-by", metavar="HOW", default="explicit", help="explicit (default), semantic, inferred"
    )
    parser.add_argument(
        "--confidence", metavar="C", type=number, default=1.0, help="its certainty, 0 to 1; 1 by default"
    )


def depend(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        changed = memory.add_dependency(
            args.id,
            args.on,
            args.type,
            sender_hash=sender_hash(args),
            weight=args.weight,
            detected_by=args.detected_by,
            confidence=args.confidence,
        )
    line = (
        f"{args.id} depends on {args.on} ({args.type})"
        if changed
        else "This dependency exists already, as strong or stronger."
    )
    return emit(args, lambda: {"created": changed}, lambda: [line])


def _priority_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("weight", metavar="WEIGHT", nargs="?", type=number, help="0 to 1; higher comes first")
    parser.add_argument("--first", action="store_true", help="before all others, with weight 1 by default")
    parser.add_argument("--not-first", action="store_true", help="no longer before all others")
    add_reason(parser)
    add_agent(parser)


def priority(args: argparse.Namespace) -> int:
    if args.first and args.not_first:
        raise InvalidInput("Give --first or --not-first, not both.")
    if args.weight is None and not (args.first or args.not_first):
        raise InvalidInput("Give a weight from 0 to 1, or --first or --not-first.")
    with open_memory(args) as memory:
        task = memory.set_priority(
            args.id,
            1.0 if args.weight is None and args.first else args.weight,
            sender_hash=sender_hash(args),
            user_priority_override=args.first if args.first or args.not_first else None,
            reason=args.reason,
        )
    line = f"{short(task['id'])} has weight {weight(task)}  {clean(task['description'].partition(chr(10))[0])}"
    return emit(args, lambda: {"task": as_json(task)}, lambda: [line])


def _reassign_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--to", metavar="AGENT", help="another agent, or 'any'; by default the same agent")


def reassign(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        return emit_change(args, memory.reassign_blocked_task(args.id, args.to, sender_hash=sender_hash(args)))


def _pause_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    add_force(parser)


def pause(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.pause_task(args.id, args.claim_attempt_id, sender_hash=sender_hash(args), force=args.force)
    return emit_change(args, task)


def _resume_options(parser: Parser) -> None:
    add_id(parser)


def resume(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        return emit_change(args, memory.resume_task(args.id, sender_hash=sender_hash(args)))


def _abort_options(parser: Parser) -> None:
    _pause_options(parser)
    add_reason(parser)


def abort(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        change = memory.abort_task(
            args.id, args.claim_attempt_id, sender_hash=sender_hash(args), reason=args.reason, force=args.force
        )
    return emit_change(args, change)


def _claim_options(parser: Parser) -> None:
    add_id(parser, optional=True)
    add_agent(parser)
    parser.add_argument("--any-sender", action="store_true", help="the next task of any sender")
    _add_lease(parser)


def _add_lease(parser: Parser) -> None:
    parser.add_argument("--lease", metavar="SPAN", type=span, help="length of the lease, such as 20m (the default)")


def claim(args: argparse.Namespace) -> int:
    agent = agent_of(args)
    if args.any_sender and (args.sender is not None or args.sender_hash is not None):
        raise InvalidInput("--any-sender means all senders. Remove --sender and --sender-hash.")
    sender = None if args.any_sender else _one_sender(args)
    with open_memory(args) as memory:
        claimed = memory.claim_task(agent, sender_hash=sender, task_id=args.id, lease=args.lease)
        return emit(args, lambda: _claimed_json(claimed), lambda: _claimed_lines(claimed))


def _one_sender(args: argparse.Namespace) -> str:
    found = sender_hash_or_none(args)
    if found is None:
        raise InvalidInput("Give the sender with --sender or --sender-hash, or --any-sender for all.")
    return found


def _claimed_json(claimed: ClaimRecord) -> dict[str, Json]:
    prerequisites: list[Json] = [as_json(one) for one in claimed.prerequisites]
    return {"task": as_json(claimed.task), "prerequisites": prerequisites}


def _claimed_lines(claimed: ClaimRecord) -> list[str]:
    task, since, until = claimed.task, claimed.task["started_at"], claimed.task["lease_expires_at"]
    span_words = f", for {in_words(until - since)}" if since and until else ""
    return [
        f"CLAIMED  {short(task['id'])}  {clean(first_line(task['description']))}",
        f"  by          {clean(agent_name(task['claimed_by']))}{span_words}",
        f"  sender      export KURULTAI_SENDER_HASH={quoted(task['sender_hash'])}",
        f"  proof       export KURULTAI_CLAIM_ATTEMPT_ID={quoted(claimed.claim_attempt_id)}",
        *prerequisite_lines(claimed.prerequisites),
        f"  when done   {command('dibs', 'kurultai', 'complete', short(task['id']), '--result', 'TEXT')}",
    ]


def _renew_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    _add_lease(parser)


def renew(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        task = memory.renew_task(args.id, proof, sender_hash=sender_hash(args), lease=args.lease)
    until = task["lease_expires_at"]
    line = f"{short(task['id'])} is yours until {time_text(until)}" if until else f"{short(task['id'])} is yours"
    return emit(args, lambda: {"task": as_json(task)}, lambda: [line])


def _complete_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    parser.add_argument("--result", metavar="TEXT", help="the result, for the user and for dependent tasks")
    parser.add_argument("--quality", metavar="Q", type=number, help="quality of the result, 0 to 1")


def complete(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        change = memory.complete_task(
            args.id, proof, args.result, sender_hash=sender_hash(args), quality_score=args.quality
        )
    return emit_change(args, change)


def _fail_options(parser: Parser) -> None:
    add_id(parser)
    add_proof(parser)
    add_reason(parser, required=True)


def fail(args: argparse.Namespace) -> int:
    proof = proof_of(args)
    with open_memory(args) as memory:
        return emit_change(args, memory.fail_task(args.id, proof, args.reason, sender_hash=sender_hash(args)))


def block(args: argparse.Namespace) -> int:
    with open_memory(args) as memory:
        task = memory.block_task(args.id, proof_or_none(args), reason=args.reason, sender_hash=sender_hash(args))
    return emit_change(args, task)


COMMANDS = {
    "init": Command(_no_options, init),
    "sender": Command(_sender_options, sender),
    "config": Command(add_setting, config),
    "ready": Command(_ready_options, ready),
    "list": Command(_list_options, list_tasks),
    "show": Command(add_id, show),
    "agents": Command(_no_options, agents),
    "create": Command(_create_options, create),
    "depend": Command(_depend_options, depend),
    "priority": Command(_priority_options, priority),
    "reassign": Command(_reassign_options, reassign),
    "pause": Command(_pause_options, pause),
    "resume": Command(_resume_options, resume),
    "abort": Command(_abort_options, abort),
    "claim": Command(_claim_options, claim),
    "renew": Command(_renew_options, renew),
    "complete": Command(_complete_options, complete),
    "fail": Command(_fail_options, fail),
    "block": Command(_fail_options, block),
}


_UUID = 36
_NAMES_WIDE = 26  # width of the names of fields
_SHORT = 8
_HEADING = ("id", "description")  # fields in the first line of a task
_NAMES = {profile.id: profile.name for profile in FLEET}


def short(task_id: str) -> str:
    """An id, short enough to type."""
    return task_id[:_SHORT] if len(task_id) == _UUID else task_id


def agent_name(agent: str | None) -> str:
    if agent is None:
        return "anyone"
    return f"{agent} ({_NAMES[agent]})" if agent in _NAMES else agent


def first_line(description: str) -> str:
    return next((line.strip() for line in description.splitlines() if line.strip()), "")


def task_table(tasks: Sequence[TaskRecord]) -> list[str]:
    if not tasks:
        return []
    rows = [
        (
            short(task["id"]),
            task["status"],
            weight(task),
            _whose(task),
            first_line(task["description"]),
            remark(task),
        )
        for task in tasks
    ]
    return table(("ID", "STATUS", "WEIGHT", "AGENT", "DESCRIPTION", ""), rows)


def _whose(task: TaskRecord) -> str:
    """The agent, or the role that the task is routed to."""
    routed = task["routed_to"]
    return task["assigned_to"] or ("anyone" if routed in {None, ANYONE} else str(routed))


def weight(task: TaskRecord) -> str:
    """The weight, marked if the user put the task first."""
    return f"{'^' if task['user_priority_override'] else ''}{task['priority_weight']:g}"


def remark(task: TaskRecord) -> str:
    if task["status"] == PENDING and task["unmet_dependencies"]:
        count = task["unmet_dependencies"]
        return f"waits for {count} other{'s' if count > 1 else ''}"
    return (task["blocked_reason"] or "").partition("\n")[0]


def task_lines(task: TaskRecord, dependencies: Iterable[Dependency]) -> list[str]:
    """All fields that are set, then the dependencies."""
    lines = [f"{task['id']}  {clean(first_line(task['description']))}"]
    told = {name: value for name, value in task.items() if name not in _HEADING and value not in (None, [], 0, False)}
    lines += [f"  {name:<{_NAMES_WIDE}}{clean(_shown(value))}" for name, value in told.items()]
    for one in dependencies:
        mine = one["task_id"] == task["id"]
        other = one["depends_on_id"] if mine else one["task_id"]
        lines.append(f"  {_WORDS[one['type'], mine]:<{_NAMES_WIDE}}{other}")
    if "\n" in task["description"].strip():
        lines += ["", *(f"  {line}" for line in clean_lines(task["description"]))]
    return lines


_WORDS = {
    ("blocks", True): "blocked by",
    ("blocks", False): "blocks",
    ("feeds_into", True): "fed by",
    ("feeds_into", False): "feeds into",
    ("parallel_ok", True): "beside",
    ("parallel_ok", False): "beside",
}


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, bool):
        return "true"
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def prerequisite_lines(prerequisites: Iterable[Prerequisite]) -> list[str]:
    lines = []
    for one in prerequisites:
        given = [one["result_summary"] or "", *one["artifacts"]]
        said = "; ".join(clean(each) for each in given if each) or "completed, without a result"
        lines.append(f"  from        {short(one['id'])} ({clean(one['description'])}): {said}")
    return lines


def agent_table(agents: Iterable[AgentRecord]) -> list[str]:
    rows = [
        (one["id"], one["name"], one["role"], f"{one['load']} of {one['limit']}", one["does"], _presence(one))
        for one in agents
    ]
    return table(("AGENT", "NAME", "ROLE", "LOAD", "DOES", ""), rows)


def _presence(agent: AgentRecord) -> str:
    return "" if agent["registered"] else "not registered"


def count_line(tasks: Sequence[TaskRecord]) -> str:
    """The last line of a list."""
    busy = sum(task["status"] == IN_PROGRESS for task in tasks)
    stuck = sum(task["status"] == BLOCKED for task in tasks)
    return f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}, {busy} in progress, {stuck} blocked"


def emit_change(args: argparse.Namespace, change: Change | TaskRecord) -> int:
    full = change if isinstance(change, Change) else Change(change)
    return emit(args, lambda: _json(full), lambda: _lines(full))


def _json(change: Change) -> dict[str, Json]:
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted": change.aborted}
    return {"task": as_json(change.task), **{word: list(ids) for word, ids in others.items()}}


def _lines(change: Change) -> list[str]:
    task, why = change.task, remark(change.task)
    head = f"{task['status'].upper()}  {short(task['id'])}  {clean(first_line(task['description']))}"
    lines = [f"{head}: {clean(why)}" if why else head]
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted too": change.aborted}
    return lines + [f"  {word:<12}{', '.join(map(short, ids))}" for word, ids in others.items() if ids]
