"""export, import, prune: a whole store out, in, and kept small."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dibs.cli.command import add_agent, open_desk
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.streams import emit, read_text, watched
from dibs.core import checks
from dibs.core.errors import InvalidInput, StoreUnavailable
from dibs.core.events import Event
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.core.wire import (
    event_from_json,
    event_json,
    link_from_json,
    link_json,
    setting_from_json,
    task_from_json,
    task_json,
)
from dibs.desk import mint_token
from dibs.stores.reports import Record

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dibs.console.arguments import Parser
    from dibs.core.task import Json


def _export_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to; stdout unless said")
    parser.add_argument("--secrets", action="store_true", help="the holders' tokens too, to move a store while at work")


def export(args: argparse.Namespace) -> int:
    """One JSON object a line: tasks, links, settings, events. Read in one go, so it is the store at one moment."""
    counts = {"task": 0, "link": 0, "setting": 0, "event": 0}
    with open_desk(args) as desk, _target(args.file) as file, watched("Exporting", None) as progress:
        for record in desk.dump():
            line = _line(record, secrets=args.secrets)
            counts[str(line["kind"])] += 1
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            progress(1)
    if args.file == "-":
        return 0
    said = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in counts.items() if number]
    return emit(
        args,
        lambda: {"file": args.file, **{f"{kind}s": counts[kind] for kind in counts}},
        lambda: [f"exported {', '.join(said) or 'an empty store'} to {args.file}"],
    )


@contextmanager
def _target(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdout
        return
    try:
        with open(name, "x", encoding="utf-8", opener=_private) as file:
            yield file
    except FileExistsError:
        raise InvalidInput(f"{name} is there already; an export overwrites nothing.") from None
    except OSError as error:
        raise StoreUnavailable(f"Cannot write {name}: {error.strerror}.") from None


def _private(path: str, flags: int) -> int:
    """An export may hold tokens, and always holds what others wrote: it is for its owner's eyes."""
    return os.open(path, flags, 0o600)


def _line(record: Record, *, secrets: bool) -> dict[str, Json]:
    match record.item:
        case Task():
            return {"kind": "task", **task_json(record.item, secrets=secrets)}
        case Event():
            return {"kind": "event", **event_json(record.item)}
        case Setting():
            return {"kind": "setting", "scope": record.scope, **record.item._asdict()}
        case _:
            # A link has a kind of its own.
            return {"kind": "link", "scope": record.scope, "link": link_json(record.item)}


def _import_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="an export; '-' reads stdin")
    add_agent(parser)


def import_(args: argparse.Namespace) -> int:
    lines = read_text(args.file).split("\n")
    with open_desk(args) as desk, watched("Importing", len(lines)) as progress:
        taken = desk.restore(_records(lines), progress)
    return emit(args, lambda: {"tasks": taken}, lambda: [f"imported {taken} tasks"])


def _records(lines: list[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _record(json.loads(line))
            except (ValueError, RecursionError):
                raise InvalidInput(f"line {number}: not valid JSON") from None
            except InvalidInput as error:
                raise InvalidInput(f"line {number}: {error.message}") from None


def _record(data: object) -> Record:
    if not isinstance(data, dict):
        raise InvalidInput("each line is an object")
    kind = data.pop("kind", None)
    if kind == "task":
        task = task_from_json(data, mint_token)
        return Record(task.scope, task)
    if kind == "event":
        event = event_from_json(data)
        return Record(event.scope, event)
    if kind == "link" and isinstance(data.get("scope"), str):
        return Record(data["scope"], link_from_json(data.get("link") or {}))
    if kind == "setting" and isinstance(data.get("scope"), str):
        return Record(checks.name_of("scope", data.pop("scope")), setting_from_json(data))
    raise InvalidInput("each line is a task, a link, a setting or an event")


def _prune_options(parser: Parser) -> None:
    parser.add_argument("--events", metavar="SPAN", type=span, help="drop events older than this, such as 90d")
    parser.add_argument("--tasks", metavar="SPAN", type=span, help="drop tasks finished longer ago than this")


def prune(args: argparse.Namespace) -> int:
    if args.events is None and args.tasks is None:
        raise InvalidInput("Say what: --events 90d, --tasks 180d, or both.")
    with open_desk(args) as desk, watched("Pruning", None) as progress:
        now = desk.now()
        events, tasks = desk.prune(
            events_before=None if args.events is None else now - args.events,
            tasks_before=None if args.tasks is None else now - args.tasks,
            progress=progress,
        )
    return emit(
        args, lambda: {"events": events, "tasks": tasks}, lambda: [f"dropped {events} events and {tasks} tasks"]
    )


COMMANDS = {
    "export": Command(_export_options, export),
    "import": Command(_import_options, import_),
    "prune": Command(_prune_options, prune),
}
