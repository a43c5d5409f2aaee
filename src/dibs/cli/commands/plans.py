"""link, unlink, graph, plan: dependencies and plan files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_links, add_task, open_desk, warn
from dibs.console.commands import Command
from dibs.console.streams import emit, json_document, printable, read_text, watched, write_text
from dibs.core.errors import InvalidInput
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.task import Link, LinkKind
from dibs.core.wire import changes_json, link_json, task_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.graph import Graph
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.task import Json


def _ends_options(parser: Parser) -> None:
    add_task(parser)
    add_links(parser, {"--parallel-with": "a task that is independent of this one"})
    add_agent(parser)


def _links(args: argparse.Namespace) -> list[Link]:
    links = [Link(args.task, other) for other in args.blocked_by]
    links += [Link(other, args.task) for other in args.blocks]
    links += [Link(args.task, other, LinkKind.FEEDS_INTO) for other in args.feeds_from]
    links += [Link(args.task, other, LinkKind.PARALLEL_OK) for other in args.parallel_with]
    if not links:
        raise InvalidInput("Say how: --blocked-by, --blocks, --feeds-from or --parallel-with, each with an id.")
    return links


def link(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        made = desk.link(_links(args))
        return emit(
            args, lambda: [link_json(one) for one in made], lambda: [_link_line(one) for one in made] or ["nothing new"]
        )


def unlink(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        gone = desk.unlink(_links(args))
        return emit(
            args, lambda: [link_json(one) for one in gone], lambda: [f"no longer: {_link_line(one)}" for one in gone]
        )


def _link_line(link: Link) -> str:
    words = {LinkKind.BLOCKS: "waits for", LinkKind.FEEDS_INTO: "is fed by", LinkKind.PARALLEL_OK: "goes beside"}
    return f"{link.task} {words[link.kind]} {link.on}"


def _graph_options(parser: Parser) -> None:
    parser.add_argument("--format", choices=("text", "mermaid", "dot", "svg"), default="text")
    parser.add_argument("--open", action="store_true", help="leave out finished tasks")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file (default: stdout)")


def graph(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        drawn = desk.graph(finished=not args.open)
    if args.output is None:
        return emit(args, lambda: _graph_data(drawn), lambda: [_draw(drawn, args.format)])
    document = json_document(_graph_data(drawn)) if args.json else _draw(drawn, args.format)
    write_text(args.output, document + "\n")
    return 0


def _graph_data(drawn: Graph) -> dict[str, Json]:
    links = [link_json(one) for one in drawn.links]
    return {"tasks": [task_json(task) for task in drawn.tasks], "links": links}


def _draw(drawn: Graph, how: str) -> str:
    from dibs.draw.formats import dot, mermaid, text
    from dibs.draw.svg import svg

    picture = {"dot": dot, "mermaid": mermaid, "svg": svg, "text": text}[how](drawn)
    return picture.rstrip("\n")


_READ, _SHOWN_AS = ("jsonl", "yaml"), ("text", "json", "mermaid")


def _plan_options(parser: Parser) -> None:
    from dibs.cli.commands.chat import add_sender

    parser.add_argument(
        "file", metavar="FILE", help="a plan as JSON lines or YAML; '-' reads stdin; 'show' prints the current plan"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    parser.add_argument(
        "--spec",
        metavar="REF",
        action="append",
        default=[],
        help="a spec that the plan covers, even if it names no task of it (repeatable)",
    )
    parser.add_argument(
        "--format",
        choices=(*_READ, *_SHOWN_AS),
        help="the format to read, jsonl or yaml (default: by the file's name or first character), or to show: "
        "text (the default), json or mermaid",
    )
    add_sender(parser)
    add_agent(parser)


def plan(args: argparse.Namespace) -> int:
    if args.format in (_READ if args.file == "show" else _SHOWN_AS):
        raise InvalidInput(f"A plan is read as {' or '.join(_READ)}, and shown as {', '.join(_SHOWN_AS)}.")
    if args.file == "show":
        from dibs.cli.commands.chat import show_plan

        return show_plan(args)
    text = read_text(args.file)
    parsed = _parse(text, args)
    parsed = parsed._replace(specs=parsed.specs | frozenset(args.spec))
    with open_desk(args) as desk, watched("Planning", len(parsed.tasks)) as progress:
        changes = desk.apply_plan(parsed, dry_run=args.dry_run, progress=progress)
    if changes.skipped_active:
        warn(f"left alone, because someone is working on them: {', '.join(changes.skipped_active)}")
    if changes.skipped_canceled:
        warn(f"left alone, because they were canceled: {', '.join(changes.skipped_canceled)}")
    return emit(
        args, lambda: changes_json(changes, dry_run=args.dry_run), lambda: _lines(changes, dry_run=args.dry_run)
    )


def _parse(text: str, args: argparse.Namespace) -> Plan:
    name = args.file.lower()
    lines = name.endswith((".jsonl", ".ndjson")) or (text.lstrip()[:1] == "{" and not name.endswith((".yaml", ".yml")))
    how = args.format or ("jsonl" if lines else "yaml")
    return skim_jsonl(text) if how == "jsonl" else parse_yaml(text)


def _lines(changes: PlanChanges, *, dry_run: bool) -> Iterable[str]:
    groups = (
        ("+", [f"{planned.draft.id}  {printable(planned.draft.title)}" for planned in changes.insert]),
        ("~", [f"{task_id}  {_what(task_id, changes)}" for task_id in changes.updated]),
        ("-", list(changes.remove)),
    )
    for mark, entries in groups:
        for entry in entries[:_SHOWN]:
            yield f"{mark} {entry}"
        if len(entries) > _SHOWN:
            yield f"{mark} … and {len(entries) - _SHOWN} more"
    counts = (len(changes.insert), len(changes.updated), len(changes.remove), len(changes.skipped_done))
    summary = "inserted: {}, updated: {}, removed: {}, skipped (done): {}".format(*counts)
    yield f"would have {summary}" if dry_run else summary


_SHOWN = 20


def _what(task_id: str, changes: PlanChanges) -> str:
    """Which of its fields change."""
    from dibs.core.task import UNSET

    what = ["reopened"] if task_id in changes.reopen else []
    for edited, edit in changes.edit:
        if edited == task_id:
            what += [name for name, value in zip(edit._fields, edit, strict=True) if value is not UNSET]
    if any(link.task == task_id for link in (*changes.link, *changes.unlink)):
        what.append("links")
    return ", ".join(what)


COMMANDS = {
    "link": Command(_ends_options, link),
    "unlink": Command(_ends_options, unlink),
    "graph": Command(_graph_options, graph),
    "plan": Command(_plan_options, plan),
}
