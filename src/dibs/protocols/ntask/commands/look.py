"""next, get, list: reading without changing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.core.task import Status
from dibs.protocols.ntask.answers import answer, answer_task, task_json
from dibs.protocols.ntask.settings import add_id, open_desk, status_word
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task


def overdue_among(tasks: Iterable[Task], now: datetime) -> list[Task]:
    """The longest overdue comes first."""
    found = [
        (task.next_check_at, task.id, task)
        for task in tasks
        if task.status is Status.BLOCKED and task.next_check_at is not None and task.next_check_at <= now
    ]
    return [task for *_, task in sorted(found, key=lambda one: one[:2])]


def next_task(_args: argparse.Namespace) -> int:
    with open_desk() as desk:
        for task in desk.ready(limit=1):
            return answer_task(desk, task)
        return answer({"task": None})


def get(args: argparse.Namespace) -> int:
    with open_desk() as desk:
        return answer_task(desk, desk.get(args.id))


def _list_options(parser: Parser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--status", metavar="S", type=status_word, help="only these; else all")
    which.add_argument("--overdue", action="store_true", help="only what is BLOCKED and past its NextCheckAt")
    parser.add_argument("--limit", metavar="N", type=positive, default=50, help="at most so many; 50 unless said")


def list_tasks(args: argparse.Namespace) -> int:
    """`overdue` names the tasks among them that someone should look at again."""
    wanted = (Status.BLOCKED,) if args.overdue else tuple(Status) if args.status is None else (args.status,)
    with open_desk() as desk:
        found = desk.find(Query(desk.scope, wanted, limit=None if args.overdue else args.limit))
        overdue = overdue_among(found, desk.now())
        shown = overdue[: args.limit] if args.overdue else found
        told: dict[str, Json] = {"tasks": [task_json(desk, task) for task in shown], "count": len(shown)}
        if overdue:
            told["overdue"] = [task.id for task in overdue]
        return answer(told)


COMMANDS = {
    "next": Command(lambda _parser: None, next_task),
    "get": Command(add_id, get),
    "list": Command(_list_options, list_tasks),
}
