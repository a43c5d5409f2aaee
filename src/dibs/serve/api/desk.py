"""The desk itself: counts, scopes, settings, agents, and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.core.wire import event_json, lease_json
from dibs.serve.access import Right
from dibs.serve.api.schemas import EVENT, answer, many
from dibs.serve.live import Stream, cursor_from, follow
from dibs.serve.requests import JSON, TEXT, WHOLE, Field, Route, map_of, or_null
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from starlette.responses import Response

    from dibs.core.fleet import Member
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.live import Cursor
    from dibs.serve.requests import ApiRequest, Call


def counts(call: Call) -> Json:
    """The counts, with the store's time for countdowns and the number of the last event."""
    desk = call.desk
    found = desk.counts()
    newest = desk.events(last=1, anywhere=True) if desk.capabilities.history else []
    return {
        "scope": desk.scope,
        "by_status": {str(status): number for status, number in found.by_status.items()},
        "waiting": found.waiting,
        "claimable": found.claimable,
        "expired": found.expired,
        "later": found.later,
        "next_due": None if found.next_due is None else time_text(found.next_due),
        "now": time_text(desk.now()),
        "last_event": newest[-1].seq if newest else 0,
    }


def scopes(call: Call) -> Json:
    allowed = call.caller.scopes
    shown = [scope for scope in call.desk.scopes() if allowed is None or scope in allowed]
    return {"scopes": sorted({call.desk.scope, *shown}), "default": call.desk.scope}


def settings(call: Call) -> Json:
    return {"settings": dict(call.desk.settings())}


def configure(call: Call) -> Json:
    return {"settings": dict(call.desk.configure(call.body["settings"]))}


def agents(call: Call) -> Json:
    """The agents that hold tasks here, are running, or are enrolled."""
    desk = call.desk
    known: dict[str, dict[str, Json]] = {}
    for task in desk.find(Query(desk.scope, (Status.ACTIVE,))):
        if task.lease is not None:
            _held(known.setdefault(task.lease.agent, {}), task)
    if desk.has_fleet:
        _add_members(desk.members(), desk.now(), known)
        for agent in desk.agents():
            row = known.setdefault(agent.id, {})
            row |= {"status": agent.status.value, "host": agent.host, "started_at": time_text(agent.started_at)}
    rows = [{"agent": name, "holds": [], **row} for name, row in sorted(known.items())]
    return {"agents": rows, "now": time_text(desk.now())}


def _held(row: dict[str, Json], task: Task) -> None:
    held = {"id": task.id, "title": task.title, "lease": lease_json(task.lease) if task.lease else None}
    row["holds"] = [*row.get("holds", []), held]  # type: ignore[misc]  # a list, made here


def _add_members(members: Iterable[Member], now: datetime, known: dict[str, dict[str, Json]]) -> None:
    for member in members:
        known.setdefault(member.agent, {}).update(
            role=member.role, can=list(member.can), limit=member.limit, load=member.load, waiting=member.waiting,
            seen_at=time_text(member.seen_at), present=member.present(now),
        )  # fmt: skip


_OBJECT: dict[str, Json] = {"type": "object"}


_PAGE, _MOST = 100, 1000


async def live(api: Api, request: ApiRequest) -> Response:
    """A stream of server-sent events, from Last-Event-ID or `after` on."""
    start = request.headers.get("last-event-id") or request.query.get("after")
    ref = None
    if "ref" in request.query:
        ref = await api.at_desk(request, lambda call: _known(call.desk, call.query["ref"]))
    await api.hub.refresh()
    parts = follow(api.hub, api.desks, request.scope, None if start is None else cursor_from(start), ref)
    return Stream(parts, api.metrics)


async def page(api: Api, request: ApiRequest) -> Json:
    """A page of the events that the hub has seen too, so that the cursor knows which numbers are missing."""
    place = await api.hub.refresh()
    return await api.at_desk(request, lambda call: _page(call, place))


def _page(call: Call, place: Cursor) -> Json:
    said = call.query
    limit = said.get("limit", _PAGE)
    if not 1 <= limit <= _MOST:
        raise InvalidInput(f"limit: ask for 1 to {_MOST} events at a time.")
    ref = _known(call.desk, said["ref"]) if "ref" in said else None
    desk = call.desk.exact
    if "last" in said:
        found = desk.events(ref=ref, last=min(said["last"], _MOST))
        return {"events": [event_json(event) for event in found], "next": str(place)}
    start = cursor_from(said.get("after", "0"))
    late = [
        event
        for low, top in start.missing
        for event in desk.events(ref=ref, after=low - 1, limit=top - low + 1)
        if event.seq <= top
    ]
    found = desk.events(ref=ref, after=start.high, limit=limit)
    seen = [event for event in (*late, *found) if place.covers(event.seq)]
    after = place if len(found) < limit else place.up_to(max(found[-1].seq, start.high))
    return {"events": [event_json(event) for event in seen], "next": str(after)}


def _known(desk: Desk, ref: str) -> str:
    """The id of a task, or of a pruned one whose events are kept."""
    if not desk.capabilities.history:
        raise Unsupported("This store keeps no record of what happened.")
    return desk.remembered(ref)


ROUTES = (
    Route(
        "GET",
        "/counts",
        counts,
        "How many tasks there are of each kind, and the time",
        answer=answer(by_status=_OBJECT),
    ),
    Route("GET", "/scopes", scopes, "The sets of tasks that there are", answer=answer(scopes=many({"type": "string"}))),
    Route("GET", "/agents", agents, "Who is at work, and on what", answer=answer(agents=many(_OBJECT))),
    Route("GET", "/settings", settings, "The settings of the scope", Right.ADMIN, answer=answer(settings=_OBJECT)),
    Route(
        "PATCH",
        "/settings",
        configure,
        "Change settings, all or none; null removes one",
        Right.ADMIN,
        body=(Field("settings", map_of(or_null(JSON)), required=True),),
        answer=answer(settings=_OBJECT),
    ),
    Route(
        "GET",
        "/events",
        None,
        "What happened, oldest first; with `Accept: text/event-stream`, as it happens",
        query=(
            Field("after", TEXT, "the `next` of the page before, or the id of the last event"),
            Field("ref", TEXT, "only of this task"),
            Field("limit", WHOLE, f"at most so many; {_PAGE} unless said, {_MOST} at most"),
            Field("last", WHOLE, "instead: so many of the newest"),
        ),
        answer=answer(events=many(EVENT), next={"type": "string"}),
        serve=page,
        live=live,
    ),
)
