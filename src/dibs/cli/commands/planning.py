"""plan: a file that says which tasks there should be; and, as `plan show`, what the tasks that are there amount to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk
from dibs.cli.output import warn
from dibs.console.commands import Command
from dibs.console.streams import emit, printable, read_text, watched
from dibs.core.errors import InvalidInput
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.wire import changes_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.plan import Plan, PlanChanges


_READ, _SHOWN_AS = ("jsonl", "yaml"), ("text", "json", "mermaid")


def _plan_options(parser: Parser) -> None:
    from dibs.cli.commands.chatting import add_sender

    parser.add_argument(
        "file", metavar="FILE", help="JSON lines or YAML; '-' reads stdin; 'show' tells the plan there is"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    parser.add_argument(
        "--spec",
        metavar="REF",
        action="append",
        default=[],
        help="the plan covers this spec, even if it names no task of it",
    )
    parser.add_argument(
        "--format",
        choices=(*_READ, *_SHOWN_AS),
        help="jsonl or yaml: how to read it, else by its name or its first character; text, json or mermaid: how to "
        "show it",
    )
    add_sender(parser)
    add_agent(parser)


def plan(args: argparse.Namespace) -> int:
    if args.format in (_READ if args.file == "show" else _SHOWN_AS):
        raise InvalidInput(f"A plan is read as {' or '.join(_READ)}, and shown as {', '.join(_SHOWN_AS)}.")
    if args.file == "show":
        from dibs.cli.commands.chatting import show_plan

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


COMMANDS = {"plan": Command(_plan_options, plan)}
