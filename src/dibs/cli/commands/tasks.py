"""add, edit, show, list, ready, log, …: what tasks say, how they stand, and decisions about those without a holder."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from dibs.cli import text
from dibs.cli.command import (
    add_agent,
    add_filters,
    add_force,
    add_task,
    add_token,
    filter_of,
    open_desk,
    task_data,
    task_of,
    token_of,
    warn,
)
from dibs.console.arguments import json_text, moment, positive, span, whole
from dibs.console.commands import Command
from dibs.console.streams import emit, read_text
from dibs.console.table import table
from dibs.core.errors import InvalidInput
from dibs.core.fields import LISTS, STATED, Kind
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.policy import NATIVE
from dibs.core.task import TERMINAL, UNSET, Draft, Edit, Holder, Link, LinkKind, ServiceClass, Status, status_word
from dibs.core.times import in_words
from dibs.core.wire import event_json, link_json, task_json
from dibs.identity import agent_name
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Task
    from dibs.desk import Desk


_SAID = tuple(field for field in STATED if field.options)
_TYPES: dict[str, Callable[[str], object]] = {Kind.NUMBER: float, Kind.COUNT: int, Kind.TIME: moment}


def _said_options(parser: Parser) -> None:
    """What both a new and a changed task may say. Left out means: as it is."""
    for field in _SAID:
        stdin = "; '-' reads it from stdin" if field.name == "description" else ""
        parser.add_argument(
            *field.options,
            dest=field.name,
            metavar=field.metavar,
            type=_TYPES.get(field.kind, str),
            action="append" if field.kind in LISTS else "store",
            help=field.about + stdin,
        )


def _said(args: argparse.Namespace, desk: Desk) -> dict[str, Any]:
    """The options given, as field values."""
    said = {field.name: value for field in _SAID if (value := getattr(args, field.name)) is not None}
    if said.get("description") == "-":
        said["description"] = read_text("-")
    if "service_class" in said:
        said["service_class"] = _service_class(said["service_class"])
    if "extra" in said:
        said["extra"] = json_text("extra", said["extra"])
    if "parent" in said:
        said["parent"] = desk.resolve(said["parent"])
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


def _service_class(text: str) -> ServiceClass:
    try:
        return ServiceClass(text.lower().replace("-", "_"))
    except ValueError:
        raise InvalidInput(f"'{text}' is no class of service; there are {', '.join(ServiceClass)}.") from None


def _add_options(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="one line that says what it is")
    _said_options(parser)
    parser.add_argument("--id", default="", help="an id of your own; else a short one is made up")
    parser.add_argument("--blocked-by", metavar="ID", action="append", default=[], help="must be done first")
    parser.add_argument("--blocks", metavar="ID", action="append", default=[], help="has to wait for this one")
    parser.add_argument(
        "--feeds-from", metavar="ID", action="append", default=[], help="hands its result on to this one"
    )
    parser.add_argument("--backlog", action="store_true", help="not up for work yet")
    add_agent(parser)


def add(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        status = Status.BACKLOG if args.backlog else Status.READY
        draft = Draft(args.title, id=args.id, status=status, **_said(args, desk))
        (task,) = desk.add([draft], _links(args, desk))
        return emit(args, lambda: task_json(task), lambda: [task.id])


def _links(args: argparse.Namespace, desk: Desk) -> list[Link]:
    """The new task's own end stays empty: the desk knows its id."""
    links = [Link(args.id, desk.resolve(other)) for other in args.blocked_by]
    links += [Link(desk.resolve(other), args.id) for other in args.blocks]
    return links + [Link(args.id, desk.resolve(other), LinkKind.FEEDS_INTO) for other in args.feeds_from]


def _edit_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument("--title", metavar="TEXT", help="one line that says what it is")
    _said_options(parser)
    parser.add_argument("--first", dest="override", action="store_true", default=None, help="ahead of all of its class")
    parser.add_argument("--not-first", dest="override", action="store_false", help="back in the ordinary order")
    parser.add_argument("--status", choices=("ready", "backlog"), help="put it up for work, or back on the shelf")
    parser.add_argument(
        "--clear", metavar="FIELD", action="append", default=[], choices=_CLEARABLE, help="empty a field"
    )
    add_agent(parser)


_CLEARABLE = tuple(field.name for field in _SAID if field.kind not in {Kind.NUMBER, Kind.CLASS})


def edit(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        said = _said(args, desk)
        said.update({name: Draft._field_defaults[name] for name in args.clear})
        if args.title is not None:
            said["title"] = args.title
        if args.override is not None:
            said["override"] = args.override
        if not said and args.status is None:
            raise InvalidInput("Nothing to change: say what. See 'dibs edit --help'.")
        task = _edited(desk, args, Edit(**said))
        return emit(args, lambda: task_json(task), lambda: [f"changed {task.id}"])


def _edited(desk: Desk, args: argparse.Namespace, change: Edit) -> Task:
    """Whether the status can be had is asked first, so that a refusal leaves nothing half done."""
    task = desk.get(args.task)
    verb = None
    if args.status is not None and args.status != task.status:
        verb = verb_to(task, Status(args.status))
    if any(value is not UNSET for value in change):
        task = desk.edit(task.id, change)
    return task if verb is None else desk.move(verb, task.id).task


def _comment_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument("text", metavar="TEXT", help="what to say; '-' reads it from stdin")
    add_agent(parser)


def comment(args: argparse.Namespace) -> int:
    text = read_text("-") if args.text == "-" else args.text
    with open_desk(args) as desk:
        task = desk.get(args.task)
        desk.comment(task.id, text)
        return emit(args, lambda: {"task": task.id, "comment": text.strip()}, lambda: [f"said of {task.id}"])


_OPEN = tuple(status for status in Status if status not in TERMINAL)


def show(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.get(task_of(args))
        links = desk.links(task.id)
        children = desk.find(Query(desk.scope, parent=task.id))
        data = task_json(task) | {"links": [link_json(link) for link in links]}
        if children:
            data["children"] = [child.id for child in children]
        lines = [*text.task_lines(task, desk.now()), *_below(task, desk)]
        return emit(args, lambda: data, lambda: lines)


def _below(task: Task, desk: Desk) -> Iterable[str]:
    """Links, parts and the latest events, under what the task says."""
    now = desk.now()
    links = text.link_lines(task, desk.links(task.id))
    if links:
        yield from ("", *links)
    children = desk.find(Query(desk.scope, parent=task.id))
    if children:
        yield from ("", "  parts", *text.task_table(children, now, indent=4))
    if desk.capabilities.history:
        events = desk.events(ref=task.id, last=5)
        yield from ("", *text.event_table(events, indent=2))


def _list_options(parser: Parser) -> None:
    parser.add_argument(
        "--status", metavar="WORDS", help="only these, separated by commas; else all that is unfinished"
    )
    parser.add_argument("--all", action="store_true", help="what is done or canceled too")
    parser.add_argument("--held-by", metavar="AGENT", help="what this agent works on")
    parser.add_argument("--assigned-to", metavar="AGENT", help="what is meant for this agent")
    add_filters(parser)
    parser.add_argument("--parent", metavar="ID", help="only the parts of this task")
    parser.add_argument("--text", metavar="WORDS", help="in title or description")
    _add_any_scope(parser)
    _add_limit(parser, 50)


def _add_limit(parser: Parser, default: int) -> None:
    parser.add_argument(
        "-n", "--limit", metavar="N", type=positive, default=default, help=f"at most N; {default} unless said"
    )


def list_tasks(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        query = Query(
            None if args.any_scope else desk.scope,
            _statuses(args),
            agent=args.held_by,
            assigned_to=args.assigned_to,
            parent=desk.resolve(args.parent) if args.parent else None,
            text=args.text,
            only=filter_of(args),
            limit=args.limit + 1,
        )
        tasks = desk.find(query)
        if len(tasks) > args.limit:
            warn(f"only the first {args.limit} are shown; -n shows more")
        return _emit_tasks(args, tasks[: args.limit], desk.now())


def _statuses(args: argparse.Namespace) -> tuple[Status, ...]:
    if args.status is None:
        return tuple(Status) if args.all else _OPEN
    found = [NATIVE.read(word.strip()) for word in args.status.split(",")]
    if None in found:
        raise InvalidInput(f"'{args.status}' names no status; there are {', '.join(Status)}.")
    return tuple(status for status in found if status is not None)


def _emit_tasks(args: argparse.Namespace, tasks: list[Task], now: datetime) -> int:
    table = partial(text.task_table, tasks, now, scoped=args.any_scope)
    return emit(args, lambda: [task_json(task) for task in tasks], table)


def _ready_options(parser: Parser) -> None:
    add_agent(parser)
    parser.add_argument("--can", metavar="CAP", action="append", default=[], help="a capability you have (repeatable)")
    add_filters(parser)
    _add_any_scope(parser)


def _ready_list_options(parser: Parser) -> None:
    _ready_options(parser)
    _add_limit(parser, 10)


def ready(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        return _emit_tasks(args, _ready(desk, args, args.limit), desk.now())


def next_task(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        tasks = _ready(desk, args, 1)
        if not tasks:
            return emit(args, lambda: None, list)
        return emit(args, lambda: task_json(tasks[0]), lambda: text.task_lines(tasks[0], desk.now()))


def _ready(desk: Desk, args: argparse.Namespace, limit: int) -> list[Task]:
    agent, only = args.agent or agent_name(), filter_of(args)
    return desk.ready(limit=limit, agent=agent, can=args.can, anywhere=args.any_scope, only=only)


def _stale_options(parser: Parser) -> None:
    parser.add_argument(
        "--older", metavar="SPAN", type=span, default=timedelta(days=1), help="untouched for so long; 1d unless said"
    )


def stale(args: argparse.Namespace) -> int:
    """What nobody seems to look after, with the reason why it is listed."""
    watched = (Status.ACTIVE, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED)
    with open_desk(args) as desk:
        now = desk.now()
        found = [
            (task, why) for task in desk.find(Query(desk.scope, watched)) if (why := _neglect(task, now, args.older))
        ]
        data = [task_json(task) | {"why": why} for task, why in found]
        rows = [(task.id, status_word(task, now), task.title, why) for task, why in found]
        return emit(args, lambda: data, lambda: table(("ID", "STATUS", "TITLE", "WHY"), rows) if rows else [])


def _neglect(task: Task, now: datetime, older: timedelta) -> str | None:
    if task.lease is not None and task.lease.holder is Holder.AGENT and not task.held(now):
        return f"the lease of {task.lease.agent} has expired"
    if task.next_check_at is not None and task.next_check_at <= now:
        return "the time to check again has passed"
    if now - task.updated_at < older or (task.lease is not None and task.lease.holder is Holder.AGENT):
        return None
    return f"untouched for {in_words(now - task.updated_at)}"


def _log_options(parser: Parser) -> None:
    parser.add_argument("task", metavar="ID", nargs="?", help="only of this task")
    parser.add_argument("--after", metavar="SEQ", type=whole, default=0, help="only events with a higher number")
    _add_limit(parser, 50)


def log(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        window = {"limit": args.limit} if args.after else {"last": args.limit}
        events = desk.events(ref=args.task, after=args.after, **window)
        return emit(args, lambda: [event_json(event) for event in events], lambda: text.event_table(events))


def _add_any_scope(parser: Parser) -> None:
    parser.add_argument("--any-scope", action="store_true", help="from all scopes")


def stats(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        counts = desk.counts(anywhere=args.any_scope)
        numbers = {status.value: counts.by_status[status] for status in Status if counts.by_status.get(status)}
        derived = {"claimable": counts.claimable, "waiting": counts.waiting, "later": counts.later}
        derived["expired"] = counts.expired
        rows = [(name, str(number)) for name, number in (*numbers.items(), *derived.items())]
        return emit(args, lambda: {"by_status": numbers, **derived}, lambda: table(("", "TASKS"), rows))


def _steer_options(parser: Parser) -> None:
    add_task(parser)
    add_agent(parser)


def _reason_options(parser: Parser) -> None:
    _steer_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why")


def _pause_options(parser: Parser) -> None:
    _reason_options(parser)
    add_token(parser)
    add_force(parser)


def _steer(args: argparse.Namespace, verb: Verb, word: str) -> int:
    with open_desk(args) as desk:
        token = token_of(args, desk) if hasattr(args, "token") else None
        moved = desk.move(
            verb, args.task, token=token, force=getattr(args, "force", False), reason=getattr(args, "reason", None)
        )
        leads_to = "" if verb is Verb.PAUSE else f": {moved.task.status}"
        lines = [f"{word} {moved.task.id}{leads_to}"]
        lines += [f"  unblocked: {', '.join(moved.unblocked)}"] if moved.unblocked else []
        return emit(args, lambda: task_data(moved.task) | {"unblocked": moved.unblocked}, lambda: lines)


COMMANDS = {
    "add": Command(_add_options, add),
    "edit": Command(_edit_options, edit),
    "comment": Command(_comment_options, comment),
    "show": Command(lambda parser: add_task(parser, optional=True), show),
    "list": Command(_list_options, list_tasks),
    "ready": Command(_ready_list_options, ready),
    "next": Command(_ready_options, next_task),
    "stale": Command(_stale_options, stale),
    "log": Command(_log_options, log),
    "stats": Command(_add_any_scope, stats),
    "unblock": Command(_steer_options, lambda args: _steer(args, Verb.UNBLOCK, "unblocked")),
    "approve": Command(_steer_options, lambda args: _steer(args, Verb.APPROVE, "approved")),
    "rework": Command(_reason_options, lambda args: _steer(args, Verb.REWORK, "sent back")),
    "pause": Command(_pause_options, lambda args: _steer(args, Verb.PAUSE, "paused")),
    "resume": Command(_steer_options, lambda args: _steer(args, Verb.RESUME, "resumed")),
}
