"""next, get, list: looking, without touching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.core.errors import NotFound
from dibs.core.lifecycle import ClaimRequest, refusal
from dibs.core.task import Status
from dibs.protocols.ntask.answers import answer, answer_task, in_notion, page_id, task_json
from dibs.protocols.ntask.command import add_id, status_word
from dibs.protocols.ntask.overdue import overdue_among
from dibs.protocols.ntask.settings import open_desk
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk

_CANDIDATES = 20  # that are looked at before there is said to be nothing


def next_task(_args: argparse.Namespace) -> int:
    with open_desk() as desk:
        for task in desk.ready(limit=_CANDIDATES):
            fresh = _looked_at_again(desk, task) if in_notion(desk) else task
            if fresh is not None:
                return answer_task(desk, fresh)
        return answer({"task": None})


def _looked_at_again(desk: Desk, task: Task) -> Task | None:
    """Notion's lists may be two minutes old. Else all would be sent to a task that another has long taken or done."""
    try:
        fresh = desk.get(page_id(desk, task))
    except NotFound:
        return None
    return None if refusal(fresh, ClaimRequest("", (), desk.scope), desk.store.now()) else fresh


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
        overdue = overdue_among(found, desk.store.now())
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
