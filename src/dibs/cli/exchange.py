"""`dibs import --from` and `dibs export --to`: tasks from other tools' files, and ours for other tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.cli.command import open_desk, warn
from dibs.console.streams import emit, printable, read_text, watched
from dibs.core.errors import InvalidInput
from dibs.core.task import Link, Status
from dibs.exchange import read
from dibs.exchange.documents import File
from dibs.exchange.items import Notes, reserved, settle
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.exchange.items import ImportSelection, Loss

_SHOWN = 5


def import_from(args: argparse.Namespace) -> int:
    """Import all or nothing, and skip tasks from an earlier import, so that a second run changes nothing."""
    notes = Notes(args.tool, _states(args.map))
    reading = read(args.tool, _files(args.tool, args.file), notes)
    items = reserved(reading.items) if args.assignees else reading.items
    with open_desk(args) as desk:
        scopes = {desk.scope, *(item.scope for item in items if item.scope)}
        known = {scope: _tasks(desk, scope) for scope in scopes}
        settled = settle(reading._replace(items=items), args.tool, desk.scope, known, desk.now(), desk.by)
        if settled.records and not args.dry_run:
            with watched("Importing", len(settled.records)) as progress:
                desk.restore(settled.records, progress)
    return emit(args, lambda: _report_data(args, settled), lambda: _report(args, settled))


def _states(given: Sequence[str]) -> Mapping[str, Status]:
    states = {}
    for pair in given:
        word, _, status = pair.rpartition("=")
        if not word or status not in set(Status) - {Status.ACTIVE}:
            ours = ", ".join(sorted(set(Status) - {Status.ACTIVE}))
            raise InvalidInput(f"--map takes WORD=STATUS, with one of {ours}; not {pair[:60]!r}.")
        states[word] = Status(status)
    return states


def _tasks(desk: Desk, scope: str) -> dict[str, Task]:
    return {task.id: task for task in desk.find(Query(scope))}


_BACKLOG_FOLDERS = ("tasks", "completed", "drafts", "archive/tasks", "archive/drafts")


def _files(tool: str, name: str) -> Sequence[File]:
    """The file, or for Backlog.md all that its folder holds."""
    if not os.path.isdir(name):
        return [File(os.path.basename(name), read_text(name))]
    if tool == "task-master":
        return [File(name, read_text(os.path.join(_below(name, ".taskmaster"), "tasks", "tasks.json")))]
    if tool == "beads":
        return [File(name, read_text(os.path.join(_below(name, ".beads"), "issues.jsonl")))]
    if tool != "backlog-md":
        raise InvalidInput(f"{name} is a folder; name the file.")
    root = _below(name, "backlog")
    found = [
        File(path, read_text(os.path.join(root, path)))
        for folder in _BACKLOG_FOLDERS
        for path in _markdown_in(root, folder)
    ]
    if not found:
        raise InvalidInput(f"{name} holds no tasks of Backlog.md; they are expected in {_BACKLOG_FOLDERS[0]}/.")
    return found


def _below(folder: str, name: str) -> str:
    """The tool's own folder, named by the user or found in the project that was named."""
    inner = os.path.join(folder, name)
    return inner if os.path.isdir(inner) else folder


def _markdown_in(root: str, folder: str) -> Iterator[str]:
    """Links are not followed: they could lead out of the folder."""
    place = os.path.join(root, folder)
    if os.path.isdir(place):
        for name in sorted(os.listdir(place)):
            path = os.path.join(place, name)
            if name.endswith(".md") and os.path.isfile(path) and not os.path.islink(path):
                yield f"{folder}/{name}"


def _report_data(args: argparse.Namespace, settled: ImportSelection) -> Json:
    return {
        "from": args.tool,
        "dry_run": args.dry_run,
        "tasks": len(settled.added),
        "links": settled.count(Link),
        "comments": _comments(settled),
        "added": settled.added,
        "already_here": settled.present,
        "lost": [loss._asdict() for loss in settled.lost],
    }


def _comments(settled: ImportSelection) -> int:
    return sum(getattr(record.item, "verb", "") == "comment" for record in settled.records)


def _report(args: argparse.Namespace, settled: ImportSelection) -> Iterable[str]:
    said = [_number(len(settled.added), "task"), _number(settled.count(Link), "link")]
    if remarks := _comments(settled):
        said.append(_number(remarks, "comment"))
    yield f"{'would import' if args.dry_run else 'imported'} {', '.join(said)} from {args.tool}"
    if settled.present:
        yield f"already here, left unchanged: {_number(len(settled.present), 'task')}"
    grouped: dict[str, list[Loss]] = {}
    for loss in settled.lost:
        grouped.setdefault(loss.what, []).append(loss)
    if grouped:
        yield "not carried over as it was:"
    for what, losses in grouped.items():
        where = [f"{printable(loss.task)} ({printable(loss.place)})".strip() for loss in losses[:_SHOWN]]
        more = f" and {len(losses) - _SHOWN} more" if len(losses) > _SHOWN else ""
        yield f"  {', '.join(where)}{more}: {printable(what)}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def export_to(args: argparse.Namespace) -> int:
    """Export one scope for another tool, and warn on stderr of data that its format cannot hold."""
    from dibs.cli.commands.stores import target
    from dibs.exchange import writers

    if args.secrets:
        raise InvalidInput("--secrets cannot be combined with --to.")
    with open_desk(args) as desk:
        graph = desk.graph()
        comments = _remarks(desk)
    if args.to == "mermaid":
        from dibs.draw.formats import mermaid

        text = mermaid(graph).rstrip("\n") + "\n"
    else:
        write = {"markdown": writers.write_markdown, "csv": writers.write_csv, "github": writers.write_github}
        text = write[args.to](graph, comments)
    with target(args.file) as file:
        file.write(text)
    for line in _left_out(args.to, graph, comments):
        warn(line)
    if args.file == "-":
        return 0
    count = len(graph.tasks)
    return emit(
        args,
        lambda: {"file": args.file, "to": args.to, "tasks": count},
        lambda: [f"exported {_number(count, 'task')} to {args.file}"],
    )


def _remarks(desk: Desk) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in desk.events():
        if event.verb == "comment":
            found.setdefault(event.task, []).append(event)
    return found


_WITHOUT_COMMENTS = frozenset({"csv", "mermaid"})


def _left_out(to: str, graph: Graph, comments: Mapping[str, Sequence[Event]]) -> Iterable[str]:
    """Warnings about data that the format cannot hold; none for Mermaid, which is a picture."""
    if to == "mermaid":
        return
    extra = sum(bool(task.extra) for task in graph.tasks)
    remarks = sum(map(len, comments.values())) if to in _WITHOUT_COMMENTS else 0
    lost = [_number(remarks, "comment")] if remarks else []
    lost += [f"the extra fields of {_number(extra, 'task')}"] if extra else []
    if lost:
        yield f"{to} has no place for {' and '.join(lost)}; 'dibs export' without --to keeps everything"
