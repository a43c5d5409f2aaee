"""finish, block, ask_review, give_back: how an attempt ends, and what comes next in the same step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.fleet.idle import nothing_ready
from dibs.fleet.minder.words import clock
from dibs.serve.mcp.models import Ended
from dibs.serve.mcp.rendering import mine, row

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest
    from dibs.desk import Desk
    from dibs.serve.mcp.arguments import AskReview, Block, Finish, GiveBack
    from dibs.serve.mcp.sessions import Session, Who
    from dibs.stores.port import Moved


def finish(desk: Desk, session: Session, asked: Finish) -> Ended:
    return _end(desk, session, asked, Verb.DONE, result=asked.result, artifacts=asked.artifacts)


def block(desk: Desk, session: Session, asked: Block) -> Ended:
    why = {"reason": asked.reason, "unblock_action": asked.action, "next_check_at": asked.check_at}
    return _end(desk, session, asked, Verb.BLOCK, **why)


def ask_review(desk: Desk, session: Session, asked: AskReview) -> Ended:
    outcome = {"reason": asked.note, "result": asked.result, "artifacts": asked.artifacts}
    return _end(desk, session, asked, Verb.REVIEW, **outcome)


def give_back(desk: Desk, session: Session, asked: GiveBack) -> Ended:
    return _end(desk, session, asked, Verb.FAIL if asked.failed else Verb.RELEASE, reason=asked.reason)


def _end(
    desk: Desk, session: Session, asked: Finish | Block | AskReview | GiveBack, verb: Verb, **brings: Any
) -> Ended:
    meant, asked_at = session.meant(desk, asked.task, asked.token), clock()
    then = _then(desk, session.who) if asked.next else None
    with session.ending(meant):
        moved = desk.move(verb, meant.task, token=meant.token, then=then, **brings)
    for claimed in moved.next:
        session.take(claimed, asked_at)
    return Ended(
        task=row(moved.task, desk.now()),
        unblocked=list(moved.unblocked) or None,
        claimed=mine(desk, moved.next[0], session.who.lease) if moved.next else None,
        note=_note(desk, moved, going_on=asked.next),
    )


def _then(desk: Desk, who: Who) -> ClaimRequest:
    return desk.next_request(who.agent, lease=who.lease, run=who.run, can=who.can)


def _note(desk: Desk, moved: Moved, *, going_on: bool) -> str | None:
    if moved.task.status is Status.ESCALATED:
        return "No retry is left: a person has to decide about it."
    if moved.repeated:
        return "This had been reported before; nothing was changed."
    return nothing_ready(desk.counts(), desk.now()).message if going_on and not moved.next else None
