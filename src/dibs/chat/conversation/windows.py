"""Windows: how long a sender's messages are collected before they are read. Pure, without clock or store.

A sender has one window at a time. It opens with a message and closes after a fixed span, at the hundredth message, or
on request. The span is three times the sender's usual pause between messages, at least 30 and at most 60 seconds. It is
set when the window opens, so that a stored window contains its end.
"""

from datetime import datetime, timedelta
from typing import NamedTuple


class Rule(NamedTuple):
    """The settings. `default` is the span for a sender without a known rhythm."""

    default: timedelta = timedelta(seconds=45)
    shortest: timedelta = timedelta(seconds=30)
    longest: timedelta = timedelta(seconds=60)
    most: int = 100


class Window(NamedTuple):
    closes_at: datetime
    latest_at: datetime
    messages: int = 1

    def due(self, now: datetime, rule: Rule) -> bool:
        """A full window is due at once."""
        return now >= self.closes_at or self.messages >= rule.most


class Received(NamedTuple):
    """The result of a message: its window, and the earlier window that it found closed, if any.

    `rhythm` is the sender's usual pause, to be stored for the next message.
    """

    closed: Window | None
    window: Window
    rhythm: timedelta | None


def receive(window: Window | None, at: datetime, rhythm: timedelta | None, rule: Rule) -> Received:
    """Add a message received at `at`. A clock that went back counts as stopped."""
    if window is None:
        return Received(None, _opened(at, rhythm, rule), rhythm)
    at = max(at, window.latest_at)
    rhythm = _adapted(rhythm, at - window.latest_at, rule)
    if window.due(at, rule):
        return Received(window, _opened(at, rhythm, rule), rhythm)
    return Received(None, window._replace(latest_at=at, messages=window.messages + 1), rhythm)


def span(rhythm: timedelta | None, rule: Rule) -> timedelta:
    """How long a window stays open for a sender of this rhythm."""
    if rhythm is None:
        return rule.default
    return min(max(_PAUSES * rhythm, rule.shortest), rule.longest)


_PAUSES = 3  # usual pauses in a window
_INERTIA = 4  # the weight of a new pause is a quarter


def _opened(at: datetime, rhythm: timedelta | None, rule: Rule) -> Window:
    return Window(at + span(rhythm, rule), at)


def _adapted(rhythm: timedelta | None, pause: timedelta, rule: Rule) -> timedelta | None:
    """The usual pause, moved towards this one. Pauses longer than any window are ignored."""
    if pause > rule.longest:
        return rhythm
    before = span(None, rule) / _PAUSES if rhythm is None else rhythm
    return before + (pause - before) / _INERTIA
