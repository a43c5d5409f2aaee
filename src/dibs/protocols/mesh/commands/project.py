"""init and add: a store to work on, and tasks in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.streams import complain, emit
from dibs.core.errors import DibsError, Misconfigured, StoreUnavailable
from dibs.core.task import Draft
from dibs.protocols.mesh.logs import LOGS, State
from dibs.protocols.mesh.policy import TIMEOUT, mesh_json
from dibs.protocols.mesh.settings import known_agents, open_desk, store_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.desk import Desk

_TEXT: Mapping[str, Any] = {"rich_text": {}}
_NUMBER: Mapping[str, Any] = {"number": {}}
_DATE: Mapping[str, Any] = {"date": {}}

TASK_LOG: Mapping[str, Any] = {
    "Task": {"title": {}},
    "Task ID": _TEXT,
    "Attempt": _NUMBER,
    "Agent": _TEXT,
    "Priority Score": _NUMBER,
    "Confidence": _NUMBER,
    "Coherence": _NUMBER,
    "Points Earned": _NUMBER,
    "Completed At": _DATE,
    "Status": _TEXT,
    "Notes": _TEXT,
}

COMMUNICATION_LOG: Mapping[str, Any] = {
    "Event": {"title": {}},
    "Source Agent": _TEXT,
    "Target Agent": _TEXT,
    "Status": {"select": {"options": [{"name": str(state)} for state in State]}},
    "Timeout (min)": _NUMBER,
    "Blocked Task": _TEXT,
    "Resolution": _TEXT,
    "Timestamp": _DATE,
    "Retry Count": _NUMBER,
}


def make_databases(parent: str) -> dict[str, str]:
    """Their ids, by the variables that are to name them."""
    from dibs.stores.notion.connection import over_http, target_of
    from dibs.stores.notion.layout import make_database

    target = target_of(f"?layout=mesh&parent={parent}")
    gateway = over_http(target)
    try:
        return {
            "MESH_TASKS_DB_ID": make_database(gateway, parent, target.layout, "Tasks"),
            "MESH_TASK_LOG_DB_ID": _id_of(gateway.create_database(parent, "Agent Task Log", TASK_LOG)),
            "MESH_COMM_LOG_DB_ID": _id_of(gateway.create_database(parent, "Mesh Communication Log", COMMUNICATION_LOG)),
        }
    finally:
        gateway.close()


def _id_of(made: Mapping[str, Any]) -> str:
    if not isinstance(made.get("id"), str):
        raise StoreUnavailable("Notion's answer does not say what database it made.")
    return str(made["id"])


def _init_options(parser: Parser) -> None:
    parser.add_argument("--parent", metavar="PAGE", help="make the three databases in Notion, below this page")


def init(args: argparse.Namespace) -> int:
    return _examine(args) if args.parent is None else _make(args)


def _make(args: argparse.Namespace) -> int:

    made = make_databases(args.parent)
    return emit(args, lambda: {"made": dict(made)}, lambda: [f"export {name}={id_}" for name, id_ in made.items()])


def _examine(args: argparse.Namespace) -> int:
    """A store that dibs can make is made. Notion's databases are a person's: they are looked at."""
    ours = not store_url(args).startswith("notion://")
    with open_desk(args, create=ours) as desk:
        facts = desk.describe()
        checks = {"tasks": f"{facts['kind']}, {facts['place']}", **_examined(desk), **_logs(desk)}
    told: dict[str, Json] = {"checks": dict(checks), "agents": list(known_agents())}
    width = max(map(len, checks))
    lines = [f"{name:<{width}}  {message}" for name, message in checks.items()]
    return emit(args, lambda: told, lambda: [*lines, f"{'agents':<{width}}  {', '.join(known_agents())}"])


def _examined(desk: Desk) -> dict[str, str]:
    """What the store says of itself; what is wrong is an error that names all of it."""
    found = desk.examine() or []
    wrong = [f"{one.name}: {one.message}." for one in found if not one.ok]
    if any("claim_nonce" in problem for problem in wrong):
        wrong.append("Add a property 'claim_nonce' of type Text to the database: it holds the proof of each claim.")
    if wrong:
        raise Misconfigured(" ".join(wrong))
    return {one.name: one.message for one in found}


def _logs(desk: Desk) -> dict[str, str]:
    found = {}
    for name, book_of in LOGS.items():
        try:
            book = book_of(desk)
            book.check()
            found[name] = "in use" if book.read(1) else "empty"
        except DibsError as error:
            raise Misconfigured(f"{name}: {error.message}") from None
    return found


def _add_options(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="what is to be done, on one line")
    parser.add_argument("--priority", metavar="N", type=float, default=0, help="the higher number comes first")
    parser.add_argument("--timeout", metavar="MIN", type=positive, help="how long a claim on it counts; 30 unless said")


def add(args: argparse.Namespace) -> int:
    extra: dict[str, Json] = {} if args.timeout is None else {TIMEOUT: args.timeout}
    with open_desk(args) as desk:
        (task,) = desk.add([Draft(args.title, priority=-args.priority or 0, extra=extra)])
        if args.priority and not task.priority:
            complain("dibs", "the database has no property 'priority': that was not kept")
        return emit(args, lambda: {"task": mesh_json(task)}, lambda: [task.id])


COMMANDS = {"init": Command(_init_options, init), "add": Command(_add_options, add)}
