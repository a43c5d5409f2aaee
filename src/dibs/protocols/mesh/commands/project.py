"""init, add, log, score: set up the store, add tasks, read and write the logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.streams import complain, emit, table
from dibs.core.errors import DibsError, IllegalMove, InvalidInput, Misconfigured, StoreError, StoreUnavailable
from dibs.core.scores import LEAST_RATING, Rating
from dibs.core.task import Draft, Status
from dibs.protocols.mesh.logs import (
    EVERY_ENTRY,
    LOGS,
    State,
    communication_log,
    earned_before,
    message,
    record_score,
    standings,
    task_log,
)
from dibs.protocols.mesh.policy import (
    MESH,
    TIMEOUT,
    add_agent,
    add_scores,
    agent_of,
    known_agents,
    mesh_json,
    open_desk,
    spelt,
    store_url,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

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
    """Make the three databases; return their ids by environment variable."""
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
        raise StoreUnavailable("Notion's answer lacks the id of the new database.")
    return str(made["id"])


def _init_options(parser: Parser) -> None:
    parser.add_argument("--parent", metavar="PAGE", help="make the three databases in Notion, below this page")


def init(args: argparse.Namespace) -> int:
    return _examine(args) if args.parent is None else _make(args)


def _make(args: argparse.Namespace) -> int:
    made = make_databases(args.parent)
    return emit(args, lambda: {"made": dict(made)}, lambda: [f"export {name}={id_}" for name, id_ in made.items()])


def _examine(args: argparse.Namespace) -> int:
    """Check the store. A local one is created; Notion's databases belong to a person and are only read."""
    ours = not store_url(args).startswith("notion://")
    with open_desk(args, create=ours) as desk:
        facts = desk.describe()
        checks = {"tasks": f"{facts['kind']}, {facts['place']}", **_examined(desk), **_logs(desk)}
    told: dict[str, Json] = {"checks": dict(checks), "agents": list(known_agents())}
    width = max(map(len, checks))
    lines = [f"{name:<{width}}  {message}" for name, message in checks.items()]
    return emit(args, lambda: told, lambda: [*lines, f"{'agents':<{width}}  {', '.join(known_agents())}"])


def _examined(desk: Desk) -> dict[str, str]:
    """Run the store's checks; raise with all the problems."""
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
    parser.add_argument("title", metavar="TITLE", help="the task in one line")
    parser.add_argument("--priority", metavar="N", type=float, default=0, help="higher numbers come first")
    parser.add_argument("--timeout", metavar="MIN", type=positive, help="minutes that a claim counts (default: 30)")


def add(args: argparse.Namespace) -> int:
    extra: dict[str, Json] = {} if args.timeout is None else {TIMEOUT: args.timeout}
    with open_desk(args, writes=True) as desk:
        (task,) = desk.add([Draft(args.title, priority=-args.priority or 0, extra=extra)])
        if args.priority and not task.priority:
            complain("dibs", "the database has no property 'priority': that was not kept")
        return emit(args, lambda: {"task": mesh_json(task)}, lambda: [task.id])


def _log_options(parser: Parser) -> None:
    parser.add_argument("event", metavar="EVENT", nargs="?", help="add this event (default: show the log)")
    parser.add_argument("-n", metavar="N", type=positive, default=20, help="number of entries to show (default: 20)")
    add_agent(parser)
    parser.add_argument("--to", metavar="NAME", help="the addressee")
    parser.add_argument("--task", metavar="ID", help="the task it is about")
    parser.add_argument("--status", metavar="S", default="Sent", help=f"{', '.join(State)} (default: Sent)")
    parser.add_argument("--resolution", metavar="TEXT", help="the outcome")
    parser.add_argument("--timeout", metavar="MIN", type=positive, help="minutes to wait for an answer")


def log(args: argparse.Namespace) -> int:
    return _show_log(args) if args.event is None else _add_to_log(args)


def _show_log(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        entries = communication_log(desk).read(args.n)
    return emit(args, lambda: {"entries": entries}, lambda: _log_table(entries))


def _log_table(entries: Sequence[Mapping[str, Json]]) -> list[str]:
    if not entries:
        return ["The log is empty."]
    columns = ("Timestamp", "Status", "Event", "Source Agent", "Target Agent", "Blocked Task", "Resolution")
    rows = [[_cell(entry.get(column)) for column in columns] for entry in entries]
    for row in rows:
        row[0] = re.sub(r"\.\d+", "", row[0])  # microseconds only clutter the table
    return table([column.upper() for column in columns], rows)


def _cell(value: Json) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _add_to_log(args: argparse.Namespace) -> int:
    agent = agent_of(args)
    known = {state.casefold(): state for state in State}
    state = known.get(args.status.casefold())
    if state is None:
        raise InvalidInput(f"The status of a message must be one of {', '.join(State)}, not {args.status[:40]!r}.")
    target = None if args.to is None else spelt(args.to)
    with open_desk(args, agent, writes=True) as desk:
        task = None if args.task is None else desk.get(args.task)
        entry = message(
            desk, args.event, agent, state, target=target, task=task, resolution=args.resolution, timeout=args.timeout
        )
        communication_log(desk).write(entry, None if task is None else task.id)
        return emit(args, lambda: {"logged": args.event}, lambda: [f"logged {args.event}"])


def _score_options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="score this completed task (default: show all scores)")
    add_scores(parser)


def score(args: argparse.Namespace) -> int:
    return _show_scores(args) if args.id is None else _score_task(args)


def _show_scores(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        found = standings(task_log(desk).read(EVERY_ENTRY))
    rows = [
        (one.agent, f"{one.points:g}", str(one.tasks), f"{one.confidence:g}", f"{one.coherence:g}") for one in found
    ]
    head = ("AGENT", "POINTS", "TASKS", "CONFIDENCE", "COHERENCE")
    lines = table(head, rows) if rows else ["No agent has earned points yet."]
    return emit(args, lambda: {"agents": [one._asdict() for one in found]}, lambda: lines)


def _score_task(args: argparse.Namespace) -> int:
    if args.confidence is None or args.coherence is None:
        raise InvalidInput("A score has both: give --confidence and --coherence.")
    scores = Rating(args.confidence, args.coherence, args.reworks)
    with open_desk(args, writes=True) as desk:
        task = desk.get(args.id)
        if task.status is not Status.DONE:
            raise IllegalMove(f"{task.id} is {MESH.say(task.status)}; only a COMPLETED task can be scored.")
        before = earned_before(desk, task)
        if before is not None:
            raise IllegalMove(f"{task.id} was scored before: {before:g} points. Each attempt counts once.")
        earned = record_score(desk, task, scores, args.notes)
    if earned is None and scores.good:
        raise StoreError(f"{task.id} was not scored; try again.")
    line = f"no points: both scores have to reach {LEAST_RATING}"
    if earned is not None:
        line = f"{earned:g} points for {task.finished_by or 'nobody'}"
    return emit(args, lambda: {"task": task.id, "points": earned}, lambda: [line])


COMMANDS = {
    "init": Command(_init_options, init),
    "add": Command(_add_options, add),
    "log": Command(_log_options, log),
    "score": Command(_score_options, score),
}
