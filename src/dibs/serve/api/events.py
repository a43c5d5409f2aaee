"""What happened: a page of it, or as it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.wire import event_json
from dibs.serve.api.schemas import EVENT, answer, many
from dibs.serve.live import Stream, cursor_from, follow
from dibs.serve.requests import TEXT, WHOLE, Field, Route

if TYPE_CHECKING:
    from starlette.responses import Response

    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.live import Cursor
    from dibs.serve.requests import ApiRequest, Call

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
