"""peek, list, show, deps: looking, without touching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.core.errors import InvalidInput
from dibs.core.task import Status
from dibs.protocols.ralph.markdown import assignee_of, deps_among, in_landscape, section_of
from dibs.protocols.ralph.settings import (
    RALPH,
    add_agent,
    add_id,
    add_json,
    agent_name,
    open_desk,
    print_json,
    print_lines,
    print_sections,
)
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.protocols.ralph.markdown import Section


def _peek_options(parser: Parser) -> None:
    parser.add_argument(
        "-n", metavar="N", type=positive, default=5, help="the most claimable tasks to print (default: 5)"
    )
    add_agent(parser)
    add_json(parser)


def peek(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        tasks = desk.ready(limit=args.n, agent=agent_name(args) or "", held=True)
        now = desk.now()
        sections = [in_landscape(one, task, now) for one, task in zip(_sections(tasks, desk), tasks, strict=True)]
    return _print(sections, args)


def _sections(tasks: Sequence[Task], desk: Desk) -> list[Section]:
    deps = deps_among(desk.links(*(task.id for task in tasks)))
    return [section_of(task, deps.get(task.id, ())) for task in tasks]


def _print(sections: Sequence[Section], args: argparse.Namespace) -> int:
    return print_json([section.as_json() for section in sections]) if args.json else print_sections(sections)


def _list_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--status",
        metavar="WORDS",
        help="only tasks with these statuses, separated by commas (default: all but deleted)",
    )
    which.add_argument("--all", action="store_true", help="include deleted tasks")
    parser.add_argument("--assignee", metavar="A", help="only tasks that this agent holds or has done")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--markdown", action="store_true", help="print Markdown-KV instead of a table")
    how.add_argument("--json", action="store_true", help="print JSON instead")


def list_tasks(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        tasks = [task for task in _wanted(args, desk) if args.assignee in {None, assignee_of(task)}]
        if args.markdown or args.json:
            return _print(_sections(tasks, desk), args)
    return print_lines(_table(tasks))


def _wanted(args: argparse.Namespace, desk: Desk) -> Iterator[Task]:
    """Blocked is not a status that ralph stores: an open task is blocked while another has to come first."""
    blocked, statuses = _statuses(args)
    found = {Status.READY, *statuses} if blocked else statuses
    for task in desk.find(Query(desk.scope, tuple(sorted(found)))):
        if task.status in statuses or task.blockers:
            yield task


def _statuses(args: argparse.Namespace) -> tuple[bool, set[Status]]:
    if args.status is None:
        return False, set(Status) if args.all else set(Status) - {Status.CANCELED}
    words = [word.strip() for word in args.status.split(",")]
    found = {word: RALPH.read(word) for word in words}
    unknown = [word for word, status in found.items() if status is None]
    if unknown:
        raise InvalidInput(f"'{unknown[0][:40]}' is no status; there are {', '.join(RALPH.words.values())}.")
    statuses = {status for status in found.values() if status is not None}
    return Status.BLOCKED in statuses, statuses


_COLOURS = {"open": "32", "active": "36", "done": "2", "deleted": "2", "escalated": "31"}
_SET_ASIDE = "33"


def _table(tasks: Sequence[Task]) -> list[str]:
    from dibs.console.streams import table

    if not tasks:
        return []
    words = [_word(task) for task in tasks]
    rows = [
        (task.id, word, f"{task.priority:g}", task.category or "", task.title, assignee_of(task) or "")
        for task, word in zip(tasks, words, strict=True)
    ]
    colours = [_COLOURS.get(word, _SET_ASIDE) for word in words]
    return table(("ID", "STATUS", "PRI", "CATEGORY", "TITLE", "ASSIGNEE"), rows, colours)


def _word(task: Task) -> str:
    return "blocked" if task.status is Status.READY and task.blockers else RALPH.say(task.status)


def _show_options(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument("--with-deps", action="store_true", help="add its blockers with their results")
    add_json(parser)


def show(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        task = desk.get(args.id)
        (section,) = _sections([task], desk)
        section = section._replace(reason=task.reason or None, result=task.result)
        if not args.with_deps:
            return print_json(section.as_json()) if args.json else print_sections([section])
        blockers = [desk.get(on) for on in section.deps]
        results = tuple((one.id, one.result) for one in blockers if one.status is Status.DONE)
        return _print([section._replace(blocker_results=results), *_sections(blockers, desk)], args)


def _deps_options(parser: Parser) -> None:
    add_id(parser)
    add_json(parser)


def deps(args: argparse.Namespace) -> int:
    """The prerequisites as a tree; a repeated task is not expanded again."""
    from dibs.console.streams import clean

    with open_desk(args) as desk:
        before = _upstream(args.id, desk)
        tasks = {task: desk.get(task) for task in before}
    if args.json:
        return print_json([{**_brief(tasks[task]), "deps": before[task]} for task in before])
    seen: set[str] = set()
    for task, depth in _tree(args.id, before):
        again = "  (see above)" if task in seen and before[task] else ""
        print(f"{'  ' * depth}{task}  {_word(tasks[task])}  {clean(tasks[task].title)}{again}")
        seen.add(task)
    return 0


def _brief(task: Task) -> dict[str, str]:
    return {"id": task.id, "title": task.title, "status": _word(task)}


def _upstream(start: str, desk: Desk) -> dict[str, list[str]]:
    """All prerequisites, direct and indirect, with their own; one layer at a time."""
    before: dict[str, list[str]] = {}
    layer = [start]
    while layer:
        found = deps_among(desk.links(*layer))
        before.update({task: found.get(task, []) for task in layer})
        layer = list(dict.fromkeys(on for task in layer for on in before[task] if on not in before))
    return before


def _tree(start: str, before: dict[str, list[str]]) -> Iterator[tuple[str, int]]:
    unfolded: set[str] = set()
    ahead = [(start, 0)]
    while ahead:
        task, depth = ahead.pop()
        yield task, depth
        if task not in unfolded:
            unfolded.add(task)
            ahead += [(on, depth + 1) for on in reversed(before[task])]


COMMANDS = {
    "peek": Command(_peek_options, peek),
    "list": Command(_list_options, list_tasks),
    "show": Command(_show_options, show),
    "deps": Command(_deps_options, deps),
}
