"""Work: claiming tasks, and taking them through their lifecycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Holder
from dibs.core.wire import claimed_json, task_json
from dibs.serve.access import Right
from dibs.serve.api.schemas import CLAIMED, NARROW, TASK, answer, filter_of, many
from dibs.serve.idempotency import held_or_claimed
from dibs.serve.idempotency import under as _under
from dibs.serve.problems import Forbidden
from dibs.serve.requests import EXTRA, FLAG, JSON, SPAN, TEXT, TIME, WHOLE, Field, Route, list_of, object_of, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Json
    from dibs.serve.requests import Call, Fields

# A claim has a door of its own, and the desk alone gives up.
VERBS = tuple(verb for verb in Verb if verb not in {Verb.CLAIM, Verb.EXHAUST, Verb.ESCALATE})

_CLAIM: Fields = (
    Field("agent", TEXT, "who it is for; a token that names one speaks for itself"),
    Field("count", WHOLE, "take up to so many; 1 unless said"),
    Field("lease", SPAN, "how long, such as 20m, or a number of seconds"),
    Field("can", list_of(TEXT), "capabilities that the agent has"),
    Field("run", TEXT, "which run of the agent this is"),
    *NARROW,
)


def claim(call: Call) -> Json:
    said = dict(call.body)
    holder, force = said.pop("holder", Holder.AGENT), said.pop("force", False)
    if holder is Holder.HUMAN:
        call.insist(Right.ADMIN if force else Right.PLAN, "Holding a task as a person")
    agent, refs = _agent(call, said), said.pop("ids", ())
    if call.name is not None:
        claimed = held_or_claimed(call.desk, call.name, agent, refs=refs, holder=holder, force=force, **_claiming(said))
    else:
        claimed = call.desk.claim(agent, refs=refs, holder=holder, force=force, **_claiming(said))
    return {"claimed": [claimed_json(one) for one in claimed]}


def _agent(call: Call, said: Mapping[str, Any]) -> str:
    """An agent's token speaks for that agent and nobody else."""
    named: str | None = said.get("agent")
    own = call.caller.agent
    if own is not None and named not in {None, own}:
        raise Forbidden("This token is another agent's: it can act for the agent it was made for, and for no other.")
    if named is not None:  # an empty one too: that is a mistake, and is told as such
        return named
    return own or call.desk.by.agent or "someone"


def _claiming(said: Mapping[str, Any]) -> dict[str, Any]:
    terms = {name: said[name] for name in ("count", "lease", "can", "run", "assigned") if name in said}
    return {**terms, "only": filter_of(said)}


def move(verb: Verb, call: Call) -> Json:
    """Under a lease's token it is its holder's business; without one it steers; with force it overrules."""
    said = dict(call.body)
    _insist(call, said)
    rule = said.pop("dependents", None)
    going_on = said.pop("next", None)
    delay = said.pop("delay", None)
    if delay is not None:
        said["not_before"] = call.desk.now() + delay
    if verb is Verb.RENEW:
        said.setdefault("lease", call.desk.policy.lease)
    moved = call.desk.move(verb, call.path["id"], then=_then(call, going_on), on_cancel=rule, **said)
    return {
        "task": task_json(moved.task),
        "claimed": [claimed_json(one) for one in moved.next],
        "unblocked": list(moved.unblocked),
        "escalated": list(moved.escalated),
        "canceled": list(moved.canceled),
        "repeated": moved.repeated,
    }


def _insist(call: Call, said: Mapping[str, Any]) -> None:
    if said.get("force"):
        call.insist(Right.ADMIN, "Overruling a holder")
    elif "token" not in said:
        call.insist(Right.PLAN, "Steering a task without holding it")


def _then(call: Call, said: Mapping[str, Any] | None) -> ClaimRequest | None:
    if said is None:
        return None
    request = call.desk.next_request(_agent(call, said), **_claiming(said))
    return request if call.name is None else _under(call.name, request)


_DEPENDENTS = {rule.value.removesuffix("s"): rule for rule in CanceledBlocker}


def _dependents() -> Any:
    kind = one_of(_DEPENDENTS)
    return kind._replace(read=lambda value: _DEPENDENTS[kind.read(value)])


_MOVE: Fields = (
    Field("token", TEXT, "the proof that its claim gave; what is held is moved by its holder"),
    Field("force", FLAG, "as a person in charge, act without the proof; on record"),
    Field("reason", TEXT, "why"),
    Field("result", JSON, "what came out of it, for the tasks that waited"),
    Field("artifacts", list_of(TEXT), "files or links"),
    Field("lease", SPAN, "renew: for how long from now, such as 20m"),
    Field("delay", SPAN, "fail, release: do not hand it out again before that"),
    Field("unblock_action", TEXT, "block: what someone has to do about it"),
    Field("next_check_at", TIME, "block: when to look again"),
    Field("dependents", _dependents(), "cancel: what becomes of the tasks that wait for it"),
    Field("extra", EXTRA, "extra fields of the task to set along with it"),
    Field("next", object_of(_CLAIM), "claim what comes next in the same step"),
)

_MOVED = answer(task=TASK, claimed=many(CLAIMED), unblocked=many({"type": "string"}), repeated={"type": "boolean"})


def _route(verb: Verb) -> Route:
    def act(call: Call) -> Json:
        return move(verb, call)

    return Route(
        "POST", f"/tasks/{{id}}/{verb}", act, f"{verb.capitalize()}: see the lifecycle", Right.CLAIM, (), _MOVE, _MOVED
    )


ROUTES = (
    Route(
        "POST",
        "/claims",
        claim,
        "Lease the next tasks, or the named ones, to an agent. Nothing ready gives an empty list",
        Right.CLAIM,
        body=(
            *_CLAIM,
            Field("ids", list_of(TEXT), "these tasks and no others"),
            Field("assigned", FLAG, "only what is assigned to the agent"),
            Field("holder", one_of(Holder), "human: no time limit, never handed on"),
            Field("force", FLAG, "with human: take over whoever holds it; on record"),
        ),
        answer=answer(claimed=many(CLAIMED)),
    ),
    *map(_route, VERBS),
)
