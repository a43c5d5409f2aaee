"""HTTP on the wire, with an end to everybody's patience: uvicorn waits for slow clients as long as they like.

Who has not said what they want in time, or does not take what they are sent, is cut off. How long a body may take is
for whoever reads it to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport

HEAD_SECONDS = 10.0  # for the request line and the headers
TAKE_SECONDS = 30.0  # for a client to take something of what waits for it
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Protocol(H11Protocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: TimerHandle | None = None
        self._taking: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as the parent has it
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head, self._taking):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """The time runs while a request is awaited, and while the rest of one that was answered is passed over."""
        theirs = self.conn.their_state
        awaited = theirs is h11.IDLE or (theirs is h11.SEND_BODY and self.conn.our_state is h11.DONE)
        if awaited and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self._too_slow)
        elif not awaited and self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            if self.conn.our_state is h11.IDLE:
                self.transport.write(_TOO_SLOW)
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(TAKE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
