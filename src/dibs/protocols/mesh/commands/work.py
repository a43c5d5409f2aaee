"""preflight, claim, heartbeat, complete, block, unblock, cancel: an agent and its task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.console.commands import Command
from dibs.console.streams import complain, emit
from dibs.console.table import clean
from dibs.core.errors import InvalidInput, Unconfirmed
from dibs.core.lifecycle import Verb
from dibs.core.messages import command, quoted
from dibs.core.scores import LEAST_RATING, Rating
from dibs.core.times import in_words, time_text
from dibs.protocols.mesh.claims import Decision, claim_next, free_move, own_move, preflight
from dibs.protocols.mesh.claims import claim as claim_task
from dibs.protocols.mesh.logs import record_score
from dibs.protocols.mesh.policy import mesh_json, timeout_of
from dibs.protocols.mesh.settings import add_agent, add_id, add_nonce, add_scores, agent_of, nonce_of, open_desk

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk

_NOT_NOW = 4
_SCORES = ("--confidence", "N", "--coherence", "N")


def _preflight_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)


def preflight_check(args: argparse.Namespace) -> int:
    """Exit status 0 to claim it, 4 to leave it: `dibs mesh preflight ID && …`."""
    agent = agent_of(args)
    with open_desk(args, agent) as desk:
        task = desk.get(args.id)
        found = preflight(task, agent, desk.now())
    told: dict[str, Json] = {"decision": str(found.decision), "why": found.why, "stale": found.stale}
    emit(args, lambda: {**told, "task": mesh_json(task)}, lambda: [f"{found.decision}  {task.id}  {clean(found.why)}"])
    return 0 if found.decision is Decision.CLAIM else _NOT_NOW


def _claim_options(parser: Parser) -> None:
    add_id(parser, optional=True)
    add_agent(parser)


def claim(args: argparse.Namespace) -> int:
    agent = agent_of(args)
    with open_desk(args, agent, writes=True) as desk:
        try:
            claimed = claim_next(desk, agent) if args.id is None else claim_task(desk, args.id, agent)
        except Unconfirmed as error:
            return _unconfirmed(args, error)
        return emit(args, lambda: _claimed_json(claimed), lambda: _claimed_lines(desk, claimed))


def _unconfirmed(args: argparse.Namespace, error: Unconfirmed) -> int:
    """The claim may stand: whoever asked gets the nonce, to find out with a heartbeat, or to let it end."""
    told: dict[str, Json] = {"outcome": "UNCONFIRMED", "message": error.message, "nonce": error.token}
    task = None if error.task is None else error.task.id
    if task is not None:
        told["task"] = {"id": task}
    lines = (
        f"UNCONFIRMED  {task or ''}  {clean(error.message)}",
        f"  nonce       {error.token}",
        "  do not work on it before 'dibs mesh heartbeat' with this nonce says that it is yours",
    )
    emit(args, lambda: told, lambda: lines)
    return error.exit_status


def _claimed_json(claimed: Claimed) -> dict[str, Json]:
    lease = claimed.task.lease
    return {"outcome": "CLAIMED", "task": mesh_json(claimed.task), "nonce": lease.token if lease else None}


def _claimed_lines(desk: Desk, claimed: Claimed) -> list[str]:
    task, lease = claimed.task, claimed.task.lease
    if lease is None or lease.expires_at is None:
        return [f"CLAIMED  {task.id}"]
    timeout = timeout_of(task)
    return [
        f"CLAIMED  {task.id}  {clean(task.title)}",
        f"  by          {lease.agent}, for {in_words(lease.expires_at - desk.now())}",
        f"  proof       export MESH_NONCE={quoted(lease.token)}",
        f"  heartbeat   every {in_words(timeout / 3)}: {command('dibs', 'mesh', 'heartbeat', task.id)}",
        f"  when done   {command('dibs', 'mesh', 'complete', task.id, *_SCORES)}",
    ]


def _own_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)
    add_nonce(parser)


def heartbeat(args: argparse.Namespace) -> int:
    with open_desk(args, agent_of(args), writes=True) as desk:
        task = own_move(desk, args.id, nonce_of(args), Verb.RENEW)
        until = task.lease.expires_at if task.lease else None
        line = f"{task.id} is yours until {time_text(until)}" if until else f"{task.id} is yours"
        return _told(args, task, f"{line}; next heartbeat within {in_words(timeout_of(task) / 3)}")


def _complete_options(parser: Parser) -> None:
    _own_options(parser)
    add_scores(parser)


def complete(args: argparse.Namespace) -> int:
    """Checked again before it is final: whoever is no longer the claimer writes nothing."""
    scores = _scores(args)
    with open_desk(args, agent_of(args), writes=True) as desk:
        artifacts = () if args.notes is None else (args.notes,)
        task = own_move(desk, args.id, nonce_of(args), Verb.DONE, artifacts=artifacts)
        earned = record_score(desk, task, scores, args.notes)
        line = f"COMPLETED  {task.id}  {clean(task.title)}"
        data: dict[str, Json] = {"task": mesh_json(task), "points": earned}
        return emit(args, lambda: data, lambda: [line, f"  {_points_line(task, scores, earned)}"])


def _scores(args: argparse.Namespace) -> Rating | None:
    if args.confidence is None and args.coherence is None:
        return None
    if args.confidence is None or args.coherence is None:
        raise InvalidInput("--confidence and --coherence go together: a score has both.")
    return Rating(args.confidence, args.coherence, args.reworks)


def _points_line(task: Task, scores: Rating | None, earned: float | None) -> str:
    if scores is None:
        return f"not scored yet: {command('dibs', 'mesh', 'score', task.id, *_SCORES)}"
    if earned is None:
        return (
            f"no points: both scores have to reach {LEAST_RATING}" if not scores.good else "not in the Agent Task Log"
        )
    return f"{earned:g} points for {task.finished_by or 'nobody'}"


def _block_options(parser: Parser) -> None:
    _own_options(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what it waits for")


def block(args: argparse.Namespace) -> int:
    with open_desk(args, agent_of(args), writes=True) as desk:
        task = own_move(desk, args.id, nonce_of(args), Verb.BLOCK, reason=args.reason)
        if not task.reason:
            complain("dibs", "the database has no property 'blocked_reason': the reason was not kept")
        return _told(args, task, f"BLOCKED  {task.id}  {clean(args.reason)}")


def _unblock_options(parser: Parser) -> None:
    add_id(parser)


def unblock(args: argparse.Namespace) -> int:
    with open_desk(args, writes=True) as desk:
        task = free_move(desk, args.id, Verb.UNBLOCK)
        return _told(args, task, f"OPEN  {task.id}  {clean(task.title)}")


def _cancel_options(parser: Parser) -> None:
    _own_options(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why")


def cancel(args: argparse.Namespace) -> int:
    """What somebody works on is abandoned by whoever works on it; anything else by anybody."""
    with open_desk(args, agent_of(args), writes=True) as desk:
        if desk.get(args.id).lease is not None:
            task = own_move(desk, args.id, nonce_of(args), Verb.CANCEL, reason=args.reason)
        else:
            task = free_move(desk, args.id, Verb.CANCEL, reason=args.reason)
        return _told(args, task, f"CANCELLED  {task.id}  {clean(task.title)}")


def _told(args: argparse.Namespace, task: Task, line: str) -> int:
    data: dict[str, Any] = {"task": mesh_json(task)}
    return emit(args, lambda: data, lambda: [line])


COMMANDS = {
    "preflight": Command(_preflight_options, preflight_check),
    "claim": Command(_claim_options, claim),
    "heartbeat": Command(_own_options, heartbeat),
    "complete": Command(_complete_options, complete),
    "block": Command(_block_options, block),
    "unblock": Command(_unblock_options, unblock),
    "cancel": Command(_cancel_options, cancel),
}
