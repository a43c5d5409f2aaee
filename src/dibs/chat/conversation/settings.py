"""Chat settings of a sender: their own values, then the global ones, then the defaults.

Global settings are stored in a scope that cannot belong to a sender. Values are checked when they are written, alone
and together. A value that no longer fits, because another one has changed, is adjusted to it.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.conversation.windows import Rule
from dibs.core.errors import InvalidInput
from dibs.core.fleet import Quota
from dibs.core.settings import Option, Options, checked
from dibs.core.task import Json
from dibs.desk import Desk

EVERYBODY = "chat"  # the scope of the global settings


def _share(default: float, does: str) -> Option:
    return Option(float, default, does, least=0, most=1)


def _span(default: int, does: str) -> Option:
    return Option(int, default, does, least=1, most=3600, unit="seconds")


def _count(default: int, most: int, does: str) -> Option:
    return Option(int, default, does, least=1, most=most)


OPTIONS: Options = {
    "chat_merge": _share(0.90, "requests more similar than this are merged"),
    "chat_ask": _share(0.75, "dibs asks about requests more similar than this"),
    "chat_related": _share(0.55, "tasks with a higher cosine are related"),
    "chat_tasks_an_hour": _count(100, 100_000, "the most tasks per hour; further messages wait"),
    "chat_tasks_at_once": _count(50, 1000, "the most tasks per window; the rest is read next"),
    "chat_window": _span(45, "how long a sender's first window stays open"),
    "chat_window_shortest": _span(30, "the shortest later window"),
    "chat_window_longest": _span(60, "the longest later window"),
    "chat_window_messages": _count(100, 100, "this many messages close a window at once"),
}
_RISING = (("chat_related", "chat_ask", "chat_merge"), ("chat_window_shortest", "chat_window", "chat_window_longest"))


class Limits(NamedTuple):
    """A sender's limits: tasks in an hour, and tasks at once."""

    hourly: int = 100
    batch: int = 50

    @property
    def quota(self) -> Quota:
        return Quota(self.hourly, timedelta(hours=1))


class Settings(NamedTuple):
    thresholds: Thresholds = Thresholds()
    limits: Limits = Limits()
    rule: Rule = Rule()


def values(desk: Desk, sender: str | None) -> dict[str, Json]:
    """Every option, set or not, of one sender, or of all senders (None)."""
    return _filled(*(desk.at(scope).settings() for scope in _scopes(sender)))


def settings_of(desk: Desk, sender: str) -> Settings:
    found = {name: value for name, value in values(desk, sender).items() if isinstance(value, int | float)}
    merge, ask, related = (found[name] for name in ("chat_merge", "chat_ask", "chat_related"))
    shortest, usual, longest = (int(found[name]) for name in _RISING[1])
    return Settings(
        Thresholds(merge, min(ask, merge), min(related, ask, merge)),
        Limits(int(found["chat_tasks_an_hour"]), int(found["chat_tasks_at_once"])),
        Rule(
            timedelta(seconds=min(max(usual, shortest), longest)),
            timedelta(seconds=min(shortest, longest)),
            timedelta(seconds=longest),
            int(found["chat_window_messages"]),
        ),
    )


def configure(desk: Desk, sender: str | None, changes: Mapping[str, Json]) -> dict[str, Json]:
    """Set options of one sender or all senders atomically (None removes one) and return the new settings."""
    good = checked(changes, OPTIONS)
    *above, own = _scopes(sender)
    mine = desk.at(own)
    kept = {**mine.settings(), **good}
    _refuse_disorder(_filled(*(desk.at(scope).settings() for scope in above), kept))
    mine.configure(good)
    return values(desk, sender)


def _scopes(sender: str | None) -> tuple[str, ...]:
    """The scopes with settings for the sender, the most specific last."""
    return (EVERYBODY,) if sender is None else (EVERYBODY, sender)


def _filled(*layers: Mapping[str, Json]) -> dict[str, Json]:
    found = {name: option.default for name, option in OPTIONS.items()}
    for layer in layers:
        found |= {name: layer[name] for name in OPTIONS if layer.get(name) is not None}
    return found


def _refuse_disorder(together: Mapping[str, Json]) -> None:
    for names in _RISING:
        held = [together[name] for name in names]
        if held != sorted(held, key=float):  # type: ignore[arg-type]  # checked to be numbers
            told = ", ".join(f"{name} {value}" for name, value in zip(names, held, strict=True))
            raise InvalidInput(f"These must rise in this order: {told}. Set another one first.")
