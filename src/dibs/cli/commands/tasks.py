"""add, edit, show, list, search, status, undo, …: the fields and status of tasks."""

from __future__ import annotations

import os
import sys
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
from dibs.console.arguments import MOMENT_HINT, json_text, moment_or_span, positive, rank, span, whole
from dibs.console.commands import Command
from dibs.console.streams import emit, read_text
from dibs.console.table import clean, table
from dibs.core.errors import InvalidInput, ServiceUnavailable
from dibs.core.fields import LISTS, STATED, Kind
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.messages import command
from dibs.core.policy import NATIVE
from dibs.core.task import TERMINAL, UNSET, Draft, Edit, Holder, Link, LinkKind, ServiceClass, Status, status_word
from dibs.core.times import in_words, time_text
from dibs.core.wire import event_json, link_json, task_json
from dibs.identity import agent_name
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.trends import Stuck, Trends
    from dibs.stores.reports import Counts


_SAID = tuple(field for field in STATED if field.options)
_TYPES: dict[str, Callable[[str], object]] = {Kind.NUMBER: rank, Kind.COUNT: int, Kind.TIME: moment_or_span}


def _said_options(parser: Parser) -> None:
    """Add the options that `add` and `edit` share."""
    for field in _SAID:
        more = "; '-' reads it from stdin" if field.name == "description" else ""
        more = f": {MOMENT_HINT}" if field.kind == Kind.TIME else more
        parser.add_argument(
            *field.options,
            dest=field.name,
            metavar=field.metavar,
            type=_TYPES.get(field.kind, str),
            action="append" if field.kind in LISTS else "store",
            help=field.about + more,
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
    if isinstance(after := said.get("not_before"), timedelta):
        said["not_before"] = desk.now() + after
    if said.get("assigned_to") in _ME:
        said["assigned_to"] = agent_name()
    if "parent" in said:
        said["parent"] = desk.resolve(said["parent"])
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


_ME = frozenset({"@me", "me"})


def _agent(name: str) -> str:
    """An argparse type for agents; `@me` is the caller."""
    return agent_name() if name in _ME else name


def _service_class(text: str) -> ServiceClass:
    try:
        return ServiceClass(text.lower().replace("-", "_"))
    except ValueError:
        raise InvalidInput(f"'{text}' is no class of service; there are {', '.join(ServiceClass)}.") from None


def _add_options(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the title: one line")
    _said_options(parser)
    parser.add_argument("--id", default="", help="an id of your own (default: a short one is made)")
    parser.add_argument(
        "--blocked-by", metavar="ID", action="append", default=[], help="a task that must be done first (repeatable)"
    )
    parser.add_argument(
        "--blocks", metavar="ID", action="append", default=[], help="a task that waits for this one (repeatable)"
    )
    parser.add_argument(
        "--feeds-from",
        metavar="ID",
        action="append",
        default=[],
        help="a task whose result this one gets, without waiting for it (repeatable)",
    )
    parser.add_argument("--backlog", action="store_true", help="put it in the backlog: it cannot be claimed yet")
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
    parser.add_argument("--title", metavar="TEXT", help="the title: one line")
    _said_options(parser)
    parser.add_argument(
        "--first", dest="override", action="store_true", default=None, help="put it ahead of its service class"
    )
    parser.add_argument("--not-first", dest="override", action="store_false", help="return it to the normal order")
    parser.add_argument(
        "--status", choices=("ready", "backlog"), help="ready: it can be claimed; backlog: it cannot yet"
    )
    parser.add_argument(
        "--clear",
        metavar="FIELD",
        action="append",
        default=[],
        choices=_CLEARABLE,
        help="empty this field (repeatable)",
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
    parser.add_argument("text", metavar="TEXT", help="the comment; '-' reads stdin")
    add_agent(parser)


def comment(args: argparse.Namespace) -> int:
    text = read_text("-") if args.text == "-" else args.text
    with open_desk(args) as desk:
        task = desk.get(args.task)
        desk.comment(task.id, text)
        return emit(args, lambda: {"task": task.id, "comment": text.strip()}, lambda: [f"commented on {task.id}"])


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
        "--status", metavar="WORDS", help="only tasks with these statuses, separated by commas (default: unfinished)"
    )
    parser.add_argument("--all", action="store_true", help="include done and canceled tasks")
    parser.add_argument("--held-by", metavar="AGENT", type=_agent, help="only tasks that this agent holds")
    parser.add_argument(
        "--assigned-to", metavar="AGENT", type=_agent, help="only tasks that are assigned to this agent"
    )
    add_filters(parser)
    parser.add_argument("--parent", metavar="ID", help="only subtasks of this task")
    parser.add_argument("--text", metavar="WORDS", help="only tasks with these words in title or description")
    _add_any_scope(parser)
    _add_limit(parser, 50)


def _add_limit(parser: Parser, default: int) -> None:
    parser.add_argument(
        "-n", "--limit", metavar="N", type=positive, default=default, help=f"print at most N (default: {default})"
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
        return _emit_tasks(args, tasks[: args.limit], desk.now(), noted=args.status is None)


def _statuses(args: argparse.Namespace) -> tuple[Status, ...]:
    if args.status is None:
        return tuple(Status) if args.all else _OPEN
    found = [NATIVE.read(word.strip()) for word in args.status.split(",")]
    if None in found:
        raise InvalidInput(f"'{args.status}' names no status; there are {', '.join(Status)}.")
    return tuple(status for status in found if status is not None)


def _emit_tasks(args: argparse.Namespace, tasks: list[Task], now: datetime, *, noted: bool = False) -> int:
    table = partial(text.task_table, tasks, now, scoped=args.any_scope)
    if not tasks and not args.json and (noted or sys.stderr.isatty()):
        warn(_NOTHING)
    return emit(args, lambda: [task_json(task) for task in tasks], table)


_NOTHING = (
    "No tasks match. 'dibs add TITLE' adds one, 'dibs list --all' shows finished ones too, "
    "'dibs graph' shows which tasks wait for others."
)


def _ready_options(parser: Parser) -> None:
    add_agent(parser)
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="a capability that you have (repeatable)"
    )
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
            if not args.json and sys.stderr.isatty():
                warn("Nothing can be claimed now. 'dibs list' shows the tasks that are held or wait.")
            return emit(args, lambda: None, list)
        return emit(args, lambda: task_json(tasks[0]), lambda: text.task_lines(tasks[0], desk.now()))


def _ready(desk: Desk, args: argparse.Namespace, limit: int) -> list[Task]:
    agent, only = args.agent or agent_name(), filter_of(args)
    return desk.ready(limit=limit, agent=agent, can=args.can, anywhere=args.any_scope, only=only)


def _stale_options(parser: Parser) -> None:
    parser.add_argument(
        "--older",
        metavar="SPAN",
        type=span,
        default=timedelta(days=1),
        help="how long a task must be unchanged (default: 1d)",
    )


def stale(args: argparse.Namespace) -> int:
    """List neglected tasks, each with the reason."""
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
    parser.add_argument("task", metavar="ID", nargs="?", help="print only events of this task")
    parser.add_argument(
        "--after", metavar="SEQ", type=whole, default=0, help="print only events with a higher number (default: 0)"
    )
    _add_limit(parser, 50)


def log(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        window = {"limit": args.limit} if args.after else {"last": args.limit}
        events = desk.events(ref=args.task, after=args.after, **window)
        return emit(args, lambda: [event_json(event) for event in events], lambda: text.event_table(events))


def _add_any_scope(parser: Parser) -> None:
    parser.add_argument("--any-scope", action="store_true", help="include all scopes (default: only --scope)")


def _stats_options(parser: Parser) -> None:
    _add_any_scope(parser)
    parser.add_argument(
        "--since", metavar="SPAN", type=span, help="add throughput, times and failures for this long, such as 7d"
    )


def stats(args: argparse.Namespace) -> int:
    if args.since is not None:
        return _trends(args)
    with open_desk(args) as desk:
        counts = desk.counts(anywhere=args.any_scope)
        numbers = {status.value: counts.by_status[status] for status in Status if counts.by_status.get(status)}
        derived = {"claimable": counts.claimable, "waiting": counts.waiting, "later": counts.later}
        derived["expired"] = counts.expired
        rows = [(name, str(number)) for name, number in (*numbers.items(), *derived.items())]
        return emit(args, lambda: {"by_status": numbers, **derived}, lambda: table(("", "TASKS"), rows))


def _trends(args: argparse.Namespace) -> int:
    from dibs.fleet.trends import stuck_json, stuck_tasks, trends, trends_json

    if args.any_scope:
        raise InvalidInput("Trends are those of one scope: remove --any-scope, or choose a scope with --scope.")
    with open_desk(args) as desk:
        found = trends(desk, args.since)
        stuck = stuck_tasks(desk, found.run)
        now = desk.now()
    data = {**trends_json(found), "stuck": stuck_json(stuck)}
    return emit(args, lambda: data, lambda: _trend_lines(found, stuck, now))


def _trend_lines(found: Trends, stuck: Sequence[Stuck], now: datetime) -> Iterable[str]:
    numbers = [(name, str(getattr(found, name))) for name in ("added", "finished", "failed", "expired")]
    times = [("wait", found.wait), ("run", found.run)]
    yield from table(("", "TASKS"), numbers)
    if not found.whole:
        yield f"Older events were not read: this is since {time_text(found.since)}."
    rows = [(name, *map(_seconds, one[:3])) for name, one in times if one is not None]
    if rows:
        yield from ("", *table(("TIME", "MEDIAN", "90 %", "95 %"), rows))
    for name, shares in (("AGENT", found.agents), ("LABEL", found.labels)):
        if shares:
            counted = [(one.name, str(one.finished), str(one.failed), str(one.expired)) for one in shares]
            yield from ("", *table((name, "FINISHED", "FAILED", "EXPIRED"), counted))
    if stuck:
        told = [(one.task, in_words(now - one.since), one.why) for one in stuck]
        yield from ("", *table(("STUCK", "FOR", "WHY"), told))


def _seconds(value: float) -> str:
    return in_words(timedelta(seconds=value))


def _steer_options(parser: Parser) -> None:
    add_task(parser)
    add_agent(parser)


def _reason_options(parser: Parser) -> None:
    _steer_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the log")


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


def _assign_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument(
        "assignee", metavar="AGENT", type=_agent, help="the only agent that can claim it; '-' removes the assignment"
    )
    add_agent(parser)


def assign(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.edit(args.task, Edit(assigned_to=None if args.assignee == "-" else args.assignee))
        said = f"assigned {task.id} to {task.assigned_to}" if task.assigned_to else f"{task.id} is assigned to no agent"
        return emit(args, lambda: task_json(task), lambda: [said])


# Finding one's way


def _search_options(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT", nargs="+", help="words, or beginnings of words; all must match")
    parser.add_argument("--open", action="store_true", help="leave out finished tasks")
    _add_limit(parser, 20)


def search(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        words = args.text[1:] if len(args.text) > 1 and args.text[0].lower() == "for" else args.text
        hits = desk.search(" ".join(words), limit=args.limit, finished=not args.open)
        now = desk.now()
    data = [
        task_json(hit.task) | {"score": hit.score, "where": list(hit.where), "excerpt": hit.excerpt} for hit in hits
    ]
    rows = [(hit.task.id, status_word(hit.task, now), hit.task.title, hit.excerpt) for hit in hits]
    lines = table(("ID", "STATUS", "TITLE", ""), rows) if rows else [f"no task has '{clean(' '.join(args.text))}'"]
    return emit(args, lambda: data, lambda: lines)


def _status_options(parser: Parser) -> None:
    add_agent(parser)
    _add_limit(parser, 5)


def status(args: argparse.Namespace) -> int:
    agent = args.agent or agent_name()
    with open_desk(args) as desk:
        seen, now, scope = desk.overview(agent, limit=args.limit), desk.now(), desk.scope
    parts = {"held": seen.held, "ready": seen.ready, "blocked": seen.blocked, "people": seen.people}
    data: dict[str, Json] = {
        "agent": agent,
        "scope": scope,
        "counts": _numbers(seen.counts),
        **{name: [task_json(task) for task in part] for name, part in parts.items()},
    }
    return emit(args, lambda: data, lambda: text.overview_lines(seen, now, args.limit))


def _numbers(counts: Counts) -> dict[str, Json]:
    numbers: dict[str, Json] = {each.value: counts.by_status[each] for each in Status if counts.by_status.get(each)}
    return numbers | {"claimable": counts.claimable, "waiting": counts.waiting}


def _undo_options(parser: Parser) -> None:
    add_agent(parser)
    add_token(parser)


def undo(args: argparse.Namespace) -> int:
    agent = args.agent or agent_name()
    with open_desk(args) as desk:
        undone = desk.undo(agent, token=args.token or os.environ.get("DIBS_TOKEN") or None)
        word = status_word(undone.task, desk.now())
    event = undone.event
    said = f"undid '{event.verb}' of {event.task} (event {event.seq}): it is {word}"
    data: dict[str, Json] = {"undone": event_json(event), "task": task_json(undone.task), "note": undone.note}
    return emit(args, lambda: data, lambda: [f"{said}, {undone.note}" if undone.note else said])


def _open_options(parser: Parser) -> None:
    parser.add_argument("task", metavar="ID", nargs="?", help="the task to show")
    parser.add_argument(
        "--port", metavar="P", type=whole, default=_BOARD_PORT, help=f"the port of the board (default: {_BOARD_PORT})"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")


_BOARD_PORT = 8420


def open_board(args: argparse.Namespace) -> int:
    """The board has to be served: this command leaves no server behind."""
    base = _board_address(args)
    with open_desk(args) as desk:
        task = None if args.task is None else desk.get(args.task).id
        scope = desk.scope
    from urllib.parse import urlencode

    place = {name: value for name, value in (("task", task), ("scope", scope)) if value and value != "default"}
    url = f"{base}/#/board?{urlencode(place)}" if place else f"{base}/"
    if not args.no_browser:
        import webbrowser

        webbrowser.open(url)
    return emit(args, lambda: {"url": url, "task": task}, lambda: [url])


def _board_address(args: argparse.Namespace) -> str:
    import socket

    base = f"http://127.0.0.1:{args.port}"
    try:
        socket.create_connection(("127.0.0.1", args.port), timeout=2).close()
    except OSError:
        serve = command("dibs", "serve", "--open", *(() if args.port == _BOARD_PORT else ("--port", str(args.port))))
        raise ServiceUnavailable(f"No board answers at {base}. Start it in another terminal: '{serve}'.") from None
    return base


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
    "search": Command(_search_options, search),
    "status": Command(_status_options, status),
    "assign": Command(_assign_options, assign),
    "undo": Command(_undo_options, undo),
    "open": Command(_open_options, open_board),
    "stats": Command(_stats_options, stats),
    "unblock": Command(_steer_options, lambda args: _steer(args, Verb.UNBLOCK, "unblocked")),
    "approve": Command(_steer_options, lambda args: _steer(args, Verb.APPROVE, "approved")),
    "rework": Command(_reason_options, lambda args: _steer(args, Verb.REWORK, "sent back")),
    "pause": Command(_pause_options, lambda args: _steer(args, Verb.PAUSE, "paused")),
    "resume": Command(_steer_options, lambda args: _steer(args, Verb.RESUME, "resumed")),
}
