"""Chat: messages in, notes out. A sender sees only their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput
from dibs.core.sender import hash_sender, sender_hash_of
from dibs.core.task import OUTBOX, Actor
from dibs.identity import sender_secret
from dibs.serve.access import Right
from dibs.serve.api.schemas import answer, many
from dibs.serve.live import KEEP_ALIVE, Stream, named_sse
from dibs.serve.problems import Forbidden
from dibs.serve.requests import FLAG, TEXT, Field, Route, map_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.responses import Response

    from dibs.core.events import Event
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.requests import ApiRequest, Call

_SENDER = (
    Field("sender", TEXT, "the sender, such as a phone number; not needed with a sender's token"),
    Field("sender_hash", TEXT, "the sender as a hash"),
)
_AGAIN = 10.0  # seconds between two searches for notes that were sent and not marked as seen


def say(call: Call) -> Json:
    from dibs.chat.opening import chosen_session
    from dibs.chat.wire import said_json
    from dibs.protocols.kurultai.notion import reply_for

    sender, desk = _sender(call), _desk(call)
    session = chosen_session(desk, sender, sync=lambda: reply_for(desk, sender))
    preview = call.body.get("preview", False)
    message = "" if call.key is None else call.key.identifier(0)
    return said_json(session.say(call.body["text"], preview=preview, message=message), preview=preview)


def flush(call: Call) -> Json:
    from dibs.chat.conversation.delivery import deliver
    from dibs.chat.opening import chosen_reader, chosen_unify
    from dibs.chat.wire import outcome_json

    sender = _sender(call)
    read = chosen_reader(_desk(call)).read(sender, now=True)
    deliver(_desk(call), sender, chosen_unify())
    return {"read": [] if read is None else [outcome_json(read)]}


def inbox(call: Call) -> Json:
    """Deliver due messages, then send notes. A note that is not marked as seen is sent again."""
    from dibs.chat.conversation.delivery import deliver
    from dibs.chat.opening import chosen_unify
    from dibs.chat.wire import note_json
    from dibs.mail import sender_box

    sender = _sender(call)
    box = sender_box(_desk(call), sender)
    deliver(_desk(call), sender, chosen_unify())
    before = [note_json(note) for note in box.history()] if call.query.get("all") else []
    return {"scope": sender, "notes": [*before, *map(_leased, box.take())]}


def seen(call: Call) -> Json:
    from dibs.mail import sender_box

    box = sender_box(_desk(call), _sender(call))
    box.seen(call.body["tokens"])
    return {}


async def listen(api: Api, request: ApiRequest) -> Response:
    await api.hub.refresh()
    sender = await api.at_desk(request, _sender)
    return Stream(_notes(api, request, sender), api.metrics)


async def _notes(api: Api, request: ApiRequest, sender: str) -> AsyncIterator[str]:
    yield named_sse("hello", {}, "")
    silent = 0.0
    while not api.hub.closing.is_set():
        number = api.hub.end
        notes = await api.at_desk(request, lambda call: _taken(call, sender))
        for note in notes:
            yield named_sse("note", note, str(note["id"]))
        silent = 0.0 if notes else silent + _AGAIN
        if silent >= KEEP_ALIVE:
            silent = 0.0
            yield ": still here\n\n"
        await _news(api, number, OUTBOX + sender)


def _taken(call: Call, sender: str) -> list[Mapping[str, Json]]:
    from dibs.mail import sender_box

    return [_leased(note) for note in sender_box(_desk(call), sender).take()]


async def _news(api: Api, number: int, scope: str) -> None:
    """Wait until a note is added to the scope, or until the next regular look."""
    try:
        async with asyncio.timeout(_AGAIN):
            while not api.hub.closing.is_set():
                entries = api.hub.since(number)
                if entries is None or any(_put_in(entry.event, scope) for entry in entries):
                    return
                number = api.hub.end
                await api.hub.news.wait()
    except TimeoutError:
        return


def _put_in(event: Event, scope: str) -> bool:
    return event.scope == scope and event.verb == "add"


def _leased(note: Task) -> dict[str, Json]:
    from dibs.chat.wire import note_json

    return note_json(note) | ({"token": note.lease.token} if note.lease else {})


def _sender(call: Call) -> str:
    """The sender that the token names; without tokens, the one that the request names."""
    said = {**call.query, **call.body}
    if not call.caller.at_this_machine:
        if call.caller.sender is None:
            raise Forbidden(
                "This token is an agent's; the chat needs a sender's. 'dibs token create --sender WHO' makes one."
            )
        return call.caller.sender
    if "sender_hash" in said:
        return sender_hash_of(said["sender_hash"])
    if "sender" not in said:
        raise InvalidInput("The sender is missing. Give 'sender' or 'sender_hash'.")
    return hash_sender(said["sender"], sender_secret(call.desk.describe()))


def _desk(call: Call) -> Desk:
    """The caller's desk; a caller without a name acts as the chat."""
    return call.desk if call.desk.by.agent else call.desk.at(call.desk.scope, by=Actor("chat"))


_OBJECT: dict[str, Json] = {"type": "object"}
_NOTES = answer(notes=many(_OBJECT))

ROUTES = (
    Route(
        "POST",
        "/say",
        say,
        "Send a message: new work, or a command",
        Right.PLAN,
        body=(
            Field("text", TEXT, required=True),
            Field("preview", FLAG, "report the effect without applying it"),
            *_SENDER,
        ),
        answer=answer(kind={"type": "string"}, reply={"type": "string"}),
    ),
    Route("POST", "/flush", flush, "Process waiting messages now", Right.PLAN, (), _SENDER, answer(read=many(_OBJECT))),
    Route(
        "GET",
        "/inbox",
        inbox,
        "The notes for a sender. With `Accept: text/event-stream`, as they come",
        query=(*_SENDER, Field("all", FLAG, "also notes that were seen")),
        answer=_NOTES,
        live=listen,
    ),
    Route(
        "POST",
        "/inbox/seen",
        seen,
        "Mark notes as seen; the others are sent again",
        Right.READ,
        body=(
            Field("tokens", map_of(TEXT), "the token of each note, by the id of the note", required=True),
            *_SENDER,
        ),
    ),
)
