"""Commands of an agent: preflight, claim, heartbeat, complete, block, unblock, cancel."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.console.commands import Command
from dibs.console.streams import clean, complain, emit
from dibs.core.errors import (
    DibsError,
    IllegalMove,
    InvalidInput,
    LostLock,
    NotFound,
    NothingReady,
    Refused,
    StoreError,
    Unconfirmed,
)
from dibs.core.lifecycle import ClaimRequest, Verb, refusal
from dibs.core.messages import command, quoted
from dibs.core.scores import LEAST_RATING, Rating
from dibs.core.task import Actor, Task
from dibs.core.times import in_words, time_text
from dibs.protocols.mesh.logs import CLAIM_ATTEMPT, CONFLICT, State, message, record_score, try_to_log
from dibs.protocols.mesh.policy import (
    add_agent,
    add_id,
    add_nonce,
    add_scores,
    agent_of,
    claimed_by,
    mesh_json,
    nonce_of,
    open_desk,
    same_agent,
    status_of,
    timeout_of,
)

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk


class Decision(StrEnum):
    CLAIM = "CLAIM"
    SKIP = "SKIP"


class Preflight(NamedTuple):
    """The decision on a task. `stale` marks an expired claim that would be taken over."""

    decision: Decision
    why: str
    stale: bool = False
    error: DibsError | None = None


def preflight(task: Task, agent: str, now: datetime) -> Preflight:
    error = refusal(task, ClaimRequest(agent, (), task.scope), now)
    holder = claimed_by(task)
    status = status_of(task)
    if error is None:
        if task.lease is None:
            return Preflight(Decision.CLAIM, f"{status} and unclaimed")
        return Preflight(Decision.CLAIM, f"{status}, but the claim of {holder} is stale", stale=True)
    if task.lease is not None and task.held(now):
        return Preflight(Decision.SKIP, f"{status}: {_active(task, now)}", error=error)
    if task.lease is None and not task.blockers and task.not_before is None and not task.assigned_to:
        why = f" ({task.reason})" if task.reason else ""
        return Preflight(Decision.SKIP, f"{status}{why}, not OPEN", error=error)
    return Preflight(Decision.SKIP, error.message, error=error)


def _active(task: Task, now: datetime) -> str:
    lease = task.lease
    if lease is None or lease.expires_at is None:
        return f"{claimed_by(task) or 'a person'} works on it, without an end"
    counts = in_words(timeout_of(task))
    return f"the claim of {lease.agent} is active for another {in_words(lease.expires_at - now)} of {counts}"


_CANDIDATES = 20  # tasks that `claim` without an id tries


def claim_next(desk: Desk, agent: str) -> Claimed:
    """Claim the first task in order that no other agent takes first."""
    for task in desk.ready(limit=_CANDIDATES, agent=agent):
        try:
            return claim_task(desk, task.id, agent)
        except Refused:
            continue  # another agent was quicker; the log has the attempt
    raise NothingReady("Nothing is OPEN that could be claimed now.")


def claim_task(desk: Desk, ref: str, agent: str) -> Claimed:
    """Check and claim a task, and log the attempt."""
    task = None
    try:
        task = desk.get(ref)
        found = preflight(task, agent, desk.now())
        if found.decision is Decision.SKIP:
            raise type(found.error or Refused(""))(f"SKIP: {task.id} is {found.why}.")
        (claimed,) = desk.claim(agent, refs=[ref], lease=timeout_of(task))
    except InvalidInput:
        raise  # invalid input is not an attempt
    except DibsError as error:
        _log_attempt(desk, agent, ref, task, _state(error), _outcome(error))
        raise
    won = f"CLAIMED: {found.why}" if found.stale else "CLAIMED"
    _log_attempt(desk, agent, ref, claimed.task, State.RESOLVED, won)
    return claimed


def _outcome(error: DibsError) -> str:
    if isinstance(error, Refused):
        return error.message if error.message.startswith("SKIP") else f"LOST: {error.message}"
    kind = "UNCONFIRMED" if isinstance(error, Unconfirmed) else "ERROR"
    return f"{kind}: {error.message}"


def _state(error: DibsError) -> State:
    return State.BLOCKED if isinstance(error, Refused | NotFound) else State.TIMEOUT


def _log_attempt(desk: Desk, agent: str, ref: str, task: Task | None, state: State, outcome: str) -> None:
    entry = message(desk, CLAIM_ATTEMPT, agent, state, task=task, named=ref, resolution=outcome)
    try_to_log(desk, entry, task)


def own_move(desk: Desk, ref: str, nonce: str, verb: Verb, **brings: Any) -> Task:
    """Apply a move of the claimer, after checking its name; the move checks the nonce."""
    agent = desk.by.agent or ""
    task = desk.get(ref)
    try:
        desk.by = Actor(_own_name(task, agent))
        if verb is Verb.RENEW:
            brings["lease"] = timeout_of(task)
        return desk.move(verb, ref, token=nonce, **brings).task
    except LostLock as lost:
        error = _in_our_words(desk, ref, lost)
        entry = message(
            desk, CONFLICT, agent, State.BLOCKED, task=task, resolution=f"aborted {_SAID[verb]}: {error.message}"
        )
        try_to_log(desk, entry, task)
        raise error from None


def _in_our_words(desk: Desk, ref: str, error: LostLock) -> LostLock:
    """Describe what happened to the task, if it can still be read."""
    try:
        task = desk.get(ref)
    except (NotFound, StoreError):
        return error
    if task.lease is not None:
        return error
    return LostLock(f"{task.id} is {status_of(task)}, and not yours. Nothing was changed; stop working on it.")


def free_move(desk: Desk, ref: str, verb: Verb, **brings: Any) -> Task:
    """Apply a move to a task without a holder."""
    try:
        return desk.move(verb, ref, **brings).task
    except IllegalMove:
        status = status_of(desk.get(ref))
        raise IllegalMove(f"{ref} is {status}; '{verb}' does not apply to that. Nothing was changed.") from None


_SAID = {Verb.RENEW: "heartbeat", Verb.DONE: "complete", Verb.BLOCK: "block", Verb.CANCEL: "cancel"}


def _own_name(task: Task, agent: str) -> str:
    """Return the claimer's name as the task spells it."""
    holder = task.lease.agent if task.lease else agent
    if not same_agent(holder, agent):
        raise LostLock(f"{task.id} is claimed by {holder}, not by {agent}. Nothing was changed; stop working on it.")
    return holder


_NOT_NOW = 4
_SCORES = ("--confidence", "N", "--coherence", "N")


def _preflight_options(parser: Parser) -> None:
    add_id(parser)
    add_agent(parser)


def preflight_check(args: argparse.Namespace) -> int:
    """Exit with 0 to claim, 4 to skip: `dibs mesh preflight ID && …`."""
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
    """Report a claim that may exist, with its nonce: a heartbeat shows whether it does."""
    told: dict[str, Json] = {"outcome": "UNCONFIRMED", "message": error.message, "nonce": error.token}
    task = None if error.task is None else error.task.id
    if task is not None:
        told["task"] = {"id": task}
    lines = (
        f"UNCONFIRMED  {task or ''}  {clean(error.message)}",
        f"  nonce       {error.token}",
        "  do not start before 'dibs mesh heartbeat' with this nonce confirms the claim",
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
    """Finish the task; the claim is checked again first."""
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
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what the task waits for")


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
    """Cancel a task: with the claimer's nonce if it is claimed, else without."""
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
