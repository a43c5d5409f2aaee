"""add, edit, comment: what a task says, and what is said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.cli.command import add_agent, add_task, open_desk
from dibs.console.arguments import json_text, moment
from dibs.console.commands import Command
from dibs.console.streams import emit, read_text
from dibs.core.errors import InvalidInput
from dibs.core.fields import LISTS, STATED, Kind
from dibs.core.lifecycle import verb_to
from dibs.core.task import UNSET, Draft, Edit, Link, LinkKind, ServiceClass, Status
from dibs.core.wire import task_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

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


COMMANDS = {
    "add": Command(_add_options, add),
    "edit": Command(_edit_options, edit),
    "comment": Command(_comment_options, comment),
}
