"""list, show, ready, status, search, log, stats, …: look at tasks and events."""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from dibs.cli import text
from dibs.cli.command import (
    add_agent,
    add_filters,
    add_task,
    agent_or_me,
    filter_of,
    open_desk,
    task_of,
    warn,
)
from dibs.console.arguments import positive, span, whole
from dibs.console.commands import Command
from dibs.console.streams import clean, emit, table
from dibs.core.errors import InvalidInput, ServiceUnavailable
from dibs.core.messages import command
from dibs.core.policy import NATIVE
from dibs.core.task import TERMINAL, Holder, Status, status_word
from dibs.core.times import in_words, time_text
from dibs.core.wire import event_json, link_json, task_json
from dibs.identity import agent_name
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.events import Event
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.trends import Stuck, Trends
    from dibs.stores.reports import Counts


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
    parser.add_argument("--held-by", metavar="AGENT", type=agent_or_me, help="only tasks that this agent holds")
    parser.add_argument(
        "--assigned-to", metavar="AGENT", type=agent_or_me, help="only tasks that are assigned to this agent"
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
        raise InvalidInput(f"'{args.status}' is not a status. Choose from {', '.join(Status)}.")
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
    parser.add_argument("--since", metavar="SPAN", type=span, help="print only events of this long, such as 1h")
    parser.add_argument("--by", metavar="NAME", help="print only events of this agent")
    _add_limit(parser, 50)


def log(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        events = _events(desk, args)
        return emit(args, lambda: [event_json(event) for event in events], lambda: text.event_table(events))


def _events(desk: Desk, args: argparse.Namespace) -> Sequence[Event]:
    """The first events after `--after`, else the newest ones."""
    if args.since is None and args.by is None:
        window = {"limit": args.limit} if args.after else {"last": args.limit}
        return desk.events(ref=args.task, after=args.after, **window)
    since = None if args.since is None else desk.now() - args.since
    size = max(args.limit, _PAGE)
    while True:
        read = desk.events(ref=args.task, after=args.after, last=size)
        recent = [event for event in read if since is None or event.at >= since]
        found = [event for event in recent if args.by in {None, event.agent}]
        if len(found) >= args.limit or len(recent) < size:
            return found[-args.limit :]
        size *= 4


_PAGE = 1000


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
    from dibs.agent import overview_of

    agent = args.agent or agent_name()
    with open_desk(args) as desk:
        seen, now, scope = overview_of(desk, agent, limit=args.limit), desk.now(), desk.scope
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
    "show": Command(lambda parser: add_task(parser, optional=True), show),
    "list": Command(_list_options, list_tasks),
    "ready": Command(_ready_list_options, ready),
    "next": Command(_ready_options, next_task),
    "stale": Command(_stale_options, stale),
    "log": Command(_log_options, log),
    "search": Command(_search_options, search),
    "status": Command(_status_options, status),
    "open": Command(_open_options, open_board),
    "stats": Command(_stats_options, stats),
}
