"""When everybody is busy: how long it will take, and that whoever sent a task hears of it once."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from dibs.core.duration import in_words
from dibs.core.events import Outcome
from dibs.core.sender import is_sender_hash
from dibs.mail import Fact, Note, sender_box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.events import Event
    from dibs.core.fleet import Member
    from dibs.desk import Desk
    from dibs.fleet.placing import Queued

_REMEMBERED = 500  # events from which to tell how long a task takes
_TOLD_AT_ONCE = 20


class Overload:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: set[tuple[str, str]] = set()

    def tell(self, queued: Sequence[Queued], members: Sequence[Member]) -> timedelta | None:
        """Until when the first of them is expected to begin. Senders get a note for each task, once, whoever leads."""
        usual = usual_duration(self._desk.events(last=_REMEMBERED, anywhere=True))
        fresh = [one for one in queued if (one.task.scope, one.task.id) not in self._told]
        for one in [one for one in fresh if is_sender_hash(one.task.scope)][:_TOLD_AT_ONCE]:
            self._told.add((one.task.scope, one.task.id))
            delay = expected(one, members, usual)
            text = f"“{one.task.title}” has to wait: everybody who could do it is busy. {_when(delay)}"
            extra = {"expected_seconds": None if delay is None else round(delay.total_seconds())}
            note = Note("delay", text, (Fact(f"delay.{one.task.id}", one.task.id),), extra)
            sender_box(self._desk, one.task.scope).tell_once(note)
        return expected(queued[0], members, usual)


def expected(queued: Queued, members: Sequence[Member], usual: timedelta | None) -> timedelta | None:
    """As many turns of everybody who has the role as it takes until this one's; None if nothing is known of that."""
    slots = sum(member.limit for member in members if member.role == queued.role)
    if usual is None or slots == 0:
        return None
    return usual * ceil((queued.ahead + 1) / slots)


def usual_duration(events: Sequence[Event]) -> timedelta | None:
    """The median from claim to done among these events, which are in their order."""
    begun: dict[tuple[str, str], Event] = {}
    spans = []
    for event in events:
        place = (event.scope, event.task)
        if event.outcome is not Outcome.OK:
            continue
        if event.verb == "claim":
            begun[place] = event
        elif event.verb == "done" and place in begun:
            spans.append((event.at - begun.pop(place).at).total_seconds())
    return timedelta(seconds=median(spans)) if spans else None


def _when(delay: timedelta | None) -> str:
    if delay is None:
        return "It is next in line as soon as one of them is free."
    return f"It should begin within about {in_words(max(delay, timedelta(minutes=1)))}."
