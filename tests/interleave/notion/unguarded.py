"""Claims that look right but are unsafe, to prove that the schedules detect them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import Held, StoreUnavailable
from dibs.stores.notion import guard
from dibs.stores.notion.guard import Failed, Read, Seen, Wait, Write

if TYPE_CHECKING:
    from dibs.stores.notion.guard import Answer, Ask, Bounds, Steps

FOREVER = 1e9


def naive(token: str, ask: Ask, bounds: Bounds) -> Steps:
    """Write, read back at once, and trust the result."""
    del bounds
    seen = _seen((yield Read()))
    _seen((yield Write(ask(seen.view, seen.now), FOREVER)))
    return _ours(token, (yield Read()))


def unbounded(token: str, ask: Ask, bounds: Bounds) -> Steps:
    """Wait before reading back, but without a limit on the time from the first read to the write."""
    return (yield from guard.claim(token, ask, bounds._replace(window=FOREVER)))


def impatient(token: str, ask: Ask, bounds: Bounds) -> Steps:
    """Wait no longer than another agent may take to write."""
    return (yield from guard.claim(token, ask, bounds._replace(settle=bounds.window)))


def stubborn(token: str, ask: Ask, bounds: Bounds) -> Steps:
    """Write again after a slow or unanswered write if the page has its token."""
    try:
        return (yield from guard.claim(token, ask, bounds))
    except StoreUnavailable:
        pass
    seen = _seen((yield Read()))
    if seen.view.token != token:
        raise Held("held")
    written = _seen((yield Write({"expires_at": seen.view.expires_at}, seen.sent + bounds.window)))
    if written.received - seen.sent > bounds.window:
        raise Held("held")
    yield Wait(bounds.settle)
    return _ours(token, (yield Read()))


def _seen(answer: Answer) -> Seen:
    if isinstance(answer, Failed):
        raise answer.error
    assert answer is not None
    return answer


def _ours(token: str, answer: Answer) -> Seen:
    seen = _seen(answer)
    if seen.view.token != token:
        raise Held("held")
    return seen
