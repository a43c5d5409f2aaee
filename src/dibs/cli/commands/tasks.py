"""add, edit, comment, assign, pause, undo, …: change the fields and status of tasks."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dibs.agent import undo_last_change
from dibs.cli.command import (
    add_agent,
    add_force,
    add_links,
    add_task,
    add_token,
    agent_or_me,
    open_desk,
    task_data,
    token_of,
)
from dibs.console.arguments import MOMENT_HINT, json_text, moment_or_span, rank
from dibs.console.commands import Command
from dibs.console.streams import emit, read_text
from dibs.core.errors import InvalidInput
from dibs.core.fields import LISTS, STATED, Kind
from dibs.core.lifecycle import Verb, verb_to
from dibs.core.task import UNSET, Draft, Edit, Link, LinkKind, ServiceClass, Status, status_word
from dibs.core.wire import event_json, task_json
from dibs.identity import agent_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk


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


def _field_values(args: argparse.Namespace, desk: Desk) -> dict[str, Any]:
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
    if "assigned_to" in said:
        said["assigned_to"] = agent_or_me(said["assigned_to"])
    if "parent" in said:
        said["parent"] = desk.resolve(said["parent"])
    return {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


def _service_class(text: str) -> ServiceClass:
    try:
        return ServiceClass(text.lower().replace("-", "_"))
    except ValueError:
        raise InvalidInput(f"'{text}' is not a service class. Choose from {', '.join(ServiceClass)}.") from None


def _add_options(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the title: one line")
    _said_options(parser)
    parser.add_argument("--id", default="", help="an id of your own (default: a short one is made)")
    add_links(parser)
    parser.add_argument("--backlog", action="store_true", help="put it in the backlog: it cannot be claimed yet")
    add_agent(parser)


def add(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        status = Status.BACKLOG if args.backlog else Status.READY
        draft = Draft(args.title, id=args.id, status=status, **_field_values(args, desk))
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
        said = _field_values(args, desk)
        said.update({name: Draft._field_defaults[name] for name in args.clear})
        if args.title is not None:
            said["title"] = args.title
        if args.override is not None:
            said["override"] = args.override
        if not said and args.status is None:
            raise InvalidInput("Name at least one change. See 'dibs edit --help'.")
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
        "assignee",
        metavar="AGENT",
        type=agent_or_me,
        help="the only agent that can claim it; '-' removes the assignment",
    )
    add_agent(parser)


def assign(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.edit(args.task, Edit(assigned_to=None if args.assignee == "-" else args.assignee))
        said = f"assigned {task.id} to {task.assigned_to}" if task.assigned_to else f"{task.id} is assigned to no agent"
        return emit(args, lambda: task_json(task), lambda: [said])


def _undo_options(parser: Parser) -> None:
    add_agent(parser)
    add_token(parser)


def undo(args: argparse.Namespace) -> int:
    agent = args.agent or agent_name()
    with open_desk(args) as desk:
        undone = undo_last_change(desk, agent, token=args.token or os.environ.get("DIBS_TOKEN") or None)
        word = status_word(undone.task, desk.now())
    event = undone.event
    said = f"undid '{event.verb}' of {event.task} (event {event.seq}): it is {word}"
    data: dict[str, Json] = {"undone": event_json(event), "task": task_json(undone.task), "note": undone.note}
    return emit(args, lambda: data, lambda: [f"{said}, {undone.note}" if undone.note else said])


COMMANDS = {
    "add": Command(_add_options, add),
    "edit": Command(_edit_options, edit),
    "comment": Command(_comment_options, comment),
    "assign": Command(_assign_options, assign),
    "undo": Command(_undo_options, undo),
    "unblock": Command(_steer_options, lambda args: _steer(args, Verb.UNBLOCK, "unblocked")),
    "approve": Command(_steer_options, lambda args: _steer(args, Verb.APPROVE, "approved")),
    "rework": Command(_reason_options, lambda args: _steer(args, Verb.REWORK, "sent back")),
    "pause": Command(_pause_options, lambda args: _steer(args, Verb.PAUSE, "paused")),
    "resume": Command(_steer_options, lambda args: _steer(args, Verb.RESUME, "resumed")),
}
