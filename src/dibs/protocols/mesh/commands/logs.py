"""log and score: what the agents said to each other, and what they earned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.console.table import table
from dibs.core.errors import IllegalMove, InvalidInput, StoreError
from dibs.core.scores import LEAST_RATING, Rating
from dibs.core.task import Status
from dibs.protocols.mesh.logs import (
    EVERY_ENTRY,
    State,
    communication_log,
    earned_before,
    message,
    record_score,
    standings,
    task_log,
)
from dibs.protocols.mesh.policy import MESH
from dibs.protocols.mesh.settings import add_agent, add_scores, agent_of, open_desk, spelt

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Json


def _log_options(parser: Parser) -> None:
    parser.add_argument("event", metavar="EVENT", nargs="?", help="add this; without: show what there is")
    parser.add_argument("-n", metavar="N", type=positive, default=20, help="show so many; 20 unless said")
    add_agent(parser)
    parser.add_argument("--to", metavar="NAME", help="whom it is for")
    parser.add_argument("--task", metavar="ID", help="the task it is about")
    parser.add_argument("--status", metavar="S", default="Sent", help=f"{', '.join(State)}; Sent unless said")
    parser.add_argument("--resolution", metavar="TEXT", help="what came of it")
    parser.add_argument("--timeout", metavar="MIN", type=positive, help="how many minutes to wait for an answer")


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
        row[0] = re.sub(r"\.\d+", "", row[0])  # no person reads microseconds
    return table([column.upper() for column in columns], rows)


def _cell(value: Json) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _add_to_log(args: argparse.Namespace) -> int:
    agent = agent_of(args)
    known = {state.casefold(): state for state in State}
    state = known.get(args.status.casefold())
    if state is None:
        raise InvalidInput(f"A message is {', '.join(State)}, not {args.status[:40]!r}.")
    target = None if args.to is None else spelt(args.to)
    with open_desk(args, agent, writes=True) as desk:
        task = None if args.task is None else desk.get(args.task)
        entry = message(
            desk, args.event, agent, state, target=target, task=task, resolution=args.resolution, timeout=args.timeout
        )
        communication_log(desk).write(entry, None if task is None else task.id)
        return emit(args, lambda: {"logged": args.event}, lambda: [f"logged {args.event}"])


def _score_options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="score this completed task; without: who has earned what")
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
    lines = table(head, rows) if rows else ["Nobody has earned anything yet."]
    return emit(args, lambda: {"agents": [one._asdict() for one in found]}, lambda: lines)


def _score_task(args: argparse.Namespace) -> int:
    if args.confidence is None or args.coherence is None:
        raise InvalidInput("A score has both: give --confidence and --coherence.")
    scores = Rating(args.confidence, args.coherence, args.reworks)
    with open_desk(args, writes=True) as desk:
        task = desk.get(args.id)
        if task.status is not Status.DONE:
            raise IllegalMove(f"{task.id} is {MESH.say(task.status)}; only what is COMPLETED is scored.")
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


COMMANDS = {"log": Command(_log_options, log), "score": Command(_score_options, score)}
