"""When a burst of messages is over. Pure: times go in, times come out; who keeps them and who sets the timer is
decided above.

A sender has one window at a time. It opens with a message and closes a fixed span later, whatever comes meanwhile; at
the hundredth message; or when somebody says so. The span follows the sender's rhythm: three of the pauses that are
usual between their messages, but never less than 30 seconds nor more than 60. It is set when the window opens, so
that a stored window says by itself when it is due.
"""

from datetime import datetime, timedelta
from typing import NamedTuple


class Rule(NamedTuple):
    """The settings. `default` holds for a sender whose rhythm is not known yet."""

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
    """What a message did: the window it closed, if it came too late for it, and the window it is in now.

    `rhythm` is the usual pause of this sender, to be kept for the next message.
    """

    closed: Window | None
    window: Window
    rhythm: timedelta | None


def receive(window: Window | None, at: datetime, rhythm: timedelta | None, rule: Rule) -> Received:
    """Take a message in. `at` is when it was received; a clock that went back counts as standing still."""
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


_PAUSES = 3  # as many usual pauses as a window should outlast
_INERTIA = 4  # a new pause counts for a quarter


def _opened(at: datetime, rhythm: timedelta | None, rule: Rule) -> Window:
    return Window(at + span(rhythm, rule), at)


def _adapted(rhythm: timedelta | None, pause: timedelta, rule: Rule) -> timedelta | None:
    """The usual pause, moved towards this one. A pause longer than any window says nothing about typing."""
    if pause > rule.longest:
        return rhythm
    before = span(None, rule) / _PAUSES if rhythm is None else rhythm
    return before + (pause - before) / _INERTIA
